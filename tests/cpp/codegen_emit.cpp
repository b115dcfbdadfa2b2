// codegen_emit.cpp: machine code of every kind of statement against the interpreter, on every target, in ragged
// sizes.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "codegen_kernels.h"
#include "support/error.h"

using namespace braze;
using codegen::testing::Case;

namespace {

/// `text` with every occurrence of `from` replaced.
std::string replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 70, 129};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("flat kernels: sizes known and symbolic, unrolled, in chunks, every storage type") {
  for (const char* type : {"f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8"}) {
    std::string scalar = type == std::string("bf16") || type == std::string("f16") ? "f32" : type;
    for (int64_t n : kSizes) {
      for (const char* unroll : {"", "unroll=4"}) {
        std::string text =
            R"(kernel @flat(%x: T[SIZE] in align=1, %y: T[SIZE] in align=1, %z: T[SIZE] out align=1, #n) {
  for %i in 0..END parallel vector UNROLL {
    %a = load %x[%i] : S
    %b = load %y[%i] : S
    %c = mul %a, %b : S
    %d = sub %c, %b : S
    store %z[%i], %d
  }
})";
        text = replace(replace(replace(text, "UNROLL", unroll), ": T", concat(": ", type)), ": S",
                       concat(": ", scalar));
        int64_t bytes = ir::byte_size(*ir::parse_dtype(type));
        text = replace(text, "align=1", concat("align=", bytes));
        CHECK_KERNEL({.text = replace(replace(text, "SIZE", concat(n)), "END", concat(n)), .symbols = {n}});
        CHECK_KERNEL({.text = replace(replace(text, "SIZE", "#n"), "END", "#n"), .symbols = {n}, .split = 13});
      }
    }
  }
}

TEST_CASE("casts between all types") {
  const std::string types[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"};
  auto scalar = [](const std::string& t) { return t == "bf16" || t == "f16" ? std::string("f32") : t; };
  for (const std::string& from : types) {
    for (const std::string& to : types) {
      std::string cast =
          scalar(from) == scalar(to) ? "%b = affine 0\n" : concat("%b = cast %a : ", scalar(to), "\n");
      std::string stored = scalar(from) == scalar(to) ? "%a" : "%b";
      CHECK_KERNEL({.text = concat("kernel @cast(%x: ", from, "[41] in, %y: ", to, "[41] out) {\n",
                                   "  for %i in 0..41 parallel vector {\n", "    %a = load %x[%i] : ", scalar(from),
                                   "\n    ", cast, "    store %y[%i], ", stored, "\n  }\n}"),
                    .ranges = {{"x", from == "bool" ? std::pair(0.0, 1.0)
                                                    : std::pair(from == "u8" ? 0.0 : -120.0, 120.0)}}});
    }
  }
}

TEST_CASE("rounding to bf16 and f16: ties, overflow, denormals, NaN") {
  for (const char* type : {"bf16", "f16"})
    CHECK_KERNEL({.text = replace(R"(kernel @round(%x: f32[40] in, %y: T[40] out) {
  for %i in 0..40 parallel vector {
    %a = load %x[%i] : f32
    store %y[%i], %a
  }
})",
                                  ": T", concat(": ", type)),
                  .values = {{"x",
                              {0.0, -0.0, kNaN, kInf, -kInf, 1.00390625, 1.01171875, 3.4e38, 65519.0, 65520.0,
                               1e-40, 6e-8, 1.0009765625 + 0.00048828125, 1e-7, -3.3961e38}}}});
}

