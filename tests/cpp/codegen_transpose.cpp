// codegen_transpose.cpp: kernels that only transpose, which are stored from registers without a tile in memory.
#include <doctest/doctest.h>

#include <regex>
#include <string>

#include "codegen/compiler.h"
#include "codegen_kernels.h"
#include "support/error.h"

using namespace braze;

namespace {

/// y[b, c, n] = x[b, n, c], in tiles of `lanes` n by `length` c, as loops/schedule/cpu/tile.cpp writes it. `step`
/// apart are the rows of y.
struct Transposition {
  const char* type = "f32";
  int64_t batch = 1, n = 64, c = 256, lanes = 32, length = 128, step = 0;
  const char* tail = "";  ///< More statements behind the loops over a tile.

  std::string text() const {
    const std::string compute = type == std::string("bf16") ? "f32" : type;
    const int64_t pitch = step ? step : n, bytes = ir::byte_size(*ir::parse_dtype(type));
    const auto end = [](const char* name, int64_t size, int64_t tile, const char* begin) {
      if (size % tile == 0) return concat("      %", name, "_end = affine %", begin, " + ", tile, "\n");
      return concat("      %", name, "_next = affine %", begin, " + ", tile, "\n      %", name, "_size = constant ",
                    size, " : i64\n      %", name, "_end = minimum %", name, "_next, %", name,
                    "_size : i64\n      %", name, "_valid = sub %", name, "_end, %", name, "_begin : i64\n");
    };
    std::string valid;
    if (c % length != 0 || n % lanes != 0) {
      const auto name = [&](const char* side, int64_t size, int64_t tile) {
        return size % tile == 0 ? concat("%", side, "_all") : concat("%", side, "_valid");
      };
      valid = concat(" valid=", name("n", n, lanes), ", ", name("c", c, length));
    }
    return concat("kernel @transpose(%x: ", type, "[", batch * n * c, "] in noalias align=", bytes, ", %y: ", type,
                  "[", batch * c * pitch, "] out noalias) {\n  for %b in 0..", batch,
                  " parallel {\n    alloc %tile: ", type, "[", lanes * length, "] local\n    %n_all = constant ",
                  lanes, " : i64\n    %c_all = constant ", length, " : i64\n    for %c_begin in 0..", c, " step ",
                  length, " {\n", end("c", c, length, "c_begin"), "      for %n_begin in 0..", n, " step ", lanes,
                  " {\n", end("n", n, lanes, "n_begin"), "      transpose %tile, %x[", n * c, "*%b + %c_begin + ",
                  c, "*%n_begin], rows=", lanes, " step=", c, ", cols=", length, " step=1", valid,
                  "\n      for %c in %c_begin .. %c_end {\n",
                  "        for %n in %n_begin .. %n_end vector {\n          %a = load %tile[", lanes, "*%c - ",
                  lanes, "*%c_begin + %n - %n_begin] : ", compute, "\n          store %y[", c * pitch, "*%b + ",
                  pitch, "*%c + %n], %a stream\n        }\n      }\n", tail, "      }\n    }\n  }\n}");
  }
};

int count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

std::string assembly(const Transposition& t) {
  const auto kernel = loops::parse_kernel(t.text());
  loops::verify(*kernel);
  return codegen::assembly(*kernel, {Isa::avx512});
}

}  // namespace

TEST_CASE("transposed copies: whole and ragged tiles, batches, every element size") {
  for (const char* type : {"f64", "f32", "i64", "bf16", "u8"})
    for (const auto& [n, c] : {std::pair{64, 256}, {32, 128}, {70, 150}, {96, 131}, {17, 256}, {40, 9}}) {
      CHECK_KERNEL({.text = Transposition{.type = type, .n = n, .c = c}.text()});
      CHECK_KERNEL(
          {.text = Transposition{.type = type, .batch = 3, .n = n, .c = c, .lanes = 64, .length = 64}.text()});
    }
  // Rows of the result are further apart than they are long, and not where cache lines begin.
  CHECK_KERNEL({.text = Transposition{.n = 64, .c = 128, .step = 80}.text()});
  CHECK_KERNEL({.text = Transposition{.n = 64, .c = 128, .step = 67}.text()});
}

TEST_CASE("a transposed copy goes from registers past the cache, and asks for the next tile") {
  const std::string code = assembly({});
  CHECK_MESSAGE(count(code, R"(vmovnt[a-z]+\s+%zmm)") == 16, code);
  CHECK(count(code, R"(vmov[a-z]*\s+%zmm\d+, )") == count(code, R"(vmov[a-z]*\s+%zmm\d+, %zmm)") + 16);
  CHECK(count(code, "prefetcht1") == 16);
  CHECK(count(code, "sfence") == 1);
}

TEST_CASE("stores that do not begin with cache lines do not bypass the cache") {
  CHECK(count(assembly({.step = 67}), "vmovnt") == 0);
}

TEST_CASE("a tile that is used again is kept") {
  const char* again = R"(      for %k in 0..16 vector {
        %again = load %tile[%k] : f32
        store %y[%k], %again
      }
)";
  const Transposition t{.n = 32, .c = 128, .tail = again};
  CHECK(count(assembly(t), R"(vmov[a-z]*\s+%zmm\d+, .*\(%rsp)") >= 16);
  CHECK_KERNEL({.text = t.text()});
}
