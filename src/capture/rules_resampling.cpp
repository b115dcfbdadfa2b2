// Upsampling (interpolate): each result is a sum of some elements along every spatial dimension, whose places and
// weights are known now and become constants of the program; and the gradients, which are such sums too.
// Source: the index computations of ATen/native/UpSample.h and cpu/UpSampleKernel.cpp.
#include <algorithm>
#include <cmath>

#include "capture/taps.h"

namespace braze::capture {
namespace {

enum Method { kNearest, kNearestExact, kLinear, kCubic };

/// Input elements an output element.
template <typename Real>
Real scale_of(int64_t size, int64_t out, bool align_corners, std::optional<double> given) {
  if (align_corners) return out > 1 ? static_cast<Real>(size - 1) / static_cast<Real>(out - 1) : Real(0);
  return given && *given > 0 ? static_cast<Real>(1.0 / *given) : static_cast<Real>(size) / static_cast<Real>(out);
}

/// Which element is the nearest must be decided as eager does, in f32.
Taps nearest_taps(int64_t size, int64_t out, bool exact, std::optional<double> given) {
  Taps taps{size, {}};
  const float scale = scale_of<float>(size, out, false, given);
  for (int64_t o = 0; o < out; ++o) {
    const float at = exact ? (static_cast<float>(o) + 0.5F) * scale : static_cast<float>(o) * scale;
    int64_t place = std::min(static_cast<int64_t>(std::floor(at)), size - 1);
    if (!exact && out == size) place = o;
    if (!exact && out == 2 * size) place = o / 2;
    taps.of.push_back({{place, 1}});
  }
  return taps;
}

/// Weights are continuous in the place, so here and below it may be more precise than eager's.
Taps linear_taps(int64_t size, int64_t out, bool align_corners, std::optional<double> given) {
  Taps taps{size, {}};
  const auto scale = scale_of<double>(size, out, align_corners, given);
  for (int64_t o = 0; o < out; ++o) {
    const auto number = static_cast<double>(o);
    double at = align_corners ? scale * number : std::max(scale * (number + 0.5) - 0.5, 0.0);
    if (size == out) at = number;
    const int64_t low = std::min(static_cast<int64_t>(at), size - 1);
    const double weight = std::clamp(at - static_cast<double>(low), 0.0, 1.0);
    taps.of.push_back({{low, 1 - weight}, {std::min(low + 1, size - 1), weight}});
  }
  return taps;
}

/// Keys' cubic convolution with a = -0.75.
Taps cubic_taps(int64_t size, int64_t out, bool align_corners, std::optional<double> given) {
  Taps taps{size, {}};
  constexpr double a = -0.75;
  const auto scale = scale_of<double>(size, out, align_corners, given);
  const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  for (int64_t o = 0; o < out; ++o) {
    const auto number = static_cast<double>(o);
    const double at = align_corners ? scale * number : scale * (number + 0.5) - 0.5;
    const int64_t low = std::min(static_cast<int64_t>(std::floor(at)), size - 1);
    const double x = std::clamp(at - static_cast<double>(low), 0.0, 1.0);
    const double weights[] = {far(x + 1), near(x), near(1 - x), far(2 - x)};
    auto& one = taps.of.emplace_back();
    for (int64_t t = 0; t < 4; ++t) one.push_back({std::clamp<int64_t>(low + t - 1, 0, size - 1), weights[t]});
  }
  return taps;
}

Taps taps_of(Method method, int64_t size, int64_t out, bool align_corners, std::optional<double> given) {
  switch (method) {
    case kNearest:
    case kNearestExact: return nearest_taps(size, out, method == kNearestExact, given);
    case kLinear: return linear_taps(size, out, align_corners, given);
    case kCubic: break;
  }
  return cubic_taps(size, out, align_corners, given);
}

/// The only tap of each element, in the order 0, 0, 1, 1, ...: `times` of each.
std::optional<int64_t> repetitions(const Taps& taps) {
  const int64_t out = std::ssize(taps.of), times = out / taps.size;
  if (out != taps.size * times) return std::nullopt;
  for (int64_t o = 0; o < out; ++o)
    if (taps.of[static_cast<size_t>(o)][0].place != o / times) return std::nullopt;
  return times;
}

/// The elements at the only tap of each dimension. Where each is taken a whole number of times, its place is
/// counted rather than read from memory.
ir::Value* nearest(Arithmetic& a, ir::Value* value, const std::vector<Taps>& taps) {
  c10::SmallVector<ir::Value*, 3> picks;
  for (size_t k = 0; k < taps.size(); ++k) {
    const int64_t size = taps[k].size, out = std::ssize(taps[k].of);
    const auto times = repetitions(taps[k]);
    std::vector<int64_t> places;
    for (const auto& one : taps[k].of) places.push_back(one[0].place);
    ir::Value* numbers = size > 1 && times > 1
                             ? a.reshape(a.expand(a.reshape(a.count(size), {size, 1}), {size, *times}), {out})
                             : a.constant(places);
    picks.push_back(a.along(numbers, k, taps.size()));
  }
  return a.index(value, 2, {picks.data(), picks.size()});
}

/// Weighted sums along each spatial dimension, from `first` on, one after the other. Those that leave less come
/// first, the outer ones before the inner ones: vectors lie along the inner ones, where gathering costs most. Then
/// those that leave more, the inner ones first, as eager nests its sums.
ir::Value* summed(Arithmetic& a, ir::Value* value, size_t first, const std::vector<Taps>& taps, DType dtype) {
  const auto grows = [&](size_t k) { return std::ssize(taps[k].of) >= taps[k].size; };
  const auto sum_along = [&](size_t k) {
    value = weighted_sums(a, value, static_cast<int64_t>(first + k), taps[k], dtype);
  };
  for (size_t k = 0; k < taps.size(); ++k)
    if (!grows(k)) sum_along(k);
  for (size_t k = taps.size(); k-- > 0;)
    if (grows(k)) sum_along(k);
  return value;
}

/// The same at once, in the order in which eager nests its sums: with two taps a dimension, and vectors that lie
/// along none of them, fewer elements are read and written than in one dimension after the other.
ir::Value* summed_at_once(Arithmetic& a, ir::Value* value, int64_t first, const std::vector<Taps>& taps,
                          DType dtype) {
  const size_t n = taps.size();
  c10::SmallVector<ir::Value*, 3> picks(n);
  const auto run = [&](const auto& self, size_t k) -> ir::Value* {
    if (k == n) return a.cast(a.index(value, first, {picks.data(), n}), dtype);
    ir::Value* sum = nullptr;
    for (size_t t = 0; t < taps[k].of[0].size(); ++t) {
      std::vector<int64_t> places;
      std::vector<double> weights;
      for (const auto& one : taps[k].of) {
        places.push_back(one[t].place);
        weights.push_back(one[t].weight);
      }
      picks[k] = a.along(a.constant(places), k, n);
      // Behind the dimensions come the channels.
      ir::Value* weight = a.along(a.constant(weights, to_scalar_type(dtype)), k, n + 1);
      ir::Value* term = a.op(Op::mul, self(self, k + 1), weight);
      sum = sum ? a.op(Op::add, sum, term) : term;
    }
    return sum;
  };
  return run(run, 0);
}

/// The same in the order in which memory has the dimensions.
ir::Value* resampled(Arithmetic& a, const Operand& x, const std::vector<Taps>& taps, DType dtype) {
  if (suggested_format(x) == c10::MemoryFormat::Contiguous) return summed(a, x.value, 2, taps, dtype);
  const auto has_two = [](const auto& one) { return one.size() == 2; };
  const bool at_once = taps.size() <= 2 && std::ranges::all_of(taps, [&](const Taps& all) {
                         return std::ranges::all_of(all.of, has_two);
                       });
  ir::Value* value = a.channels_behind(x.value);
  return a.channels_in_front(at_once ? summed_at_once(a, value, 1, taps, dtype) : summed(a, value, 1, taps, dtype));
}

/// Of upsampling from `sizes` to `out`, with [align_corners and] scales from `argument` on; none if a size is an
/// expression: then the taps are no numbers, and it is a call of the library's.
std::vector<Taps> all_taps(Call& call, Method method, DimsRef sizes, DimsRef out, size_t argument) {
  const bool weighs = method == kLinear || method == kCubic;
  std::vector<Taps> taps;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (!sizes[k].is_number() || !out[k].is_number() || sizes[k] < 1 || out[k] < 1) return {};
    const size_t scale = argument + weighs + k;
    const auto given = call.has(scale) ? std::optional(call.real(scale)) : std::nullopt;
    taps.push_back(taps_of(method, sizes[k], out[k], weighs && call.flag(argument), given));
  }
  return taps;
}

/// upsample_METHODNd(self, output_size, [align_corners,] scales...); the variant is 10 * method + N.
bool upsample(Call& call, const RuleRow& row) {
  const auto method = static_cast<Method>(row.variant / 10);
  const auto n = static_cast<size_t>(row.variant % 10);
  const bool weighs = method == kLinear || method == kCubic;
  const auto x = call.operand(0);
  const Sizes out = call.ints(1);
  if (!x || x->is_number() || x->sizes.size() != n + 2 || out.size() != n || x->sizes[1] == 0) return false;
  if (!c10::isFloatingType(x->dtype) && (weighs || x->dtype != ScalarType::Byte)) return false;
  const std::vector<Taps> taps = all_taps(call, method, DimsRef(x->sizes).slice(2), out, 2);
  if (taps.empty()) return false;
  const c10::MemoryFormat format = suggested_format(*x);
  Sizes sizes(x->sizes.begin(), x->sizes.begin() + 2);
  sizes.append(out.begin(), out.end());
  Arithmetic a(call);
  ir::Value* value = weighs ? resampled(a, *x, taps, computing_dtype(x->dtype)) : nearest(a, x->value, taps);
  return call.give(call.copy(value, call.type(x->dtype, sizes, format_strides(sizes, format))));
}

/// upsample_METHODNd_backward(grad, output_size, input_size, [align_corners,] scales...); the variant is as above.
bool upsample_backward(Call& call, const RuleRow& row) {
  const auto method = static_cast<Method>(row.variant / 10);
  const auto n = static_cast<size_t>(row.variant % 10);
  const auto g = call.operand(0);
  const Sizes out = call.ints(1), sizes = call.ints(2);
  if (!g || g->is_number() || !c10::isFloatingType(g->dtype) || sizes.size() != n + 2 || out.size() != n)
    return false;
  if (g->sizes.size() != n + 2 || is_empty(g->sizes)) return false;
  std::vector<Taps> taps = all_taps(call, method, DimsRef(sizes).slice(2), out, 3);
  if (taps.empty()) return false;
  const bool is_nearest = method == kNearest || method == kNearestExact;
  // Where few elements were read, ATen's scattering of them is faster than asking of each whether it was.
  const auto shrinks = [](const Taps& one) { return std::ssize(one.of) < one.size; };
  if (is_nearest && call.device().is_cpu() && std::ranges::any_of(taps, shrinks)) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(g->dtype);
  ir::Value* sum = nullptr;
  if (is_nearest && std::ranges::all_of(taps, [](const Taps& one) { return repetitions(one).has_value(); })) {
    // Each element has given a block of the result.
    Sizes blocks(sizes.begin(), sizes.begin() + 2), within;
    for (const Taps& one : taps) {
      blocks.push_back(one.size);
      within.push_back(static_cast<int64_t>(blocks.size()));
      blocks.push_back(*repetitions(one));
    }
    sum = a.reduce(Op::sum, a.reshape(call.cast(g->value, dtype), blocks), within);
  } else {
    for (Taps& one : taps) one = one.transposed();
    sum = resampled(a, *g, taps, dtype);
  }
  const bool follows = method != kCubic && !(is_nearest && n == 3);  // Other kernels give rows.
  const auto format = follows ? suggested_format(*g) : c10::MemoryFormat::Contiguous;
  const Sizes strides = format_strides(sizes, format);
  return call.give(call.copy(call.cast(sum, to_dtype(g->dtype)), call.type(g->dtype, sizes, strides)));
}

// ---- grid_sample: each result is a sum of elements of the input around a place that a grid tells, in units of
// half the input's size
//   [N,C,H,W], grid [N,OH,OW,2]  ->  index of [N,H,W,C] by (n, y, x) of each tap, times its weight, summed
// Source: ATen/native/GridSampler.h and cpu/GridSamplerKernel.cpp.

enum GridMethod { kGridLinear, kGridNearest, kGridCubic };  // at::native::GridSamplerInterpolation
enum GridPadding { kZeros, kBorder, kReflection };          // at::native::GridSamplerPadding

/// An element that a result reads, along one dimension. `inside` and `weight` may be null: always, 1.
struct Tap {
  ir::Value *place, *inside, *weight;  ///< i64, bool, floating; each [N, out...].
};

/// The taps along one spatial dimension of the input.
class GridTaps {
 public:
  GridTaps(Arithmetic& a, DType dtype, int64_t size, GridPadding padding, bool align_corners)
      : a_(a), dtype_(dtype), size_(static_cast<double>(size)), padding_(padding), align_corners_(align_corners) {}

