// tests/cpp/random_symbolic_graph.h: random graphs whose sizes are expressions.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "ir/infer.h"
#include "ir/shape_env.h"
#include "ir/shapes.h"

namespace braze::test {

using namespace ir;

class RandomSymbolicGraph {
 public:
  /// \param proved  only nodes that fit for all sizes.
  RandomSymbolicGraph(unsigned seed, bool proved) : random_(seed), proved_(proved) {
    ShapeEnv& env = graph_->shape_env();
    n_ = env.create_symbol("n", 5);
    m_ = env.create_symbol("m", 3);
    k_ = env.create_symbol("k", 4, {.range = {pick(2) ? 1 : 0, SizeRange::infinity}});
    const SymbolicSizes shapes[] = {{n_, m_}, {m_}, {n_, 1}, {2 * n_}, {k_, n_, 2}, {n_ + k_}, {}};
    for (const char* name : {"x", "y", "z", "w"}) {
      const SymbolicSizes& sizes = shapes[pick(std::size(shapes))];
      const Type* type =
          graph_->symbolic_type(DType::f32, {}, sizes, contiguous_strides(std::span<const Size>(sizes)));
      values_.push_back(graph_->add_input(name, type, InputKind::argument));
    }
    for (const size_t count = 8 + pick(14); values_.size() < count;)
      if (Value* value = grow(any())) values_.push_back(value);
    for (int k = 0; k < 3; ++k) graph_->outputs().push_back(values_[values_.size() - 1 - pick(5)]);
  }
  const Graph& graph() const { return *graph_; }

 private:
  size_t pick(size_t count) { return random_() % count; }
  template <typename T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[pick(from.size())];
  }
  Value* any() { return values_[pick(values_.size())]; }
  static SymbolicSizes sizes_of(const Value* value) {
    const auto sizes = value->type->sizes.symbolic();
    return {sizes.begin(), sizes.end()};
  }
  /// Of a size that occurs at least, so that graphs stay small.
  bool fits(std::span<const Size> sizes) {
    Size count = 1;
    for (const Size size : sizes) count = count * size;
    return sizes.size() <= 4 && graph_->prove().hint(count) <= 400;
  }
  Attr ints(std::string_view name, const std::vector<int64_t>& values) { return {name, graph_->ints(values)}; }

  Value* grow(Value* x) {
    const auto rank = static_cast<int64_t>(x->type->sizes.size());
    switch (pick(10)) {
      case 0: return graph_->add(pick({Op::neg, Op::abs, Op::relu, Op::sigmoid}), {x});
      case 1:
      case 2:
      case 3: return binary(x, any());
      case 4: return reduce(x, rank);
      case 5: return reshape(x, rank);
      case 6: return rank ? view(x, rank) : nullptr;
      case 7: return rank ? structure(x, static_cast<int64_t>(pick(static_cast<size_t>(rank))), rank) : nullptr;
      case 8: return rank ? graph_->add(pick({Op::softmax, Op::log_softmax}), {x}, {{"dim", rank - 1}}) : nullptr;
      default: return expand(x);
    }
  }

  Value* binary(Value* x, Value* y) {
    const SizeRules rules = proved_ ? graph_->prove() : graph_->decide("broadcast");
    const auto sizes = broadcast(x->type->sizes.symbolic(), y->type->sizes.symbolic(), rules);
    if (!sizes || !fits(*sizes)) return nullptr;
    if (pick(5) == 0) return graph_->add(Op::where, {graph_->add(Op::lt, {x, y}), x, y});
    return graph_->add(Op::tanh, {graph_->add(pick({Op::add, Op::sub, Op::mul, Op::maximum}), {x, y})});
  }

  Value* reduce(Value* x, int64_t rank) {
    std::vector<int64_t> dims;
    for (int64_t dim = 0; dim < rank; ++dim)
      if (pick(2)) dims.push_back(dim);
    if (dims.empty()) return nullptr;
    const bool keepdim = pick(2);
    if (pick(4) == 0)
      return graph_->add(
          Op::var, {x},
          {ints("dims", dims), {"keepdim", keepdim}, {"correction", Number::of(pick({0.0, 1.0, 0.5}))}});
    return graph_->add(pick({Op::sum, Op::mean}), {x}, {ints("dims", dims), {"keepdim", keepdim}});
  }

