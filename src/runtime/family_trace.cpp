#include "runtime/family_trace.h"

#include "capture/guess_shapes.h"
#include "ir/text.h"

namespace braze::runtime {

FamilyTrace::FamilyTrace(capture::Trace trace, ProgramOptions options, PhaseTimes times)
    : trace(std::move(trace)), options(std::move(options)), times(std::move(times)) {
  this->trace.bound.let_go(this->options.kept_elsewhere);
  this->options.example_arguments.clear();  // The caller's, who may drop them.
}

void FamilyTrace::check_guesses(std::span<const int64_t> symbols) const {
  capture::check_guesses(trace, symbols);
}

capture::Trace FamilyTrace::at(std::span<const int64_t> symbols) const {
  capture::Trace made = capture::instantiate(trace, symbols);
  // A size that does not follow as a rule has said would be memory that is written beyond its end.
  ir::verify(*made.graph);
  return made;
}

ProgramOptions FamilyTrace::options_for(const std::vector<at::Tensor>& arguments) const {
  ProgramOptions made = options;
  made.example_arguments = arguments;
  return made;
}

}  // namespace braze::runtime
