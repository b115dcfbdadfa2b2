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
      for (const auto& places : taps[k].places) places_[k].push_back(a.along(a.constant(places), k, taps.size()));
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
  for (size_t k = 1; k < x->sizes.size(); ++k)
    if (x->sizes[k] == 0) return false;
  if (!c10::isFloatingType(x->dtype) && (weighs || x->dtype != ScalarType::Byte)) return false;
  const c10::MemoryFormat format = suggested_format(*x);
  if (format != c10::MemoryFormat::Contiguous && n != 2) return false;
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
  };
  return rows;
}

}  // namespace braze::capture
