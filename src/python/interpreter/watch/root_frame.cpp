// python/interpreter/watch/root_frame.cpp
#include "python/interpreter/watch/root_frame.h"

namespace braze::interpreter {

RootFrame::RootFrame(const Activation& a, std::vector<const guards::Source*> sources, uint64_t stop,
                     std::function<void(Activation&, int)> on_end)
    : frame_(a.frame),
      locals_(a.code()->co_nlocalsplus),
      sources_(std::move(sources)),
      stop_(stop),
      on_end_(std::move(on_end)),
      depth_(a.top - a.stack_base()) {
  sources_.resize(static_cast<size_t>(a.code()->co_nlocalsplus + a.code()->co_stacksize));
  own_ = sources_;
}

bool RootFrame::arrives(const Activation& a) {
  ++steps_;
  has_used_ = false;
  if (steps_ > 1 && steps_ != stop_ && a.top - a.stack_base() <= depth_) statement_ = steps_;
  if (!a.keyword_names) group_ = a.offset_of(a.start);
  return steps_ == stop_;
}

void RootFrame::end(Activation& a) {
  has_ended_ = true;
  on_end_(a, group_);
}

const guards::Source* RootFrame::use(int slot) {
  const guards::Source* source = std::exchange(sources_[slot], nullptr);
  has_used_ |= source != nullptr;
  return source;
}

const guards::Source* RootFrame::passed_on(int slot) const {
  return sources_[slot];
}

void RootFrame::copy(int from, int to) {
  sources_[to] = sources_[from];
}

void RootFrame::swap(int one, int other) {
  std::swap(sources_[one], sources_[other]);
}

void RootFrame::overwrite(int slot) {
  sources_[slot] = nullptr;
}

}  // namespace braze::interpreter
