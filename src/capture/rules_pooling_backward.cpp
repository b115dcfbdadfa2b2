// What undoes pooling: the gradients of averages and maxima over windows, and max_unpool.
#include <algorithm>

#include "capture/taps.h"

namespace braze::capture {
namespace {

// ---- maxima: elements written to the places that a pooling has found, one plane at a time

/// Sizes of a value whose last `n` dimensions are one.
Sizes flattened(DimsRef sizes, size_t n) {
  Sizes flat(sizes.begin(), sizes.end() - static_cast<int64_t>(n));
  flat.push_back(numel(sizes.slice(sizes.size() - n)));
  return flat;
}

/// `source` at the places that `indices`, of its sizes, tell within the last `n` dimensions of `sizes`, which are
/// else 0, in memory as `format` says.
ir::Value* spread(Call& call, const Operand& source, const Operand& indices, DimsRef sizes, size_t n,
                  std::string_view combine, c10::MemoryFormat format) {
  Arithmetic a(call);
  const DType dtype = combine == "set" ? to_dtype(source.dtype) : computing_dtype(source.dtype);
  const ScalarType wide = to_scalar_type(dtype);
  const Sizes flat = flattened(source.sizes, n), out = flattened(sizes, n);
  const auto plane = std::ssize(flat) - 1;
  ir::Value* zeros = a.expand(a.number(dtype, 0), out);
  ir::Value* elements = a.reshape(call.cast(source.value, dtype), flat);
  ir::Value* places = a.reshape(indices.value, flat);
  const ir::Type* type = call.type(wide, sizes, format_strides(sizes, format));
  ir::Value* result;
  if (format == c10::MemoryFormat::Contiguous) {
    result = a.scatter(zeros, plane, places, elements, combine);
  } else {  // Whole vectors of channels go from one place to the next; the result lies as it is wanted.
    const auto turned = [&](ir::Value* value) { return a.permute(value, {0, 2, 1}); };
    result = a.scatter(turned(zeros), 1, turned(places), turned(elements), combine);
    const Sizes strides{out[1] * out[2], 1, out[1]}, back{0, 2, 1};
    result = call.node(Op::permute, {result}, call.type(wide, out, strides),
                       {{"dims", to_span(DimsRef(back).numbers())}});
  }
  result = call.node(Op::reshape, {result}, type);
  return call.copy(call.cast(result, to_dtype(source.dtype)), call.retyped(type, to_dtype(source.dtype)));
}

/// In which an average's gradient lies: in two dimensions as its input does.
c10::MemoryFormat gradient_format(const Operand& x, size_t n) {
  return n == 2 ? suggested_format(x) : c10::MemoryFormat::Contiguous;
}

bool is_kernel_float(const Operand& x) {
  return !x.is_number() && c10::isFloatingType(x.dtype) && numel(x.sizes) > 0;
}

/// max_unpool2d(self, indices, output_size), max_unpool3d(self, indices, output_size, stride, padding); variant is
/// N. Stride and padding only take part in checks, which Python's callers have made.
bool max_unpool(Call& call, const RuleRow& row) {
  if (at::globalContext().deterministicAlgorithms()) return false;  // Eager refuses: indices may be there twice.
  const auto n = static_cast<size_t>(row.variant);
  const auto x = call.operand(0), indices = call.operand(1);
  if (!x || !indices || !is_kernel_float(*x) || indices->dtype != ScalarType::Long || indices->sizes != x->sizes)
    return false;
  const size_t rank = x->sizes.size();
  const Sizes out = call.ints(2);
  if ((rank != n + 1 && rank != n + 2) || out.size() != n || numel(out) <= 0) return false;
  if (n == 3)
    for (const size_t i : {3, 4})
      for (const int64_t number : call.ints(i))
        if (call.ints(i).size() != n || number < (i == 3)) return false;
  Sizes sizes(x->sizes.begin(), x->sizes.end() - static_cast<int64_t>(n));
  sizes.append(out.begin(), out.end());
  // The GPU's kernel makes the input row-major.
  const bool follows = n == 2 && call.device().is_cpu();
  const auto format = follows ? suggested_format(*x) : c10::MemoryFormat::Contiguous;
  return call.give(spread(call, *x, *indices, sizes, n, "set", format));
}

/// max_poolNd_with_indices_backward(grad_output, self, ..., indices) and adaptive_max_poolNd_backward(grad_output,
/// self, indices); variant is N, negative for those of three dimensions that do not keep their input's layout.
bool max_pool_backward(Call& call, const RuleRow& row) {
  const auto n = static_cast<size_t>(std::abs(row.variant));
  const auto gradient = call.operand(0), x = call.operand(1), indices = call.operand(call.arguments.size() - 1);
  if (!gradient || !x || !indices || !is_kernel_float(*gradient) || gradient->dtype != x->dtype) return false;
  if (indices->dtype != ScalarType::Long || indices->sizes != gradient->sizes) return false;
  const size_t rank = x->sizes.size();
  if ((rank != n + 1 && rank != n + 2) || gradient->sizes.size() != rank || is_empty(x->sizes)) return false;
  for (size_t k = 0; k + n < rank; ++k)
    if (x->sizes[k] != gradient->sizes[k]) return false;
  const auto format = row.variant < 0 ? c10::MemoryFormat::Contiguous : suggested_format(*x);
  if (rank == n + 1 && n == 3 && format != c10::MemoryFormat::Contiguous) return false;  // Names no such layout.
  // ATen's loop over vectors of channels is a quarter faster than scattering them.
  if (format != c10::MemoryFormat::Contiguous && call.device().is_cpu()) return false;
  return call.give(spread(call, *gradient, *indices, x->sizes, n, "add", format));
}

// ---- averages

bool give_average_gradient(Call& call, const Operand& g, const Operand& x, size_t n, ir::Value* value) {
  const Sizes strides = format_strides(x.sizes, gradient_format(x, n));
  return call.give(call.copy(call.cast(value, to_dtype(g.dtype)), call.type(g.dtype, x.sizes, strides)));
}

/// Of windows of `sizes` elements side by side, of whatever number: blocks of one value. What is behind them has
/// given nothing.
bool give_blocks(Call& call, const Operand& g, const Operand& x, const Sizes& sizes, int64_t divisor) {
  const size_t n = sizes.size(), lead = x.sizes.size() - n;
  Sizes apart(g.sizes.begin(), g.sizes.begin() + static_cast<int64_t>(lead));
  Sizes whole = apart, spread = apart, rest(x.sizes.size(), 0);
  for (size_t k = 0; k < n; ++k) {
    const Dim count = g.sizes[lead + k];
    for (Sizes* one : {&apart, &whole}) one->push_back(count);
    apart.push_back(1);
    whole.push_back(sizes[k]);
    spread.push_back(count * sizes[k]);
    rest[lead + k] = x.sizes[lead + k] - spread.back();
  }
  Arithmetic a(call);
  const DType dtype = computing_dtype(g.dtype);
  ir::Value* value = a.op(Op::div, call.cast(g.value, dtype), a.number(dtype, divisor));
  value = a.reshape(a.expand(a.reshape(call.cast(value, to_dtype(g.dtype)), apart), whole), spread);
  return give_average_gradient(call, g, x, n, a.pad(value, Sizes(rest.size(), 0), rest, 0));
}

/// Of windows that are listed for each dimension, with what each element has counted for there. `factor` is for all
/// of them.
bool give_spread_averages(Call& call, const Operand& g, const Operand& x,
                          std::span<const std::vector<Window>> windows, double factor) {
  const size_t n = windows.size(), lead = x.sizes.size() - n;
  Arithmetic a(call);
  const DType dtype = computing_dtype(g.dtype);
  const bool channels_last = gradient_format(x, n) != c10::MemoryFormat::Contiguous;
  ir::Value* value = channels_last ? a.channels_behind(g.value) : g.value;
  for (size_t k = 0; k < n; ++k) {
    const Taps taps = window_taps(x.sizes[lead + k], windows[k]).transposed();
    value = weighted_sums(a, value, static_cast<int64_t>(lead - channels_last + k), taps, dtype);
  }
  if (channels_last) value = a.channels_in_front(value);
  if (factor != 1) value = a.op(Op::mul, value, a.number(dtype, factor));
  return give_average_gradient(call, g, x, n, value);
}

/// Gradient and input of a pooling over `n` dimensions.
bool fit(const std::optional<Operand>& g, const std::optional<Operand>& x, size_t n) {
  if (!g || !x || x->is_number() || !is_kernel_float(*g) || g->dtype != x->dtype) return false;
  const size_t rank = x->sizes.size();
  return (rank == n + 1 || rank == n + 2) && g->sizes.size() == rank && !is_empty(x->sizes);
}

/// The last `n` sizes are known, as those of windows that are listed must be.
bool is_known(const Operand& x, size_t n) {
  return DimsRef(x.sizes).slice(x.sizes.size() - n).is_numbers();
}

/// avg_poolNd_backward(grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
/// variant is N.
bool average_pool_backward(Call& call, const RuleRow& row) {
  const auto n = static_cast<size_t>(row.variant);
  const auto g = call.operand(0), x = call.operand(1);
  if (!fit(g, x, n) || (call.has(7) && call.integer(7) == 0)) return false;
  const auto kernel = call.ints(2), stride = call.ints(3), padding = call.ints(4);
  const auto along = [](const Sizes& sizes, size_t k) { return sizes.size() == 1 ? sizes[0] : sizes[k]; };
  const bool with_padding = call.flag(6), counts = !call.has(7);
  const size_t lead = x->sizes.size() - n;
  bool is_apart = true;
  Sizes sizes;
  for (size_t k = 0; k < n && is_apart; ++k) {
    sizes.push_back(along(kernel, k));
    is_apart = (stride.empty() || along(stride, k) == sizes[k]) && along(padding, k) == 0 &&
               g->sizes[lead + k] * sizes[k] <= x->sizes[lead + k];
  }
  if (is_apart)
    return give_blocks(call, *g, *x, sizes, counts ? static_cast<int64_t>(numel(sizes)) : call.integer(7));
  if (!is_known(*g, n) || !is_known(*x, n)) return false;
  std::vector<std::vector<Window>> windows(n);
  for (size_t k = 0; k < n; ++k) {
    const size_t dim = lead + k;
    const int64_t size = x->sizes[dim], pad = along(padding, k), length = along(kernel, k);
    const int64_t step = stride.empty() ? length : static_cast<int64_t>(along(stride, k));
    for (int64_t o = 0; o < g->sizes[dim]; ++o) {
      const int64_t begin = o * step - pad, end = std::min(begin + length, size + pad);
      const Window inside{std::max<int64_t>(begin, 0), std::min(end, size), 1};
      const auto count = static_cast<double>(with_padding ? end - begin : inside.end - inside.begin);
      if (inside.begin >= inside.end) return false;
      windows[k].push_back({inside.begin, inside.end, counts ? 1 / count : 1});
    }
  }
  return give_spread_averages(call, *g, *x, windows, counts ? 1 : 1 / static_cast<double>(call.integer(7)));
}

/// _adaptive_avg_poolNd_backward(grad_output, self); variant is N.
bool adaptive_average_backward(Call& call, const RuleRow& row) {
  const auto n = static_cast<size_t>(row.variant);
  const auto g = call.operand(0), x = call.operand(1);
  if (!fit(g, x, n) || !is_known(*g, n) || !is_known(*x, n)) return false;
  Sizes sizes;
  for (size_t dim = x->sizes.size() - n; dim < x->sizes.size(); ++dim)
    if (x->sizes[dim] % g->sizes[dim] == 0) sizes.push_back(x->sizes[dim] / g->sizes[dim]);
  if (sizes.size() == n) return give_blocks(call, *g, *x, sizes, numel(sizes));
  std::vector<std::vector<Window>> windows(n);
  for (size_t k = 0; k < n; ++k) {
    const size_t dim = x->sizes.size() - n + k;
    for (int64_t o = 0; o < g->sizes[dim]; ++o) {
      Window window = adaptive_window(o, x->sizes[dim], g->sizes[dim]);
      window.weight = 1 / static_cast<double>(window.end - window.begin);
      windows[k].push_back(window);
    }
  }
  return give_spread_averages(call, *g, *x, windows, 1);
}

}  // namespace

std::span<const RuleRow> pooling_backward_rules() {
  static constexpr RuleRow rows[] = {
      {"max_unpool2d", max_unpool, Op::scatter, 2},
      {"max_unpool3d", max_unpool, Op::scatter, 3},
      {"max_pool2d_with_indices_backward", max_pool_backward, Op::scatter, 2},
      {"max_pool3d_with_indices_backward", max_pool_backward, Op::scatter, 3},
      {"adaptive_max_pool2d_backward", max_pool_backward, Op::scatter, 2},
      {"adaptive_max_pool3d_backward", max_pool_backward, Op::scatter, -3},
      {"avg_pool2d_backward", average_pool_backward, Op::sum, 2},
      {"avg_pool3d_backward", average_pool_backward, Op::sum, 3},
      {"_adaptive_avg_pool2d_backward", adaptive_average_backward, Op::sum, 2},
      {"_adaptive_avg_pool3d_backward", adaptive_average_backward, Op::sum, 3},
  };
  return rows;
}

}  // namespace braze::capture
