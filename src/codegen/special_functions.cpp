#include "codegen/special_functions.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace braze::codegen {

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    const double fraction = x - std::trunc(x);
    if (fraction == 0 || std::isinf(x)) return kNaN;
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
  }
  double below = 0;
  for (; x < 10; x += 1) below += 1 / x;
  // B_2k / 2k for k = 1 ... 8.
  constexpr double series[] = {1. / 12,  -1. / 120,      1. / 252, -1. / 240,
                               1. / 132, -691. / 32760., 1. / 12,  -3617. / 8160};
  const double z = 1 / (x * x);
  double sum = 0;
  for (int k = 7; k >= 0; --k) sum = (sum + series[k]) * z;
  return std::log(x) - 0.5 / x - sum - below;
}

double erfinv(double x) {
  const double size = std::fabs(x);
  if (!(size < 1)) {
    if (size == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double half_root_pi = 0.5 / std::numbers::inv_sqrtpi;
  if (size < 1e-10) return x * half_root_pi;
  double y = size * half_root_pi;
  if (size > 1e-3) {
    constexpr double a = 0.147;
    const double logarithm = std::log1p(-size) + std::log1p(size);
    const double t = 2 / (std::numbers::pi * a) + logarithm / 2;
    y = std::sqrt(std::sqrt(t * t - logarithm / a) - t);
  }
  for (int step = 0; step < 3; ++step) {
    // Towards 1 only the distance from it is exact.
    const double miss = size < 0.5 ? std::erf(y) - size : (1 - size) - std::erfc(y);
    const double newton = miss * half_root_pi * std::exp(y * y);
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

}  // namespace braze::codegen