TEST_CASE("elementwise ops on floats, with special values") {
  const std::vector<double> left = {0.0,  -0.0,  1.0,   -1.5, 2.5, -2.5, 3.5, kNaN, kInf, -kInf,
                                    7.25, -7.25, 1e-30, 1e30, 0.5, -0.5, 5.0, 1.0,  6.0};
  const std::vector<double> right = {1.0,  2.0, kNaN, -1.5, -2.0, 2.0,  0.5,  1.0, 2.0,
                                     -3.0, 2.0, 2.0,  3.0,  -4.0, 0.25, kNaN, kInf};
  for (const char* type : {"f32", "f64"}) {
    for (const char* op :
         {"add", "sub", "mul", "div", "floor_div", "trunc_div", "remainder", "fmod", "maximum", "minimum"})
      CHECK_KERNEL(
          {.text = replace(concat("kernel @op(%x: f32[323] in, %y: f32[323] in, %z: f32[323] out) {\n"
                                  "  for %i in 0..323 parallel vector unroll=2 {\n    %a = load %x[%i] : f32\n"
                                  "    %b = load %y[%i] : f32\n    %c = ",
                                  op,
                                  " %a, %b : f32\n"
                                  "    store %z[%i], %c\n  }\n}"),
                           "f32", type),
           .values = {{"x", left}, {"y", right}}});
    for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"})
      CHECK_KERNEL({.text = replace(concat("kernel @op(%x: f32[323] in, %y: f32[323] in, %z: bool[323] out) {\n"
                                           "  for %i in 0..323 parallel vector {\n    %a = load %x[%i] : f32\n"
                                           "    %b = load %y[%i] : f32\n    %c = ",
                                           op,
                                           " %a, %b : bool\n"
                                           "    store %z[%i], %c\n  }\n}"),
                                    "f32", type),
                    .values = {{"x", left}, {"y", right}}});
    for (const char* op : {"neg", "abs", "sign", "sqrt", "reciprocal", "relu", "floor", "ceil", "round", "trunc",
                           "exp", "tanh", "erf", "sigmoid", "log", "rsqrt"})
      CHECK_KERNEL({.text = replace(concat("kernel @op(%x: f32[38] in, %z: f32[38] out) {\n"
                                           "  for %i in 0..38 parallel vector {\n    %a = load %x[%i] : f32\n"
                                           "    %c = ",
                                           op, " %a : f32\n    store %z[%i], %c\n  }\n}"),
                                    "f32", type),
                    .values = {{"x", left}},
                    .tolerance = 1e-6});
    for (const char* op : {"isnan", "isinf", "logical_not"})
      CHECK_KERNEL({.text = replace(concat("kernel @op(%x: f32[38] in, %z: bool[38] out) {\n"
                                           "  for %i in 0..38 parallel vector {\n    %a = load %x[%i] : f32\n"
                                           "    %c = ",
                                           op, " %a : bool\n    store %z[%i], %c\n  }\n}"),
                                    "f32", type),
                    .values = {{"x", left}}});
  }
}

TEST_CASE("elementwise ops on integers") {
  for (const char* type : {"i64", "i32", "i16", "i8", "u8"}) {
    std::string t = type;
    std::vector<double> left = {0, 1, 2, 3, 7, 100, 127, 13, 5, 6, 64};
    std::vector<double> right = {1, 2, 3, 0, 5, 7, 100, 127, 1, 2};
    if (t != "u8") {
      left.insert(left.end(), {-1, -2, -7, -100, -128, -13});
      right.insert(right.end(), {-1, -2, -3, -7, -128});
    }
    if (t == "i64") left.insert(left.end(), {9e18, -9223372036854775808.0, 4294967297.0});
    if (t == "i32") left.insert(left.end(), {2147483647.0, -2147483648.0});
    auto binary = [&](const std::string& op, const std::string& result, const std::vector<double>& y) {
      CHECK_KERNEL(
          {.text = concat("kernel @op(%x: ", t, "[300] in, %y: ", t, "[300] in, %z: ", result, "[300] out) {\n",
                          "  for %i in 0..300 parallel vector {\n    %a = load %x[%i] : ", t,
                          "\n    %b = load %y[%i] : ", t, "\n    %c = ", op, " %a, %b : ", result,
                          "\n    store %z[%i], %c\n  }\n}"),
           .values = {{"x", left}, {"y", y}}});
    };
    for (const char* op : {"add", "sub", "mul", "floor_div", "trunc_div", "remainder", "fmod", "maximum", "minimum",
                           "bitwise_and", "bitwise_or", "bitwise_xor"})
      binary(op, t, right);
    for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) binary(op, "bool", right);
    for (const char* op : {"pow", "shift_left", "shift_right"}) binary(op, t, {0, 1, 2, 3, 4, 5, 7});
    for (const char* op : {"neg", "abs", "sign", "relu", "bitwise_not"})
      CHECK_KERNEL({.text = concat("kernel @op(%x: ", t, "[60] in, %z: ", t, "[60] out) {\n",
                                   "  for %i in 0..60 parallel vector {\n    %a = load %x[%i] : ", t,
                                   "\n    %c = ", op, " %a : ", t, "\n    store %z[%i], %c\n  }\n}"),
                    .values = {{"x", left}}});
  }
}

