// Inline math against libm in a wider type: every exponent, denormals, special values, vectors and scalars.
#include <doctest/doctest.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "codegen/math.h"
#include "codegen/x86/blob.h"
#include "codegen/x86/loader.h"
#include "codegen/x86/machine.h"
#include "codegen/x86/object_linker.h"
#include "scalar_math.h"

using namespace braze;
using ir::Op;

namespace {

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

/// f(out, x, y, n): out[i] = op(x[i], y[i]) for i in 0..n, `lanes` at a time.
template <typename T>
class Compiled {
 public:
  Compiled(Op op, Target target, unsigned lanes) : lanes_(lanes) {
    llvm::LLVMContext context;
    codegen::Machine machine(target);
    const auto module = machine.new_module(context, "math");
    llvm::IRBuilder<> b(context);
    llvm::Type *pointer = b.getPtrTy(), *index = b.getInt64Ty();  // a PhaseFunction
    auto* function = llvm::Function::Create(
        llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer, index, index, pointer}, false),
        llvm::Function::ExternalLinkage, "f", *module);
    function->addFnAttr("target-cpu", codegen::cpu_name(target));
    function->addFnAttr("prefer-vector-width", target.isa == Isa::avx512 ? "512" : "256");
    auto* entry = llvm::BasicBlock::Create(context, "", function);
    auto* loop = llvm::BasicBlock::Create(context, "loop", function);
    auto* done = llvm::BasicBlock::Create(context, "done", function);
    b.SetInsertPoint(entry);
    llvm::SmallVector<llvm::Value*, 3> buffers;
    for (unsigned k = 0; k < 3; ++k)
      buffers.push_back(b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, function->getArg(0), k)));
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    auto* i = b.CreatePHI(b.getInt64Ty(), 2);
    llvm::Type* scalar = sizeof(T) == 4 ? b.getFloatTy() : b.getDoubleTy();
    llvm::Type* type = lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
    const auto load = [&](unsigned buffer) {
      return b.CreateAlignedLoad(type, b.CreateGEP(scalar, buffers[buffer], i), llvm::Align(sizeof(T)));
    };
    llvm::SmallVector<llvm::Value*, 2> args{load(1)};
    if (ir::info(op).fewest_operands == 2) args.push_back(load(2));
    llvm::Value* result = codegen::emit_math(b, op, args);
    CHECK((b.GetInsertBlock() != loop) == codegen::math_adds_blocks(op, sizeof(T) == 8));
    b.CreateAlignedStore(result, b.CreateGEP(scalar, buffers[0], i), llvm::Align(sizeof(T)));
    llvm::Value* next = b.CreateAdd(i, b.getInt64(lanes));
    i->addIncoming(function->getArg(3), entry);
    i->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(4)), loop, done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();

    llvm::SmallVector<char, 0> object;
    machine.object(*module, object);
    const std::string root = "f";
    const codegen::Image image = codegen::link_object({object.data(), object.size()}, {&root, 1});
    const std::string blob = codegen::write_blob(image, std::vector<codegen::PhaseFacts>(1));
    const auto view = codegen::read_blob(blob);
    REQUIRE(view);
    kernel_ = codegen::load({&*view, 1})[0];
  }

  std::vector<T> operator()(std::vector<T> x, std::vector<T> y = {}) const {
    const size_t n = x.size(), padded = (n + lanes_ - 1) / lanes_ * lanes_;
    x.resize(padded, T(0.5));
    y.resize(padded, T(0.5));
    std::vector<T> out(padded);
    void* buffers[] = {out.data(), x.data(), y.data()};
    kernel_->phases()[0].function(buffers, nullptr, nullptr, 0, static_cast<int64_t>(padded), nullptr);
    out.resize(n);
    return out;
  }

 private:
  unsigned lanes_;
  std::shared_ptr<const codegen::CompiledKernel> kernel_;
};

/// The true result of T's in a wider type; of sigmoid, eager's, whose e**-x overflows in T.
template <typename T, typename W>
W reference(Op op, W x, W y) {
  if (op == Op::sigmoid && std::isinf(std::exp(static_cast<T>(-x)))) return 0;
  return test::real_math(op, x, y).value();
}