  std::vector<Tap> of(ir::Value* grid, GridMethod method) {
    ir::Value* at = a_.op(Op::mul, a_.op(Op::add, grid, number(1)), number(align_corners_ ? size_ - 1 : size_));
    // Divided, lest the next step become part of the multiplication: no last bit of a place may differ.
    at = a_.op(Op::div, at, number(2));
    if (!align_corners_) at = a_.op(Op::sub, at, number(0.5));
    if (method == kGridCubic) return cubic(at);
    at = padded(at);
    if (method == kGridNearest) return {tap(a_.op(Op::round, at), nullptr)};
    ir::Value* low = a_.op(Op::floor, at);
    ir::Value* weight = a_.op(Op::sub, at, low);
    return {tap(low, a_.op(Op::sub, number(1), weight)), tap(a_.op(Op::add, low, number(1)), weight)};
  }

 private:
  ir::Value* number(double value) { return a_.number(dtype_, value); }

  /// Limited to the input; NaN becomes 0.
  ir::Value* clipped(ir::Value* at) {
    at = a_.where(a_.op(Op::gt, at, number(0)), at, number(0));
    return a_.op(Op::minimum, at, number(size_ - 1));
  }

  /// Mirrored at the outer elements, or with align_corners off at their outer edges.
  ir::Value* reflected(ir::Value* at) {
    const double low = align_corners_ ? 0 : -0.5, span = 2 * (align_corners_ ? size_ - 1 : size_);
    if (span == 0) return a_.op(Op::mul, at, number(0));
    ir::Value* distance = a_.op(Op::abs, a_.op(Op::sub, at, number(low)));
    ir::Value* turns = a_.op(Op::trunc, a_.op(Op::div, distance, number(span)));
    ir::Value* rest = a_.op(Op::sub, distance, a_.op(Op::mul, turns, number(span)));
    return a_.op(Op::add, a_.op(Op::minimum, rest, a_.op(Op::sub, number(span), rest)), number(low));
  }

