#include "runtime/autograd/training_family.h"

namespace braze::runtime {

std::shared_ptr<const TrainingProgram> TrainingFamily::at(std::span<const int64_t> symbols,
                                                          const std::vector<at::Tensor>& arguments) const {
  const auto make = [&] {
    const PhaseTimes times = compiled_ == 0 ? source_.times : PhaseTimes();
    const auto made = TrainingProgram::compile(source_.at(symbols), source_.options_for(arguments), times);
    ++compiled_;
    return made;
  };
  return programs_.find_or_make(symbols, [&] { source_.check_guesses(symbols); }, make);
}

}  // namespace braze::runtime
