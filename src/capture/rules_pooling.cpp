// Average and maximum pooling: windows of the padded input as dimensions of their own, which a reduction removes.
//   [N,C,H,W]  ->  pad  ->  index_map to [N,C,OH,OW,KH,KW]  ->  sum or amax over KH,KW
// Adaptive windows of unlike sizes are read by index tensors instead.
#include <algorithm>
#include <limits>

#include "capture/index_map.h"
#include "capture/pooling_axis.h"
#include "capture/taps.h"

namespace braze::capture {
namespace {

/// What all poolings begin with: the input's last `n` dimensions, the layout of the result.
struct Input {
  Operand x;
  size_t lead;  ///< Dimensions before the spatial ones.
  c10::MemoryFormat format;
  Axes axes;

  Sizes result_sizes() const {
    Sizes sizes(x.sizes.begin(), x.sizes.begin() + static_cast<int64_t>(lead));
    for (const Axis& axis : axes) sizes.push_back(axis.out);
    return sizes;
  }
  const ir::Type* result(Call& call, ScalarType dtype) const {
    const Sizes sizes = result_sizes();
    return call.type(dtype, sizes, format_strides(sizes, format));
  }
  /// The dimensions that windows have after those of the result.
  Sizes window_dims() const {
    Sizes dims;
    for (size_t k = 0; k < axes.size(); ++k) dims.push_back(static_cast<int64_t>(lead + axes.size() + k));
    return dims;
  }
};

/// In three dimensions only plain maxima keep the layout (`keeps`), of an input without a batch as well: that one
/// has strides that no format names.
std::optional<c10::MemoryFormat> result_format(const Operand& x, size_t n, bool keeps) {
  if (n == 2) return suggested_format(x);
  if (!keeps) return c10::MemoryFormat::Contiguous;
  if (x.sizes.size() == n + 2) return suggested_format(x);
  if (x.strides != contiguous(x.sizes)) return std::nullopt;
  return c10::MemoryFormat::Contiguous;
}

std::optional<Input> input_of(Call& call, size_t n, bool keeps = false) {
  auto x = call.operand(0);
  if (!x || x->is_number()) return std::nullopt;
  const size_t rank = x->sizes.size();
  if (rank != n + 1 && rank != n + 2) return std::nullopt;
  for (size_t k = rank == n + 2; k < rank; ++k)  // only a batch may be empty
    if (x->sizes[k] == 0) return std::nullopt;
  const auto format = result_format(*x, n, keeps);
  if (!format) return std::nullopt;
  Input input{std::move(*x), rank - n, *format, {}};
  for (size_t k = 0; k < n; ++k) input.axes.push_back({input.x.sizes[input.lead + k], 1, 1, 0, 1, 1});
  return input;
}

/// One number a dimension; a single one stands for all.
std::optional<Sizes> per_dimension(Sizes values, size_t n) {
  if (values.size() == 1) values.assign(n, values[0]);
  if (values.size() != n) return std::nullopt;
  return values;
}

/// Kernel, stride (empty: the kernel), padding and dilation as arguments. -1: not an argument.
bool read_axes(Call& call, Input& input, int kernel, int stride, int pad, int dilation, bool ceil) {
  const size_t n = input.axes.size();
  const auto kernels = per_dimension(call.ints(kernel), n);
  Sizes given = call.ints(stride);
  const auto strides = given.empty() ? kernels : per_dimension(given, n);
  const auto pads = per_dimension(call.ints(pad), n);
  const auto dilations = dilation < 0 ? std::optional(Sizes(n, 1)) : per_dimension(call.ints(dilation), n);
  if (!kernels || !strides || !pads || !dilations) return false;
  for (size_t k = 0; k < n; ++k) {
    Axis& axis = input.axes[k];
    axis = {axis.size, (*kernels)[k], (*strides)[k], (*pads)[k], (*dilations)[k], 0};
    if (!set_output(axis, ceil)) return false;
  }
  return true;
}

/// [lead..., out..., kernel...] of `value`, with `fill` where windows reach beyond it.
/// \param whole  the kernels as they are; else without what lies behind the input in every window.
ir::Value* windows(Arithmetic& a, const Input& input, ir::Value* value, const c10::Scalar& fill,
                   bool whole = false) {
  const size_t n = input.axes.size(), rank = input.lead + n, columns = rank + n;
  Sizes low(rank, 0), high(rank, 0), sizes = input.result_sizes();
  const Sizes origin(rank, 0);
  std::vector<Dim> map(rank * columns, 0);
  for (size_t k = 0; k < input.lead; ++k) map[k * columns + k] = 1;
  for (size_t k = 0; k < n; ++k) {
    const Axis& axis = input.axes[k];
    const Dim steps = whole ? axis.kernel : axis.steps();
    const size_t dim = input.lead + k;
    low[dim] = axis.pad;
    high[dim] = larger(0, axis.start(axis.out - 1) + axis.dilation * (steps - 1) + 1 - axis.size);
    map[dim * columns + dim] = axis.stride;
    map[dim * columns + dim + n] = axis.dilation;
    sizes.push_back(steps);
  }
  // Padded as memory has it.
  if (input.format == c10::MemoryFormat::Contiguous) {
    value = a.pad(value, low, high, fill);
  } else {
    for (Sizes* sides : {&low, &high}) std::rotate(sides->begin() + 1, sides->begin() + 2, sides->end());
    value = a.channels_in_front(a.pad(a.channels_behind(value), low, high, fill));
  }
  return a.index_map(value, origin, DimsRef(map.data(), map.size()), sizes);
}

/// `value` of [out] along spatial dimension k of the result.
ir::Value* along_result(Arithmetic& a, const Input& input, ir::Value* value, size_t k) {
  return a.along(value, k, input.axes.size());
}

/// avg_poolNd(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override); variant is N.
bool average_pool(Call& call, const RuleRow& row) {
  auto input = input_of(call, row.variant);
  // Of integers eager averages int64 only, rounding towards zero.
  const bool is_float = input && c10::isFloatingType(input->x.dtype);
  if (!input || !(is_float || input->x.dtype == ScalarType::Long)) return false;
  if (!read_axes(call, *input, 1, 2, 3, -1, call.flag(4))) return false;
  if (call.has(6) && call.integer(6) == 0) return false;
  Arithmetic a(call);
  const DType dtype = is_float ? computing_dtype(input->x.dtype) : DType::i64;
  ir::Value* sum = a.reduce(Op::sum, windows(a, *input, call.cast(input->x.value, dtype), 0), input->window_dims());
  ir::Value* count =
      call.has(6) ? a.number(dtype, call.integer(6)) : window_counts(call, input->axes, call.flag(5), dtype);
  ir::Value* mean = a.op(is_float ? Op::div : Op::trunc_div, sum, count);
  return call.give(call.copy(mean, input->result(call, input->x.dtype)));
}

/// Less than or equal to every element.
c10::Scalar lowest(ScalarType dtype) {
  if (c10::isFloatingType(dtype)) return -std::numeric_limits<double>::infinity();
  switch (dtype) {
    case ScalarType::Long: return std::numeric_limits<int64_t>::lowest();
    case ScalarType::Int: return std::numeric_limits<int32_t>::lowest();
    case ScalarType::Short: return std::numeric_limits<int16_t>::lowest();
    case ScalarType::Char: return std::numeric_limits<int8_t>::lowest();
    default: return 0;
  }
}

/// Which element of its window is the largest, numbered row-major; of several NaN the last, as eager's loop finds.
ir::Value* place_of_largest(Arithmetic& a, const Input& input, ir::Value* window, ir::Value* largest) {
  ir::Value* place = a.reduce(Op::argmax, window, input.window_dims());
  if (!c10::isFloatingType(input.x.dtype)) return place;
  int64_t elements = 1;
  for (const Axis& axis : input.axes) elements *= axis.steps();
  ir::Value* from_end = a.reduce(Op::argmax, a.flip(window, input.window_dims()), input.window_dims());
  ir::Value* last = a.op(Op::sub, a.number(DType::i64, elements - 1), from_end);
  return a.where(a.op(Op::isnan, largest), last, place);
}

/// The row-major index in the input of the `place` of a window; `position(k, step)` is the input's index along
/// dimension k for a step in the window.
template <typename Position>
ir::Value* input_index(Call& call, Arithmetic& a, const Input& input, ir::Value* place, Position&& position) {
  ir::Value* flat = nullptr;
  c10::SmallVector<ir::Value*, 3> steps(input.axes.size());
  for (size_t k = input.axes.size(); k-- > 1;) {
    ir::Value* size = a.number(DType::i64, static_cast<int64_t>(input.axes[k].steps()));
    ir::Value* rest = a.op(Op::floor_div, place, size);
    steps[k] = a.op(Op::sub, place, a.op(Op::mul, rest, size));
    place = rest;
  }
  steps[0] = place;
  for (size_t k = 0; k < input.axes.size(); ++k) {
    ir::Value* index = position(k, steps[k]);
    flat = flat ? a.op(Op::add,
                       a.op(Op::mul, flat, number_of(call.graph(), input.axes[k].size, to_device(call.device()))),
                       index)
                : index;
  }
  return flat;
}

/// Windows of more elements than these are reduced; those of fewer are gone through one element after the other.
constexpr int64_t kMostSteps = 27;

/// A maximum and its row-major place in the input, as a loop finds them that goes through a window.
struct Largest {
  ir::Value *value, *place;

