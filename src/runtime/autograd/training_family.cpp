#include "runtime/autograd/training_family.h"

#include "ir/shape_env.h"

namespace braze::runtime {

TrainingFamily::TrainingFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times)
    : joint_(trace.graph) {
  std::optional<TrainingTraces> traces;
  {
    PhaseTimer timer(&times, "partition");
    traces = cut(trace);
  }
  seam_ = traces->seam;
  backwards_ = std::make_shared<const PartialPrograms>(trace, std::move(traces->backward), seam_->saved,
                                                       backward_options(options));
  if (backwards_->whole()) compile_likely(*backwards_, joint_->find_shape_env()->examples(), times);
  forward_ = std::make_unique<const ProgramFamily>(std::move(traces->forward), forward_options(std::move(options)),
                                                   std::move(times));
}

std::shared_ptr<const TrainingProgram> TrainingFamily::at(std::span<const int64_t> symbols,
                                                          const std::vector<at::Tensor>& arguments) const {
  if (std::shared_ptr<const TrainingProgram> known = programs_.find(symbols)) return known;
  // Two threads may come here at once, and have one program each, of the same parts.
  const auto made =
      std::make_shared<const TrainingProgram>(seam_, forward_->at(symbols, arguments), backwards_, symbols);
  programs_.add(symbols, made);
  return made;
}

size_t TrainingFamily::compiled() const {
  return forward_->compiled() + backwards_->compiled();
}

}  // namespace braze::runtime
