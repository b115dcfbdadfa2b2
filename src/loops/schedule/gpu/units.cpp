#include "loops/schedule/gpu/units.h"

#include <algorithm>

#include "loops/schedule/statements.h"

namespace braze::loops {

using ir::Op;

std::unique_ptr<Units> open_units(Kernel& kernel, Extents& extents, const GpuLimits& limits, Size count,
                                  bool warps) {
  auto units = std::make_unique<Units>();
  const int64_t unit_threads = warps ? limits.warp : 1;
  int64_t threads = warps ? limits.warp_threads : limits.block_threads;
  if (count.is_constant())
    threads = std::min(threads, (count.constant() * unit_threads + limits.warp - 1) / limits.warp * limits.warp);
  const int64_t a_block = threads / unit_threads;
  units->blocks = std::make_unique<Loop>();
  units->blocks->var = kernel.add_value(DType::i64);
  units->blocks->end = extents.of(ceil_div(count, a_block));
  units->blocks->schedule.parallel = true;
  units->blocks->schedule.bind = Schedule::Bind::block;
  units->threads = std::make_unique<Loop>();
  units->threads->var = kernel.add_value(DType::i64);
  units->threads->end = Extent(a_block);
  units->threads->schedule.bind = warps ? Schedule::Bind::warp : Schedule::Bind::thread;
  Affine& number = units->number;
  number.add(a_block, units->blocks->var);
  number.add(1, units->threads->var);
  if (!count.is_constant() || count.constant() % a_block != 0) {
    Builder outside(kernel, units->threads->body);
    const ValueId unit = outside.affine(number);
    units->guard = outside.compute(Op::lt, {unit, extents.value(outside, count)});
    number = {};
    number.add(1, unit);
  }
  return units;
}

void close_units(Kernel& kernel, Units& units) {
  close_guarded(units.threads->body, units.guard, std::move(units.body));
  units.blocks->body.push_back(as_statement(std::move(units.threads)));
  kernel.body.push_back(as_statement(std::move(units.blocks)));
}

}  // namespace braze::loops