  ir::Value* padded(ir::Value* at) {
    if (padding_ == kZeros) return at;
    return clipped(padding_ == kReflection ? reflected(at) : at);
  }

  /// `at` is a whole number, perhaps outside of the input.
  Tap tap(ir::Value* at, ir::Value* weight) {
    ir::Value* inside = a_.op(Op::bitwise_and, a_.op(Op::ge, at, number(0)), a_.op(Op::le, at, number(size_ - 1)));
    return {a_.cast(clipped(at), DType::i64), inside, weight};
  }

  /// Keys' cubic convolution with a = -0.75. The padding is each tap's own.
  std::vector<Tap> cubic(ir::Value* at) {
    constexpr double a = -0.75;
    ir::Value* low = a_.op(Op::floor, at);
    ir::Value* x = a_.op(Op::sub, at, low);
    const auto polynomial = [&](ir::Value* x, std::initializer_list<double> factors) {
      ir::Value* sum = nullptr;
      for (const double factor : factors)
        sum = sum ? a_.op(Op::add, a_.op(Op::mul, sum, x), number(factor)) : number(factor);
      return sum;
    };
    const auto near = [&](ir::Value* x) { return polynomial(x, {a + 2, -(a + 3), 0, 1}); };
    const auto far = [&](ir::Value* x) { return polynomial(x, {a, -5 * a, 8 * a, -4 * a}); };
    ir::Value* rest = a_.op(Op::sub, number(1), x);
    ir::Value* const weights[] = {far(a_.op(Op::add, x, number(1))), near(x), near(rest),
                                  far(a_.op(Op::add, rest, number(1)))};
    std::vector<Tap> taps;
    for (int k = 0; k < 4; ++k) taps.push_back(tap(padded(a_.op(Op::add, low, number(k - 1))), weights[k]));
    return taps;
  }