TEST_CASE("ops on bool, and choices") {
  for (const char* op :
       {"add", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "lt"})
    CHECK_KERNEL(
        {.text = concat("kernel @op(%x: bool[75] in, %y: bool[75] in, %v: f32[75] in, %z: bool[75] out, %w: "
                        "f32[75] out) {\n  for %i in 0..75 parallel vector unroll=2 {\n"
                        "    %a = load %x[%i] : bool\n    %b = load %y[%i] : bool\n    %c = ",
                        op,
                        " %a, %b : bool\n    store %z[%i], %c\n    %d = load %v[%i] : f32\n"
                        "    %e = neg %d : f32\n    %f = where %c, %d, %e : f32\n    store %w[%i], %f\n  }\n}")});
}

TEST_CASE("shifted, strided, reversed, broadcast and transposed accesses") {
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    CHECK_KERNEL(
        {.text = std::string(
             R"(kernel @strides(%x: f32[2*#n + 8] in align=4, %k: i64[3*#n] in align=8, %b: bf16[3*#n] in align=2, %s: f32[4] in align=4, %y: f32[#n + 5] out align=4, %r: f32[#n] out align=4, %q: i64[#n] out align=8, %u: u8[2*#n] inout align=1, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %a = load %x[2*%i + 7] : f32
    %c = load %x[-%i + #n] : f32
    %d = load %s[3] : f32
    %e = load %b[3*%i] : f32
    %f = add %a, %c : f32
    %g = mul %f, %d : f32
    %h = add %g, %e : f32
    store %y[%i + 5], %h
    store %r[-%i + #n - 1], %h
    %l = load %k[3*%i + 2] : i64
    %m = add %l, %i : i64
    store %q[%i], %m
    %v = cast %i : u8
    store %u[2*%i + 1], %v
  }
})"),
         .symbols = {n},
         .split = 37});
  }
  CHECK_KERNEL(
      {.text =
           R"(kernel @rows(%x: f32[1470] in align=4, %w: f32[70] in align=4, %b: f32[21] in align=4, %y: f32[1470] out align=4) {
  for %i in 0..21 parallel {
    %bias = load %b[%i] : f32
    for %j in 0..70 vector unroll=2 {
      %a = load %x[%i + 21*%j] : f32
      %c = load %w[%j] : f32
      %d = mul %a, %c : f32
      %e = add %d, %bias : f32
      store %y[70*%i + %j], %e
    }
  }
})",
       .split = 4});
}

