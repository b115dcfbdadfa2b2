// The interpreter against results worked out by hand, on the examples in tests/loops: the oracle must itself be
// right.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "interpret.h"
#include "support/error.h"

using namespace braze;
using namespace braze::loops;
using namespace braze::loops::oracle;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::unique_ptr<Kernel> example(const std::string& name) {
  std::ifstream file(BRAZE_TEST_DATA "/loops/" + name + ".kernel");
  std::stringstream text;
  text << file.rdbuf();
  auto kernel = parse_kernel(text.str());
  verify(*kernel);
  return kernel;
}

int64_t run(const Kernel& kernel, std::vector<void*> buffers, std::vector<uint64_t> scalars = {},
            std::vector<int64_t> symbols = {}) {
  int64_t status = 0;
  interpret(kernel, buffers.data(), scalars.data(), symbols.data(), &status);
  return status;
}

/// Numbers without a pattern, in [-2, 2).
std::vector<float> noise(size_t count, uint64_t seed = 1) {
  std::vector<float> values(count);
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (float& value : values) value = static_cast<float>(static_cast<double>(random()) * 0x1p-30 - 2);
  return values;
}

}  // namespace

TEST_CASE("bf16 in, f32 inside, f16 out") {
  const auto kernel = example("row_max");
  std::vector<uint16_t> x(2 * 768), y(2);
  for (int64_t i = 0; i < 2 * 768; ++i) write_element(x.data(), DType::bf16, i, Number::of(-1.0 * double(i % 100)));
  write_element(x.data(), DType::bf16, 400, Number::of(2.5));
  write_element(x.data(), DType::bf16, 900, Number::of(std::nan("")));
  run(*kernel, {x.data(), y.data()}, {}, {2});
  CHECK(read_element(y.data(), DType::f16, 0).f == 2.5);
  CHECK(std::isnan(read_element(y.data(), DType::f16, 1).f));
}

TEST_CASE("symbolic extents, strides and offsets") {
  // n = 3, stride = 2, first = 1: i in 1..5, j in {0, 2}.
  std::vector<float> x(64), y(100, 1.0f), expected(100, 1.0f);
  const auto kernel = parse_kernel(
      "kernel @s(%x: f32 in, %y: f32 inout, #n, #stride, #first) {\n"
      "  for %i in #first..2*#n - 1 {\n"
      "    for %j in 0..#n step 2 {\n"
      "      %a = load %x[4*#stride*%i - 3*%j + #first] : f32\n"
      "      store %y[(2*#n + 1)*%i + %j + #first - 1], %a\n"
      "    }\n  }\n}\n");
  std::iota(x.begin(), x.end(), 0.0f);
  for (int i = 1; i < 5; ++i)
    for (int j = 0; j < 3; j += 2) expected[7 * i + j] = x[8 * i - 3 * j + 1];
  run(*kernel, {x.data(), y.data()}, {}, {3, 2, 1});
  CHECK(y == expected);
}

TEST_CASE("predicates keep reads and writes inside") {
  const auto x = noise(100);
  std::vector<float> y(128);
  run(*example("predicates"), {const_cast<float*>(x.data()), y.data()}, {scalar_bits(7.0f)});
  for (int i = 0; i < 128; ++i) CHECK(y[i] == (i >= 14 && i < 114 ? x[i - 14] : 7.0f));
}

TEST_CASE("an index out of range sets the status and reads row 0") {
  const auto kernel = example("indirect");
  auto table = noise(5 * 768);
  std::vector<int64_t> ids(32, 3);
  std::vector<float> y(32 * 768);
  CHECK(run(*kernel, {table.data(), ids.data(), y.data()}, {}, {5}) == 0);
  CHECK(y[767] == table[3 * 768 + 767]);
  ids[1] = 5;
  ids[2] = -1;
  CHECK(run(*kernel, {table.data(), ids.data(), y.data()}, {}, {5}) == 1);
  CHECK(y[768] == table[0]);
  CHECK(y[2 * 768 + 1] == table[1]);
}

TEST_CASE("every reduction that joins") {
  const auto kernel = example("reductions");
  std::vector<float> x(64, 1.0f), y(8);
  std::vector<uint8_t> z(64, 1), b(2);
  std::vector<int64_t> k(2);
  x[5] = x[9] = 3;
  x[7] = x[8] = -2;
  z[63] = 0;
  run(*kernel, {x.data(), z.data(), y.data(), k.data(), b.data()});
  CHECK(y == std::vector<float>{62, 36, 3, -2, 3, -2, 0, 0});
  CHECK(k == std::vector<int64_t>{5, 7});
  CHECK(b == std::vector<uint8_t>{1, 0});

  x[20] = x[30] = std::numeric_limits<float>::quiet_NaN();
  run(*kernel, {x.data(), z.data(), y.data(), k.data(), b.data()});
  for (int i = 0; i < 6; ++i) CHECK(std::isnan(y[i]));
  CHECK(k == std::vector<int64_t>{20, 20});

  std::fill(x.begin(), x.end(), static_cast<float>(-infinity));
  run(*kernel, {x.data(), z.data(), y.data(), k.data(), b.data()});
  CHECK(y[2] == -infinity);
  CHECK(k == std::vector<int64_t>{0, 0});
}

