// Upsampling (interpolate): each result is a sum of `taps` elements along every spatial dimension, whose places and
// weights are known now and become constants of the program.
// Source: the index computations of ATen/native/UpSample.h and cpu/UpSampleKernel.cpp.
#include <algorithm>
#include <cmath>

#include "capture/arithmetic.h"

namespace braze::capture {
namespace {

enum Method { kNearest, kNearestExact, kLinear, kCubic };

/// Along one dimension: for tap t of output element o, places[t][o] and weights[t][o]. Nearest has no weights.
struct Taps {
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
};

/// Input elements an output element.
template <typename Real>
Real scale_of(int64_t size, int64_t out, bool align_corners, std::optional<double> given) {
  if (align_corners) return out > 1 ? static_cast<Real>(size - 1) / static_cast<Real>(out - 1) : Real(0);
  return given && *given > 0 ? static_cast<Real>(1.0 / *given) : static_cast<Real>(size) / static_cast<Real>(out);
}

/// Which element is the nearest must be decided as eager does, in f32.
Taps nearest_taps(int64_t size, int64_t out, bool exact, std::optional<double> given) {
  Taps taps{std::vector<std::vector<int64_t>>(1), {}};
  const float scale = scale_of<float>(size, out, false, given);
  for (int64_t o = 0; o < out; ++o) {
    const float at = exact ? (static_cast<float>(o) + 0.5F) * scale : static_cast<float>(o) * scale;
    int64_t place = std::min(static_cast<int64_t>(std::floor(at)), size - 1);
    if (!exact && out == size) place = o;
    if (!exact && out == 2 * size) place = o / 2;
    taps.places[0].push_back(place);
  }
  return taps;
}

/// Weights are continuous in the place, so here and below it may be more precise than eager's.
Taps linear_taps(int64_t size, int64_t out, bool align_corners, std::optional<double> given) {
  Taps taps{std::vector<std::vector<int64_t>>(2), std::vector<std::vector<double>>(2)};
  const auto scale = scale_of<double>(size, out, align_corners, given);
  for (int64_t o = 0; o < out; ++o) {
    const auto number = static_cast<double>(o);
    double at = align_corners ? scale * number : std::max(scale * (number + 0.5) - 0.5, 0.0);
    if (size == out) at = number;
    const int64_t low = std::min(static_cast<int64_t>(at), size - 1);
    const double weight = std::clamp(at - static_cast<double>(low), 0.0, 1.0);
    taps.places[0].push_back(low);
    taps.places[1].push_back(std::min(low + 1, size - 1));
    taps.weights[0].push_back(1 - weight);
    taps.weights[1].push_back(weight);
  }
  return taps;
}

/// Keys' cubic convolution with a = -0.75.
Taps cubic_taps(int64_t size, int64_t out, bool align_corners, std::optional<double> given) {
  Taps taps{std::vector<std::vector<int64_t>>(4), std::vector<std::vector<double>>(4)};
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
    for (int64_t t = 0; t < 4; ++t) {
      taps.places[t].push_back(std::clamp<int64_t>(low + t - 1, 0, size - 1));
      taps.weights[t].push_back(weights[t]);
    }
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

/// Sums over the taps, the last dimension innermost, as eager nests them.
class Interpolation {
 public:
  Interpolation(Arithmetic& a, ir::Value* value, int64_t lead, const std::vector<Taps>& taps, ScalarType dtype)
      : a_(a), value_(value), lead_(lead), picks_(taps.size()), places_(taps.size()), weights_(taps.size()) {
    for (size_t k = 0; k < taps.size(); ++k) {
      for (const auto& places : taps[k].places)
        places_[k].push_back(
            a.along(numbers(to_ref(value->type->sizes)[static_cast<size_t>(lead) + k], places), k, taps.size()));
      for (const auto& weights : taps[k].weights)
        weights_[k].push_back(a.along(a.constant(weights, dtype), k, taps.size()));
    }
  }

  ir::Value* run(size_t k = 0) {
    if (k == picks_.size()) {
      ir::Value* picked = a_.index(value_, lead_, {picks_.data(), picks_.size()});
      return weights_[0].empty() ? picked : cast(picked);
    }
    ir::Value* sum = nullptr;
    for (size_t t = 0; t < places_[k].size(); ++t) {
      picks_[k] = places_[k][t];
      ir::Value* term = run(k + 1);
      if (!weights_[k].empty()) term = a_.op(Op::mul, term, weights_[k][t]);
      sum = sum ? a_.op(Op::add, sum, term) : term;
    }
    return sum;
  }

 private:
  /// Each place of `size` a whole number of times: counted where it is needed, rather than read from memory.
  ir::Value* numbers(int64_t size, const std::vector<int64_t>& places) {
    const auto out = static_cast<int64_t>(places.size());
    const int64_t times = out / size;
    bool repeats = size > 1 && times > 1 && out == size * times;
    for (int64_t o = 0; repeats && o < out; ++o) repeats = places[static_cast<size_t>(o)] == o / times;
    if (!repeats) return a_.constant(places);
    return a_.reshape(a_.expand(a_.reshape(a_.count(size), {size, 1}), {size, times}), {out});
  }

  ir::Value* cast(ir::Value* value) { return a_.cast(value, weights_[0][0]->type->dtype); }

  Arithmetic& a_;
  ir::Value* value_;
  int64_t lead_;
  c10::SmallVector<ir::Value*, 3> picks_;
  std::vector<std::vector<ir::Value*>> places_, weights_;
};

/// upsample_METHODNd(self, output_size, [align_corners,] scales...); the variant is 10 * method + N.
bool upsample(Call& call, const RuleRow& row) {
  const auto method = static_cast<Method>(row.variant / 10);
  const auto n = static_cast<size_t>(row.variant % 10);
  const bool weighs = method == kLinear || method == kCubic;
  const auto x = call.operand(0);
  const Sizes out = call.ints(1);
  if (!x || x->is_number() || x->sizes.size() != n + 2 || out.size() != n) return false;
  // The taps are numbers of sizes: for all sizes, it is a call of the library's.
  for (size_t k = 0; k < n; ++k)
    if (!x->sizes[2 + k].is_number() || !out[k].is_number()) return false;
  for (size_t k = 1; k < x->sizes.size(); ++k)
    if (x->sizes[k] == 0) return false;
  if (!c10::isFloatingType(x->dtype) && (weighs || x->dtype != ScalarType::Byte)) return false;
  const c10::MemoryFormat format = suggested_format(*x);
  const DType compute = computing_dtype(x->dtype);
  std::vector<Taps> taps;
  Sizes sizes(x->sizes.begin(), x->sizes.begin() + 2);
  for (size_t k = 0; k < n; ++k) {
    const size_t argument = 2 + weighs + k;
    const auto given = call.has(argument) ? std::optional(call.real(argument)) : std::nullopt;
    if (out[k] < 1) return false;
    taps.push_back(taps_of(method, x->sizes[2 + k], out[k], weighs && call.flag(2), given));
    sizes.push_back(out[k]);
  }
  Arithmetic a(call);
  ir::Value* value = Interpolation(a, x->value, 2, taps, to_scalar_type(compute)).run();
  return call.give(call.copy(value, call.type(x->dtype, sizes, format_strides(sizes, format))));
}

/// upsample_nearestNd_backward(grad, output_size, input_size, scales...), where each element of the input has given
/// a block of the result; the variant is as above.
bool nearest_backward(Call& call, const RuleRow& row) {
  const auto method = static_cast<Method>(row.variant / 10);
  const auto n = static_cast<size_t>(row.variant % 10);
  const auto g = call.operand(0);
  const Sizes out = call.ints(1), sizes = call.ints(2);
  if (!g || g->is_number() || !c10::isFloatingType(g->dtype) || sizes.size() != n + 2 || out.size() != n)
    return false;
  if (numel(g->sizes) == 0 || !is_row_major(g->sizes, g->strides)) return false;
  Sizes blocks(sizes.begin(), sizes.begin() + 2), within;
  for (size_t k = 0; k < n; ++k) {
    if (!sizes[2 + k].is_number() || !out[k].is_number()) return false;
    const int64_t size = sizes[2 + k], length = out[k], times = length / size;
    if (length != size * times) return false;
    const auto given = call.has(3 + k) ? std::optional(call.real(3 + k)) : std::nullopt;
    const std::vector<int64_t> places = nearest_taps(size, length, method == kNearestExact, given).places[0];
    for (int64_t o = 0; o < length; ++o)
      if (places[static_cast<size_t>(o)] != o / times) return false;
    blocks.push_back(size);
    within.push_back(static_cast<int64_t>(blocks.size()));
    blocks.push_back(times);
  }
  Arithmetic a(call);
  ir::Value* parts = a.reshape(call.cast(g->value, computing_dtype(g->dtype)), blocks);
  ir::Value* sum = call.cast(a.reduce(Op::sum, parts, within), to_dtype(g->dtype));
  return call.give(call.copy(sum, call.contiguous(g->dtype, sizes)));
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
      {"upsample_nearest1d_backward", nearest_backward, Op::sum, 10 * kNearest + 1},
      {"upsample_nearest2d_backward", nearest_backward, Op::sum, 10 * kNearest + 2},
      {"upsample_nearest3d_backward", nearest_backward, Op::sum, 10 * kNearest + 3},
      {"_upsample_nearest_exact1d_backward", nearest_backward, Op::sum, 10 * kNearestExact + 1},
      {"_upsample_nearest_exact2d_backward", nearest_backward, Op::sum, 10 * kNearestExact + 2},
      {"_upsample_nearest_exact3d_backward", nearest_backward, Op::sum, 10 * kNearestExact + 3},
      {"grid_sampler_2d", grid_sampler, Op::index, 2},
      {"grid_sampler_3d", grid_sampler, Op::index, 3},
  };
  return rows;
}

}  // namespace braze::capture
