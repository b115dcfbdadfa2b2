// codegen_emit_asm.cpp: the instructions that kernels must become, also for targets that this machine does not run.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "codegen/compiler.h"

using namespace braze;

namespace {

std::string assembly(const char* text, Isa isa) {
  const auto kernel = loops::parse_kernel(text);
  loops::verify(*kernel);
  return codegen::assembly(*kernel, Target{isa});
}

int count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

/// The instructions of the longest stretch between a label and a jump back to it.
std::string main_loop(const std::string& text) {
  std::string longest;
  const std::regex label(R"((\.LBB\d+_\d+):)");
  for (std::sregex_iterator it(text.begin(), text.end(), label), last; it != last; ++it) {
    const size_t begin = it->position() + it->length();
    const size_t end = text.find("\t" + it->str(1) + "\n", begin) == std::string::npos
                           ? std::string::npos
                           : text.find(it->str(1) + "\n", begin);
    if (end == std::string::npos) continue;
    const std::string body = text.substr(begin, end - begin);
    if (body.find(".LBB") != std::string::npos && body.find(".LBB") < body.rfind('\n')) continue;
    if (body.size() > longest.size()) longest = body;
  }
  return longest;
}

constexpr const char* kAdd = R"(kernel @add(%x: f32[4096] in, %y: f32[4096] in, %z: f32[4096] out) {
  for %i in 0..4096 parallel vector unroll=4 {
    %a = load %x[%i] : f32
    %b = load %y[%i] : f32
    %c = add %a, %b : f32
    store %z[%i], %c
  }
})";

}  // namespace

TEST_CASE("a flat kernel runs in whole registers: four loads, adds and stores a step, nothing else") {
  const std::string wide = main_loop(assembly(kAdd, Isa::avx512));
  CHECK_MESSAGE(count(wide, R"(vaddps\s.*%zmm)") == 4, wide);
  CHECK(count(wide, R"(vmovups\s.*%zmm)") == 8);
  CHECK(count(wide, "\n\tv") == 12);
  CHECK(count(wide, "\n\t[a-z]") <= 16);
  const std::string narrow = assembly(kAdd, Isa::avx2);
  CHECK(count(narrow, "zmm|%k[0-7]") == 0);
  CHECK_MESSAGE(count(main_loop(narrow), R"(vaddps\s.*%ymm)") == 4, narrow);
}

TEST_CASE("tails are masked, not scalar") {
  CHECK(count(assembly(kAdd, Isa::avx512), R"(vmovups\s.*\{%k)") == 3);
  CHECK(count(assembly(kAdd, Isa::avx512), "vaddss") == 0);
  CHECK(count(assembly(kAdd, Isa::avx2), "vmaskmovps") == 3);
}

TEST_CASE("streaming stores bypass the cache, behind an aligning prologue, and are fenced") {
  const char* text = R"(kernel @copy(%x: f32[4096] in, %z: f32[4096] out) {
  for %i in 0..4096 parallel vector unroll=2 {
    %a = load %x[%i] : f32
    store %z[%i], %a stream
  }
})";
  CHECK(count(assembly(text, Isa::avx512), R"(vmovntps\s+%zmm)") == 2);
  CHECK(count(assembly(text, Isa::avx512), "sfence") == 1);
  CHECK(count(assembly(text, Isa::avx2), R"(vmovntps\s+%ymm)") == 2);
  CHECK(count(assembly(kAdd, Isa::avx512), "vmovnt|sfence") == 0);
}

TEST_CASE("16-bit floats are converted in registers") {
  const char* text = R"(kernel @half(%x: f16[4096] in, %y: bf16[4096] in, %z: f16[4096] out, %w: bf16[4096] out) {
  for %i in 0..4096 parallel vector {
    %a = load %x[%i] : f32
    %b = load %y[%i] : f32
    %c = mul %a, %b : f32
    store %z[%i], %c
    store %w[%i], %c
  }
})";
  const std::string loop = main_loop(assembly(text, Isa::avx512));
  CHECK_MESSAGE(count(loop, R"(vcvtph2ps\s.*%zmm)") == 1, loop);
  CHECK(count(loop, R"(vcvtps2ph\s)") == 1);
  CHECK(count(loop, R"(vpmovzxwd\s.*%zmm)") == 1);
  CHECK(count(loop, R"(vpmovdw\s+%zmm)") == 1);
}

