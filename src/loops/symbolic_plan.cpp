#include "loops/symbolic_plan.h"

#include <unordered_map>

#include "ir/size_table.h"
#include "loops/memory.h"
#include "loops/regions.h"

namespace braze::loops {

SymbolicPlan::SymbolicPlan(PlanOf<ir::Size> plan, std::vector<uint32_t> cats, const ir::ShapeEnv& env,
                           bool reuse_memory)
    : cats_(std::move(cats)), symbol_count_(env.table().symbol_count()), reuse_memory_(reuse_memory) {
  std::unordered_map<uint64_t, int64_t> known;  // by the size's bits
  plan_ = convert_plan<Number>(std::move(plan), [&](ir::Size size) -> Number {
    if (size.is_constant()) return size.constant();
    const auto [at, is_new] = known.try_emplace(size.bits(), static_cast<int64_t>(sizes_.size()));
    if (is_new) {
      code_.add(size);
      sizes_.push_back(to_text(size));
    }
    Number number(at->second);
    number.is_computed = true;
    return number;
  });
}

Plan SymbolicPlan::at(std::span<const int64_t> symbols) const {
  BRAZE_CHECK(symbols.size() == symbol_count_, "a value is needed for every symbol");
  std::vector<int64_t> values(code_.result_count());
  if (!code_.run(symbols, values))
    throw UserError("a size of the program has no value for these symbols", UserError::Kind::value);
  Plan plan = convert_plan<int64_t>(plan_, [&](const Number& number) {
    return number.is_computed ? values[static_cast<size_t>(number.value)] : number.value;
  });
  for (PlanBuffer& buffer : plan.buffers)
    buffer.bytes = span_of(buffer.sizes, buffer.strides) * ir::byte_size(buffer.dtype);
  for (Step& step : plan.steps) {
    if (step.kind != StepKind::kernel) continue;
    // What was counted when it was lowered was that of the examples.
    KernelStep& launch = step.kernel;
    const Kernel& kernel = *plan.kernels[launch.kernel];
    launch.bytes_read = launch.bytes_written = 0;
    for (size_t k = 0; k < launch.buffers.size(); ++k) {
      const int64_t bytes = plan.buffers[launch.buffers[k]].bytes;
      (kernel.buffers[k].access == Access::in ? launch.bytes_read : launch.bytes_written) += bytes;
      if (bytes == 0) launch.origins[k] = 0;  // nothing is read beyond it
    }
  }
  plan_memory(plan, reuse_memory_);
  form_regions(plan, cats_);
  return plan;
}

}  // namespace braze::loops