TEST_CASE("reductions over vectors: every combiner, every size, NaN") {
  for (int64_t n : kSizes) {
    for (const char* unroll : {"", "unroll=4"}) {
      std::string text =
          R"(kernel @reduce(%x: f32[SIZE] in align=4, %z: bool[SIZE] in align=1, %l: i64[SIZE] in align=8, %y: f32[12] out, %k: i64[5] out, %b: bool[2] out, #n) {
  for %once in 0..1 {
    %sum, %prod, %max, %min, %mean, %m2, %count, %top, %total = for %i in 0..SIZE vector UNROLL reduce sum, prod, max, min, welford, online_softmax {
      %a = load %x[%i] : f32
      yield %a, %a, %a, %a, %a, %a
    }
    %any, %all = for %i2 in 0..SIZE vector UNROLL reduce any, all {
      %a2 = load %z[%i2] : bool
      yield %a2, %a2
    }
    %amax, %kmax, %amin, %kmin = for %i3 in 0..SIZE vector UNROLL reduce argmax, argmin {
      %a3 = load %x[%i3] : f32
      yield %a3, %i3, %a3, %i3
    }
    %isum, %imax, %imin = for %i4 in 0..SIZE vector UNROLL reduce sum, max, min {
      %a4 = load %l[%i4] : i64
      yield %a4, %a4, %a4
    }
    store %y[0], %sum
    store %y[1], %prod
    store %y[2], %max
    store %y[3], %min
    store %y[4], %amax
    store %y[5], %amin
    store %y[6], %mean
    store %y[7], %m2
    store %y[8], %count
    store %y[9], %top
    store %y[10], %total
    store %k[0], %kmax
    store %k[1], %kmin
    store %k[2], %isum
    store %k[3], %imax
    store %k[4], %imin
    store %b[0], %any
    store %b[1], %all
  }
})";
      text = replace(text, "UNROLL", unroll);
      if (n == 0)
        text = replace(replace(text, "%k[0], %kmax", "%k[0], %isum"), "%k[1], %kmin",
                       "%k[1], %isum");  // an empty argmax has none
      for (const std::string& size : {concat(n), std::string("#n")}) {
        text = replace(text, "SIZE", size);
        auto with = [&](std::vector<double> values) {
          CHECK_KERNEL({.text = text, .values = {{"x", std::move(values)}}, .symbols = {n}, .tolerance = 2e-5});
        };
        CHECK_KERNEL({.text = text, .ranges = {{"x", {-2, 2}}}, .symbols = {n}, .tolerance = 2e-5});
        with({1.0, 0.5, 2.0, 0.5, 2.0});
        if (n == 0) continue;
        with({0.25, kNaN, 1.0, 2.0, -1.0});
        with({-2.0});
        // Welford's mean of infinities is NaN or not, by the order of joining.
        CHECK_KERNEL(
            {.text = replace(text, "%x[%i] : f32\n      yield %a, %a, %a, %a, %a, %a",
                             "%x[%i] : f32\n      %o = constant 1.0 : f32\n      yield %a, %a, %a, %a, %o, %a"),
             .values = {{"x", {-kInf}}},
             .symbols = {n}});
      }
    }
  }
}

TEST_CASE("rows: softmax and layer norm shapes, ragged rows, values kept from pass to pass") {
  for (int64_t n : {1, 5, 16, 17, 48, 70, 130}) {
    CHECK_KERNEL(
        {.text = std::string(
             R"(kernel @norm(%x: bf16[7*#n] in align=2, %w: f32[#n] in align=4, %y: f32[7*#n] out align=4, %z: bf16[7*#n] out align=2, #n) {
  for %i in 0..7 parallel {
    alloc %row: f32[256] local
    %sum = for %j in 0..#n vector unroll=2 reduce sum {
      %a = load %x[#n*%i + %j] : f32
      store %row[%j], %a
      yield %a
    }
    %n = symbol #n
    %count = cast %n : f32
    %mean = div %sum, %count : f32
    %var = for %j2 in 0..#n vector unroll=2 reduce sum {
      %b = load %row[%j2] : f32
      %c = sub %b, %mean : f32
      %d = mul %c, %c : f32
      yield %d
    }
    for %j3 in 0..#n vector {
      %e = load %row[%j3] : f32
      %f = sub %e, %mean : f32
      %g = load %w[%j3] : f32
      %h = mul %f, %g : f32
      %k = add %h, %var : f32
      store %y[#n*%i + %j3], %k
      store %z[#n*%i + %j3], %k
    }
  }
})"),
         .symbols = {n},
         .tolerance = 1e-5,
         .split = 2});
  }
}

