#include "capture/pooling_axis.h"

#include "capture/index_map.h"

namespace braze::capture {

bool set_output(Axis& axis, bool ceil) {
  const Dim reach = axis.dilation * (axis.kernel - 1) + 1;
  if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.pad < 0 || 2 * axis.pad > reach) return false;
  const Dim room = axis.size + 2 * axis.pad - reach + (ceil ? axis.stride - 1 : Dim(0));
  if (room < 0) return false;
  axis.out = room / axis.stride + 1;
  if (ceil && (axis.out - 1) * axis.stride >= axis.size + axis.pad) axis.out -= 1;
  return axis.out > 0;
}

namespace {

/// Elements that count in each window along a dimension whose size is an expression: i64[out].
ir::Value* computed_counts(Call& call, const Axis& axis, bool with_padding) {
  Arithmetic a(call);
  const auto number = [&](Dim one) { return number_of(call.graph(), one, to_device(call.device())); };
  ir::Value* begin = a.op(Op::sub, a.op(Op::mul, a.count(axis.out), number(axis.stride)), number(axis.pad));
  ir::Value* end = a.op(Op::minimum, a.op(Op::add, begin, number(axis.kernel)), number(axis.size + axis.pad));
  if (!with_padding) {
    begin = a.op(Op::maximum, begin, number(0));
    end = a.op(Op::minimum, end, number(axis.size));
  }
  return a.op(Op::sub, end, begin);
}

}  // namespace

ir::Value* window_counts(Call& call, const Axes& axes, bool with_padding, DType dtype) {
  Arithmetic a(call);
  ir::Value* product = nullptr;
  for (size_t k = 0; k < axes.size(); ++k) {
    const Axis& axis = axes[k];
    if (!axis.out.is_number() || !axis.size.is_number()) {
      ir::Value* length = a.along(a.cast(computed_counts(call, axis, with_padding), dtype), k, axes.size());
      product = product ? a.op(Op::mul, product, length) : length;
      continue;
    }
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < axis.out; ++o) {
      int64_t begin = axis.start(o), end = std::min(begin + axis.kernel, axis.size + axis.pad);
      if (!with_padding) begin = std::max<int64_t>(begin, 0), end = std::min<int64_t>(end, axis.size);
      counts.push_back(end - begin);
    }
    const bool same = std::ranges::all_of(counts, [&](int64_t count) { return count == counts[0]; });
    ir::Value* length =
        same ? a.number(dtype, counts[0]) : a.along(a.cast(a.constant(counts), dtype), k, axes.size());
    product = product ? a.op(Op::mul, product, length) : length;
  }
  return product;
}

}  // namespace braze::capture
