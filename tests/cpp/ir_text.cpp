#include <doctest/doctest.h>

#include "ir/text.h"
#include "support/error.h"

using namespace braze;
using namespace braze::ir;

namespace {

/// print(parse(text)) must be `text`, and valid.
void check_round_trip(const std::string& text) {
  const auto graph = parse(text);
  verify(*graph);
  CHECK(print(*graph) == text);
  CHECK(exact_hash(*parse(print(*graph))) == exact_hash(*graph));
}

std::string message_of(const std::string& text) {
  try {
    verify(*parse(text));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// The message of a graph with `node` between its inputs and its end.
std::string complaint_about(const std::string& node) {
  return message_of(
      "graph @main(%x: f32[4,8], %y: f32[8], %i: i64[3], %b: bool[4,8], %q: f32[2,3,4,8], %c: c64[4]) {\n" + node +
      "\nreturn\n}");
}

}  // namespace

TEST_CASE("graphs print as they were read") {
  check_round_trip(R"(graph @main(%x: f32[4,8], %w: f32[8] param, %c: i64[3] constant) {
  %0 = scalar value=1.0 : f32[]
  %1 = add %x, %0 : f32[4,8]
  %2 = mul %1, %w : f32[4,8]
  %3 = permute %2, dims=[1,0] : f32[8,4]{1,8}
  %4 = sum %3, dims=[0] keepdim=true : f32[1,4]
  %5, %6, %7 = layer_norm %2, %w, rank=1 eps=1e-05 : f32[4,8], f32[4,1], f32[4,1]
  %8, %9 = call %5, %c, target="aten::topk" arguments="[$0, $1], 'a\27b', -1.5" results="1, 0[2]" : f32[4,2], i64[4,2]
  call %8, target="aten::print" overload="out" effect=true
  mutate %w, %w
  mutate %x, %2
  return %3, %4, %8
}
)");
  check_round_trip("graph @empty() {\n  return\n}\n");
  check_round_trip(R"(graph @devices(%x: f16[2]@cuda:1, %s: bool[2,3]{1,2}) {
  %0 = neg %x : f16[2]@cuda:1
  return %0, %s
}
)");
}

TEST_CASE("graphs of symbols print as they were read") {
  check_round_trip(
      R"(graph @main[n = 8, m = 5 in 2..64, k = 12 in 1..inf mod 4 == 0](%x: f32[n,4*m], %i: i64[k + 1]) {
  guard n >= 5
  guard n*m <= 1000
  guard n != 7
  %0 = slice %x, dim=1 start=m step=1 : f32[n,m]{4*m,1}
  %1 = permute %0, dims=[1,0] : f32[m,n]{1,4*m}
  %2 = reshape %1 : f32[n*m]
  %3 = scalar value=0.0 : f32[]
  %4 = pad %2, %3, low=[n + 1] high=[k floordiv 4] : f32[n*m + n + k floordiv 4 + 1]
  %5 = index_map %0, origin=[0,0] map=[1,1] : f32[min(n, m)]{4*m + 1}
  %6 = size of=max(n, 4*m) - 1 : i64[]
  %7 = sum %4, dims=[0] keepdim=false : f32[]
  return %5, %6, %7
}
)");
}

TEST_CASE("bad symbols are refused with their place") {
  const auto starts = [](const std::string& text, const std::string& message) {
    CHECK_MESSAGE(message_of(text).starts_with("graph text, line 1, " + message), message_of(text));
  };
  starts("graph @m[n = 8 in 9..10]() {return}", "column 10: the example is none of the symbol's values");
  starts("graph @m[n = -1]() {return}", "column 10: the example is none of the symbol's values");
  starts("graph @m[n = 8, n = 9]() {return}", "column 17: a second symbol of this name");
  starts("graph @m[n = 8](%x: f32[m]) {return}", "column 25: no symbol is called m");
  starts("graph @m(%x: f32[m]) {return}", "column 18: expected an integer");
  starts("graph @m[n = 8]() {guard n >= 9 return}", "column 26: the examples break this guard");
  starts("graph @m[n = 8]() {guard n > 7 return}", "column 26: expected a guard");
}

