#include "ir/clone.h"

#include <unordered_map>
#include <vector>

#include "ir/graph_copy.h"
#include "ir/shape_env.h"
#include "support/error.h"

namespace braze::ir {

namespace {

class Clone final : public GraphCopy {
 public:
  using GraphCopy::GraphCopy;

  void copy_symbols(const ShapeEnv& env, std::span<const int64_t> examples) {
    BRAZE_CHECK(examples.size() == env.table().symbol_count(), "an example is needed for every symbol");
    ShapeEnv& own = to_.shape_env();
    for (uint32_t slot = 0; slot < examples.size(); ++slot)
      own.create_symbol(env.table().name(slot), examples[slot], env.declared(slot));
    for (const ShapeEnv::Guard& guard : env.guards()) {
      const SizeTest test{guard.test.kind, size(guard.test.left)};
      if (!own.decide(test, guard.why))
        throw UserError(concat("the guard ", to_text(guard.test), " is broken"), UserError::Kind::value);
    }
  }

 private:
  /// By its text: expressions of two tables never meet.
  Size size(Size from) {
    if (from.is_constant()) return from;
    const auto [at, is_new] = sizes_.try_emplace(from.bits());
    if (is_new) at->second = parse_size(to_text(from), to_.shape_env().table());
    return at->second;
  }
  std::vector<Size> sizes(std::span<const Size> from) {
    std::vector<Size> result;
    for (const Size each : from) result.push_back(size(each));
    return result;
  }

  const Type* type(const Type& from) override {
    return to_.symbolic_type(from.dtype, from.device, sizes(from.sizes.symbolic()), sizes(from.strides.symbolic()));
  }

  void change(const Node&, std::vector<Attr>& attributes) override {
    for (Attr& attribute : attributes) {
      if (const auto* one = std::get_if<Size>(&attribute.value)) attribute.value = size(*one);
      if (const auto* several = std::get_if<std::span<const Size>>(&attribute.value))
        attribute.value = to_.sizes(sizes(*several));
    }
  }

  std::unordered_map<uint64_t, Size> sizes_;  ///< By the bits of the original.
};

}  // namespace

std::unique_ptr<Graph> clone(const Graph& graph, std::span<const int64_t> examples) {
  auto to = std::make_unique<Graph>(graph.name());
  Clone copy(graph, *to);
  if (const ShapeEnv* env = graph.find_shape_env()) copy.copy_symbols(*env, examples);
  copy.run();
  return to;
}

}  // namespace braze::ir
