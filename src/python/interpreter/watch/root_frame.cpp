// python/interpreter/watch/root_frame.cpp
#include "python/interpreter/watch/root_frame.h"

namespace braze::interpreter {

RootFrame::RootFrame(const Activation& a, std::vector<const guards::Source*> sources, uint64_t stop,
                     std::function<void(Activation&, int)> on_end)
    : frame_(a.frame),
      locals_(a.code()->co_nlocalsplus),
      own_(std::move(sources)),
      stop_(stop),
      on_end_(std::move(on_end)),
      depth_(a.top - a.stack_base()) {
  own_.resize(static_cast<size_t>(a.code()->co_nlocalsplus + a.code()->co_stacksize));
  for (const guards::Source* source : own_) sources_.push_back({source});
  changes_.resize(own_.size());
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

Passed RootFrame::use(int slot) {
  Passed passed = std::exchange(sources_[slot], {});
  has_used_ |= static_cast<bool>(passed);
  return passed;
}

void RootFrame::copy(int from, int to) {
  sources_[to] = sources_[from];
  mark(to, Change::stored);
}

void RootFrame::take(int from, int to) {
  copy(from, to);
  sources_[from] = {};
  mark(from, Change::taken);
}

void RootFrame::swap(int one, int other) {
  std::swap(sources_[one], sources_[other]);
  std::swap(own_[one], own_[other]);  // What is a temporary stays one.
}

bool RootFrame::unpack(int slot, int count) {
  const auto parts = sources_[slot].parts;
  if (!parts || parts->size() != static_cast<size_t>(count)) return false;
  for (int i = 0; i < count; ++i) sources_[slot + count - 1 - i] = (*parts)[static_cast<size_t>(i)];
  return true;
}

}  // namespace braze::interpreter
