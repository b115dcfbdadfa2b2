// Elementwise functions on a GPU over numbers of all magnitudes, against libm in f64: at most 2 ulp, and half an
// ulp for the rounding of what is compared with. What PTX flushes to zero may differ by the smallest normal number.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu_device.h"
#include "scalar_math.h"
#include "support/error.h"

using namespace braze;

namespace {

constexpr int64_t count = int64_t{1} << 20;

std::string kernel_text(std::string_view op, bool binary) {
  return concat("kernel @k(%x: f32 in noalias, %y: f32 in noalias, %z: f32 out noalias) narrow {\n for %b in 0..",
                count / 1024, " parallel bind=block {\n for %t in 0..256 bind=thread {\n for %v in 0..4 vector {\n",
                " %a = load %x[1024*%b + 4*%t + %v] : f32\n %c = load %y[1024*%b + 4*%t + %v] : f32\n %r = ", op,
                binary ? " %a, %c" : " %a", " : f32\n store %z[1024*%b + 4*%t + %v], %r\n }\n }\n }\n}\n");
}

/// Every bit pattern is as likely as any other, or most numbers are of ordinary size.
std::vector<float> numbers(uint32_t seed, bool wild) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(count);
  for (float& value : values) {
    const uint32_t bits = random();
    if (wild)
      std::memcpy(&value, &bits, sizeof value);
    else
      value = normal(random);
  }
  const float special[] = {0.f,  -0.f,      INFINITY,        -INFINITY, NAN,   1.f,
                           -1.f, 0x1p-149f, 0x1.fffffep127f, 88.f,      -103.f};
  std::copy(std::begin(special), std::end(special), values.begin());
  return values;
}

}  // namespace

TEST_CASE("elementwise functions are as exact on a GPU as elsewhere") {
  NEEDS_GPU();
  using ir::Op;
  struct Function {
    Op op;
    double ulps = 2.5;
  };
  for (const Function& function :
       {Function{Op::exp}, {Op::exp2},         {Op::expm1},      {Op::log},       {Op::log2},
        {Op::log10},       {Op::log1p},        {Op::sqrt, 0.51}, {Op::rsqrt},     {Op::reciprocal, 0.51},
        {Op::sin},         {Op::cos},          {Op::tan},        {Op::tanh},      {Op::erf},
        {Op::erfc},        {Op::asin},         {Op::acos},       {Op::atan},      {Op::sinh},
        {Op::cosh},        {Op::asinh},        {Op::acosh},      {Op::atanh},     {Op::sigmoid, 3},
        {Op::floor, 0},    {Op::round, 0},     {Op::add, 0.51},  {Op::div, 0.51}, {Op::pow},
        {Op::fmod, 0},     {Op::remainder, 1}, {Op::atan2},      {Op::hypot},     {Op::maximum, 0},
        {Op::copysign, 0}}) {
    const std::string name(ir::info(function.op).name);
    CAPTURE(name);
    const bool binary = ir::info(function.op).fewest_operands == 2;
    const auto kernel = loops::parse_kernel(kernel_text(name, binary));
    codegen::CompileOptions options;
    options.target = Target(Isa::sm_90);
    options.use_disk_cache = false;
    const auto code = codegen::compile({{kernel.get()}}, {{loops::structural_hash(*kernel)}}, options)[0];
    for (const bool wild : {true, false}) {
      std::vector<float> x = numbers(1, wild), y = numbers(2, wild), z(count);
      constexpr int64_t bytes = count * 4;
      const test::Memory memory[] = {{reinterpret_cast<char*>(x.data()), bytes},
                                     {reinterpret_cast<char*>(y.data()), bytes},
                                     {reinterpret_cast<char*>(z.data()), bytes}};
      test::launch_with_copies(*kernel, *code, memory, nullptr);
      double worst = 0;
      int64_t at = 0;
      for (int64_t k = 0; k < count; ++k) {
        const double wanted = *test::real_math<double>(function.op, x[k], y[k]);
        const auto rounded = static_cast<float>(wanted);
        double error = 0;
        if (std::isnan(rounded) || std::isnan(z[k]))
          error = std::isnan(rounded) == std::isnan(z[k]) ? 0 : 1e9;
        else if (std::isinf(rounded) || std::isinf(z[k]))
          // Where the result rounds to infinity an ulp less is as good.
          error = rounded == z[k] || std::fabs(wanted) > 0x1.fffffcp127 ? 0 : 1e9;
        else if (std::fabs(z[k] - wanted) > 0x1p-126)
          error = std::fabs(z[k] - wanted) / (std::nextafter(std::fabs(rounded), INFINITY) - std::fabs(rounded));
        if (error > worst) worst = error, at = k;
      }
      CHECK_MESSAGE(worst <= function.ulps, name.c_str(), wild ? ", all magnitudes: " : ": ", worst, " ulp at ",
                    x[at], ", ", y[at], " gives ", z[at]);
    }
  }
}
