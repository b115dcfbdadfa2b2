// Random graphs of elementwise ops and views, computed before and after the pipeline: results must have the same
// bits.
#include <doctest/doctest.h>

#include <random>

#include "graph_interpreter.h"
#include "ir/infer.h"
#include "ir/shapes.h"
#include "ir/text.h"
#include "passes/pipeline.h"

using namespace braze;
using namespace braze::ir;

namespace {

constexpr DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i16, DType::u8, DType::b8};

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    for (const DType dtype : {DType::f32, DType::f32, DType::bf16, DType::i16, DType::b8})
      values_.push_back(graph_->add_input("x", type(dtype, {3, 4}), InputKind::argument));
    for (int k = 0; k < 25; ++k) add();
    for (int k = 0; k < 3; ++k) graph_->outputs().push_back(values_[values_.size() - 1 - pick(6)]);
    // The input is overwritten by a value of its own type, which is there: the input itself at least.
    Value* changed = graph_->inputs()[0].value;
    for (Value* value : values_)
      if (value->type == changed->type) changed = value;
    graph_->mutations().push_back({0, changed});
  }
  const Graph& graph() const { return *graph_; }

 private:
  size_t pick(size_t count) { return random_() % count; }
  Value* any() { return values_[pick(values_.size())]; }
  const Type* type(DType dtype, const Sizes& sizes) { return graph_->contiguous_type(dtype, {}, sizes); }
  static Sizes sizes_of(const Value* value) { return {value->type->sizes.begin(), value->type->sizes.end()}; }

  Value* to(Value* value, DType dtype) {
    return value->type->dtype == dtype ? value : graph_->add(Op::cast, {value}, {}, {.dtype = dtype});
  }

  void add() {
    switch (pick(8)) {
      case 0: return values_.push_back(number());
      case 1: return values_.push_back(to(any(), dtypes[pick(std::size(dtypes))]));
      case 2: return view();
      case 3: return unary();
      case 4: return where();
      default: return binary();
    }
  }

  Value* number() {
    static constexpr double numbers[] = {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, INFINITY, NAN};
    const DType dtype = dtypes[pick(std::size(dtypes))];
    const double value = numbers[pick(is_floating(dtype) ? std::size(numbers) : 7)];
    return graph_->scalar(dtype,
                          is_floating(dtype) ? Number::of(value) : Number::of_int(static_cast<int64_t>(value)));
  }

  void unary() {
    Value* x = any();
    const DType dtype = x->type->dtype;
    static constexpr Op floats[] = {Op::neg,  Op::abs,        Op::sqrt, Op::floor,
                                    Op::relu, Op::reciprocal, Op::exp,  Op::trunc};
    static constexpr Op integers[] = {Op::neg, Op::abs, Op::bitwise_not};
    Op op = is_floating(dtype) ? floats[pick(std::size(floats))] : integers[pick(std::size(integers))];
    if (dtype == DType::b8) op = Op::bitwise_not;
    if (pick(5) == 0) op = Op::logical_not;
    values_.push_back(graph_->add(op, {x}));
  }

  void binary() {
    Value *x = any(), *y = any();
    if (!broadcast(x->type->sizes, y->type->sizes)) return;
    const DType dtype = x->type->dtype;
    y = to(y, dtype);
    static constexpr Op floats[] = {Op::add, Op::sub, Op::mul, Op::div, Op::add, Op::sub, Op::mul};
    static constexpr Op integers[] = {Op::add, Op::sub, Op::mul, Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor};
    static constexpr Op bools[] = {Op::add, Op::mul, Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor};
    static constexpr Op compares[] = {Op::eq, Op::ne, Op::lt, Op::ge};
    Op op = is_floating(dtype) ? floats[pick(std::size(floats))] : integers[pick(std::size(integers))];
    if (dtype == DType::b8) op = bools[pick(std::size(bools))];
    if (pick(4) == 0) op = compares[pick(std::size(compares))];
    values_.push_back(graph_->add(op, {x, y}));
  }

  void where() {
    Value *c = to(any(), DType::b8), *x = any();
    Value* y = to(any(), x->type->dtype);
    auto sizes = broadcast(c->type->sizes, x->type->sizes);
    if (sizes) sizes = broadcast(*sizes, y->type->sizes);
    if (sizes) values_.push_back(graph_->add(Op::where, {c, x, y}));
  }

  void view() {
    Value* x = any();
    Sizes sizes = sizes_of(x);
    switch (pick(5)) {
      case 0: {
        const int64_t dims[] = {1, 0};
        if (sizes.size() != 2) return;
        return values_.push_back(graph_->add(Op::permute, {x}, {{"dims", std::span<const int64_t>(dims)}}));
      }
      case 1:
        if (x->type->numel() != 12) return;
        return values_.push_back(with_sizes(Op::reshape, x, {}, pick(2) == 0 ? Sizes{4, 3} : Sizes{3, 4}));
      case 2:
        if (!broadcast(sizes, Sizes{3, 4}) || x->type->numel() > 12) return;
        return values_.push_back(with_sizes(Op::expand, x, {}, *broadcast(sizes, Sizes{3, 4})));
      case 3: {
        const int64_t dims[] = {static_cast<int64_t>(pick(2))};
        if (sizes.size() != 2) return;
        return values_.push_back(graph_->add(Op::flip, {x}, {{"dims", std::span<const int64_t>(dims)}}));
      }
      default:
        if (sizes.size() != 2 || sizes[0] < 2) return;
        sizes[0] = 1;
        return values_.push_back(
            with_sizes(Op::slice, x, {{"dim", int64_t{0}}, {"start", int64_t{1}}, {"step", int64_t{1}}}, sizes));
    }
  }

  Value* with_sizes(Op op, Value* x, std::initializer_list<Attr> attrs, const Sizes& sizes) {
    return graph_->add(op, {x}, attrs, {.sizes = {{sizes.begin(), sizes.end()}}});
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  std::vector<Value*> values_;
};

}  // namespace

TEST_CASE("random graphs keep their bits through the pipeline") {
  size_t removed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const RandomGraph random(seed);
    verify(random.graph());
    const std::string text = print(random.graph());
    const auto before = parse(text), after = parse(text);
    REQUIRE(exact_hash(*before) == exact_hash(random.graph()));
    passes::run(*after, nullptr, true);
    removed += before->node_count() - after->node_count();
    const auto difference = test::compare(*before, *after);
    CHECK_MESSAGE(!difference, "seed ", seed, ": ", difference.value_or(""), "\n", text, "became\n", print(*after));
  }
  CHECK(removed > 1000);
}
