#include "loops/memory.h"

#include <algorithm>

namespace braze::loops {

namespace {

struct Lifetime {
  uint32_t buffer;
  int64_t bytes;
  int64_t first, last;  ///< Steps, both inclusive.
};

std::vector<Lifetime> lifetimes(const Plan& plan) {
  const auto end = static_cast<int64_t>(plan.steps.size());
  std::vector<int64_t> first(plan.buffers.size(), end), last(plan.buffers.size(), -1);
  auto touch = [&](uint32_t buffer, int64_t step) {
    while (plan.buffers[buffer].part_of >= 0) buffer = static_cast<uint32_t>(plan.buffers[buffer].part_of);
    first[buffer] = std::min(first[buffer], step);
    last[buffer] = std::max(last[buffer], step);
  };
  for (int64_t step = 0; step < end; ++step) {
    const Step& now = plan.steps[static_cast<size_t>(step)];
    if (now.kind == Step::Kind::kernel) {
      for (uint32_t buffer : now.kernel.buffers) touch(buffer, step);
    } else {
      for (const View& operand : now.call.operands) touch(operand.buffer, step);
      for (int32_t result : now.call.results)
        if (result >= 0) touch(static_cast<uint32_t>(result), step);
    }
  }
  for (const View& view : plan.outputs) touch(view.buffer, end);
  for (const PlanMutation& mutation : plan.mutations) touch(mutation.view.buffer, end);
  std::vector<Lifetime> lives;
  for (uint32_t k = 0; k < plan.buffers.size(); ++k) {
    if (plan.buffers[k].kind != BufferKind::temporary || last[k] < 0) continue;
    const int64_t bytes = (plan.buffers[k].bytes + planned_alignment - 1) / planned_alignment * planned_alignment;
    lives.push_back({k, bytes, first[k], last[k]});
  }
  return lives;
}

/// Places temporaries of one device behind those of others.
void place(Plan& plan, std::span<const Lifetime> lives, bool reuse) {
  const int64_t origin = plan.arena_bytes;
  std::vector<const Lifetime*> placed;  // by offset
  auto offset_of = [&](const Lifetime* life) { return plan.buffers[life->buffer].offset; };
  for (const Lifetime& life : lives) {
    plan.unplanned_bytes += life.bytes;
    int64_t best = -1, best_gap = 0, end = origin;
    for (const Lifetime* other : placed) {
      if (reuse && (other->last < life.first || life.last < other->first)) continue;
      const int64_t gap = offset_of(other) - end;
      if (gap >= life.bytes && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, offset_of(other) + other->bytes);
    }
    PlanBuffer& buffer = plan.buffers[life.buffer];
    buffer.offset = best >= 0 ? best : end;
    plan.arena_bytes = std::max(plan.arena_bytes, buffer.offset + life.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &life,
                         [&](const Lifetime* a, const Lifetime* b) { return offset_of(a) < offset_of(b); }),
        &life);
  }
}

}  // namespace

std::vector<bool> stand_alone(const Plan& plan) {
  constexpr int64_t large = 1 << 20;
  std::vector<bool> found(plan.buffers.size());
  for (uint32_t k = 0; k < plan.buffers.size(); ++k) {
    const PlanBuffer& buffer = plan.buffers[k];
    found[k] = buffer.kind == BufferKind::temporary && buffer.part_of < 0 && buffer.bytes >= large;
    if (buffer.part_of >= 0) found[static_cast<size_t>(buffer.part_of)] = false;
  }
  return found;
}

void plan_memory(Plan& plan, bool reuse) {
  std::vector<Lifetime> lives = lifetimes(plan);
  const std::vector<bool> alone = stand_alone(plan);
  const auto device_of = [&](const Lifetime& life) { return plan.buffers[life.buffer].device; };
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  for (auto next = lives.begin(); next != lives.end();) {
    const ir::Device device = device_of(*next);
    const auto end =
        std::stable_partition(next, lives.end(), [&](const Lifetime& life) { return device_of(life) == device; });
    const auto large = std::stable_partition(next, end, [&](const Lifetime& life) { return !alone[life.buffer]; });
    place(plan, {next, large}, reuse);
    place(plan, {large, end}, reuse);
    next = end;
  }
  for (PlanBuffer& buffer : plan.buffers) {
    if (buffer.part_of < 0 || plan.buffers[buffer.part_of].kind != BufferKind::temporary) continue;
    buffer.kind = BufferKind::temporary;
    buffer.offset += plan.buffers[buffer.part_of].offset;
  }
}

}  // namespace braze::loops