TEST_CASE("the verifier lets pass what holds for all values of the symbols alone") {
  const auto message = [](const std::string& node) {
    return message_of(
        "graph @main[n = 8, m = 8, k = 3 in 1..inf](%x: f32[n,4], %y: f32[m,4], %z: f32[1,4], %w: f32[2*k]) {\n" +
        node + "\nreturn\n}");
  };
  const auto passes = [&](const std::string& node) {
    CHECK_MESSAGE(message(node) == "no error", node, message(node));
  };
  const auto fails = [&](const std::string& node, const std::string& part) {
    CHECK_MESSAGE(message(node).find(part) != std::string::npos, node, message(node));
  };
  passes("%0 = add %x, %z : f32[n,4]");
  fails("%0 = add %x, %y : f32[n,4]", "operand 1 does not broadcast");
  passes("guard n == m\n%0 = add %x, %y : f32[n,4]");
  passes("%0 = reshape %x : f32[2,n,2]");
  fails("%0 = reshape %x : f32[m,4]", "number of elements");
  passes("%0 = slice %w, dim=0 start=1 step=2 : f32[k]{2}");
  passes("%0 = slice %w, dim=0 start=k step=1 : f32[k]");
  fails("%0 = slice %w, dim=0 start=k step=1 : f32[k + 1]", "leaves the operand");
  fails("%0 = slice %x, dim=0 start=0 step=1 : f32[1,4]", "leaves the operand");
  fails("%0 = slice %x, dim=0 start=n - 9 step=1 : f32[n - 8,4]", "the size n - 8 may be negative");
  passes("guard n >= 1\n%0 = slice %x, dim=0 start=0 step=1 : f32[1,4]");
  passes("%0 = cat %x, %y, %x, dim=0 : f32[2*n + m,4]");
  fails("%0 = sum %x, dims=[1] : f32[m]", "shape [n]");
}

TEST_CASE("numbers keep their bits") {
  check_round_trip(R"(graph @numbers() {
  %0 = scalar value=0.1 : f32[]
  %1 = scalar value=0.1 : f64[]
  %2 = scalar value=-0.0 : f32[]
  %3 = scalar value=inf : f32[]
  %4 = scalar value=-inf : f64[]
  %5 = scalar value=nan : f32[]
  %6 = scalar value=1e-45 : f32[]
  %7 = scalar value=5e-324 : f64[]
  %8 = scalar value=-9223372036854775808 : i64[]
  %9 = scalar value=1 : bool[]
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9
}
)");
  const auto graph = parse("graph @g() {\n %0 = scalar value=0.1 : f32[]\n return %0\n}");
  CHECK(graph->first()->number_attr("value").f == static_cast<double>(0.1f));
}

TEST_CASE("names that the text cannot hold are changed, and stay apart") {
  Graph graph("a graph");
  const Type* type = graph.type(DType::f32, {}, {}, {});
  for (const char* name : {"x['a']", "x[`a`]", "0", ""}) graph.add_input(name, type, InputKind::argument);
  const std::string text = print(graph);
  CHECK(text == "graph @a_graph(%x__a__: f32[], %x__a___2: f32[], %_0: f32[], %_: f32[]) {\n  return\n}\n");
  CHECK(print(*parse(text)) == text);
}

TEST_CASE("sources print behind their nodes") {
  Graph graph;
  graph.set_source(graph.intern("model.py:12"));
  graph.scalar(DType::f32, Number::of(1));
  CHECK(print(graph, {.sources = true}) ==
        "graph @main() {\n  %0 = scalar value=1.0 : f32[]  ; model.py:12\n  return\n}\n");
}

TEST_CASE("several graphs in one text") {
  CHECK(parse_all("graph @a() {return}\n; between\ngraph @b() {return}").size() == 2);
  CHECK(parse_all(" ; nothing\n").empty());
  CHECK(message_of("graph @a() {return} graph @b() {return}") ==
        "graph text, line 1, column 21: expected the end of the text after the graph, found 'graph'");
}

