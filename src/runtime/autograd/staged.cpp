#include "runtime/autograd/staged.h"

#include <algorithm>
#include <utility>

#include "ir/shape_env.h"

namespace braze::runtime {

StagedPrograms::StagedPrograms(std::vector<Stage> stages, std::vector<Gradient> gradients, ProgramOptions options)
    : gradients_(std::move(gradients)), options_(std::move(options)), stages_(std::move(stages)) {
  for (uint32_t s = 0; s < stages_.size(); ++s)
    for (const uint32_t input : stages_[s].inputs) {
      last_reader_.resize(std::max<size_t>(last_reader_.size(), input + 1));
      last_reader_[input] = s;
    }
}

std::shared_ptr<Program> StagedPrograms::at(size_t number, std::span<const int64_t> symbols) const {
  std::shared_ptr<const ProgramFamily> family;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Stage& stage = stages_[number];
    if (!stage.program && !stage.family) {
      if (stage.trace.graph->find_shape_env())
        stage.family =
            std::make_shared<const ProgramFamily>(std::exchange(stage.trace, {}), options_, PhaseTimes());
      else
        stage.program = Program::compile(std::exchange(stage.trace, {}), options_);
    }
    if (stage.program) return stage.program;
    family = stage.family;
  }
  return family->at(symbols, {});  // May run Python, whose lock another thread may have.
}

}  // namespace braze::runtime
