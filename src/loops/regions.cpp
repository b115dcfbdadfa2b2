#include "loops/regions.h"

#include <algorithm>
#include <utility>

namespace braze::loops {

namespace {

// Each kernel is compared with those since the last barrier; a barrier after so many keeps that linear.
constexpr size_t most_beside = 64;

struct Use {
  uint32_t buffer;
  bool writes;
  uint32_t cat;  ///< That the kernel copies an operand of: each has a place of its own in the result.
};

bool is_input(BufferKind kind) {
  return kind == BufferKind::input || kind == BufferKind::mutated;
}

uint32_t root_of(const Plan& plan, uint32_t buffer) {
  while (plan.buffers[buffer].part_of >= 0) buffer = static_cast<uint32_t>(plan.buffers[buffer].part_of);
  return buffer;
}

/// `inner` is `outer` or lies in it.
bool contains(const Plan& plan, uint32_t outer, uint32_t inner) {
  while (inner != outer && plan.buffers[inner].part_of >= 0)
    inner = static_cast<uint32_t>(plan.buffers[inner].part_of);
  return inner == outer;
}

bool share_memory(const Plan& plan, uint32_t first, uint32_t second) {
  if (contains(plan, first, second) || contains(plan, second, first)) return true;
  // Two parts of a result interleave but have no element in common; those of an input may.
  const uint32_t first_root = root_of(plan, first), second_root = root_of(plan, second);
  if (first_root == second_root) return is_input(plan.buffers[first_root].kind);
  first = first_root, second = second_root;
  const PlanBuffer &a = plan.buffers[first], &b = plan.buffers[second];
  // An input that is written to overlaps no other one (LoweringOptions::writable).
  if (is_input(a.kind) && is_input(b.kind)) return a.index == b.index;
  if (a.kind != BufferKind::temporary || b.kind != BufferKind::temporary) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

std::vector<Use> uses_of(const Plan& plan, const KernelStep& step, uint32_t cat) {
  const Kernel& kernel = *plan.kernels[step.kernel];
  std::vector<Use> uses;
  for (size_t k = 0; k < step.buffers.size(); ++k)
    uses.push_back({step.buffers[k], kernel.buffers[k].access != Access::in, cat});
  return uses;
}

bool depends(const Plan& plan, const std::vector<Use>& uses, const std::vector<Use>& earlier) {
  return std::ranges::any_of(uses, [&](const Use& use) {
    return std::ranges::any_of(earlier, [&](const Use& other) {
      if (use.cat && use.cat == other.cat && use.buffer == other.buffer) return false;
      return (use.writes || other.writes) && share_memory(plan, use.buffer, other.buffer);
    });
  });
}

ir::Device device_of(const Plan& plan, const KernelStep& step) {
  return plan.buffers[step.buffers.front()].device;
}

}  // namespace

void form_regions(Plan& plan, std::span<const uint32_t> cats) {
  std::vector<Use> since_barrier;
  size_t kernels = 0;  // since the barrier
  bool open = false;   // the step before leaves a region open,
  ir::Device device;   // of this device
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    Step& step = plan.steps[s];
    step.join = Join::alone;
    if (step.kind == Step::Kind::call) {
      open = false;
      continue;
    }
    std::vector<Use> uses = uses_of(plan, step.kernel, cats[s]);
    const ir::Device here = step.kernel.buffers.empty() ? ir::Device() : device_of(plan, step.kernel);
    open &= here == std::exchange(device, here);
    if (open) step.join = kernels == most_beside || depends(plan, uses, since_barrier) ? Join::after : Join::beside;
    if (step.join != Join::beside) {
      since_barrier.clear();
      kernels = 0;
    }
    since_barrier.insert(since_barrier.end(), uses.begin(), uses.end());
    ++kernels;
    open = !has_checks(*plan.kernels[step.kernel.kernel]);
  }
}

}  // namespace braze::loops