TEST_CASE("a row's maximum: one max and the NaN test a vector; what the row shares is outside of the loop") {
  const char* text =
      R"(kernel @rows(%x: f32[65536] in noalias, %s: f32[64] in noalias, %y: f32[65536] out noalias, %m: f32[64] out noalias) {
  for %i in 0..64 parallel {
    %max = for %j in 0..1024 vector unroll=4 reduce max {
      %a = load %x[1024*%i + %j] : f32
      yield %a
    }
    store %m[%i], %max
    for %k in 0..1024 vector unroll=4 {
      %b = load %x[1024*%i + %k] : f32
      %c = load %s[%i] : f32
      %d = add %b, %c : f32
      %e = sub %d, %max : f32
      store %y[1024*%i + %k], %e
    }
  }
})";
  const std::string code = assembly(text, Isa::avx512);
  const std::string loop = main_loop(code);
  CHECK_MESSAGE(count(loop, R"(vmaxps\s)") == 4, code);
  CHECK(count(loop, "vcmpunordps") == 4);
  CHECK(count(code, R"(v(add|sub)ps\s.*%zmm)") == 8);
  CHECK(count(code, R"(v(add|sub)ps\s.*\{1to16\})") == 0);
  CHECK(count(code, "imul|vmovss") <= 2);
}

TEST_CASE("gathers by instruction where AVX-512 has it; transposes by shuffles") {
  const char* gather = R"(kernel @gather(%x: f32[50] in, %ids: i64[4096] in, %y: f32[4096] out) {
  for %i in 0..4096 parallel vector {
    %k = load %ids[%i] : i64
    %a = load %x[%k] : f32
    store %y[%i], %a
  }
})";
  CHECK(count(assembly(gather, Isa::avx512), R"(vgatherdps\s.*%zmm)") == 2);  // main part and tail
  const char* transpose = R"(kernel @transpose(%x: f32[256] in, %y: f32[256] out) {
  for %i in 0..1 {
    alloc %tile: f32[256] local
    transpose %tile, %x[0], rows=16 step=16, cols=16 step=1
    for %k in 0..256 vector {
      %a = load %tile[%k] : f32
      store %y[%k], %a
    }
  }
})";
  CHECK(count(assembly(transpose, Isa::avx512), R"(v(unpck|shuf|perm|insert)[a-z0-9]*\s.*%zmm)") >= 64);
  CHECK(count(assembly(transpose, Isa::avx2), R"(v(unpck|shuf|perm|insert)[a-z0-9]*\s.*%ymm)") >= 24);
}

TEST_CASE("coordinates of rows by sizes are divided for where a chunk begins alone") {
  const char* text = R"(kernel @rows(%x: f32 in, %y: f32 out, #n, #h, #w) {
  for %i in 0..#n parallel {
    %w = symbol #w
    %row = floor_div %i, %w : i64
    %h = affine #h + 1
    %plane = floor_div %row, %h : i64
    for %j in 0..16 vector {
      %a = load %x[16*%plane + %j + 32*%row] : f32
      store %y[16*%i + %j], %a
    }
  }
})";
  const std::string code = assembly(text, Isa::avx512);
  CHECK_MESSAGE(count(code, R"(\n\ti?div)") <= 4, code);  // each in 32 bits where both fit, else in 64
  CHECK_MESSAGE(count(main_loop(code), R"(\n\ti?div)") == 0, code);
  CHECK(count(main_loop(code), "vmovups") == 2);
}

TEST_CASE("compiling twice gives the same text") {
  CHECK(assembly(kAdd, Isa::avx512) == assembly(kAdd, Isa::avx512));
}

namespace {

/// Rows of 2,048 numbers, of which `picked` are picked by indices each.
std::string gathered(int rows, int picked) {
  const std::string all = std::to_string(rows * 2048), indices = std::to_string(rows * picked);
  return "kernel @gathered(%i: i64[" + indices + "] in, %x: f32[" + all + "] in, %z: f32[" + indices +
         "] out) {\n" + "  for %r in 0.." + std::to_string(rows) + " parallel {\n    for %c in 0.." +
         std::to_string(picked) + " vector unroll=4 {\n      %k = load %i[" + std::to_string(picked) +
         "*%r + %c] : i64\n      %l = checked %k, 2048\n      %v = load %x[2048*%r + %l] : f32\n      store %z[" +
         std::to_string(picked) + "*%r + %c], %v\n    }\n  }\n}";
}

}  // namespace

TEST_CASE(
    "rows that elements are picked from are fetched one ahead, where they lie in memory and most of them is read") {
  CHECK(count(assembly(gathered(4096, 2048).c_str(), Isa::avx512), "prefetcht0") == 4);  // 64 numbers, a line 16.
  CHECK(count(assembly(gathered(4096, 2048).c_str(), Isa::avx2), "prefetcht0") == 2);
  CHECK(count(assembly(gathered(64, 2048).c_str(), Isa::avx512), "prefetch") == 0);
  CHECK(count(assembly(gathered(4096, 512).c_str(), Isa::avx512), "prefetch") == 0);
}