TEST_CASE("bad text is refused with its place") {
  const auto starts = [](const std::string& text, const std::string& message) {
    CHECK_MESSAGE(message_of(text).starts_with("graph text, " + message), message_of(text));
  };
  starts("", "line 1, column 1: expected 'graph', found the end");
  starts("graph main", "line 1, column 7: expected the graph's name");
  starts("graph @m(%x: f32[4]) {\n  %0 = nag %x : f32[4]\n return\n}", "line 2, column 8: no such op, found 'nag'");
  starts("graph @m() {\n  %0 = neg %x : f32[4]", "line 2, column 12: this value is not defined above");
  starts("graph @m(%x: f32[4], %x: f32[4])", "line 1, column 22: a second definition");
  starts("graph @m(%x: f33[4])", "line 1, column 14: expected a dtype");
  starts("graph @m(%x: f32[-4])", "line 1, column 14: a negative size");
  starts("graph @m(%x: f32[4]{1,2})", "line 1, column 14: this type has not one stride");
  starts("graph @m(%x: f32[4]@tpu)", "line 1, column 20: expected a device");
  starts("graph @m(%x: f32[99999999999999999999])", "line 1, column 18: the integer does not fit");
  starts("graph @m(%x: f32[4]) {\n%0 = sum %x, dimz=[0] : f32[]", "line 2, column 14: no such attribute");
  starts("graph @m(%x: f32[4]) {\n%0 = sum %x, dims=0 : f32[]", "line 2, column 19: expected '['");
  starts("graph @m(%x: f32[4]) {\n%0, %1 = neg %x : f32[4]\n", "line 2, column 10: 2 results but 1 types");
  starts("graph @m() {\n%0 = scalar : f32[]\n", "line 2, column 6: scalar needs value=NUMBER");
  starts("graph @m() {\n%0 = call target=\"abc", "line 2, column 18: a text without its closing quote");
  starts("graph @m(%x: f32[4]) {\n%0 = neg %x : f32[4]\nmutate %0, %0\nreturn}", "line 3, column 8: only inputs");
}

TEST_CASE("the verifier names the node and the rule") {
  const std::string message = complaint_about("%0 = add %x, %i : f32[4,8]");
  CHECK(message.find("operand 1 does not broadcast") != std::string::npos);
  CHECK(message.find("%0 = add %x, %i : f32[4,8]") != std::string::npos);
}

