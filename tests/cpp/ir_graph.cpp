#include <doctest/doctest.h>

#include "ir/graph.h"
#include "ir/infer.h"
#include "support/error.h"

using namespace braze;
using namespace braze::ir;

namespace {

const int64_t shape[] = {4, 8};

/// x + number, on f32[4,8].
std::unique_ptr<Graph> add_number(double number, std::string_view input_name = "x") {
  auto graph = std::make_unique<Graph>();
  const Type* type = graph->contiguous_type(DType::f32, {}, shape);
  Value* x = graph->add_input(input_name, type, InputKind::argument);
  Value* one = graph->scalar(DType::f32, Number::of(number));
  graph->outputs() = {graph->create(Op::add, {x, one}, {}, type)};
  return graph;
}

}  // namespace

TEST_CASE("types and texts are interned") {
  Graph graph;
  const Type* a = graph.contiguous_type(DType::f32, {}, shape);
  const int64_t strides[] = {8, 1}, other[] = {1, 4};
  CHECK(graph.type(DType::f32, {}, shape, strides) == a);
  CHECK(graph.type(DType::f32, {}, shape, other) != a);
  CHECK(graph.type(DType::f32, {DeviceKind::cuda, 0}, shape, strides) != a);
  CHECK(graph.type_count() == 3);
  CHECK(graph.intern("abc").data() == graph.intern(std::string("abc")).data());
}

TEST_CASE("a graph tells what it holds and what it was asked for") {
  Graph graph;  // Its name is a text.
  const Type* type = graph.contiguous_type(DType::f32, {}, shape);
  Value* x = graph.add_input("x", type, InputKind::argument);
  for (int k = 0; k < 1000; ++k) {
    graph.set_source(graph.intern("model.py:12"));
    x = graph.create(Op::neg, {x}, {}, graph.contiguous_type(DType::f32, {}, shape));
  }
  graph.outputs() = {x};
  const GraphStats stats = graph.stats();
  CHECK(stats.values == 1001);
  CHECK(stats.types == 1);
  CHECK(stats.types_wanted == 1001);
  CHECK(stats.texts == 3);
  CHECK(stats.texts_wanted == 1002);
  CHECK(stats.text_copies == 3);
  CHECK(stats.used_bytes >= 1001 * (sizeof(Node) + sizeof(Value)));
  CHECK(stats.used_bytes <= stats.bytes);
  CHECK(stats.bytes <= stats.peak_bytes);
  CHECK(stats.peak_bytes < stats.used_bytes * 1.3);

  graph.erase(x->def);
  CHECK(graph.stats().values == 1001);
}

TEST_CASE("contiguity follows PyTorch") {
  Graph graph;
  const int64_t sizes[] = {1, 4}, odd[] = {77, 1};
  CHECK(graph.type(DType::f32, {}, sizes, odd)->is_contiguous());
  const int64_t empty[] = {0, 4}, any[] = {3, 9};
  CHECK(graph.type(DType::f32, {}, empty, any)->is_contiguous());
  const int64_t transposed[] = {1, 4};
  CHECK_FALSE(graph.type(DType::f32, {}, shape, transposed)->is_contiguous());
  CHECK(contiguous_strides(std::vector<int64_t>{2, 0, 3}) == std::vector<int64_t>{3, 3, 1});
}

TEST_CASE("the structural hash ignores names and scalar values, the exact one only names") {
  CHECK(structural_hash(*add_number(1)) == structural_hash(*add_number(2, "y")));
  CHECK(exact_hash(*add_number(1)) != exact_hash(*add_number(2)));
  CHECK(exact_hash(*add_number(0.0)) != exact_hash(*add_number(-0.0)));
  CHECK(exact_hash(*add_number(1)) == exact_hash(*add_number(1, "y")));

  // Structure counts: x + 1 and x + x.
  Graph graph;
  const Type* type = graph.contiguous_type(DType::f32, {}, shape);
  Value* x = graph.add_input("x", type, InputKind::argument);
  graph.scalar(DType::f32, Number::of(1));
  graph.outputs() = {graph.create(Op::add, {x, x}, {}, type)};
  CHECK(structural_hash(graph) != structural_hash(*add_number(1)));
}