/// Distance in units of the last place of the true result; wrong infinities, NaNs and signs of zero count as 1e9.
template <typename T, typename W>
double ulps(T got, W want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // On the edge of overflow either neighbour is as good.
    const T largest = std::copysign(std::numeric_limits<T>::max(), rounded);
    return (got == largest || rounded == largest) && std::signbit(got) == std::signbit(rounded) ? 1 : 1e9;
  }
  if (rounded == 0 && got == 0) return std::signbit(got) == std::signbit(rounded) ? 0 : 1e9;
  int exponent;
  std::frexp(want, &exponent);
  const int last = std::max(exponent - std::numeric_limits<T>::digits,
                            std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::fabs(std::ldexp(static_cast<W>(got) - want, -last)));
}

template <typename T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> values{0, L::infinity(), L::quiet_NaN(), L::denorm_min(), L::min(), L::max(), 1, 2,
                        3, T(0.5),        T(1.5),         T(2.5)};
  for (const double edge :
       {88.72283,  88.7229,    -103.97,    -104.0, 87.33, 9.01,   3.92,      709.78,    745.13,
        1e5,       100001.0,   16777216.0, 128.0,  149.0, 150.0,  0.3465736, 0.7853982, 1.5707964,
        3.1415927, 0.70710678, 1.41421356, 17.33,  37.4,  1024.0, 1074.0,    1075.0})
    for (const T step : {L::infinity(), -L::infinity()}) {
      values.push_back(static_cast<T>(edge));
      values.push_back(std::nextafter(static_cast<T>(edge), step));
    }
  values.push_back(std::nextafter(T(1), T(2)));
  values.push_back(std::nextafter(T(1), T(0)));
  const size_t n = values.size();
  for (size_t i = 0; i < n; ++i) values.push_back(-values[i]);
  // Quiet NaNs with payloads in the bits that end up in exponents.
  for (int bit = 0; bit < L::digits - 2; ++bit)
    values.push_back(std::bit_cast<T>(std::bit_cast<Bits<T>>(L::quiet_NaN()) | (Bits<T>(1) << bit)));
  return values;
}

/// Every sign and exponent with `mantissas` mantissas: the ends, single bits and random ones.
template <typename T>
std::vector<T> all_exponents(int mantissas, uint64_t seed) {
  constexpr int kMantissaBits = std::numeric_limits<T>::digits - 1;
  constexpr Bits<T> kMask = (Bits<T>(1) << kMantissaBits) - 1;
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (Bits<T> high = 0; high < (Bits<T>(1) << (sizeof(T) * 8 - kMantissaBits)); ++high)
    for (int m = 0; m < mantissas; ++m) {
      const Bits<T> mantissa = m == 0 ? 0 : m == 1 ? kMask : static_cast<Bits<T>>(random()) & kMask;
      values.push_back(std::bit_cast<T>(static_cast<Bits<T>>(high << kMantissaBits) | mantissa));
    }
  return values;
}

/// Dense where functions bend: uniform in [-120, 120], and near 0 and 1.
template <typename T>
void add_dense(std::vector<T>& values, size_t count) {
  std::mt19937_64 random(7);
  const double ranges[] = {120, 1, 10, 0.1, 800};
  for (size_t i = 0; i < count; ++i) {
    const double range = ranges[i % std::size(ranges)];
    values.push_back(static_cast<T>(std::uniform_real_distribution<double>(-range, range)(random)));
    if (i % 4 == 0) values.push_back(static_cast<T>(1 + values.back() / range * 0.3));
  }
}

template <typename T>
struct Worst {
  double ulps = 0;
  T x = 0, y = 0, got = 0;
};

template <typename T, typename W>
Worst<T> worst_of(Op op, const std::vector<T>& x, const std::vector<T>& y, const std::vector<T>& got) {
  Worst<T> worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = ulps<T, W>(got[i], reference<T, W>(op, x[i], y.empty() ? 0 : y[i]));
    if (error > worst.ulps) worst = {error, x[i], y.empty() ? T(0) : y[i], got[i]};
  }
  return worst;
}