TEST_CASE("phases run one after the other") {
  std::vector<float> x(65536, 0.5f), partials(16), y(1);
  run(*example("split_reduction"), {x.data(), partials.data(), y.data()});
  CHECK(partials == std::vector<float>(16, 2048));
  CHECK(y[0] == 32768);

  auto v = noise(4096);
  std::vector<float> w(4096), top(64);
  run(*example("several_nests"), {v.data(), w.data(), top.data()});
  for (int i = 0; i < 4096; ++i) CHECK(w[i] == v[i] / top[i / 64]);
}

TEST_CASE("a scan hands its state on") {
  auto x = noise(128);
  std::vector<float> y(128);
  run(*example("scan"), {x.data(), y.data()});
  for (int i = 0; i < 4; ++i) {
    float sum = 0;
    for (int j = 0; j < 32; ++j) CHECK(y[32 * i + j] == (sum += x[32 * i + j]));
  }
}

TEST_CASE("scatter, atomic and partitioned") {
  auto x = noise(256);
  std::vector<int64_t> at(256);
  for (int i = 0; i < 256; ++i) at[i] = 7 * i % 16;
  std::vector<float> y(16, 1.0f), z(16, 1.0f), expected(16, 1.0f);
  std::vector<int32_t> top(16, 1000);
  std::vector<int32_t> expected_top(16, 1000);
  for (int i = 0; i < 256; ++i) {
    expected[at[i]] += x[i];
    int32_t& largest = expected_top[at[i]];
    if (x[i] > 0) largest = std::max(largest, i);
    largest = std::min(largest, i);
  }
  CHECK(run(*example("atomic_scatter"), {x.data(), at.data(), y.data(), top.data()}) == 0);
  CHECK(y == expected);
  CHECK(top == expected_top);
  run(*example("partitioned_scatter"), {x.data(), at.data(), z.data()});
  CHECK(z == expected);
  at[3] = 16;
  CHECK(run(*example("atomic_scatter"), {x.data(), at.data(), y.data(), top.data()}) == 1);
}

TEST_CASE("memory spaces, tiles, transpose") {
  auto x = noise(8192);
  std::vector<float> y(8192);
  run(*example("spaces"), {x.data(), y.data()});
  for (int i = 0; i < 8192; ++i) {
    std::vector<uint16_t> rounded(1);
    write_element(rounded.data(), DType::bf16, 0, Number::of(x[i]));
    CHECK(y[i] == x[i] - static_cast<float>(read_element(rounded.data(), DType::bf16, 0).f));
  }

  auto v = noise(10000);
  std::vector<float> w(10000);
  run(*example("tiles"), {v.data(), w.data()});
  for (int i = 0; i < 10000; ++i) CHECK(w[i] == -v[i]);

  auto m = noise(96 * 64);
  std::vector<float> t(96 * 64);
  run(*example("transpose"), {m.data(), t.data()});
  for (int i = 0; i < 96; ++i)
    for (int j = 0; j < 64; ++j) CHECK(t[96 * j + i] == m[64 * i + j]);

  // Rows and columns of different number and step, and a tile that is not full.
  const auto ragged = parse_kernel(
      "kernel @k(%x: f32 in, %y: f32[15] out) {\n for %i in 0..1 {\n"
      "  %two = constant 2 : i64\n  %four = constant 4 : i64\n"
      "  transpose %y, %x[1], rows=3 step=10, cols=5 step=2 valid=%two, %four\n }\n}\n");
  verify(*ragged);
  std::vector<float> tile(15, -1.0f);
  run(*ragged, {m.data(), tile.data()});
  for (int column = 0; column < 5; ++column)
    for (int r = 0; r < 3; ++r)
      CHECK(tile[3 * column + r] == (r < 2 && column < 4 ? m[1 + 10 * r + 2 * column] : -1.0f));
}

TEST_CASE("constants keep their bits") {
  std::vector<double> f(16);
  std::vector<int64_t> i(16);
  std::vector<uint8_t> b(2);
  run(*example("constants"), {f.data(), i.data(), b.data()});
  CHECK(f[0] == infinity);
  CHECK(f[1] == -infinity);
  uint64_t bits;
  std::memcpy(&bits, &f[3], 8);
  CHECK(bits == 0x7ff8000000000123);
  CHECK(std::signbit(f[4]));
  CHECK(f[7] == 5e-324);
  CHECK(i[0] == std::numeric_limits<int64_t>::min());
  CHECK(i[1] == std::numeric_limits<int64_t>::max());
  CHECK(b[0] == 1);
}

TEST_CASE("an access outside of a buffer is refused") {
  const auto outside = parse_kernel(
      "kernel @k(%x: f32[4] out, #n) {\n for %i in 0..#n {\n %a = constant 0.0 : f32\n store %x[%i], %a\n }\n}\n");
  float x[4];
  CHECK_NOTHROW(run(*outside, {x}, {}, {4}));
  CHECK_THROWS_AS(run(*outside, {x}, {}, {5}), InternalError);
}

