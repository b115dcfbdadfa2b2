#include "symbolise.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ir/infer.h"

namespace braze::test {

using namespace ir;

namespace {

class Symbols {
 public:
  explicit Symbols(const Graph& from)
      : from_(from), values_(from.value_limit()), to_(std::make_unique<Graph>(from.name())) {}

  std::unique_ptr<Graph> run() {
    for (const Input& input : from_.inputs())
      values_[input.value->id] = to_->add_input(input.name, type(*input.value->type), input.kind);
    for (const Node* node = from_.first(); node; node = node->next) copy(*node);
    for (const Value* output : from_.outputs()) to_->outputs().push_back(values_[output->id]);
    for (const Mutation& mutation : from_.mutations())
      to_->mutations().push_back({mutation.input, values_[mutation.value->id]});
    return std::move(to_);
  }

 private:
  Size size(int64_t number) {
    if (number < 2) return number;
    const auto [row, fresh] = symbols_.try_emplace(number);
    if (fresh)
      row->second =
          to_->shape_env().create_symbol("n" + std::to_string(number), number, {.range = {2, SizeRange::infinity}});
    return row->second;
  }
  std::vector<Size> sizes(const Type& type) {
    std::vector<Size> result;
    for (const int64_t number : type.sizes) result.push_back(size(number));
    return result;
  }

  const Type* type(const Type& from) {
    const std::vector<Size> to = sizes(from);
    std::vector<Size> strides(from.strides.symbolic().begin(), from.strides.symbolic().end());
    // Dense ones are products of sizes, in whatever order; others stay as they are.
    std::vector<size_t> order(to.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::ranges::stable_sort(order, {}, [&](size_t k) { return from.strides[k] * 2 - (from.sizes[k] > 1); });
    std::vector<Size> dense(to.size());
    int64_t step = 1;
    Size symbolic = 1;
    bool is_dense = true;
    for (const size_t k : order) {
      is_dense = is_dense && from.strides[k] == step;
      dense[k] = symbolic;
      step *= from.sizes[k];
      symbolic = symbolic * to[k];
    }
    return to_->symbolic_type(from.dtype, from.device, to, is_dense ? dense : strides);
  }

  void copy(const Node& node) {
    std::vector<Value*> operands;
    for (Value* operand : node.operands) operands.push_back(values_[Graph::resolve(operand)->id]);
    Node* made = nullptr;
    // layer_norm's statistics may have a dtype each.
    if (node.op == Op::call || node.results.size() > 1) {
      std::vector<const Type*> types;
      for (const Value& result : node.results) types.push_back(type(*result.type));
      made = to_->create(node.op, operands, node.attrs, types);
    } else {
      const Type& result = *node.results[0].type;
      made = to_->add(node.op, operands, node.attrs,
                      {.dtype = result.dtype, .sizes = sizes(result), .device = result.device});
    }
    for (size_t k = 0; k < node.results.size(); ++k) values_[node.results[k].id] = made->result(k);
  }

  const Graph& from_;
  std::vector<Value*> values_;  ///< Of the copy, by the Value::id of `from_`.
  std::unique_ptr<Graph> to_;
  std::map<int64_t, Size> symbols_;
};

}  // namespace

std::unique_ptr<Graph> symbolise(const Graph& graph) {
  return Symbols(graph).run();
}

}  // namespace braze::test