  Arithmetic& a_;
  DType dtype_;
  double size_;
  GridPadding padding_;
  bool align_corners_;
};

/// Sums over the taps of all dimensions, the last one innermost.
class Sampling {
 public:
  /// \param input  [N, spatial..., C]
  Sampling(Arithmetic& a, ir::Value* input, std::vector<std::vector<Tap>> taps)
      : a_(a), input_(input), taps_(std::move(taps)) {
    places_.push_back(a.along(a.count(to_ref(input->type->sizes)[0]), 0, taps_.size() + 1));
  }

  ir::Value* run(size_t k = 0, ir::Value* inside = nullptr, ir::Value* weight = nullptr) {
    if (k == taps_.size()) return term(inside, weight);
    ir::Value* sum = nullptr;
    for (const Tap& tap : taps_[k]) {
      places_.push_back(tap.place);
      ir::Value* one = run(k + 1, inside ? a_.op(Op::bitwise_and, inside, tap.inside) : tap.inside,
                           weight && tap.weight ? a_.op(Op::mul, weight, tap.weight) : tap.weight);
      places_.pop_back();
      sum = sum ? a_.op(Op::add, sum, one) : one;
    }
    return sum;
  }

 private:
  ir::Value* term(ir::Value* inside, ir::Value* weight) {
    ir::Value* picked = a_.index(input_, 0, {places_.data(), places_.size()});
    picked = a_.where(column(inside), picked, a_.number(picked->type->dtype, 0));
    return weight ? a_.op(Op::mul, picked, column(weight)) : picked;
  }
  ir::Value* column(ir::Value* value) {
    const DimsRef known = to_ref(value->type->sizes);
    Sizes sizes(known.begin(), known.end());
    sizes.push_back(1);
    return a_.reshape(value, sizes);
  }

