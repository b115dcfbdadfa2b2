#include "runtime/family_trace.h"

#include "capture/guess_shapes.h"
#include "capture/input_place.h"
#include "ir/text.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

int64_t place_of(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
}

}  // namespace

FamilyTrace::FamilyTrace(capture::Trace trace, ProgramOptions options, PhaseTimes times)
    : trace(std::move(trace)), options(std::move(options)), times(std::move(times)) {
  this->trace.bound.let_go(this->options.kept_elsewhere);
  const std::vector<ir::Input>& inputs = this->trace.graph->inputs();
  const std::vector<at::Tensor>& examples = this->options.example_arguments;
  for (uint32_t i = 0, argument = 0; i < this->trace.place_modulus.size() && argument < examples.size(); ++i) {
    if (inputs[i].kind != ir::InputKind::argument) continue;
    if (this->trace.place_modulus[i] == capture::whole_place)
      places_.emplace_back(argument, place_of(examples[argument]));
    ++argument;
  }
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
  for (const auto& [argument, place] : places_)
    if (place_of(arguments.at(argument)) != place)
      throw UserError("an argument of as_strided() begins at another place in its storage", UserError::Kind::value);
  ProgramOptions made = options;
  made.example_arguments = arguments;
  return made;
}

}  // namespace braze::runtime
