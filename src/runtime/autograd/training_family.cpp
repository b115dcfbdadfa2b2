#include "runtime/autograd/training_family.h"

#include "capture/guess_shapes.h"
#include "ir/text.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

capture::Trace let_go(capture::Trace trace, const std::unordered_set<const c10::TensorImpl*>& kept_elsewhere) {
  trace.bound.let_go(kept_elsewhere);
  return trace;
}

}  // namespace

TrainingFamily::TrainingFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times)
    : trace_(let_go(std::move(trace), options.kept_elsewhere)),
      options_(std::move(options)),
      times_(std::move(times)) {}

std::shared_ptr<const TrainingProgram> TrainingFamily::at(std::span<const int64_t> symbols,
                                                          const std::vector<at::Tensor>& arguments) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::shared_ptr<const TrainingProgram> known = programs_.find(symbols)) return known;
  }
  // It may run Python, whose lock another thread has that waits for this one's.
  capture::check_guesses(trace_, symbols);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::shared_ptr<const TrainingProgram> known = programs_.find(symbols)) return known;
  capture::Trace trace = capture::instantiate(trace_, symbols);
  ir::verify(*trace.graph);
  ProgramOptions options = options_;
  options.example_arguments = arguments;
  std::shared_ptr<const TrainingProgram> made =
      TrainingProgram::compile(std::move(trace), options, compiled_ == 0 ? times_ : PhaseTimes());
  ++compiled_;
  programs_.add(symbols, made);
  return made;
}

std::shared_ptr<const TrainingProgram> TrainingFamily::latest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const TrainingProgram> one = programs_.latest();
  BRAZE_CHECK(one, "a family without a program");
  return one;
}

}  // namespace braze::runtime
