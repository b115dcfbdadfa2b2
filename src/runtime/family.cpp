#include "runtime/family.h"

#include <algorithm>

#include "ir/text.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

capture::Trace let_go(capture::Trace trace, const std::unordered_set<const c10::TensorImpl*>& kept_elsewhere) {
  trace.bound.let_go(kept_elsewhere);
  return trace;
}

}  // namespace

ProgramFamily::ProgramFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times)
    : trace_(let_go(std::move(trace), options.kept_elsewhere)),
      options_(std::move(options)),
      times_(std::move(times)) {}

std::shared_ptr<Program> ProgramFamily::at(std::span<const int64_t> symbols,
                                           const std::vector<at::Tensor>& arguments) const {
  const auto is_wanted = [&](const Member& member) { return std::ranges::equal(member.symbols, symbols); };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = std::ranges::find_if(members_, is_wanted); found != members_.end()) {
      members_.splice(members_.begin(), members_, found);
      return members_.front().program;
    }
  }
  ProgramOptions options = options_;
  options.example_arguments = arguments;
  const bool is_first = compiled_.fetch_add(1) == 0;
  capture::Trace trace = capture::instantiate(trace_, symbols);
  // A size that does not follow as a rule has said would be memory that is written beyond its end.
  ir::verify(*trace.graph);
  std::shared_ptr<Program> program = Program::compile(std::move(trace), options, is_first ? times_ : PhaseTimes());
  const std::lock_guard<std::mutex> lock(mutex_);
  members_.push_front({{symbols.begin(), symbols.end()}, program});
  if (members_.size() > most_kept) members_.pop_back();
  return program;
}

std::shared_ptr<Program> ProgramFamily::latest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  BRAZE_CHECK(!members_.empty(), "a family without a program");
  return members_.front().program;
}

}  // namespace braze::runtime
