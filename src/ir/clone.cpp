#include "ir/clone.h"

#include "ir/shape_env.h"
#include "ir/size_bounds.h"
#include "support/error.h"

namespace braze::ir {

SymbolicCopy::SymbolicCopy(const Graph& from, Graph& to, std::span<const int64_t> examples) : GraphCopy(from, to) {
  if (const ShapeEnv* env = from.find_shape_env()) copy_symbols(*env, examples);
}

SymbolicCopy::SymbolicCopy(const Graph& from, Graph& to) : GraphCopy(from, to) {
  if (const ShapeEnv* env = from.find_shape_env()) copy_symbols(*env, env->examples());
}

void SymbolicCopy::copy_symbols(const ShapeEnv& env, std::span<const int64_t> examples) {
  BRAZE_CHECK(examples.size() == env.table().symbol_count(), "an example is needed for every symbol");
  ShapeEnv& own = to_.shape_env();
  for (uint32_t slot = 0; slot < examples.size(); ++slot)
    own.create_symbol(env.table().name(slot), examples[slot], env.declared(slot));
  for (const ShapeEnv::Guard& guard : env.guards()) {
    // What is known of it is not told before: it would be proved, and be no guard.
    const SizeTest test{guard.test.kind, parse_size(to_text(guard.test.left), own.table())};
    if (!own.decide(test, guard.why))
      throw UserError(concat("the guard ", to_text(guard.test), " is broken"), UserError::Kind::value);
  }
}

/// By its text: expressions of two tables never meet. What is known of it goes along, as guards leave out factors:
/// `m >= 2` was learnt of `n*m - 2*n >= 0`.
Size SymbolicCopy::size(Size from) {
  if (from.is_constant()) return from;
  const auto [at, is_new] = sizes_.try_emplace(from.bits());
  if (!is_new) return at->second;
  SizeTable& table = to_.shape_env().table();
  at->second = parse_size(to_text(from), table);
  const SizeRange known = from.expr()->table->range(from);
  if (intersection(table.range(at->second), known) != table.range(at->second))
    learn_bounds(table, at->second, known);
  return at->second;
}

std::vector<Size> SymbolicCopy::sizes(std::span<const Size> from) {
  std::vector<Size> result;
  for (const Size each : from) result.push_back(size(each));
  return result;
}

const Type* SymbolicCopy::type(const Type& from) {
  if (from.sizes.is_constant() && from.strides.is_constant()) return GraphCopy::type(from);
  return to_.symbolic_type(from.dtype, from.device, sizes(from.sizes.symbolic()), sizes(from.strides.symbolic()));
}

void SymbolicCopy::change(const Node&, std::vector<Attr>& attributes) {
  for (Attr& attribute : attributes) {
    if (const auto* one = std::get_if<Size>(&attribute.value)) attribute.value = size(*one);
    if (const auto* several = std::get_if<std::span<const Size>>(&attribute.value))
      attribute.value = to_.sizes(sizes(*several));
  }
}

std::unique_ptr<Graph> clone(const Graph& graph, std::span<const int64_t> examples) {
  auto to = std::make_unique<Graph>(graph.name());
  SymbolicCopy(graph, *to, examples).run();
  return to;
}

}  // namespace braze::ir
