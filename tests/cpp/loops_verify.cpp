// The verifier: one broken kernel a rule, and the words it is refused with.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "loops/kernel.h"
#include "support/error.h"

using namespace braze;
using namespace braze::loops;

namespace {

std::string message_of(const Kernel& kernel) {
  try {
    verify(kernel);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// y[i] = x[i] + 1, and its parts to be broken.
struct Example {
  Kernel kernel;
  Example() {
    kernel.name = "k";
    add_buffer("x", Access::in);
    add_buffer("y", Access::out);
    Builder top(kernel, kernel.body);
    Loop& loop = top.loop(0, 64);
    loop.schedule.parallel = true;
    Builder body(kernel, loop.body);
    Affine index;
    index.add(1, loop.var);
    const ValueId x = body.load(0, index);
    const ValueId one = body.constant(DType::f32, Number::of(1));
    body.store(1, index, body.compute(ir::Op::add, {x, one}));
  }
  void add_buffer(const char* name, Access access) {
    Buffer buffer;
    buffer.name = name;
    buffer.access = access;
    buffer.size = 64;
    kernel.buffers.push_back(std::move(buffer));
  }
  Loop& loop() { return *kernel.body[0].loop; }
  Stmt& load() { return loop().body[0]; }
  Stmt& one() { return loop().body[1]; }
  Stmt& add() { return loop().body[2]; }
  Stmt& store() { return loop().body[3]; }
};

}  // namespace

TEST_CASE("a built kernel verifies") {
  CHECK(message_of(Example().kernel) == "");
}

TEST_CASE("a kernel with one part broken is refused, with what is wrong and where") {
  const struct {
    const char* reason;
    std::function<void(Example&)> break_it;
  } cases[] = {
      {"in 'load': value 3 is used before it is defined",
       [](Example& e) { e.load().index.terms[0].value = e.add().result; }},
      {"defined twice", [](Example& e) { e.one().result = e.load().result; }},
      {"never added to the kernel", [](Example& e) { e.one().result = 1000; }},
      {"the result is missing", [](Example& e) { e.one().result = none; }},
      {"an operand is missing", [](Example& e) { e.add().args[0] = none; }},
      {"2 operands are wanted, 1 given", [](Example& e) { e.add().args.pop_back(); }},
      {"an operand must be f32, value 0 is i64", [](Example& e) { e.add().args[0] = e.loop().var; }},
      {"defined as f64", [](Example& e) { e.one().type = DType::f64; }},
      {"the constant's number is an integer", [](Example& e) { e.one().number = Number::of_int(1); }},
      {"only elementwise ops compute", [](Example& e) { e.add().op = ir::Op::mm; }},
      {"a comparison gives bool, not f32", [](Example& e) { e.add().op = ir::Op::lt; }},
      {"%x is written but declared 'in'", [](Example& e) { e.store().buffer = 0; }},
      {"there is no buffer 7", [](Example& e) { e.store().buffer = 7; }},
      {"what is stored in %y must be i64", [](Example& e) { e.kernel.buffers[1].dtype = DType::i64; }},
      {"%x holds f64, a load of it gives f64, not f32", [](Example& e) { e.kernel.buffers[0].dtype = DType::f64; }},
      {"no kernel can read: c64", [](Example& e) { e.kernel.buffers[0].dtype = DType::c64; }},
      {"the index runs from 1 to 64", [](Example& e) { e.store().index.offset = 1; }},
      {"the index runs from -1 to 62", [](Example& e) { e.load().index.offset = -1; }},
      {"a value in an index must be i64", [](Example& e) { e.store().index.add(1, e.one().result); }},
      {"there is no symbol 3",
       [](Example& e) {
         e.store().index.offset.symbol = 3;
         e.store().index.offset.factor = 1;
       }},
      {"names value 0 twice", [](Example& e) { e.store().index.terms.push_back({Extent(2), e.loop().var}); }},
      {"a term with factor 0", [](Example& e) { e.store().index.terms[0].factor = 0; }},
      {"both a predicate and an 'else'", [](Example& e) { e.load().otherwise = e.loop().var; }},
      {"a predicate must be bool", [](Example& e) { e.store().predicate = e.one().result; }},
      {"a loop's step is 0", [](Example& e) { e.loop().step = 0; }},
      {"unroll, grain and cluster are at least 1", [](Example& e) { e.loop().schedule.unroll = 0; }},
      {"clusters are of blocks", [](Example& e) { e.loop().schedule.cluster = 2; }},
      {"there is no scalar 0", [](Example& e) { e.one().kind = StmtKind::scalar; }},
      {"no power of two", [](Example& e) { e.kernel.buffers[0].alignment = 24; }},
      {"parameters come before allocated buffers", [](Example& e) { e.kernel.buffers[0].is_parameter = false; }},
      {"neither a parameter nor allocated",
       [](Example& e) { e.add_buffer("t", Access::in), e.kernel.buffers[2].is_parameter = false; }},
      {"top-level statements are loops",
       [](Example& e) { Builder(e.kernel, e.kernel.body).constant(DType::f32, Number::of(0)); }},
      {"a parallel loop cannot reduce",
       [](Example& e) {
         Reduction r;
         r.yielded = {e.add().result};
         r.results = {e.kernel.add_value(DType::f32)};
         e.loop().reductions.push_back(std::move(r));
       }},
      {"exists only in buffers", [](Example& e) { e.kernel.scalars.push_back({"s", DType::bf16}); }},
  };
  for (const auto& [reason, break_it] : cases) {
    CAPTURE(std::string(reason));
    Example example;
    break_it(example);
    const std::string message = message_of(example.kernel);
    CAPTURE(message);
    CHECK(contains(message, "kernel @k"));
    CHECK(contains(message, reason));
  }
}

TEST_CASE("rules that a text can break") {
  const struct {
    const char* body;
    const char* reason;
  } cases[] = {
      {"for %j in 0..4 parallel { }", "only top-level loops can be parallel"},
      {"for %j in 0..4 vector { for %k in 0..4 vector { } }", "a vector loop stands within another"},
      {"for %j in 0..4 vector { for %k in 0..4 { for %l in 0..4 vector { } } }",
       "a vector loop stands within another"},
      {"%r = for %j in 0..4 reduce any { yield %j }", "what any and all take must be bool"},
      {"%r, %k = for %j in 0..4 reduce argmax { yield %one, %one }", "the index of argmax and argmin must be i64"},
      {"%r = for %j in 0..4 reduce serial(%s = %one) { yield %j }", "must have the type of the state"},
      {"alloc %t: f32[8] local\nstore %t[%i], %one", "the index runs from 0 to 63"},
      {"alloc %t: f32[8] global", "that is the planner's to give"},
      {"alloc %t: f32[#n] local", "needs a size known when the kernel is compiled"},
      {"alloc %t: f32[4] local\ntranspose %t, %x[0], rows=4 step=1, cols=2 step=4", "has 4 elements, the tile 8"},
      {"alloc %t: f64[8] local\ntranspose %t, %x[0], rows=4 step=1, cols=2 step=4", "moves f32 into f64"},
      {"%r = where %one, %one, %one : f32", "what 'where' chooses by must be bool"},
      {"%r = cast %one : bf16\n%s = lt %r, %r : bool", "nothing is computed in bf16"},
      {"%r = cast %one : bf16\n%s = add %r, %r : bf16", "nothing is computed in bf16"},
      {"%r = cast %one : bf16\nstore %x[%i], %r", "what is stored in %x must be f32"},
      {"%r = constant 1.0 : bf16", "exists only in buffers"},
      {"if %one { }", "a predicate must be bool"},
      {"%c = checked %i, 80\n%v = load %x[%c] : f32", "the index runs from 0 to 79"},
      {"%k = affine 2*%i - 1\n%v = load %x[%k] : f32", "the index runs from -1 to 125"},
      {"for %j in 0..3 { %v = load %x[-1*%j + 2*%i] : f32 }", "the index runs from -2 to 126"},
  };
  for (const auto& [body, reason] : cases) {
    CAPTURE(std::string(body));
    const auto kernel = parse_kernel(
        concat("kernel @k(%x: f32[64] inout, #n) {\n for %i in 0..64 {\n  %one = constant 1.0 : f32\n  ", body,
               "\n }\n}\n"));
    const std::string message = message_of(*kernel);
    CAPTURE(message);
    CHECK(contains(message, reason));
  }
}

TEST_CASE("where blocks, warps and threads run, and where they must meet") {
  const std::string write = "alloc %s: f32[32] shared\nfor %t in 0..32 bind=thread { store %s[%t], %one }\n";
  const std::string read = "for %u in 0..32 bind=thread { %v = load %s[%u] : f32 }";
  const struct {
    std::string body;
    const char* reason;
    const char* blocks = "bind=block";
  } cases[] = {
      {"for %w in 0..8 bind=warp { }", "warps of a cluster share nothing out", "bind=block cluster=2"},
      {write, "%s is shared by blocks of a cluster", "bind=block cluster=2"},
      {"for %t in 0..64 bind=thread { }", "", "bind=block cluster=2"},
      {"for %t in 0..4 bind=block { }", "blocks run a parallel loop"},
      {"for %t in 0..32 bind=thread { for %u in 0..4 bind=thread { } }",
       "a loop over threads stands in none over blocks or warps"},
      {"for %t in 0..32 bind=thread { for %w in 0..4 bind=warp { } }",
       "a loop over warps stands in none over blocks"},
      {"for %t in 0..32 step 2 bind=thread { }", "runs from 0 to a number"},
      {"%r = for %w in 0..4 bind=warp reduce sum { yield %one }", "through shared memory"},
      {"for %t in 0..32 bind=thread { barrier }", "all threads of a block meet at a barrier, or none"},
      {"%p = lt %b, %b : bool\nif %p { barrier }", "all threads of a block meet at a barrier, or none"},
      {"for %t in 0..32 bind=thread { alloc %s: f32[8] shared }", "is shared by a block"},
      {"for %t in 0..32 bind=thread { alloc %s: f32[8] registers }", "is spread over the threads"},
      {write + read, "no barrier stands between two uses of %s"},
      {write + "barrier\n" + read + "\nfor %w in 0..8 bind=warp { store %s[%w], %one }",
       "no barrier stands between"},
      {write + "barrier\n" + read, ""},
  };
  for (const auto& [body, reason, blocks] : cases) {
    CAPTURE(body);
    const auto kernel = parse_kernel(concat("kernel @k(%x: f32 inout) {\n for %b in 0..8 parallel ", blocks,
                                            " {\n  %one = constant 1.0 : f32\n  ", body, "\n }\n}\n"));
    const std::string message = message_of(*kernel);
    CAPTURE(message);
    CHECK(message.empty() == (*reason == 0));
    CHECK(contains(message, reason));
  }
}

TEST_CASE("what is allowed: elements that may lie outside, casts that round") {
  for (const char* body : {
           "%p = lt %i, %i : bool\n %v = load %x[%i + 100] if %p else %one : f32",
           "%p = lt %i, %i : bool\n if %p { store %x[%i + 100], %one }",
           "for %j in 5..5 { store %x[%i + 100], %one }",
           "for %j in 0..#n { store %x[%i + %j], %one }",
           "store %free[%i + 1000], %one",
           "%r = cast %one : bf16\n %s = cast %r : f32\n store %x[%i], %s",
           "%k = affine 8*%i - 3\n store %x[8*%i - %k], %one",
           "%k = affine %i + 1\n for %j in %i .. %k { store %x[%j], %one }",
       }) {
    CAPTURE(std::string(body));
    const auto kernel =
        parse_kernel(concat("kernel @k(%x: f32[64] inout, %free: f32 out, #n) {\n for %i in 0..64 {\n",
                            "  %one = constant 1.0 : f32\n  ", body, "\n }\n}\n"));
    CHECK(message_of(*kernel) == "");
  }
}