  Arithmetic& a_;
  ir::Value* input_;
  std::vector<std::vector<Tap>> taps_;
  c10::SmallVector<ir::Value*, 4> places_;
};

/// grid_sampler_Nd(input, grid, interpolation_mode, padding_mode, align_corners); variant is N.
bool grid_sampler(Call& call, const RuleRow& row) {
  const auto n = static_cast<size_t>(row.variant);
  const auto x = call.operand(0), grid = call.operand(1);
  if (!x || !grid || x->is_number() || x->dtype != grid->dtype) return false;
  // In half precision the places themselves are rounded at every step.
  if (x->dtype != ScalarType::Float && x->dtype != ScalarType::Double) return false;
  if (x->sizes.size() != n + 2 || grid->sizes.size() != n + 2) return false;
  if (grid->sizes[0] != x->sizes[0] || grid->sizes.back() != static_cast<int64_t>(n)) return false;
  if (numel(x->sizes) == 0 || numel(grid->sizes) == 0) return false;
  const auto method = static_cast<GridMethod>(call.integer(2));
  const auto padding = static_cast<GridPadding>(call.integer(3));
  if (method == kGridCubic && n != 2) return false;
  Arithmetic a(call);
  Sizes out(grid->sizes.begin(), grid->sizes.end() - 1), last{0}, first{0, static_cast<int64_t>(n + 1)};
  std::vector<std::vector<Tap>> taps;
  for (size_t k = 0; k < n; ++k) {
    last.push_back(static_cast<int64_t>(k + 2));
    first.push_back(static_cast<int64_t>(k + 1));
    // The grid has x before y.
    ir::Value* at =
        a.reshape(a.slice(grid->value, static_cast<int64_t>(n + 1), static_cast<int64_t>(n - 1 - k), 1), out);
    taps.push_back(GridTaps(a, to_dtype(x->dtype), x->sizes[k + 2], padding, call.flag(4)).of(at, method));
  }
  last.push_back(1);
  ir::Value* sum = a.permute(Sampling(a, a.permute(x->value, last), std::move(taps)).run(), first);
  return call.give(call.copy(sum, call.contiguous(x->dtype, to_ref(sum->type->sizes))));
}

}  // namespace

