#include "symbolise.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ir/graph_copy.h"
#include "ir/infer.h"

namespace braze::test {

using namespace ir;

namespace {

class Symbols final : public GraphCopy {
 public:
  using GraphCopy::GraphCopy;

 private:
  Size size(int64_t number) {
    if (number < 2) return number;
    const auto [row, fresh] = symbols_.try_emplace(number);
    if (fresh)
      row->second =
          to_.shape_env().create_symbol("n" + std::to_string(number), number, {.range = {2, SizeRange::infinity}});
    return row->second;
  }
  std::vector<Size> sizes(const Type& type) {
    std::vector<Size> result;
    for (const int64_t number : type.sizes) result.push_back(size(number));
    return result;
  }

  const Type* type(const Type& from) override {
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
    return to_.symbolic_type(from.dtype, from.device, to, is_dense ? dense : strides);
  }

  Node* make(const Node& node, std::span<Value* const> operands, std::span<const Attr> attributes) override {
    // layer_norm's statistics may have a dtype each.
    if (node.op == Op::call || node.results.size() > 1) return GraphCopy::make(node, operands, attributes);
    const Type& result = *node.results[0].type;
    return to_.add(node.op, operands, attributes,
                   {.dtype = result.dtype, .sizes = sizes(result), .device = result.device});
  }

  std::map<int64_t, Size> symbols_;
};

}  // namespace

std::unique_ptr<Graph> symbolise(const Graph& graph) {
  auto to = std::make_unique<Graph>(graph.name());
  Symbols(graph, *to).run();
  return to;
}

}  // namespace braze::test
