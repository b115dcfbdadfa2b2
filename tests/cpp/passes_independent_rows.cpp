// Which graphs compute each row by itself, and which are refused, with the reason.
#include <doctest/doctest.h>

#include <string>

#include "ir/text.h"
#include "passes/independent_rows.h"

using namespace braze;

namespace {

/// "x: 0 of 1, w: -; out: 0 of 1" or "refused: ..."; n is the first symbol.
std::string rows_of(const char* text) {
  const auto graph = ir::parse(text);
  const passes::IndependentRows found = passes::independent_rows(*graph, 0);
  if (!found.refused.empty()) return "refused: " + found.refused;
  const auto print = [](const std::optional<passes::Rows>& rows) {
    return rows ? std::to_string(rows->dim) + " of " + ir::to_text(rows->block) : std::string("-");
  };
  std::string out;
  for (size_t i = 0; i < found.inputs.size(); ++i)
    out += std::string(graph->inputs()[i].name) + ": " + print(found.inputs[i]) + ", ";
  for (const auto& rows : found.outputs) out += "out: " + print(rows) + " ";
  return out;
}

}  // namespace

TEST_CASE("a feed-forward layer, its rows merged with positions and back") {
  CHECK(rows_of(R"(graph @f[n = 8, m = 4](%x: f32[n,m,64], %w: f32[64,32], %b: f32[32]) {
  %0 = reshape %x : f32[n*m,64]
  %1 = addmm %b, %0, %w, alpha=1.0 beta=1.0 : f32[n*m,32]
  %2 = reshape %1 : f32[n,m,32]
  %3 = gelu %2, tanh=false : f32[n,m,32]
  %4 = mean %3, dims=[1] keepdim=false : f32[n,32]
  %5 = softmax %4, dim=1 : f32[n,32]
  return %2, %5
})") == "x: 0 of 1, w: -, b: -, out: 0 of 1 out: 0 of 1 ");
}

TEST_CASE("heads of attention, whose batches lie behind one another") {
  CHECK(rows_of(R"(graph @f[n = 8](%q: f32[n,5,2,16], %k: f32[n,5,2,16], %v: f32[n,5,2,16]) {
  %0 = permute %q, dims=[0,2,1,3] : f32[n,2,5,16]{160,16,32,1}
  %1 = permute %k, dims=[0,2,3,1] : f32[n,2,16,5]{160,16,1,32}
  %2 = permute %v, dims=[0,2,1,3] : f32[n,2,5,16]{160,16,32,1}
  %3 = reshape %0 : f32[2*n,5,16]
  %4 = reshape %1 : f32[2*n,16,5]
  %5 = bmm %3, %4 : f32[2*n,5,5]
  %6 = softmax %5, dim=2 : f32[2*n,5,5]
  %7 = reshape %2 : f32[2*n,5,16]
  %8 = bmm %6, %7 : f32[2*n,5,16]
  return %8
})") == "q: 0 of 1, k: 0 of 1, v: 0 of 1, out: 0 of 2 ");
}

TEST_CASE("embeddings, normalisation, parts of columns, positions that all rows share") {
  CHECK(rows_of(R"(graph @f[n = 8](%i: i64[n,6], %table: f32[100,16], %p: f32[6,16], %w: f32[16]) {
  %0 = embedding %table, %i : f32[n,6,16]
  %1 = add %0, %p : f32[n,6,16]
  %2, %3, %4 = layer_norm %1, %w, rank=1 eps=1e-05 : f32[n,6,16], f32[n,6,1], f32[n,6,1]
  %5 = slice %2, dim=1 start=0 step=1 : f32[n,1,16]{96,16,1}
  %6 = cat %5, %2, dim=1 : f32[n,7,16]
  return %6
})") == "i: 0 of 1, table: -, p: -, w: -, out: 0 of 1 ");
}

TEST_CASE("rows that meet") {
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4]) {
  %0 = sum %x, dims=[0] keepdim=false : f32[4]
  return %0
})") == "refused: `sum` is not known to compute each row by itself");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4]) {
  %0 = flip %x, dims=[0] : f32[n,4]
  return %0
})") == "refused: `flip` is not known to compute each row by itself");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4]) {
  %0 = permute %x, dims=[1,0] : f32[4,n]{1,4}
  %1 = mm %0, %x : f32[4,4]
  return %1
})") == "refused: `mm` is not known to compute each row by itself");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4]) {
  %0 = permute %x, dims=[1,0] : f32[4,n]{1,4}
  %1 = mm %x, %0 : f32[n,n]
  return %1
})") == "refused: `mm` is not known to compute each row by itself");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4]) {
  %0 = softmax %x, dim=0 : f32[n,4]
  return %0
})") == "refused: `softmax` is not known to compute each row by itself");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4]) {
  %0 = cumsum %x, dim=0 : f32[n,4]
  return %0
})") == "refused: `cumsum` is not known to compute each row by itself");
}

TEST_CASE("rows whose number or place matters") {
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4]) {
  %0 = size of=n : i64[]
  %1 = cast %0 : f32[]
  %2 = div %x, %1 : f32[n,4]
  return %2
})") == "refused: `size` is given their number");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n,4], %y: f32[2,4]) {
  %0 = cat %x, %y, dim=0 : f32[n + 2,4]
  return %0
})") == "refused: `cat` is not known to compute each row by itself");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[4,n]) {
  %0 = reshape %x : f32[4*n]
  return %0
})") == "refused: `reshape` is not known to compute each row by itself");
  CHECK(rows_of(R"(graph @f[n = 8](%x: f32[n + 1,4]) {
  %0 = relu %x : f32[n + 1,4]
  return %0
})") == "refused: a size is n + 1");
}
