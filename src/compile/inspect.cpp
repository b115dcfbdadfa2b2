#include "compile/inspect.h"

namespace braze::driver {

void inspect(Artifact& artifact) {
  const loops::Plan& plan = artifact.plan;
  Facts& facts = artifact.facts;
  facts.arena_bytes = plan.arena_bytes;
  facts.unplanned_bytes = plan.unplanned_bytes;
  facts.output_bytes = facts.code_bytes = 0;
  facts.kernels.clear();
  facts.steps.clear();
  for (const loops::PlanBuffer& buffer : plan.buffers)
    if (buffer.kind == loops::BufferKind::output) facts.output_bytes += buffer.bytes;
  for (const auto& code : artifact.code) facts.code_bytes += static_cast<int64_t>(code->code_bytes());
  facts.kernels.resize(plan.kernels.size());
  for (const loops::Step& step : plan.steps) {
    if (step.kind == loops::Step::Kind::call) {
      facts.steps.push_back({"call", step.call.call.name, step.source});
      continue;
    }
    const loops::KernelStep& launch = step.kernel;
    KernelFacts& kernel = facts.kernels[launch.kernel];
    facts.steps.push_back({"kernel", plan.kernels[launch.kernel]->name, step.source});
    if (kernel.launches++ > 0) continue;
    kernel.name = plan.kernels[launch.kernel]->name;
    kernel.fused = launch.fused;
    kernel.bytes_read = launch.bytes_read;
    kernel.bytes_written = launch.bytes_written;
    if (!artifact.code.empty()) kernel.code_bytes = artifact.code[launch.kernel]->code_bytes();
  }
}

}  // namespace braze::driver
