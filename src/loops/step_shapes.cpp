#include "loops/step_shapes.h"

#include "ir/text.h"
#include "support/error.h"

namespace braze::loops {

namespace {

void append(std::string& list, const View& view) {
  if (!list.empty()) list += ", ";
  list += ir::print({view.dtype, ir::Device{}, view.sizes, view.strides, 0});
}

}  // namespace

std::string shapes_of(const Plan& plan, const Step& step) {
  std::string read, written;
  if (step.kind == StepKind::kernel) {
    const Kernel& kernel = *plan.kernels.at(step.kernel.kernel);
    for (size_t k = 0; k < step.kernel.buffers.size(); ++k) {
      const View view = whole(plan, step.kernel.buffers[k]);
      const Access access = kernel.buffers.at(k).access;
      if (access != Access::out) append(read, view);
      if (access != Access::in) append(written, view);
    }
  } else {
    for (const View& operand : step.call.operands) append(read, operand);
    for (const int32_t result : step.call.results)
      if (result >= 0) append(written, whole(plan, static_cast<uint32_t>(result)));
  }
  return concat(read, " -> ", written);
}

}  // namespace braze::loops