std::span<const RuleRow> resampling_rules() {
  static constexpr RuleRow rows[] = {
      {"upsample_nearest1d", upsample, Op::index, 10 * kNearest + 1},
      {"upsample_nearest2d", upsample, Op::index, 10 * kNearest + 2},
      {"upsample_nearest3d", upsample, Op::index, 10 * kNearest + 3},
      {"_upsample_nearest_exact1d", upsample, Op::index, 10 * kNearestExact + 1},
      {"_upsample_nearest_exact2d", upsample, Op::index, 10 * kNearestExact + 2},
      {"_upsample_nearest_exact3d", upsample, Op::index, 10 * kNearestExact + 3},
      {"upsample_linear1d", upsample, Op::index, 10 * kLinear + 1},
      {"upsample_bilinear2d", upsample, Op::index, 10 * kLinear + 2},
      {"upsample_trilinear3d", upsample, Op::index, 10 * kLinear + 3},
      {"upsample_bicubic2d", upsample, Op::index, 10 * kCubic + 2},
      {"upsample_nearest1d_backward", upsample_backward, Op::sum, 10 * kNearest + 1},
      {"upsample_nearest2d_backward", upsample_backward, Op::sum, 10 * kNearest + 2},
      {"upsample_nearest3d_backward", upsample_backward, Op::sum, 10 * kNearest + 3},
      {"_upsample_nearest_exact1d_backward", upsample_backward, Op::sum, 10 * kNearestExact + 1},
      {"_upsample_nearest_exact2d_backward", upsample_backward, Op::sum, 10 * kNearestExact + 2},
      {"_upsample_nearest_exact3d_backward", upsample_backward, Op::sum, 10 * kNearestExact + 3},
      {"upsample_linear1d_backward", upsample_backward, Op::sum, 10 * kLinear + 1},
      {"upsample_bilinear2d_backward", upsample_backward, Op::sum, 10 * kLinear + 2},
      {"upsample_trilinear3d_backward", upsample_backward, Op::sum, 10 * kLinear + 3},
      {"upsample_bicubic2d_backward", upsample_backward, Op::sum, 10 * kCubic + 2},
      {"grid_sampler_2d", grid_sampler, Op::index, 2},
      {"grid_sampler_3d", grid_sampler, Op::index, 3},
  };
  return rows;
}

}  // namespace braze::capture
