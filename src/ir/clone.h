// ir/clone.h: a graph once more, as if it had been traced at other sizes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/graph_copy.h"

namespace braze::ir {

/// A walk whose copy has the symbols, guards and expressions of the original, if there are any.
class SymbolicCopy : public GraphCopy {
 public:
  /// \param examples  a value for every symbol, by slot. Throws UserError where they break a guard.
  SymbolicCopy(const Graph& from, Graph& to, std::span<const int64_t> examples);
  /// With the examples of the original.
  SymbolicCopy(const Graph& from, Graph& to);

 private:
  void copy_symbols(const ShapeEnv& env, std::span<const int64_t> examples);
  Size size(Size from);
  std::vector<Size> sizes(std::span<const Size> from);
  const Type* type(const Type& from) override;
  void change(const Node& node, std::vector<Attr>& attributes) override;

  std::unordered_map<uint64_t, Size> sizes_;  ///< By the bits of the original.
};

/// A copy with the same symbols, guards and nodes. Its examples, from which lowering takes what is fast, are these.
/// \param examples  a value for every symbol, by slot, that keeps all guards; ShapeEnv::examples() for the same
/// ones. Throws UserError where they do not.
std::unique_ptr<Graph> clone(const Graph& graph, std::span<const int64_t> examples);

}  // namespace braze::ir