template <typename T>
void report(Op op, const std::string& what, const Worst<T>& worst) {
  MESSAGE(ir::info(op).name << " " << what << ": max " << worst.ulps << " ulp at x=" << worst.x << " y=" << worst.y
                            << " gives " << worst.got);
}

const Op kUnary[] = {Op::exp,  Op::exp2, Op::expm1, Op::log,   Op::log2,    Op::log10, Op::log1p, Op::sin,
                     Op::cos,  Op::tan,  Op::erf,   Op::tanh,  Op::sigmoid, Op::rsqrt, Op::asin,  Op::acos,
                     Op::atan, Op::sinh, Op::cosh,  Op::asinh, Op::acosh,   Op::atanh, Op::erfc};
const Op kBinary[] = {Op::pow, Op::atan2, Op::hypot};

bool runs(Isa isa) {
  return isa == Isa::avx2 || Target::host().isa == Isa::avx512;
}

}  // namespace

TEST_CASE("f32 math of one argument is within 2 ulp over all exponents") {
  std::vector<float> x = all_exponents<float>(8192, 1);  // 512 signs and exponents: 4 million
  add_dense(x, 1 << 20);
  for (const float special : special_values<float>()) x.push_back(special);
  for (const Op op : kUnary) {
    std::vector<double> want(x.size());
    for (size_t i = 0; i < x.size(); ++i) want[i] = reference<float, double>(op, x[i], 0);
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!runs(isa)) continue;
      const std::vector<float> got = Compiled<float>(op, {isa}, isa == Isa::avx2 ? 8 : 16)(x);
      Worst<float> worst;
      for (size_t i = 0; i < x.size(); ++i)
        if (const double error = ulps<float, double>(got[i], want[i]); error > worst.ulps)
          worst = {error, x[i], 0, got[i]};
      report(op, isa == Isa::avx2 ? "f32 avx2" : "f32 avx512", worst);
      CHECK(worst.ulps <= 2.0);
    }
  }
}

TEST_CASE("f64 math of one argument is within 2 ulp over all exponents") {
  std::vector<double> x = all_exponents<double>(64, 2);
  add_dense(x, 1 << 15);
  for (const double special : special_values<double>()) x.push_back(special);
  for (const Op op : kUnary)
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!runs(isa)) continue;
      const std::vector<double> got = Compiled<double>(op, {isa}, isa == Isa::avx2 ? 4 : 8)(x);
      const auto worst = worst_of<double, long double>(op, x, {}, got);
      report(op, isa == Isa::avx2 ? "f64 avx2" : "f64 avx512", worst);
      CHECK(worst.ulps <= (op == Op::erfc ? 4.0 : 2.0));  // glibc's erfc errs by 3.2
    }
}

TEST_CASE_TEMPLATE("pow, atan2 and hypot are within 2 ulp, special values as in libm", T, float, double) {
  using W = std::conditional_t<sizeof(T) == 4, double, long double>;
  std::vector<T> x, y;
  const std::vector<T> special = special_values<T>();
  for (const T a : special)
    for (const T b : special) x.push_back(a), y.push_back(b);
  const std::vector<T> a = all_exponents<T>(sizeof(T) == 4 ? 512 : 8, 3),
                       b = all_exponents<T>(sizeof(T) == 4 ? 512 : 8, 4);
  std::mt19937_64 random(5);
  for (size_t i = 0; i < a.size(); ++i) x.push_back(a[i]), y.push_back(b[random() % b.size()]);
  for (int i = 0; i < 200000; ++i) {  // results in range
    const double base = std::exp2(std::uniform_real_distribution<double>(-20, 20)(random));
    const double limit = (sizeof(T) == 4 ? 150 : 1080) / std::max(std::fabs(std::log2(base)), 0.01);
    x.push_back(static_cast<T>(i % 8 == 0 ? -base : base));
    const double exponent = std::uniform_real_distribution<double>(-limit, limit)(random);
    y.push_back(static_cast<T>(i % 8 == 0 ? std::rint(exponent) : exponent));
  }
  for (const Op op : kBinary)
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!runs(isa)) continue;
      const std::vector<T> got = Compiled<T>(op, {isa}, (isa == Isa::avx2 ? 32 : 64) / sizeof(T))(x, y);
      const auto worst = worst_of<T, W>(op, x, y, got);
      report(op, isa == Isa::avx2 ? "avx2" : "avx512", worst);
      CHECK(worst.ulps <= 2.0);
    }
}