  /// Goes on with another element: of several that are equal the first stays, of several NaN the last.
  void meet(Arithmetic& a, ir::Value* other, ir::Value* its_place) {
    ir::Value* is_larger = a.op(Op::gt, other, value);
    if (ir::is_floating(other->type->dtype)) is_larger = a.op(Op::bitwise_or, is_larger, a.op(Op::isnan, other));
    value = a.where(is_larger, other, value);
    place = a.where(is_larger, its_place, place);
  }
};

/// Which elements of the input the windows of one dimension have: places[k][o] is number k of window o. Where a
/// window has fewer than others, its nearest is named again, which changes no maximum.
using Places = std::vector<std::vector<int64_t>>;

/// Maxima over the windows that `places` lists for each dimension, gone through row-major. Rows are read as padded
/// windows where they are such (`slides`), else by places: with channels last whole vectors have the same.
Largest largest_at(Arithmetic& a, const Input& input, const std::vector<Places>& places, bool slides) {
  const size_t n = places.size();
  const bool channels_last = input.format != c10::MemoryFormat::Contiguous;
  const auto first = static_cast<int64_t>(input.lead) - channels_last;
  slides &= !channels_last;
  ir::Value* x = slides          ? windows(a, input, input.x.value, lowest(input.x.dtype))
                 : channels_last ? a.channels_behind(input.x.value)
                                 : input.x.value;
  const auto element = [&](DimsRef steps) {
    if (slides) {
      ir::Value* value = x;
      for (size_t k = 0; k < n; ++k) value = a.slice(value, input.window_dims()[k], steps[k], 1);
      return a.reshape(value, input.result_sizes());
    }
    c10::SmallVector<ir::Value*, 3> picks;
    for (size_t k = 0; k < n; ++k) picks.push_back(a.along(a.constant(places[k][steps[k]]), k, n));
    return a.index(x, first, {picks.data(), picks.size()});
  };
  Largest largest{nullptr, nullptr};
  Sizes steps(n, 0);
  const auto visit = [&](const auto& self, size_t k, ir::Value* place) -> void {
    if (k == n) {
      if (largest.value)
        largest.meet(a, element(steps), place);
      else
        largest = {element(steps), place};
      return;
    }
    int64_t row = 1;
    for (size_t inner = k + 1; inner < n; ++inner) row *= static_cast<int64_t>(input.axes[inner].size);
    for (size_t step = 0; step < places[k].size(); ++step) {
      steps[k] = step;
      std::vector<int64_t> scaled = places[k][step];
      for (int64_t& one : scaled) one *= row;
      ir::Value* part = a.along(a.constant(scaled), k, n + channels_last);
      self(self, k + 1, place ? a.op(Op::add, place, part) : part);
    }
  };
  visit(visit, 0, nullptr);
  largest.place = a.expand(largest.place, to_ref(largest.value->type->sizes));
  if (!channels_last) return largest;
  return {a.channels_in_front(largest.value), a.channels_in_front(largest.place)};
}

/// None if a window has no element of the input.
std::optional<Places> places_along(const Axis& axis) {
  Places places;
  for (int64_t k = 0; k < axis.steps(); ++k) {
    auto& one = places.emplace_back();
    for (int64_t o = 0; o < axis.out; ++o) {
      const int64_t start = axis.start(o), step = axis.dilation, last = axis.size - 1;
      const int64_t before = start < 0 ? (-start + step - 1) / step : 0, behind = (last - start) / step;
      if (start > last || before > behind || before >= axis.kernel) return std::nullopt;
      one.push_back(start + std::clamp(k, before, behind) * step);
    }
  }
  return places;
}

bool has_few_steps(const Input& input) {
  int64_t steps = 1;
  for (const Axis& axis : input.axes) {
    if (!axis.size.is_number() || !axis.out.is_number() || axis.kernel > kMostSteps) return false;
    steps *= axis.kernel;
  }
  return steps <= kMostSteps;
}

bool give_largest(Call& call, const Input& input, const Largest& largest) {
  call.give(call.copy(largest.value, input.result(call, input.x.dtype)));
  return call.give(call.copy(largest.place, input.result(call, ScalarType::Long)));
}

/// max_poolNd_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode); variant is N.
bool max_pool(Call& call, const RuleRow& row) {
  auto input = input_of(call, row.variant, true);
  if (!input || input->x.dtype == ScalarType::Bool || !read_axes(call, *input, 1, 2, 3, 4, call.flag(5)))
    return false;
  Arithmetic a(call);
  std::vector<Places> places;
  if (has_few_steps(*input))
    for (const Axis& axis : input->axes)
      if (auto one = places_along(axis)) places.push_back(std::move(*one));
  if (places.size() == input->axes.size()) return give_largest(call, *input, largest_at(a, *input, places, true));
  ir::Value* window = windows(a, *input, input->x.value, lowest(input->x.dtype));
  ir::Value* largest = a.reduce(Op::amax, window, input->window_dims());
  call.give(call.copy(largest, input->result(call, input->x.dtype)));
  // Where all elements are the lowest number, the first in the input is meant, not the padding before it.
  const auto position = [&](size_t k, ir::Value* step) {
    const Axis& axis = input->axes[k];
    if (!axis.out.is_number()) {
      const auto number = [&](Dim one) { return a.number(DType::i64, static_cast<int64_t>(one)); };
      ir::Value* begin = a.op(Op::sub, a.op(Op::mul, a.count(axis.out), number(axis.stride)), number(axis.pad));
      ir::Value* before =
          a.op(Op::maximum, a.op(Op::sub, number(axis.dilation - 1), begin), number(axis.dilation - 1));
      ir::Value* first = a.op(Op::floor_div, before, number(axis.dilation));
      if (axis.pad > 0) step = a.op(Op::maximum, step, along_result(a, *input, first, k));
      if (axis.dilation > 1) step = a.op(Op::mul, step, number(axis.dilation));
      return a.op(Op::add, step, along_result(a, *input, begin, k));
    }
    std::vector<int64_t> starts, first_steps;
    for (int64_t o = 0; o < axis.out; ++o) {
      starts.push_back(axis.start(o));
      first_steps.push_back((std::max<int64_t>(-starts.back(), 0) + axis.dilation - 1) / axis.dilation);
    }
    if (axis.pad > 0) step = a.op(Op::maximum, step, along_result(a, *input, a.constant(first_steps), k));
    if (axis.dilation > 1) step = a.op(Op::mul, step, a.number(DType::i64, static_cast<int64_t>(axis.dilation)));
    return a.op(Op::add, step, along_result(a, *input, a.constant(starts), k));
  };
  ir::Value* index = input_index(call, a, *input, place_of_largest(a, *input, window, largest), position);
  return call.give(call.copy(index, input->result(call, ScalarType::Long)));
}

// ---- adaptive pooling: window o of a dimension covers floor(o*size/out) ... ceil((o+1)*size/out)

struct AdaptiveAxis {
  std::vector<int64_t> starts,
      places;  ///< Of each window; of each of its `kernel` elements, the last one repeated.
  std::vector<double> counts;
};

/// As many windows as there are elements, whatever number that is: nothing is listed.
bool is_kept(const Axis& axis) {
  return !axis.size.is_number() && axis.out.size() == axis.size.size();
}

AdaptiveAxis adaptive_axis(Axis& axis, int64_t out) {
  AdaptiveAxis windows;
  axis.out = out;
  for (int64_t o = 0; o < out; ++o) {
    windows.starts.push_back(o * axis.size / out);
    windows.counts.push_back(static_cast<double>(((o + 1) * axis.size + out - 1) / out - windows.starts.back()));
    axis.kernel = std::max<int64_t>(axis.kernel, static_cast<int64_t>(windows.counts.back()));
  }
  for (int64_t o = 0; o < out; ++o)
    for (int64_t k = 0; k < axis.kernel; ++k)
      windows.places.push_back(windows.starts[o] + std::min(k, static_cast<int64_t>(windows.counts[o]) - 1));
  return windows;
}

/// The windows of an adaptive pooling, and what is known of them along each dimension.
struct Adaptive {
  ir::Value* window;  ///< [lead..., out..., kernel...]
  c10::SmallVector<AdaptiveAxis, 3> axes;
};

std::optional<Adaptive> adaptive_windows(Call& call, Arithmetic& a, Input& input, ir::Value* value) {
  const size_t n = input.axes.size();
  const Sizes out = call.ints(1);
  if (out.size() != n) return std::nullopt;
  Adaptive adaptive{nullptr, {}};
  bool regular = true;
  for (size_t k = 0; k < n; ++k) {
    if (out[k] < 1) return std::nullopt;
    input.axes[k].out = out[k];
    if (is_kept(input.axes[k])) {
      input.axes[k].kernel = input.axes[k].stride = 1;
      adaptive.axes.emplace_back();
      continue;
    }
    if (!input.axes[k].size.is_number() || !out[k].is_number()) return std::nullopt;  // ATen's kernel.
    adaptive.axes.push_back(adaptive_axis(input.axes[k], out[k]));
    regular &= input.axes[k].size % out[k] == 0;
    input.axes[k].stride = input.axes[k].kernel;
  }
  if (regular) {
    adaptive.window = windows(a, input, value, 0);
    return adaptive;
  }
  c10::SmallVector<ir::Value*, 3> indices;
  for (size_t k = 0; k < n; ++k) {
    Sizes shape(2 * n, 1);
    shape[k] = input.axes[k].out;
    shape[n + k] = input.axes[k].kernel;
    ir::Value* places = is_kept(input.axes[k]) ? a.count(input.axes[k].size) : a.constant(adaptive.axes[k].places);
    indices.push_back(a.reshape(places, shape));
  }
  adaptive.window = a.index(value, static_cast<int64_t>(input.lead), {indices.data(), indices.size()});
  return adaptive;
}

/// One size for all windows of a dimension, which begin as far from each other.
bool set_regular(Axis& axis, const AdaptiveAxis& windows) {
  axis.stride = windows.starts.size() > 1 ? windows.starts[1] : static_cast<int64_t>(axis.kernel);
  for (size_t o = 0; o < windows.starts.size(); ++o) {
    const bool is_regular = windows.starts[o] == static_cast<int64_t>(o) * axis.stride;
    if (!is_regular || windows.counts[o] != static_cast<double>(axis.kernel)) return false;
  }
  return true;
}

/// _adaptive_avg_poolNd(self, output_size); variant is N. Windows of unlike sizes are summed along one dimension
/// after the other.
bool adaptive_average(Call& call, const RuleRow& row) {
  auto input = input_of(call, row.variant);
  const size_t n = row.variant;
  const Sizes out = call.ints(1);
  if (!input || out.size() != n || !c10::isFloatingType(input->x.dtype)) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(input->x.dtype);
  std::vector<AdaptiveAxis> axes(n);
  bool is_regular = true;
  for (size_t k = 0; k < n; ++k) {
    Axis& axis = input->axes[k];
    if (out[k] < 1) return false;
    axis.out = out[k];
    if (is_kept(axis)) continue;
    if (!axis.size.is_number() || !axis.out.is_number()) return false;  // ATen's kernel.
    axes[k] = adaptive_axis(axis, axis.out);
    is_regular &= set_regular(axis, axes[k]);
  }
  const bool channels_last = input->format != c10::MemoryFormat::Contiguous;
  ir::Value* mean = is_regular      ? windows(a, *input, call.cast(input->x.value, dtype), 0)
                    : channels_last ? a.channels_behind(input->x.value)
                                    : input->x.value;
  if (is_regular) mean = a.reduce(Op::sum, mean, input->window_dims());
  for (size_t k = 0; k < n && !is_regular; ++k) {
    std::vector<Window> windows;
    for (size_t o = 0; o < axes[k].starts.size(); ++o)
      windows.push_back({axes[k].starts[o], axes[k].starts[o] + static_cast<int64_t>(axes[k].counts[o]), 1});
    if (windows.empty()) continue;
    const auto dim = static_cast<int64_t>(input->lead - channels_last + k);
    mean = weighted_sums(a, mean, dim, window_taps(input->axes[k].size, windows), dtype);
  }
  if (channels_last && !is_regular) mean = a.channels_in_front(mean);
  for (size_t k = 0; k < n; ++k) {
    if (axes[k].counts.empty()) continue;
    const auto& counts = axes[k].counts;
    const bool same = std::ranges::all_of(counts, [&](double count) { return count == counts[0]; });
    mean = a.op(
        Op::div, mean,
        same ? a.number(dtype, counts[0]) : along_result(a, *input, a.constant(counts, to_scalar_type(dtype)), k));
  }
  return call.give(call.copy(mean, input->result(call, input->x.dtype)));
}

/// adaptive_max_poolNd(self, output_size); variant is N.
bool adaptive_max(Call& call, const RuleRow& row) {
  auto input = input_of(call, row.variant);
  if (!input || input->x.dtype == ScalarType::Bool) return false;
  Arithmetic a(call);
  const auto adaptive = adaptive_windows(call, a, *input, input->x.value);
  if (!adaptive || std::ranges::any_of(input->axes, is_kept)) return false;
  if (has_few_steps(*input)) {
    std::vector<Places> places;
    for (size_t k = 0; k < input->axes.size(); ++k) {
      const int64_t out = input->axes[k].out, kernel = input->axes[k].kernel;
      auto& along = places.emplace_back(kernel, std::vector<int64_t>(out));
      for (int64_t o = 0; o < out; ++o)
        for (int64_t j = 0; j < kernel; ++j) along[j][o] = adaptive->axes[k].places[o * kernel + j];
    }
    return give_largest(call, *input, largest_at(a, *input, places, false));
  }
  ir::Value* largest = a.reduce(Op::amax, adaptive->window, input->window_dims());
  call.give(call.copy(largest, input->result(call, input->x.dtype)));
  const auto position = [&](size_t k, ir::Value* step) {
    const AdaptiveAxis& axis = adaptive->axes[k];
    std::vector<int64_t> lasts;
    for (size_t o = 0; o < axis.starts.size(); ++o) lasts.push_back(static_cast<int64_t>(axis.counts[o]) - 1);
    step = a.op(Op::minimum, step, along_result(a, *input, a.constant(lasts), k));
    return a.op(Op::add, step, along_result(a, *input, a.constant(axis.starts), k));
  };
  ir::Value* index = input_index(call, a, *input, place_of_largest(a, *input, adaptive->window, largest), position);
  return call.give(call.copy(index, input->result(call, ScalarType::Long)));
}

// ---- im2col and col2im

/// The axes of (kernel_size, dilation, padding, stride), arguments `first` and on, over a plane.
std::optional<Axes> sliding_axes(Call& call, size_t first, DimsRef plane) {
  const Sizes kernel = call.ints(first), dilation = call.ints(first + 1), pad = call.ints(first + 2),
              stride = call.ints(first + 3);
  Axes axes;
  for (size_t k = 0; k < 2; ++k) {
    if (kernel.size() != 2 || dilation.size() != 2 || pad.size() != 2 || stride.size() != 2) return std::nullopt;
    Axis axis{plane[k], kernel[k], stride[k], pad[k], dilation[k], 0};
    const int64_t room = axis.size + 2 * axis.pad - (axis.dilation * (axis.kernel - 1) + 1);
    if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.pad < 0 || room < 0) return std::nullopt;
    axis.out = room / axis.stride + 1;
    axes.push_back(axis);
  }
  return axes;
}

/// im2col(self [N,C,H,W], kernel_size, dilation, padding, stride): [N, C*KH*KW, OH*OW]
bool im2col(Call& call, const RuleRow&) {
  auto input = input_of(call, 2);
  if (!input) return false;
  auto axes = sliding_axes(call, 1, DimsRef(input->x.sizes).slice(input->lead));
  if (!axes) return false;
  input->axes = std::move(*axes);
  Arithmetic a(call);
  ir::Value* value = windows(a, *input, input->x.value, 0, /*whole=*/true);
  Sizes order;
  for (size_t k = 0; k < input->lead; ++k) order.push_back(static_cast<int64_t>(k));
  const auto at = static_cast<int64_t>(input->lead);
  order.append({at + 2, at + 3, at, at + 1});
  const auto &h = input->axes[0], &w = input->axes[1];
  Sizes sizes(input->x.sizes.begin(), input->x.sizes.begin() + at);
  sizes.back() *= h.kernel * w.kernel;
  sizes.push_back(h.out * w.out);
  return call.give(call.copy(a.reshape(a.permute(value, order), sizes), call.contiguous(input->x.dtype, sizes)));
}

/// How many blocks there are of a plane, (kernel_size, dilation, padding, stride) being arguments 2 and on; an
/// expression, if its sizes are. Nullopt: there is none.
std::optional<Dim> blocks_of(Call& call, DimsRef plane) {
  const Sizes kernel = call.ints(2), dilation = call.ints(3), pad = call.ints(4), stride = call.ints(5);
  Dim blocks = 1;
  for (size_t k = 0; k < 2; ++k) {
    if (kernel.size() != 2 || dilation.size() != 2 || pad.size() != 2 || stride.size() != 2) return std::nullopt;
    const Dim room = plane[k] + pad[k] * 2 - (dilation[k] * (kernel[k] - 1) + 1);
    if (stride[k] < 1 || room < 0) return std::nullopt;
    blocks *= room / stride[k] + 1;
  }
  return blocks;
}

/// col2im(self [N, C*KH*KW, L], output_size, kernel_size, dilation, padding, stride): sums what im2col took apart.
bool col2im(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  const Sizes plane = call.ints(1);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || plane.size() != 2 || is_empty(x->sizes))
    return false;
  if (x->sizes.size() < 2) return false;
  const size_t lead = x->sizes.size() - 2;
  // Noted for all sizes, before the rule asks for numbers: the library's operator is only asked where it holds.
  const std::optional<Dim> all_blocks = blocks_of(call, plane);
  if (!all_blocks || x->sizes[lead + 1] != *all_blocks) return false;
  const Dim each = call.ints(2)[0] * call.ints(2)[1];
  if (each < 1 || x->sizes[lead] % each != 0) return false;
  const auto axes = x->sizes.size() == 2 || x->sizes.size() == 3 ? sliding_axes(call, 2, plane) : std::nullopt;
  if (!axes) return false;
  const auto &h = (*axes)[0], &w = (*axes)[1];
  const int64_t kernel = h.kernel * w.kernel, blocks = h.out * w.out;
  const int64_t channels = x->sizes[lead] / kernel, batch = lead ? static_cast<int64_t>(x->sizes[0]) : 1;
  // Where each element goes, in the padded plane.
  const int64_t height = plane[0] + 2 * h.pad, width = plane[1] + 2 * w.pad;
  std::vector<int64_t> places;
  for (int64_t kh = 0; kh < h.kernel; ++kh)
    for (int64_t kw = 0; kw < w.kernel; ++kw)
      for (int64_t oh = 0; oh < h.out; ++oh)
        for (int64_t ow = 0; ow < w.out; ++ow)
          places.push_back((oh * h.stride + kh * h.dilation) * width + ow * w.stride + kw * w.dilation);
  Arithmetic a(call);
  const DType dtype = computing_dtype(x->dtype);
  const int64_t planes = batch * channels;
  ir::Value* zeros = a.expand(a.number(dtype, 0), {planes, height * width});
  ir::Value* source = a.reshape(call.cast(x->value, dtype), {planes, kernel * blocks});
  ir::Value* const index[] = {a.constant(places)};
  ir::Value* sums = a.index_put(zeros, 1, index, source, "add");
  sums = a.reshape(sums, {planes, height, width});
  sums = a.slice(a.slice(sums, 1, h.pad, plane[0]), 2, w.pad, plane[1]);
  Sizes sizes;
  if (lead) sizes.push_back(batch);
  sizes.append({channels, plane[0], plane[1]});
  return call.give(call.copy(a.reshape(sums, sizes), call.contiguous(x->dtype, sizes)));
}

}  // namespace

std::span<const RuleRow> pooling_rules() {
  static constexpr RuleRow rows[] = {
      {"avg_pool2d", average_pool, Op::sum, 2},
      {"avg_pool3d", average_pool, Op::sum, 3},
      {"max_pool2d_with_indices", max_pool, Op::amax, 2},
      {"max_pool3d_with_indices", max_pool, Op::amax, 3},
      {"_adaptive_avg_pool2d", adaptive_average, Op::sum, 2},
      {"_adaptive_avg_pool3d", adaptive_average, Op::sum, 3},
      {"adaptive_max_pool2d", adaptive_max, Op::amax, 2},
      {"adaptive_max_pool3d", adaptive_max, Op::amax, 3},
      {"im2col", im2col},
      {"col2im", col2im},
  };
  return rows;
}

}  // namespace braze::capture