TEST_CASE("columns: vector lanes around serial loops, unrolled both ways, scans, custom combiners") {
  for (int64_t n : kSizes) {
    for (const char* inner : {"", "unroll=3"}) {
      CHECK_KERNEL(
          {.text = replace(
               R"(kernel @columns(%x: f32[11*#n] in align=4, %v: f32[#n] in align=4, %y: f32[#n] out align=4, %z: f32[#n] out align=4, %c: f32[11*#n] out align=4, %k: i64[#n] out align=8, %u: f32[#n] out align=4, #n) {
  for %j in 0..#n parallel vector unroll=2 {
    %sum, %max, %amax, %kmax = for %i in 0..11 INNER reduce sum, max, argmax {
      %a = load %x[#n*%i + %j] : f32
      %scale = load %v[%j] : f32
      %b = mul %a, %scale : f32
      yield %b, %b, %b, %i
    }
    store %y[%j], %sum
    store %z[%j], %max
    store %k[%j], %kmax
    %zero = constant 0.0 : f32
    %total = for %i2 in 0..11 INNER reduce serial(%s = %zero) {
      %d = load %x[#n*%i2 + %j] : f32
      %t = add %s, %d : f32
      store %c[#n*%i2 + %j], %t
      yield %t
    }
    %custom = for %i3 in 0..11 INNER reduce custom(%total) combine (%p, %q) {
      %r = sub %p, %q : f32
      yield %r
    } {
      %e = load %x[#n*%i3 + %j] : f32
      yield %e
    }
    store %u[%j], %custom
  }
})",
               "INNER", inner),
           .symbols = {n},
           .tolerance = 1e-5,
           .split = 33});
    }
  }
}

TEST_CASE("loops whose bounds differ between lanes") {
  for (int64_t n : {1, 16, 37})
    CHECK_KERNEL(
        {.text =
             R"(kernel @ragged(%begin: i64[#n] in, %end: i64[#n] in, %x: f32[64] in, %y: f32[#n] out, %m: f32[#n] out, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %b = load %begin[%i] : i64
    %e = load %end[%i] : i64
    %s, %m2 = for %j in %b .. %e step 2 reduce sum, max {
      %a = load %x[%j] : f32
      yield %a, %a
    }
    store %y[%i], %s
    store %m[%i], %m2
  }
})",
         .ranges = {{"begin", {0, 20}}, {"end", {0, 64}}},
         .symbols = {n},
         .tolerance = 1e-5});
}

TEST_CASE("predicates and branches, uniform and by lane") {
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    for (uint64_t flag : {0, 1})
      CHECK_KERNEL(
          {.text =
               R"(kernel @guarded(%x: f32[#n] in align=4, %h: bf16[#n] in align=2, %p: bool[#n] in align=1, %y: f32[#n] inout align=4, %z: bf16[#n] inout align=2, %w: f32[#n] inout align=4, $flag: bool, $fill: f32, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %fill = scalar $fill
    %flag = scalar $flag
    %q = load %p[%i] : bool
    %a = load %x[%i] if %q else %fill : f32
    %b = load %h[%i] if %q else %a : f32
    %c = load %x[0] if %flag else %fill : f32
    %d = add %a, %c : f32
    store %z[%i], %b if %q
    if %q {
      %e = mul %d, %b : f32
      store %y[%i], %e
      if %flag {
        store %w[%i], %e
      }
    }
    store %w[%i], %fill if %flag
  }
})",
           .scalars = {flag, 0x40490fdb},
           .symbols = {n},
           .split = 40});
  }
  CHECK_KERNEL({.text = R"(kernel @window(%x: f32[100] in align=4, %y: f32[128] out, $fill: f32) {
  for %i in 0..128 parallel vector {
    %low = constant 14 : i64
    %high = constant 114 : i64
    %fill = scalar $fill
    %p = ge %i, %low : bool
    %q = lt %i, %high : bool
    %inside = bitwise_and %p, %q : bool
    %a = load %x[%i - 14] if %inside else %fill : f32
    store %y[%i], %a
  }
})",
                .scalars = {0x40490fdb}});
}