TEST_CASE("scalars and unusual widths give the same as vectors") {
  std::vector<float> x = special_values<float>();
  add_dense(x, 4000);
  std::vector<float> y(x.rbegin(), x.rend());
  std::vector<Op> ops(std::begin(kUnary), std::end(kUnary));
  ops.insert(ops.end(), std::begin(kBinary), std::end(kBinary));
  for (const Op op : ops) {
    const Target target = Target::host();
    const std::vector<float> vector = Compiled<float>(op, target, 8)(x, y);
    for (const unsigned lanes : {1u, 4u, 32u}) {
      const std::vector<float> other = Compiled<float>(op, target, lanes)(x, y);
      // One large lane sends all lanes of a vector to libm.
      const double tolerance = codegen::math_adds_blocks(op, false) ? 3 : 0;
      size_t different = 0;
      for (size_t i = 0; i < x.size(); ++i) different += ulps<float, double>(other[i], vector[i]) > tolerance;
      CAPTURE(ir::info(op).name);
      CAPTURE(lanes);
      CHECK(different == 0);
    }
  }
}

TEST_CASE("special functions are right where their formulas change") {
  struct Row {
    Op op;
    double x, want;
  };
  // Values of mpmath to 17 digits.
  constexpr Row rows[] = {
      {Op::digamma, 0.1, -10.423754940411076},     {Op::digamma, 1, -0.57721566490153286},
      {Op::digamma, 9.99, 2.2507003728312011},     {Op::digamma, 10, 2.2517525890667211},
      {Op::digamma, 1e10, 23.025850929890457},     {Op::digamma, -3.7, -0.84507685887041935},
      {Op::erfinv, 0.001, 0.00088622715746655212}, {Op::erfinv, 0.0011, 0.00097484992680842946},
      {Op::erfinv, 0.5, 0.47693627620446987},      {Op::erfinv, -0.99999, -3.1234132743415709},
      {Op::erfinv, 1 - 1e-15, 5.6759157397447132}, {Op::lgamma, 0.5, 0.57236494292470008},
      {Op::lgamma, 100.25, 360.28455963776423},    {Op::lgamma, -1.5, 0.86004701537648101},
  };
  for (const Row& row : rows) {
    CAPTURE(ir::info(row.op).name);
    CAPTURE(row.x);
    const double got = Compiled<double>(row.op, Target::host(), 4)({row.x})[0];
    CAPTURE(got);
    CHECK(std::fabs(got - row.want) <= 4e-15 * std::fabs(row.want));
    const float narrow = Compiled<float>(row.op, Target::host(), 8)({static_cast<float>(row.x)})[0];
    CHECK(std::isfinite(narrow) == (static_cast<float>(std::fabs(row.x)) != 1 || row.op != Op::erfinv));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const auto digamma = Compiled<double>(Op::digamma, Target::host(), 4)({0.0, -0.0, -3, -infinity, infinity});
  CHECK(digamma[0] == -infinity);
  CHECK(digamma[1] == infinity);
  CHECK(std::isnan(digamma[2]));
  CHECK(std::isnan(digamma[3]));
  CHECK(digamma[4] == infinity);
  const auto erfinv = Compiled<double>(Op::erfinv, Target::host(), 4)({1, -1, 1.5, -0.0});
  CHECK(erfinv[0] == infinity);
  CHECK(erfinv[1] == -infinity);
  CHECK(std::isnan(erfinv[2]));
  CHECK(std::signbit(erfinv[3]));
}
