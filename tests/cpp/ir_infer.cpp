// Types of results that follow from ops.def's rows.
#include <doctest/doctest.h>

#include "ir/infer.h"
#include "ir/text.h"
#include "support/error.h"

using namespace braze;
using namespace braze::ir;

namespace {

/// Every node of the graph, made again by Graph::add with no more than what its op lets one state, has the type
/// that the text gives it.
void check_types(const std::string& text) {
  const auto graph = parse(text);
  verify(*graph);
  for_each_node(*graph, [&](Node* node) {
    if (node->op == Op::call) return;
    Stated stated;
    const auto sizes = node->results[0].type->sizes.symbolic();
    const bool states_sizes = node->op == Op::reshape || node->op == Op::expand || node->op == Op::slice ||
                              node->op == Op::index_map || node->op == Op::iota;
    if (states_sizes) stated.sizes.emplace(sizes.begin(), sizes.end());
    if (node->op == Op::cast || node->op == Op::scalar) stated.dtype = node->results[0].type->dtype;
    graph->set_insertion_point(node);
    const Node* again = graph->add(node->op, node->operands, node->attrs, stated);
    REQUIRE(again->results.size() == node->results.size());
    for (size_t k = 0; k < node->results.size(); ++k)
      CHECK_MESSAGE(print(*again->results[k].type) == print(*node->results[k].type), info(node->op).name, " ", k);
  });
  verify(*graph);
}

}  // namespace

TEST_CASE("types follow from operands and attributes") {
  check_types(
      R"(graph @main(%x: f32[4,8], %t: f32[4,8]{1,4}, %y: f32[8], %i: i64[3], %b: bool[4,8], %q: bf16[2,3,4,8]) {
  %0 = scalar value=2.0 : f32[]
  %1 = iota : i64[5]
  %2 = add %x, %0 : f32[4,8]
  %3 = mul %t, %t : f32[4,8]{1,4}
  %4 = mul %y, %t : f32[4,8]{1,4}
  %5 = lt %x, %y : bool[4,8]
  %6 = where %b, %0, %y : f32[4,8]
  %7 = isnan %y : bool[8]
  %8 = cast %t : f64[4,8]{1,4}
  %9 = permute %x, dims=[1,0] : f32[8,4]{1,8}
  %10 = reshape %9 : f32[2,16]
  %11 = expand %y : f32[3,8]{0,1}
  %12 = slice %x, dim=1 start=1 step=3 : f32[4,2]{8,3}
  %13 = exp %12 : f32[4,2]
  %14 = flip %x, dims=[0] : f32[4,8]
  %15 = index_map %x, origin=[0,1] map=[1,1] : f32[4]{9}
  %16 = cat %x, %12, dim=1 : f32[4,10]
  %17 = pad %x, %0, low=[1,0] high=[0,-2] : f32[5,6]
  %18 = slice_scatter %x, %12, dim=1 start=1 step=3 : f32[4,8]
  %19 = embedding %x, %i : f32[3,8]
  %20 = index_select %x, %i, dim=1 : f32[4,3]
  %21 = gather %y, %i, dim=0 : f32[3]
  %22 = index %x, %i, %i, dims=[0,1] : f32[3]
  %23 = scatter %y, %21, %i, dim=0 combine="add" : f32[8]
  %24 = index_put %x, %19, %i, dims=[0] combine="set" : f32[4,8]
  %25 = sum %x, dims=[0] keepdim=true : f32[1,8]
  %26 = argmax %x, dims=[0,1] : i64[]
  %27 = any %b, dims=[1] keepdim=false : bool[4]
  %28 = cumsum %t, dim=0 : f32[4,8]{1,4}
  %29 = cumargmax %x, dim=0 : i64[4,8]
  %30 = softmax %x, dim=1 : f32[4,8]
  %31, %32, %33 = layer_norm %q, rank=2 eps=1e-05 : bf16[2,3,4,8], f32[2,3,1,1], f32[2,3,1,1]
  %34 = mm %x, %9 : f32[4,4]
  %35 = addmm %0, %x, %9 : f32[4,4]
  %36 = sdpa %q, %q, %q, causal=true : bf16[2,3,4,8]
  return
}
)");
}

TEST_CASE("types of symbols follow likewise") {
  check_types(
      R"(graph @main[n = 8, m = 5, k = 3 in 1..inf](%x: f32[n,4*m], %y: f32[4*m], %z: f32[n,1], %a: f32[k,n,m], %b: f32[k,m,7]) {
  %0 = scalar value=2.0 : f32[]
  %1 = iota : i64[n + 1]
  %2 = mul %x, %y : f32[n,4*m]
  %3 = sub %z, %x : f32[n,4*m]
  %4 = permute %x, dims=[1,0] : f32[4*m,n]{1,4*m}
  %5 = reshape %4 : f32[2,n,2*m]
  %6 = expand %z : f32[n,k]{1,0}
  %7 = slice %x, dim=1 start=m step=2 : f32[n,m]{4*m,2}
  %8 = cat %x, %7, dim=1 : f32[n,5*m]
  %9 = pad %x, %0, low=[0,m] high=[n,0] : f32[2*n,5*m]
  %10 = mean %x, dims=[1] keepdim=true : f32[n,1]
  %11 = sum %x, dims=[0] keepdim=false : f32[4*m]
  %12 = softmax %x, dim=1 : f32[n,4*m]
  %13 = bmm %a, %b : f32[k,n,7]
  %14 = size of=n*m : i64[]
  return
}
)");
}

TEST_CASE("a node that cannot be is refused, and leaves the graph as it was") {
  const auto graph = parse("graph @m(%x: f32[4], %y: f32[3], %i: i64[4]) {return %x}");
  Value *x = graph->inputs()[0].value, *y = graph->inputs()[1].value, *i = graph->inputs()[2].value;
  const auto refused = [&](const char* what, auto&& add) {
    try {
      add();
      FAIL("a node was made");
    } catch (const InternalError& error) {
      CHECK_MESSAGE(std::string(error.what()).find(what) != std::string::npos, error.what());
    }
  };
  refused("broadcast", [&] { graph->add(Op::add, {x, y}); });
  refused("operand 0's dtype", [&] { graph->add(Op::add, {x, i}); });
  refused("floating", [&] { graph->add(Op::exp, {i}); });
  refused("needs a stated dtype", [&] { graph->add(Op::cast, {x}); });
  refused("needs stated sizes", [&] { graph->add(Op::reshape, {x}); });
  refused("do not follow", [&] { graph->add(Op::call, {x}); });
  CHECK(graph->node_count() == 0);
}

TEST_CASE("what is not known of sizes is decided by the example, and guarded") {
  const auto graph = parse("graph @m[n = 8, m = 8, k = 1](%x: f32[n], %y: f32[m], %z: f32[k]) {return}");
  Value *x = graph->inputs()[0].value, *y = graph->inputs()[1].value, *z = graph->inputs()[2].value;
  graph->set_source("model.py:7");
  Value* sum = graph->add(Op::add, {x, y});
  graph->outputs().push_back(graph->add(Op::mul, {sum, z}));
  verify(*graph);
  const auto& guards = graph->shape_env().guards();
  REQUIRE(guards.size() >= 2);
  CHECK(guards[0].why == "model.py:7");
  CHECK(to_text(guards[0].test) == "n == m");
  CHECK(to_text(guards.back().test) == "k == 1");
  // The text carries the guards.
  verify(*parse(print(*graph)));
  CHECK(print(*parse(print(*graph))) == print(*graph));
}
