// tests/cpp/random_graph.h: small graphs of random ops, for tests that compare two ways to compute one graph.
//
// Values stay within a few units, so that rounding stays small, and nothing is compared but inputs, so that it
// never decides a branch.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "ir/graph.h"

namespace braze::test {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed), graph_(std::make_unique<ir::Graph>("random")) {
    const Sizes shape = random_shape();
    for (const char* name : {"x", "y", "z"}) {
      const bool alike = name[0] != 'z';
      const ir::Type* type = graph_->contiguous_type(ir::DType::f32, {}, alike ? shape : random_shape());
      values_.push_back(graph_->add_input(name, type, ir::InputKind::argument));
    }
    inputs_ = values_;
    for (size_t count = 4 + below(12); values_.size() < count;) grow();
    // What nothing uses, and a little of the rest.
    for (ir::Value* value : values_)
      if (value->def->op != ir::Op::input && (!used_[value->id] || below(5) == 0))
        graph_->outputs().push_back(value);
    if (graph_->outputs().empty()) graph_->outputs().push_back(values_.back());
  }
  ir::Graph* graph() const { return graph_.get(); }

 private:
  using Sizes = std::vector<int64_t>;
  using Op = ir::Op;
  static constexpr int64_t most_elements = 1500;

  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  template <typename T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[below(static_cast<int64_t>(from.size()))];
  }
  ir::Value* any() { return values_[below(static_cast<int64_t>(values_.size()))]; }
  Sizes random_shape() {
    Sizes sizes(below(4));
    for (int64_t& size : sizes) size = pick<int64_t>({1, 2, 3, 4, 6, 8, 9});
    return sizes;
  }
  static Sizes sizes_of(const ir::Value* value) { return {value->type->sizes.begin(), value->type->sizes.end()}; }
  static Sizes strides_of(const ir::Value* value) {
    return {value->type->strides.begin(), value->type->strides.end()};
  }

  ir::Value* make(Op op, std::initializer_list<ir::Value*> operands, std::initializer_list<ir::Attr> attrs,
                  const Sizes& sizes, const Sizes* strides = nullptr, ir::DType dtype = ir::DType::f32) {
    const Sizes layout = strides ? *strides : ir::contiguous_strides(sizes);
    ir::Value* value = graph_->create(op, operands, attrs, graph_->type(dtype, {}, sizes, layout));
    used_.resize(graph_->value_limit());
    for (const ir::Value* operand : operands) used_[operand->id] = true;
    return value;
  }
  ir::Attr ints(std::string_view name, const Sizes& values) { return {name, graph_->ints(values)}; }

  /// The shape that two broadcast to; false if they do not, or to too much.
  static bool broadcast(const Sizes& a, const Sizes& b, Sizes& to) {
    to.assign(std::max(a.size(), b.size()), 1);
    int64_t elements = 1;
    for (size_t k = 1; k <= to.size(); ++k) {
      const int64_t x = k <= a.size() ? a[a.size() - k] : 1, y = k <= b.size() ? b[b.size() - k] : 1;
      if (x != y && x != 1 && y != 1) return false;
      elements *= to[to.size() - k] = std::max(x, y);
    }
    return elements <= most_elements;
  }

  void grow() {
    ir::Value* value = nullptr;
    switch (below(8)) {
      case 0: value = unary(any()); break;
      case 1:
      case 2: value = binary(any(), any()); break;
      case 3: value = reduce(any()); break;
      case 4:
      case 5: value = view(any()); break;
      case 6: value = rows(any()); break;
      case 7: value = piece(any()); break;
    }
    if (value) values_.push_back(value);
  }
  ir::Value* unary(ir::Value* x) {
    return make(pick({Op::neg, Op::abs, Op::sigmoid, Op::tanh, Op::sin, Op::relu}), {x}, {}, sizes_of(x));
  }
  ir::Value* binary(ir::Value* x, ir::Value* y) {
    Sizes sizes;
    if (!broadcast(sizes_of(x), sizes_of(y), sizes)) return nullptr;
    const Op op = pick({Op::add, Op::sub, Op::mul, Op::maximum, Op::minimum, Op::where});
    if (op != Op::where) return make(Op::tanh, {make(op, {x, y}, {}, sizes)}, {}, sizes);
    ir::Value *a = inputs_[below(3)], *b = inputs_[below(3)];
    Sizes tested, all;
    if (!broadcast(sizes_of(a), sizes_of(b), tested) || !broadcast(tested, sizes, all)) return nullptr;
    ir::Value* test = make(Op::lt, {a, b}, {}, tested, nullptr, ir::DType::b8);
    return make(Op::where, {test, x, y}, {}, all);
  }
  ir::Value* reduce(ir::Value* x) {
    const Sizes sizes = sizes_of(x);
    Sizes dims, kept;
    const bool keepdim = below(2);
    for (size_t k = 0; k < sizes.size(); ++k) {
      const bool reduced = below(2);
      if (reduced) dims.push_back(static_cast<int64_t>(k));
      if (!reduced || keepdim) kept.push_back(reduced ? 1 : sizes[k]);
    }
    if (dims.empty()) return nullptr;
    const Op op = pick({Op::sum, Op::amax, Op::amin, Op::mean});
    ir::Value* reduced = make(op, {x}, {ints("dims", dims), {"keepdim", keepdim}}, kept);
    return op == Op::sum ? make(Op::tanh, {reduced}, {}, kept) : reduced;
  }
  ir::Value* rows(ir::Value* x) {
    const int64_t rank = x->type->rank();
    if (rank == 0) return nullptr;
    const int64_t dim = below(rank);
    return make(pick({Op::softmax, Op::log_softmax}), {x}, {{"dim", dim}}, sizes_of(x));
  }
  ir::Value* view(ir::Value* x) {
    Sizes sizes = sizes_of(x), strides = strides_of(x);
    const auto rank = static_cast<int64_t>(sizes.size());
    switch (below(4)) {
      case 0: {
        Sizes dims(rank), new_sizes, new_strides;
        for (int64_t k = 0; k < rank; ++k) dims[k] = k;
        std::ranges::shuffle(dims, random_);
        for (int64_t dim : dims) new_sizes.push_back(sizes[dim]), new_strides.push_back(strides[dim]);
        return make(Op::permute, {x}, {ints("dims", dims)}, new_sizes, &new_strides);
      }
      case 1: return make(Op::reshape, {x}, {}, refactored(x->type->numel()));
      case 2: {
        if (rank == 0) return nullptr;
        const int64_t dim = below(rank), start = below(sizes[dim]), step = 1 + below(3);
        sizes[dim] = 1 + below((sizes[dim] - start + step - 1) / step);
        strides[dim] *= step;
        return make(Op::slice, {x}, {{"dim", dim}, {"start", start}, {"step", step}}, sizes, &strides);
      }
      default: {
        Sizes to = sizes;
        to.insert(to.begin(), pick<int64_t>({1, 2, 5}));
        strides.insert(strides.begin(), 0);
        for (size_t k = 1; k < to.size(); ++k)
          if (to[k] == 1) to[k] = 3, strides[k] = 0;
        int64_t elements = 1;
        for (int64_t size : to) elements *= size;
        return elements <= most_elements ? make(Op::expand, {x}, {}, to, &strides) : nullptr;
      }
    }
  }
  /// Another shape of as many elements.
  Sizes refactored(int64_t elements) {
    Sizes sizes;
    while (elements > 1 && sizes.size() < 4) {
      int64_t factor = 1 + below(12);
      if (elements % factor != 0 || sizes.size() == 3) factor = elements;
      sizes.push_back(factor);
      elements /= factor;
    }
    return sizes;
  }
  /// flip, cat, pad, slice_scatter.
  ir::Value* piece(ir::Value* x) {
    Sizes sizes = sizes_of(x);
    const auto rank = static_cast<int64_t>(sizes.size());
    if (rank == 0 || 4 * x->type->numel() > most_elements) return nullptr;
    const int64_t dim = below(rank);
    switch (below(4)) {
      case 0: return make(Op::flip, {x}, {ints("dims", {dim})}, sizes);
      case 1: {
        ir::Value* y = unary(x);
        sizes[dim] *= 3;
        return make(Op::cat, {x, y, x}, {{"dim", dim}}, sizes);
      }
      case 2: {
        Sizes low(rank), high(rank);
        low[dim] = below(3);
        high[dim] = below(3) - (sizes[dim] > 1);
        sizes[dim] += low[dim] + high[dim];
        ir::Value* fill = graph_->scalar(ir::DType::f32, ir::Number::of(0.5));
        used_.resize(graph_->value_limit());
        return make(Op::pad, {x, fill}, {ints("low", low), ints("high", high)}, sizes);
      }
      default: {
        const int64_t start = below(sizes[dim]), step = 1 + below(2);
        Sizes part = sizes;
        part[dim] = 1 + below((sizes[dim] - start + step - 1) / step);
        Sizes strides = strides_of(x);
        strides[dim] *= step;
        const std::initializer_list<ir::Attr> attrs = {{"dim", dim}, {"start", start}, {"step", step}};
        ir::Value* y = unary(make(Op::slice, {x}, attrs, part, &strides));
        return make(Op::slice_scatter, {x, y}, attrs, sizes);
      }
    }
  }

  std::mt19937 random_;
  std::unique_ptr<ir::Graph> graph_;
  std::vector<ir::Value*> values_, inputs_;
  std::vector<bool> used_;  ///< By Value::id.
};

}  // namespace braze::test