TEST_CASE("every rule of the verifier") {
  struct Case {
    const char *node, *message;
  };
  const Case cases[] = {
      {"%0 = neg %x, %x : f32[4,8]", "number of operands"},
      {"%0, %1 = neg %x : f32[4,8], f32[4,8]", "number of results"},
      {"%0 = add %x, %y : f32[8]", "shape [4,8]"},
      {"%0 = add %x, %b : f32[4,8]", "operand 1 has not operand 0's dtype"},
      {"%0 = add %x, %x : f64[4,8]", "the result must be f32"},
      {"%0 = lt %x, %x : f32[4,8]", "must be bool"},
      {"%0 = lt %x, %b : bool[4,8]", "two dtypes"},
      {"%0 = isnan %x : f32[4,8]", "must be bool"},
      {"%0 = where %x, %x, %x : f32[4,8]", "condition must be bool"},
      {"%0 = where %b, %x, %b : f32[4,8]", "operand 2"},
      {"%0 = exp %i : i64[3]", "for floating"},
      {"%0 = div %i, %i : i64[3]", "for floating"},
      {"%0 = bitwise_and %x, %x : f32[4,8]", "for integers"},
      {"%0 = add %c, %c : c64[4]", "opaque"},
      {"%0 = neg %x, dim=1 : f32[4,8]", "does not have"},
      {"%0 = permute %x : f32[8,4]", "attribute dims is missing"},
      {"%0 = permute %x, dims=[1,0] dims=[1,0] : f32[8,4]", "there twice"},
      {"%0 = permute %x, dims=[1,1] : f32[8,8]", "permutation"},
      {"%0 = permute %x, dims=[-1,0] : f32[8,4]", "permutation"},
      {"%0 = permute %x, dims=[1,0] : f32[4,8]", "shape [8,4]"},
      {"%0 = reshape %x : f32[31]", "number of elements"},
      {"%0 = expand %y : f32[4,9]", "does not expand"},
      {"%0 = expand %x : f32[8]", "does not expand"},
      {"%0 = slice %x, dim=2 start=0 step=1 : f32[4,8]", "dim must be"},
      {"%0 = slice %x, dim=1 start=-1 step=1 : f32[4,8]", "start must be"},
      {"%0 = slice %x, dim=1 start=1 step=1 : f32[4,8]", "leaves the operand"},
      {"%0 = slice %x, dim=1 start=0 step=1 : f32[3,8]", "shape [4,8]"},
      {"%0 = flip %x, dims=[1,0] : f32[4,8]", "ascending"},
      {"%0 = index_map %x, origin=[0] map=[1] : f32[4]", "one number a dimension"},
      {"%0 = index_map %x, origin=[0,0] map=[1,-1] : f32[4]", "must not be negative"},
      {"%0 = index_map %x, origin=[1,0] map=[1,1] : f32[4]", "leaves the operand"},
      {"%0 = scatter %y, %y, %i, dim=0 combine=\"set\" : f32[8]", "index must have the shape"},
      {"%0 = scatter %y, %y, %y, dim=0 combine=\"set\" : f32[8]", "index must be i64 or i32"},
      {"%0 = scatter %i, %i, %i, dim=0 combine=\"sub\" : i64[3]", "set, add, mul, max or min"},
      {"%0 = index_put %x, %y, %i, dims=[0] combine=\"set\" : f32[4,8]", "shape [3,8]"},
      {"%0 = index_put %x, %x, %i, dims=[0] combine=\"set\" : f64[4,8]", "shape [3,8]"},
      {"%0 = cat %x, %y, dim=0 : f32[5,8]", "another rank"},
      {"%0 = cat %x, %x, dim=0 : f32[4,8]", "shape [8,8]"},
      {"%0 = cat dim=0 : f32[4,8]", "number of operands"},
      {"%0 = pad %x, %y, low=[0,0] high=[0,0] : f32[4,8]", "0-dim"},
      {"%0 = scalar value=0.0 : f32[]\n%1 = pad %x, %0, low=[1] high=[1,1] : f32[4,8]", "one number a dimension"},
      {"%0 = scalar value=0.0 : f32[]\n%1 = pad %x, %0, low=[-5,0] high=[0,0] : f32[0,8]", "cropped below 0"},
      {"%0 = slice_scatter %x, %y, dim=0 start=0 step=1 : f32[4,8]", "keeps the rank"},
      {"%0 = embedding %x, %y : f32[8,8]", "index must be i64 or i32"},
      {"%0 = embedding %x, %i : f32[3,4]", "shape [3,8]"},
      {"%0 = index_select %x, %i, dim=1 : f32[3,8]", "shape [4,3]"},
      {"%0 = gather %x, %i, dim=1 : f32[3]", "operand's rank"},
      {"%0 = index %x, %i, dims=[0,1] : f32[3]", "one dimension an index"},
      {"%0 = index %x, %i, %i, dims=[1,0] : f32[3]", "adjacent"},
      {"%0 = index %x, %i, dims=[1] : f32[3,4]", "shape [4,3]"},
      {"%0 = sum %x, dims=[2] keepdim=false : f32[4]", "dims must be"},
      {"%0 = sum %x, dims=[1] keepdim=true : f32[4]", "shape [4,1]"},
      {"%0 = argmax %x, dims=[1] : f32[4]", "must be i64"},
      {"%0 = any %x, dims=[1] : bool[4]", "operand must be bool"},
      {"%0 = cumsum %x, dim=-1 : f32[4,8]", "dim must be"},
      {"%0 = mean %i, dims=[0] : i64[]", "for floating"},
      {"%0 = softmax %x, dim=2 : f32[4,8]", "dim must be"},
      {"%0, %1, %2 = layer_norm %x, %i, rank=1 eps=1e-5 : f32[4,8], f32[4,1], f32[4,1]", "operand 1"},
      {"%0, %1, %2 = layer_norm %x, rank=1 eps=1e-5 : f32[4,8], f32[4], f32[4,1]", "result 1"},
      {"%0, %1, %2 = layer_norm %x, rank=1 eps=1 : f32[4,8], f32[4,1], f64[4,1]", "mean and rstd"},
      {"%0 = mm %x, %x : f32[4,8]", "inner sizes"},
      {"%0 = mm %x, %y : f32[4]", "2 dimensions"},
      {"%0 = permute %x, dims=[1,0] : f32[8,4]\n%1 = addmm %i, %x, %0 : f32[4,4]", "dtype"},
      {"%0 = permute %x, dims=[1,0] : f32[8,4]\n%1 = addmm %y, %x, %0 : f32[4,4]", "broadcast to the result"},
      {"%0 = sdpa %q, %q, %x : f32[2,3,4,8]", "4 dimensions"},
      {"%0 = sdpa %q, %q, %q, %i : f32[2,3,4,8]", "mask must be bool"},
      {"%0 = sdpa %q, %q, %q, %x : f32[2,3,4,8]", "mask does not broadcast"},
      {"%0 = iota : i64[2,2]", "one dimension"},
      {"%0 = iota : i32[2]", "must be i64"},
      {"%0 = call %x, overload=\"out\" : f32[1]", "target is missing"},
      {"%0 = call %x, target=\"a\" arguments=\"1\" : f32[1]", "name every operand once"},
      {"%0 = call %x, target=\"a\" arguments=\"$0, [$0]\" : f32[1]", "name every operand once"},
      {"%0 = call %x, target=\"a\" arguments=\"$0, sideways\" : f32[1]", "arguments, line 1"},
      {"%0 = call %x, target=\"a\" results=\"0, 1\" : f32[1]", "2 results are placed"},
      {"%0 = call %x, target=\"a\" results=\"clone 0\" : f32[1]", "clone 0"},
      {"%0 = call %x, target=\"a\" written=[1] : f32[1]", "operand 1, which is written"},
      {"mutate %y, %x", "mutation's value has not"},
      {"mutate %x, %x mutate %x, %x", "mutated twice"},
  };
  for (const Case& each : cases) {
    const std::string message = complaint_about(each.node);
    CHECK_MESSAGE(message.find(each.message) != std::string::npos, each.node, " gave: ", message);
    CHECK_MESSAGE(message.starts_with("invalid graph @main: "), message);
  }
}