TEST_CASE("nodes are inserted, replaced and erased") {
  auto graph = add_number(1);
  Value* x = graph->inputs()[0].value;
  Value* sum = graph->outputs()[0];
  graph->set_insertion_point(sum->def);
  Value* negated = graph->create(Op::neg, {x}, {}, x->type);
  CHECK(negated->def->next == sum->def);
  CHECK(graph->node_count() == 3);
  graph->replace(x, negated);
  // Uses that come later see the replacement at once.
  CHECK(graph->create(Op::exp, {x}, {}, x->type)->def->operands[0] == negated);
  graph->replace(sum, x);
  CHECK(Graph::resolve(sum) == negated);
  graph->erase(sum->def);
  CHECK(graph->node_count() == 3);
}

TEST_CASE("a replacement of another shape is refused") {
  auto graph = add_number(1);
  Value* scalar = graph->first()->result();
  CHECK_THROWS_AS(graph->replace(graph->outputs()[0], scalar), InternalError);
}

TEST_CASE("scalars hold what their dtype can hold") {
  CHECK(round_to(Number::of(0.1), DType::f32).f == static_cast<double>(0.1f));
  CHECK(round_to(Number::of(0.1), DType::bf16).f == static_cast<double>(0.1f));
  CHECK(round_to(Number::of(0.1), DType::f64).f == 0.1);
  // 2**53 + 2**29 + 1: by way of f64 it would be rounded to a tie, and then down.
  CHECK(round_to(Number::of_int(9007199791611905), DType::f32).f == 9007200328482816.0);
  CHECK(round_to(Number::of_int(300), DType::u8).i == 44);
  CHECK(round_to(Number::of(0.5), DType::b8).i == 1);
  CHECK_FALSE(Number::of(0.0).same_bits(Number::of(-0.0)));
}

TEST_CASE("attributes are found by name and type") {
  Graph graph;
  const Type* type = graph.contiguous_type(DType::f32, {}, shape);
  Value* x = graph.add_input("x", type, InputKind::argument);
  std::vector<int64_t> dims = {1};
  Value* sum = graph.create(Op::sum, {x}, {{"dims", std::span<const int64_t>(dims)}, {"keepdim", true}},
                            graph.contiguous_type(DType::f32, {}, std::vector<int64_t>{4, 1}));
  dims[0] = 9;
  CHECK(sum->def->ints_attr("dims")[0] == 1);
  CHECK(sum->def->bool_attr("keepdim"));
  CHECK_THROWS_AS(sum->def->int_attr("keepdim"), InternalError);
  CHECK_THROWS_AS(sum->def->int_attr("absent"), InternalError);
}

TEST_CASE("sizes are read as numbers only where they are") {
  Graph graph;
  const Size n = graph.shape_env().create_symbol("n", 8);
  const Size sizes[] = {n, 4}, numbers[] = {2, 4};
  const Type* type = graph.symbolic_type(DType::f32, {}, sizes, contiguous_strides(sizes));
  CHECK(type->sizes.symbolic()[0] == n);
  CHECK(type->sizes.size() == 2);
  CHECK_THROWS_AS(type->sizes[1], InternalError);
  CHECK_THROWS_AS(type->numel(), InternalError);
  CHECK(type->symbolic_numel() == 4 * n);
  CHECK(type->strides[0] == 4);
  CHECK(type->is_contiguous());
  CHECK(graph.symbolic_type(DType::f32, {}, sizes, contiguous_strides(sizes)) == type);
  // What is a number after all is one type with the number.
  CHECK(graph.symbolic_type(DType::f32, {}, numbers, contiguous_strides(numbers)) ==
        graph.contiguous_type(DType::f32, {}, std::vector<int64_t>{2, 4}));
  CHECK_THROWS_AS(graph.contiguous_type(DType::f32, {}, std::vector<int64_t>{INT64_MIN}), UserError);

  Value* x = graph.add_input("x", type, InputKind::argument);
  Value* part = graph.add(Op::slice, {x}, {{"dim", int64_t{0}}, {"start", Size(0)}, {"step", n + 1}},
                          {.sizes = {{Size(0), Size(4)}}});
  CHECK(std::holds_alternative<int64_t>(part->def->find("start")->value));
  CHECK(part->def->size_attr("start") == 0);
  CHECK(part->def->size_attr("step") == n + 1);
  CHECK_THROWS_AS(part->def->int_attr("step"), InternalError);
}

TEST_CASE("the table of ops is whole") {
  CHECK(parse_op("layer_norm") == Op::layer_norm);
  CHECK_FALSE(parse_op("no_such_op"));
  CHECK(is_elementwise(Op::where));
  CHECK_FALSE(is_elementwise(Op::permute));
  CHECK(parse_dtype("bool") == DType::b8);
  CHECK(compute_dtype(DType::f16) == DType::f32);
  CHECK(to_string(Device{DeviceKind::cuda, 1}) == "cuda:1");
}
