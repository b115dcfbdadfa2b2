// codegen_emit.cpp: machine code of arithmetic against the interpreter, on every target, in ragged sizes.
#include <doctest/doctest.h>

#include "codegen_kernels.h"
#include "support/error.h"
#include "test_files.h"

using namespace braze;
using namespace braze::codegen::testing;

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

TEST_CASE("the examples of the loop IR") {
  for (const auto& path : test::files_in("loops", ".kernel")) {
    const std::string text = test::read_file(path);
    if (text.find("#") != std::string::npos || text.find("$") != std::string::npos) continue;
    if (text.find("f32 ") != std::string::npos && text.find(": f32 in") != std::string::npos) continue;
    CAPTURE(path.filename().string());
    CHECK_KERNEL({.text = text, .ranges = {{"at", {0, 15}}}, .tolerance = 1e-4});
  }
}