TEST_CASE("what the verifier must let pass") {
  for (const char* node : {
           "%0 = expand %y : f32[4,8]",
           "%0 = slice %x, dim=1 start=8 step=1 : f32[4,0]",
           "%0 = slice %x, dim=1 start=1 step=3 : f32[4,3]",
           "%0 = sum %x, dims=[] : f32[4,8]",
           "%0 = index %x, %i, %i, dims=[0,1] : f32[3]",
           "%0 = sdpa %q, %q, %q, causal=true scale=0.5 : f32[2,3,4,8]",
           "%0 = call %c, target=\"aten::real\" : f32[4]",
           "%0 = reshape %c : c64[2,2]",
           "mutate %x, %x",
       })
    CHECK_MESSAGE(complaint_about(node) == "no error", node);
}

TEST_CASE("the verifier sees order, ownership and forgotten replacements") {
  const char* text = "graph @m(%x: f32[4]) {\n%0 = neg %x : f32[4]\n%1 = exp %0 : f32[4]\nreturn %1\n}";
  const auto message = [](const Graph& graph) -> std::string {
    try {
      verify(graph);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "no error";
  };
  auto graph = parse(text);
  graph->erase(graph->first());
  CHECK(message(*graph).find("operand 0 is not defined above") != std::string::npos);

  graph = parse(text);
  auto other = parse(text);
  graph->outputs()[0] = other->outputs()[0];
  CHECK(message(*graph).find("an output is not defined") != std::string::npos);

  graph = parse(text);
  graph->replace(graph->first()->result(), graph->inputs()[0].value);
  CHECK(message(*graph).find("a replacement was not applied") != std::string::npos);
  graph->apply_replacements();
  CHECK(message(*graph) == "no error");
}
