// The structural hash: blind to names, sensitive to everything that code or launch depends on.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "loops/kernel.h"
#include "support/error.h"

using namespace braze;
using namespace braze::loops;

namespace {

Hash128 hash_of(const std::string& text) {
  return structural_hash(*parse_kernel(text));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

const std::string base = R"(
kernel @k(%x: f32[64] in, %y: f32[64] out, $a: f32, $b: f32, #n, #m) {
  for %i in 0..#n step 2 parallel {
    %s = scalar $a
    %p = lt %i, %i : bool
    %r = for %j in 0..8 vector reduce max {
      %c = constant 0.0 : f32
      %v = load %x[8*%i + %j] if %p else %c : f32
      %w = add %v, %s : f32
      yield %w
    }
    store %y[%i], %r
  }
}
)";

}  // namespace

TEST_CASE("names do not matter") {
  std::string renamed = replaced(base, "@k", "@other");
  renamed = replaced(renamed, "%x: f32", "%input: f32");
  renamed = replaced(renamed, "load %x", "load %input");
  renamed = replaced(renamed, "$a: f32", "$alpha: f32");
  renamed = replaced(renamed, "scalar $a", "scalar $alpha");
  renamed = replaced(renamed, "#m", "#k");
  renamed = replaced(renamed, "%s = ", "%t = ");
  renamed = replaced(renamed, "%v, %s", "%v, %t");
  CHECK(hash_of(renamed) == hash_of(base));
}

TEST_CASE("everything else does") {
  const std::pair<const char*, const char*> changes[] = {
      {"%x: f32[64]", "%x: f32[65]"},
      {"%x: f32[64] in", "%x: f32[64] inout"},
      {"%x: f32[64] in", "%x: f32[64] in noalias"},
      {"%x: f32[64] in", "%x: f32[64] in align=4"},
      {"%x: f32[64] in", "%x: f32[64] in align=4 exactly"},
      {"%x: f32[64] in", "%x: f32[64] in shared"},
      {"%x: f32[64]", "%x: bf16[64]"},
      {"$b: f32", "$b: f64"},
      {", #m", ""},
      {"0..#n", "0..#m"},
      {"0..#n", "0..2*#n"},
      {"0..#n", "1..#n"},
      {"step 2", "step 4"},
      {"parallel", "parallel grain=2"},
      {"parallel", ""},
      {"vector", "vector unroll=2"},
      {"vector", "vector bind=thread"},
      {"scalar $a", "scalar $b"},
      {"lt %i", "le %i"},
      {"0..8 ", "0..4 "},
      {"reduce max", "reduce sum"},
      {"constant 0.0", "constant -0.0"},
      {"8*%i + %j", "8*%i + %j + 1"},
      {"8*%i + %j", "8*%i + 2*%j"},
      {"8*%i + %j", "#n*%i + %j"},
      {" if %p else %c", ""},
      {"add %v, %s", "add %s, %v"},
      {"yield %w", "yield %v"},
      {"store %y[%i], %r", "store %y[%i], %r stream"},
      {"store %y[%i], %r", "store %y[%i], %r if %p"},
      {"store %y[%i], %r", "atomic add %y[%i], %r"},
  };
  std::set<std::string> seen = {hash_of(base).hex()};
  for (const auto& [from, to] : changes) {
    CAPTURE(std::string(from));
    CAPTURE(std::string(to));
    CHECK(seen.insert(hash_of(replaced(base, from, to)).hex()).second);
  }
}

TEST_CASE("values are renumbered: the order in which they were added does not matter") {
  Kernel first, second;
  for (Kernel* kernel : {&first, &second}) {
    Buffer buffer;
    buffer.access = Access::out;
    kernel->buffers.push_back(buffer);
    if (kernel == &second) kernel->add_value(DType::f64);  // Never defined.
    Builder top(*kernel, kernel->body);
    Loop& loop = top.loop(0, 8);
    Affine index;
    index.add(1, loop.var);
    Builder body(*kernel, loop.body);
    body.store(0, index, body.constant(DType::f32, Number::of(1)));
  }
  CHECK(structural_hash(first) == structural_hash(second));
}

TEST_CASE("affine sums merge terms, drop zeros and refuse two symbols in one factor") {
  Affine index;
  index.add(3, 7);
  index.add(2, 5);
  index.add(-3, 7);
  REQUIRE(index.terms.size() == 1);
  CHECK(index.terms[0].value == 5);
  Extent n, m;
  n.symbol = 0;
  n.factor = 2;
  m.symbol = 1;
  m.factor = 1;
  index.add(n, 5);
  CHECK(index.terms[0].factor.constant == 2);
  CHECK(index.terms[0].factor.factor == 2);
  CHECK_THROWS_AS(index.add(m, 5), InternalError);
  index.add(0, 9);
  CHECK(index.terms.size() == 1);
}