TEST_CASE("indirect loads with bounds checks, gathers, scatters") {
  for (double highest : {19.0, 25.0, -1.0}) {
    CHECK_KERNEL(
        {.text =
             R"(kernel @embedding(%table: f32[1400] in align=4, %ids: i64[32] in, %y: f32[2240] out align=4, #vocabulary) {
  for %i in 0..32 parallel {
    %id = load %ids[%i] : i64
    %row = checked %id, #vocabulary
    for %j in 0..70 vector {
      %a = load %table[70*%row + %j] : f32
      store %y[70*%i + %j], %a
    }
  }
})",
         .ranges = {{"ids", {highest < 0 ? -3.0 : 0.0, highest < 0 ? 5.0 : highest}}},
         .symbols = {20}});
  }
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    for (const char* type : {"f32", "i64", "bf16", "u8"}) {
      std::string scalar = type == std::string("bf16") ? "f32" : type;
      CHECK_KERNEL(
          {.text = replace(
               replace(
                   R"(kernel @gather(%x: T[50] in align=1, %ids: i64[#n] in, %y: T[#n] out align=1, %z: T[50] inout align=1, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %id = load %ids[%i] : i64
    %c = checked %id, 50
    %a = load %x[%c] : S
    store %y[%i], %a
    store %z[-%c + 49], %a
  }
})",
                   ": T", concat(": ", type)),
               ": S", concat(": ", scalar)),
           .ranges = {{"ids", {0, 49}}},
           .symbols = {n}});
    }
  }
}

TEST_CASE("indices split into coordinates") {
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    for (int64_t size : {1, 3, 12, 64, 200}) {
      CHECK_KERNEL(
          {.text = replace(
               R"(kernel @split(%x: f32[400] in align=4, %q: i64[#n] out align=8, %r: i64[#n] out align=8, %y: f32[#n] out align=4, #n) {
  for %i in 0..#n parallel vector unroll=4 {
    %size = constant SIZE : i64
    %k = affine %i - 40
    %a = floor_div %k, %size : i64
    %b = remainder %k, %size : i64
    store %q[%i], %a
    store %r[%i], %b
    %c = remainder %i, %size : i64
    %d = load %x[2*%c] : f32
    store %y[%i], %d
  }
})",
               "SIZE", concat(size)),
           .symbols = {n},
           .split = 21});
    }
  }
}

TEST_CASE("atomics and random numbers") {
  for (const char* vector : {"", "vector"}) {
    CHECK_KERNEL(
        {.text = replace(
             R"(kernel @scatter(%x: f32[77] in, %at: i64[77] in, %y: f32[16] inout, %top: i32[16] inout, %all: i32[16] inout, %half: bf16[16] inout, %low: f64[16] inout) {
  for %i in 0..77 parallel VECTOR {
    %k = load %at[%i] : i64
    %c = checked %k, 16
    %a = load %x[%i] : f32
    atomic add %y[%c], %a
    %zero = constant 0.0 : f32
    %p = gt %a, %zero : bool
    %n = cast %i : i32
    %d = cast %a : f64
    atomic max %top[%c], %n if %p
    atomic add %all[-%c + 15], %n
    atomic min %low[%c], %d if %p
    atomic max %half[%c], %a
  }
})",
             "VECTOR", vector),
         .ranges = {{"at", {0, 15}}},
         .tolerance = 1e-5,
         .split = 30});
  }
  for (const char* type : {"f32", "f64", "i32", "i64"})
    CHECK_KERNEL({.text = replace(R"(kernel @random(%y: f32[100] out, $seed: i64) {
  for %i in 0..100 parallel vector unroll=2 {
    %seed = scalar $seed
    %counter = affine 1000000007*%i + 5
    %u = random %seed, %counter : f32
    store %y[%i], %u
  }
})",
                                  "f32", type),
                  .scalars = {0x123456789abcdef0}});
}