  Value* reshape(Value* x, int64_t rank) {
    SymbolicSizes sizes = sizes_of(x);
    if (rank >= 2 && pick(2)) {
      const size_t at = pick(static_cast<size_t>(rank) - 1);
      sizes[at] = sizes[at] * sizes[at + 1];
      sizes.erase(sizes.begin() + static_cast<int64_t>(at) + 1);
    } else {
      sizes.insert(sizes.begin() + static_cast<int64_t>(pick(sizes.size() + 1)), Size(1));
    }
    return fits(sizes) ? graph_->add(Op::reshape, {x}, {}, {.sizes = sizes}) : nullptr;
  }

  Value* view(Value* x, int64_t rank) {
    std::vector<int64_t> dims(static_cast<size_t>(rank));
    for (int64_t dim = 0; dim < rank; ++dim) dims[dim] = dim;
    std::ranges::shuffle(dims, random_);
    if (pick(2)) return graph_->add(Op::permute, {x}, {ints("dims", dims)});
    dims.resize(pick(dims.size() + 1));
    std::ranges::sort(dims);
    return graph_->add(Op::flip, {x}, {ints("dims", dims)});
  }

  Value* expand(Value* x) {
    SymbolicSizes sizes = sizes_of(x);
    for (Size& size : sizes)
      if (size == 1 && pick(2)) size = pick({n_, m_, Size(3)});
    sizes.insert(sizes.begin(), pick({n_, k_, Size(2), m_ + 1}));
    return fits(sizes) ? graph_->add(Op::expand, {x}, {}, {.sizes = sizes}) : nullptr;
  }

  /// slice, slice_scatter, pad, cat.
  Value* structure(Value* x, int64_t dim, int64_t rank) {
    SymbolicSizes sizes = sizes_of(x);
    const Size size = sizes[dim];
    if (pick(4) == 0) {
      sizes[dim] = 2 * size;
      return fits(sizes) ? graph_->add(Op::cat, {x, graph_->add(Op::neg, {x})}, {{"dim", dim}}) : nullptr;
    }
    if (pick(3) == 0) {
      SymbolicSizes low(static_cast<size_t>(rank), 0), high = low;
      low[dim] = pick({k_, Size(1), Size(0)});
      high[dim] = pick({Size(2), Size(0), m_});
      sizes[dim] = size + low[dim] + high[dim];
      Value* filling = graph_->scalar(DType::f32, Number::of(0.5));
      return fits(sizes)
                 ? graph_->add(Op::pad, {x, filling}, {{"low", graph_->sizes(low)}, {"high", graph_->sizes(high)}})
                 : nullptr;
    }
    // Whole, the first and the second half, every other element, and all but the first where there is one.
    const Size half = floor_div(size, Size(2));
    struct Part {
      Size start, step, count;
    };
    const Part parts[] = {
        {0, 1, size}, {0, 1, half}, {size - half, 1, half}, {0, 2, half}, {1, 1, max(size - 1, Size(0))}};
    const Part part = parts[pick(std::size(parts))];
    const SizeRules rules = proved_ ? graph_->prove() : graph_->decide("slice");
    if (!rules.less(part.start + (part.count - 1) * part.step, size) || !rules.at_least(part.start, 0))
      return nullptr;
    const std::initializer_list<Attr> attrs = {{"dim", dim}, {"start", part.start}, {"step", part.step}};
    sizes[dim] = part.count;
    Value* piece = graph_->add(Op::slice, {x}, attrs, {.sizes = sizes});
    return pick(2) ? piece : graph_->add(Op::slice_scatter, {x, graph_->add(Op::neg, {piece})}, attrs);
  }

  std::mt19937 random_;
  const bool proved_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Size n_, m_, k_;
  std::vector<Value*> values_;
};

}  // namespace braze::test
