// codegen_strided.cpp: reads as whole vectors: every n-th element, elements repeated n times, rows that are there
// or not.
#include <doctest/doctest.h>

#include <regex>
#include <string>

#include "codegen/compiler.h"
#include "codegen_kernels.h"
#include "support/error.h"

using namespace braze;

namespace {

std::string compute_type(const std::string& type) {
  return type == "bf16" || type == "f16" ? "f32" : type;
}

/// y[i] = x[stride*i + first]; x ends with the last element read.
std::string every(const char* type, int64_t stride, int64_t first, int64_t count) {
  return concat("kernel @every(%x: ", type, "[", stride * (count - 1) + first + 1,
                "] in noalias align=", ir::byte_size(*ir::parse_dtype(type)), ", %y: ", type, "[", 3 * count,
                "] out noalias) {\n  for %r in 0..3 parallel {\n    for %i in 0..", count,
                " vector unroll=4 {\n      %a = load %x[", stride, "*%i + ", first, "] : ", compute_type(type),
                "\n      store %y[", count, "*%r + %i], %a\n    }\n  }\n}");
}

/// y[i] = x[i / times]
std::string repeats(const char* type, int64_t times, int64_t count) {
  return concat(
      "kernel @repeats(%x: ", type, "[", (count + times - 1) / times,
      "] in noalias align=", ir::byte_size(*ir::parse_dtype(type)), ", %y: ", type, "[", 3 * count,
      "] out noalias) {\n  for %r in 0..3 parallel {\n    %d = constant ", times, " : i64\n    for %i in 0..",
      count, " vector unroll=4 {\n      %k = floor_div %i, %d : i64\n      %a = load %x[%k] : ", compute_type(type),
      "\n      store %y[", count, "*%r + %i], %a\n    }\n  }\n}");
}

/// Sums over windows of 2 by 2.
constexpr const char* kPool = R"(kernel @pool(%x: f32[2048] in noalias align=4, %y: f32[512] out noalias) {
  for %r in 0..16 parallel {
    for %i in 0..32 vector {
      %s = for %h in 0..2 reduce sum {
        %t = for %w in 0..2 reduce sum {
          %a = load %x[128*%r + 64*%h + 2*%i + %w] : f32
          yield %a
        }
        yield %t
      }
      store %y[32*%r + %i], %s
    }
  }
})";

std::string assembly(const std::string& text, Isa isa) {
  const auto kernel = loops::parse_kernel(text);
  loops::verify(*kernel);
  return codegen::assembly(*kernel, Target{isa});
}

int count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

}  // namespace

TEST_CASE("every n-th element, up to the last one of its memory and nothing behind it") {
  for (const char* type : {"f32", "f64", "bf16", "u8", "i32", "bool"})
    for (const int64_t stride : {2, 3, 4, 5})
      for (const int64_t length : {3, 7, 16, 31, 64, 100})
        CHECK_KERNEL({.text = every(type, stride, length % 2, length)});
}

TEST_CASE("elements repeated along the lanes") {
  for (const char* type : {"f32", "f64", "bf16", "u8", "bool"})
    for (const int64_t times : {2, 3, 4, 8, 16})
      for (const int64_t length : {6, 16, 24, 31, 64, 104}) CHECK_KERNEL({.text = repeats(type, times, length)});
}

TEST_CASE("windows of a pooling are written out") {
  CHECK_KERNEL({.text = kPool});
  const std::string code = assembly(kPool, Isa::avx512);
  CHECK_MESSAGE(count(code, "gather") == 0, code);
  CHECK(count(code, R"(vperm[a-z0-9]*\s.*%zmm)") == 4);
  CHECK(count(assembly(kPool, Isa::avx2), "gather") == 0);
}

TEST_CASE("short strides and repeats need no gather, longer strides do") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    CHECK(count(assembly(every("f32", 2, 1, 64), isa), "gather") == 0);
    CHECK(count(assembly(every("f32", 4, 0, 64), isa), "gather") == 0);
    CHECK(count(assembly(repeats("f32", 2, 64), isa), "gather") == 0);
    CHECK(count(assembly(repeats("f32", 2, 56), isa), "gather") == 0);
  }
  CHECK(count(assembly(every("f32", 9, 0, 64), Isa::avx512), "vgatherdps") > 0);
}

TEST_CASE("rows that are there or not are read without masks, and not where they are not") {
  for (const int64_t lanes : {16, 23, 64, 100}) {
    const std::string text =
        concat("kernel @rows(%x: f32[", 3 * lanes, "] in noalias align=4, %y: f32[", 5 * lanes,
               "] out noalias) {\n  for %r in 0..5 parallel {\n    %zero = constant 0 : i64\n"
               "    %three = constant 3 : i64\n    %fill = constant 7.5 : f32\n"
               "    %at = affine %r - 1\n    %low = ge %at, %zero : bool\n"
               "    %high = lt %at, %three : bool\n    %in = bitwise_and %low, %high : bool\n"
               "    for %i in 0..",
               lanes, " vector unroll=4 {\n      %a = load %x[", lanes, "*%r + %i - ", lanes,
               "] if %in else %fill : f32\n      store %y[", lanes, "*%r + %i], %a\n    }\n  }\n}");
    CHECK_KERNEL({.text = text});
    const std::string code = assembly(text, Isa::avx512);
    CHECK_MESSAGE(count(code, R"(\{%k[1-7]\} \{z\})") == 0, code);
  }
}