TEST_CASE("transposes through a tile: whole, ragged, every element size") {
  for (const char* type : {"f64", "f32", "bf16", "u8"}) {
    std::string scalar = type == std::string("bf16") ? "f32" : type;
    for (auto [rows, columns] :
         {std::pair{16, 16}, {8, 8}, {5, 16}, {37, 32}, {32, 64}, {37, 100}, {32, 128}, {48, 200}}) {
      for (bool flipped : {false, true}) {
        CHECK_KERNEL({.text = concat("kernel @transpose(%x: ", type, "[", rows * columns,
                                     "] in align=", ir::byte_size(*ir::parse_dtype(type)), ", %y: ", type, "[",
                                     rows * columns, "] out) {\n  for %once in 0..1 {\n    alloc %tile: ", type,
                                     "[", rows * columns, "] local\n    transpose %tile, %x[0], rows=", rows,
                                     " step=", flipped ? 1 : columns, ", cols=", columns,
                                     " step=", flipped ? rows : 1, "\n    for %k in 0..", rows * columns,
                                     " vector {\n      %a = load %tile[%k] : ", scalar,
                                     "\n      store %y[%k], %a\n    }\n  }\n}")});
      }
    }
  }
  for (int64_t n : {3, 16, 21, 40})
    CHECK_KERNEL({.text = replace(R"(kernel @blocks(%x: f32[1600] in align=4, %y: f32[1600] out align=4) {
  for %ti in 0..SIZE step 16 parallel {
    %left = affine -%ti + SIZE
    %sixteen = constant 16 : i64
    %rows = minimum %left, %sixteen : i64
    for %tj in 0..SIZE step 16 {
      alloc %tile: f32[256] local
      %left2 = affine -%tj + SIZE
      %columns = minimum %left2, %sixteen : i64
      transpose %tile, %x[40*%ti + %tj], rows=16 step=40, cols=16 step=1 valid=%rows, %columns
      %zero = constant 0 : i64
      for %c in %zero .. %columns {
        for %r in %zero .. %rows vector {
          %a = load %tile[16*%c + %r] : f32
          store %y[40*%tj + %ti + 40*%c + %r], %a
        }
      }
    }
  }
})",
                                  "SIZE", concat(n))});
}

TEST_CASE("dot: register tiles of every shape") {
  for (auto [m, n, k] : {std::tuple{8, 32, 32}, {1, 1, 1}, {5, 17, 3}, {13, 70, 9}, {16, 8, 20}}) {
    for (const char* type : {"f32", "f64", "bf16"}) {
      std::string scalar = type == std::string("f64") ? "f64" : "f32";
      CHECK_KERNEL({.text = concat("kernel @dot(%a: ", type, "[", m * k, "] in align=", scalar == "f64" ? 8 : 2,
                                   ", %b: ", type, "[", k * n, "] in align=", scalar == "f64" ? 8 : 2,
                                   ", %c: ", scalar, "[", m * n, "] inout align=", scalar == "f64" ? 8 : 4,
                                   ") {\n  for %once in 0..1 {\n    dot %c[0], %a[0], %b[0], m=", m, " n=", n,
                                   " k=", k, " lda=", k, " ldb=", n, " ldc=", n, "\n  }\n}"),
                    .tolerance = 1e-5});
    }
  }
}

TEST_CASE("streaming stores: chunks that begin anywhere, offsets that are aligned and not") {
  for (int64_t n : kSizes)
    for (int64_t offset : {0, 16, 3})
      CHECK_KERNEL(
          {.text = replace(
               R"(kernel @stream(%x: f32[#n] in align=4, %y: f32[#n + OFFSET] out, %s: f32[8*OFFSET + 96] out, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %a = load %x[%i] : f32
    store %y[%i + OFFSET], %a stream
  }
  for %r in 0..2 parallel {
    for %j in 0..48 vector {
      %f = cast %j : f32
      store %s[48*%r + %j], %f stream
    }
  }
})",
               "OFFSET", concat(offset)),
           .symbols = {n},
           .split = 19});
}

TEST_CASE("the examples of the loop IR") {
  for (const auto& entry : std::filesystem::directory_iterator(BRAZE_TEST_DATA "/loops")) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().find("template") != std::string::npos) continue;
    if (text.str().find("#") != std::string::npos || text.str().find("$") != std::string::npos) continue;
    if (text.str().find("f32 ") != std::string::npos && text.str().find(": f32 in") != std::string::npos) continue;
    CAPTURE(entry.path().filename().string());
    CHECK_KERNEL({.text = text.str(), .ranges = {{"at", {0, 15}}}, .tolerance = 1e-4});
  }
}