TEST_CASE("every f16 and bf16 reads and writes back, and rounding goes to the nearest even") {
  for (DType type : {DType::f16, DType::bf16})
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      auto half = static_cast<uint16_t>(bits);
      const Number value = read_element(&half, type, 0);
      if (std::isnan(value.f)) continue;
      uint16_t back = 0;
      write_element(&back, type, 0, value);
      if (back != half) FAIL(concat(ir::name(type), " ", bits, " became ", back));
    }
  const auto rounded = [](DType type, double value) {
    uint16_t half = 0;
    write_element(&half, type, 0, Number::of(value));
    return read_element(&half, type, 0).f;
  };
  CHECK(rounded(DType::f16, 2049) == 2048);
  CHECK(rounded(DType::f16, 2051) == 2052);
  CHECK(rounded(DType::f16, 65519) == 65504);
  CHECK(rounded(DType::f16, 65520) == infinity);
  CHECK(rounded(DType::f16, 0x1p-25) == 0);
  CHECK(rounded(DType::f16, 0x1.8p-25) == 0x1p-24);
  CHECK(rounded(DType::bf16, 257) == 256);
  CHECK(rounded(DType::bf16, 259) == 260);
}

TEST_CASE("integers wrap, divide and shift as in ATen") {
  const auto i = [](ir::Op op, DType type, int64_t x, int64_t y = 0) {
    return evaluate(op, type, {Number::of_int(x), Number::of_int(y)}).i;
  };
  CHECK(i(ir::Op::add, DType::i8, 127, 1) == -128);
  CHECK(i(ir::Op::sub, DType::u8, 0, 1) == 255);
  CHECK(i(ir::Op::neg, DType::i64, std::numeric_limits<int64_t>::min()) == std::numeric_limits<int64_t>::min());
  CHECK(i(ir::Op::add, DType::b8, 1, 1) == 1);
  CHECK(i(ir::Op::bitwise_not, DType::b8, 1) == 0);
  CHECK(i(ir::Op::bitwise_not, DType::u8, 1) == 254);
  CHECK(i(ir::Op::floor_div, DType::i32, -7, 2) == -4);
  CHECK(i(ir::Op::trunc_div, DType::i32, -7, 2) == -3);
  CHECK(i(ir::Op::remainder, DType::i32, -7, 2) == 1);
  CHECK(i(ir::Op::fmod, DType::i32, -7, 2) == -1);
  CHECK(i(ir::Op::floor_div, DType::i64, std::numeric_limits<int64_t>::min(), -1) ==
        std::numeric_limits<int64_t>::min());
  for (ir::Op op : {ir::Op::floor_div, ir::Op::trunc_div, ir::Op::remainder, ir::Op::fmod})
    CHECK(i(op, DType::i32, 5, 0) == 0);
  CHECK(i(ir::Op::pow, DType::i32, 3, 21) == static_cast<int32_t>(10460353203));
  CHECK(i(ir::Op::pow, DType::i32, 2, -1) == 0);
  CHECK(i(ir::Op::pow, DType::i32, -1, -3) == -1);
  CHECK(i(ir::Op::shift_left, DType::i32, 1, 31) == std::numeric_limits<int32_t>::min());
  CHECK(i(ir::Op::shift_left, DType::i32, 1, 32) == 0);
  CHECK(i(ir::Op::shift_right, DType::i32, -8, 40) == -1);
  CHECK(i(ir::Op::shift_right, DType::u8, 128, 9) == 0);
}

TEST_CASE("floating ops at the corners") {
  const double nan = std::nan("");
  const auto f = [](ir::Op op, double x, double y = 0) {
    return evaluate(op, DType::f32, {Number::of(x), Number::of(y)}).f;
  };
  CHECK(std::isnan(f(ir::Op::maximum, nan, 1)));
  CHECK(std::isnan(f(ir::Op::minimum, 1, nan)));
  CHECK(std::isnan(f(ir::Op::relu, nan)));
  CHECK(f(ir::Op::relu, -1) == 0);
  CHECK(f(ir::Op::sign, nan) == 0);
  CHECK(f(ir::Op::round, 2.5) == 2);
  CHECK(f(ir::Op::remainder, -1, 3) == 2);
  CHECK(f(ir::Op::fmod, -1, 3) == -1);
  CHECK(f(ir::Op::floor_div, -1, 3) == -1);
  CHECK(f(ir::Op::floor_div, 1, 0) == infinity);
  CHECK(f(ir::Op::add, 16777216, 1) == 16777216);
  CHECK(convert(Number::of_int(16777217), DType::f32).f == 16777216);
  CHECK(convert(Number::of(257), DType::bf16).f == 256);
  CHECK(convert(Number::of_int(2049), DType::f16).f == 2048);
  CHECK(convert(Number::of(-1.9), DType::i32).i == -1);
  CHECK(convert(Number::of(nan), DType::b8).i == 1);
  CHECK(convert(Number::of(3e9), DType::i32).i == std::numeric_limits<int32_t>::min());
  CHECK(convert(Number::of_int(300), DType::u8).i == 44);
}
