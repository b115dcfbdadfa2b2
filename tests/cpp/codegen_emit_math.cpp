// codegen_emit_math.cpp: the machine code of kernels that are mostly exp and log.
#include <doctest/doctest.h>

#include <regex>
#include <string>

#include "codegen/compiler.h"

using namespace braze;

namespace {

std::string assembly(const std::string& op, int unroll) {
  const auto kernel = loops::parse_kernel(
      "kernel @math(%x: f32[4096] in noalias, %y: f32[4096] out noalias) {\n"
      "  for %i in 0..4096 parallel vector unroll=" +
      std::to_string(unroll) + " {\n    %a = load %x[%i] : f32\n    %b = " + op +
      " %a : f32\n    store %y[%i], %b\n  }\n}");
  loops::verify(*kernel);
  return codegen::assembly(*kernel, Target{Isa::avx512});
}

int count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

}  // namespace

TEST_CASE("exp and log of f32 test for no special case where AVX-512 is") {
  for (const char* op : {"exp", "exp2", "log"}) {
    const std::string code = assembly(op, 1);
    CHECK_MESSAGE(count(code, "vcmp[a-z]*ps|vblendm|vm(ax|in)ps") == 0, code);
    CHECK(count(code, "vperm(d|ps)\\s.*%zmm") >= 1);
    CHECK(count(code, "vscalefps|vgetexpps") == 2);  // main part and tail
  }
}

TEST_CASE("erf of f32 picks the polynomials of 16 intervals by their number where AVX-512 is") {
  const std::string code = assembly("erf", 1);
  CHECK_MESSAGE(count(code, "\tvpermps\\s.*%zmm") == 2 * 7, code);  // main part and tail
  CHECK(count(code, "\tv(fmadd|fmsub|fnmadd)[^\n]*%zmm") == 2 * 6);
  CHECK(count(code, "vdivps|vcmp[a-z]*ps|vscalefps") == 0);
}

TEST_CASE("the steps of four vectors stand side by side") {
  const std::string four = assembly("exp", 4);
  CHECK_MESSAGE(count(four, "(\tvscalefps[^\n]*\n){4}") == 1, four);
  CHECK(count(four, "(\tvrangeps[^\n]*\n){4}") == 1);
}
