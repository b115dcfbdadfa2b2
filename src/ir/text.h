// ir/text.h: graphs as text. print -> parse -> print gives the same text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "support/lexer.h"

namespace braze::ir {

struct PrintOptions {
  bool sources = false;  ///< Append "; file:line".
};

/// Strides are printed only where they are not row-major: f32[4,8]{1,4}. The device only where it is not the CPU:
/// f32[4]@cuda:0. Symbols are declared behind the graph's name, with an example, and what is known of all their
/// values where that is more than n >= 0; guards are the first lines. Values are named %0, %1, ... in order of
/// definition; inputs by their names.
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Type& type);

/// What print() calls the values: "%x", "%12". Characters of input names that the text cannot hold become '_'.
class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);
  /// "%?" for a value that is not in the graph.
  std::string_view operator()(const Value* value) const;

 private:
  std::vector<std::string> names_;  ///< By Value::id.
};
/// One line, without indentation or newline: "%1 = add %x, %0 : f32[4,8]".
std::string print(const Node& node, const ValueNames& names);

/// A type of numbers that is in no graph.
struct TypeParts {
  DType dtype;
  Device device;
  std::vector<int64_t> sizes, strides;
};
/// "cpu", "cuda:0": what to_string() writes. Throws UserError with line and column.
Device parse_device(Lexer& lexer);
/// "f32[4,8]{1,4}@cuda:0". Throws UserError with line and column.
TypeParts parse_type(Lexer& lexer);

/// Parses one graph. Throws UserError with line and column on bad text.
std::unique_ptr<Graph> parse(std::string_view text);
/// Parses as many graphs as there are.
std::vector<std::unique_ptr<Graph>> parse_all(std::string_view text);

/// Checks every rule of graph.h and ops.def (operand counts, dtypes, shapes, order, attributes).
/// Throws InternalError that names the node.
void verify(const Graph& graph);

}  // namespace braze::ir
