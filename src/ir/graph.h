// ir/graph.h: the graph of a traced program: SSA, functional, arena-allocated.
//
// A Graph owns everything it points to. Nodes stand in an order in which definitions come before uses, which is
// also the order of the user's effects. In-place ops and view writes are gone: an input that the user's program
// changes is listed in `mutations()` with the value to be copied into it at the end.
//
//   graph @main(%x: f32[4,8], %w: f32[8] param) {
//     %0 = scalar value=1.0 : f32[]
//     %1 = add %x, %0 : f32[4,8]        ; model.py:12
//     return %1
//   }
//
// Sizes may be expressions over symbols (ir/size.h), which the graph then declares, with an example of each:
//
//   graph @main[n = 8, m = 5 in 2..inf](%x: f32[n,4*m]) {
//     %0 = sum %x, dims=[1] keepdim=false : f32[n]
//     return %0
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "ir/size.h"
#include "ir/size_span.h"
#include "support/hash.h"

namespace braze::ir {

class ShapeEnv;
class SizeRules;
struct Stated;

enum class Op : uint8_t {
#define OP(name, ...) name,
#include "ir/ops.def"
#undef OP
};

enum class OpKind : uint8_t {
  Source,
  Unary,
  UnaryTest,
  Cast,
  Binary,
  Compare,
  Ternary,
  View,
  Concat,
  Pad,
  Scatter,
  Gather,
  Update,
  Reduction,
  Scan,
  Composite,
  Library
};

/// What is true of an op beyond its kind; sets of them are sums.
namespace traits {
enum Trait : uint16_t {
  none = 0,
  floats = 1,         ///< For floating dtypes only.
  integers = 2,       ///< For integral dtypes and bool only.
  commutes = 4,       ///< f(x, y) and f(y, x) have the same bits.
  exact = 8,          ///< The result is an operand, or a number that the operand's dtype has.
  raises = 16,        ///< Some elements are a runtime error.
  reads_first = 32,   ///< Operand 0 is read at places that are computed.
  reads_second = 64,  ///< Operand 1 is.
  steps = 128,        ///< A small change of an operand may be a step of the result.
  bounded = 256,      ///< Of finite f16 numbers it is one that f16 has, never beyond 65,504.
  per_element = 512,  ///< A composite whose result elements depend on one element each.
  product = 1024,     ///< Of matrices, the last two operands; written where the caller says.
  wants_rows = 2048   ///< A library call whose operands must be rows without gaps, or slower code runs.
};
}  // namespace traits

/// One row of ops.def.
struct OpInfo {
  std::string_view name;
  OpKind kind;
  int fewest_operands, most_operands;  ///< most == -1: any number.
  int results;                         ///< -1: as the node says.
  std::string_view attributes;         ///< Names, separated by spaces.
  uint16_t traits;                     ///< Of traits::Trait.
  int vector_instructions;             ///< Roughly how many one vector takes; 1 also where nobody asks.
  std::string_view meaning;
};
const OpInfo& info(Op op);
/// What stands for an operator in hashes that are kept: of its name, so that a new row changes no other's.
uint32_t key(Op op);
std::optional<Op> parse_op(std::string_view name);
/// One result element depends on one element of each operand (Unary ... Ternary).
bool is_elementwise(Op op);
inline bool has(Op op, traits::Trait trait) {
  return (info(op).traits & trait) != 0;
}

/// Interned: two types of one graph are equal exactly when their addresses are.
struct Type {
  DType dtype;
  Device device;
  SizeSpan sizes;
  SizeSpan strides;  ///< In elements. What eager PyTorch gives this value.
  uint32_t id;       ///< Dense, from 0, in order of creation.

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  int64_t numel() const;        ///< Throws InternalError if it is an expression.
  Size symbolic_numel() const;  ///< The same, as it is.
  /// Row-major without gaps. Of sizes that are expressions: written so, which false does not deny.
  bool is_contiguous() const;
};

/// Row-major strides of `sizes`.
std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);
/// Strides of an empty tensor, of which nothing is read, may be 0.
std::vector<Size> contiguous_strides(std::span<const Size> sizes);

struct Node;

/// One result of a node.
struct Value {
  const Type* type;
  Node* def;
  uint32_t result;               ///< Which result of `def`.
  uint32_t id;                   ///< Dense within the graph, in order of creation; never reused.
  Value* replacement = nullptr;  ///< Set by Graph::replace until apply_replacements().
};

/// A number with exact bits: f64 for floating dtypes, i64 for integral and bool.
struct Number {
  bool floating = true;
  double f = 0;
  int64_t i = 0;
  static Number of(double value) { return {true, value, 0}; }
  static Number of_int(int64_t value) { return {false, 0, value}; }
  double as_double() const { return floating ? f : static_cast<double>(i); }
  int64_t as_int() const { return floating ? static_cast<int64_t>(f) : i; }
  bool same_bits(const Number& other) const;
};

/// The number that a scalar of `dtype` holds: as C converts it. bf16 and f16 keep f32's precision, because eager
/// PyTorch computes `bf16_tensor * 0.1` with 0.1 in f32.
Number round_to(Number value, DType dtype);

/// A Size here is an expression: a constant one becomes an int64_t, constant lists integers, when a node is made.
using AttrValue =
    std::variant<bool, int64_t, Number, std::string_view, std::span<const int64_t>, Size, std::span<const Size>>;
struct Attr {
  std::string_view name;  ///< Static or interned text.
  AttrValue value;
};

struct Node {
  Op op;
  uint32_t id;  ///< Dense, in order of creation; never reused.
  std::span<Value*> operands;
  std::span<Value> results;
  std::span<const Attr> attrs;
  std::string_view source;  ///< The user's "file:line", empty if unknown.
  Node* previous = nullptr;
  Node* next = nullptr;

  Value* result(size_t i = 0) { return &results[i]; }
  const Attr* find(std::string_view name) const;
  int64_t int_attr(std::string_view name) const;  ///< Throws InternalError if absent.
  int64_t int_attr(std::string_view name, int64_t otherwise) const;
  bool bool_attr(std::string_view name, bool otherwise = false) const;
  Number number_attr(std::string_view name) const;
  double double_attr(std::string_view name, double otherwise) const;
  std::string_view text_attr(std::string_view name) const;
  std::span<const int64_t> ints_attr(std::string_view name) const;
  Size size_attr(std::string_view name) const;  ///< A number or an expression.
  std::span<const Size> sizes_attr(std::string_view name) const;
  /// Kept although unused, and in order with other effects (random numbers, custom ops that write).
  bool has_effect() const;
};

/// How an input of the graph gets its tensor.
enum class InputKind : uint8_t {
  argument,  ///< Passed by the caller, in order.
  param,     ///< A parameter or buffer of a module: bound, its present contents are read at every call.
  constant,  ///< A tensor that the traced function closed over or built from Python data; bound likewise.
};

struct Input {
  Value* value;
  std::string_view name;
  InputKind kind;
};

/// At the end of a run `value` is copied into the tensor of input number `input`.
struct Mutation {
  uint32_t input;
  Value* value;
};

/// What a graph holds, and what was asked of it while it was built and rewritten.
struct GraphStats {
  size_t values = 0;        ///< Made so far: inputs, and results of nodes since erased, included.
  size_t types = 0;         ///< Distinct ones.
  size_t types_wanted = 0;  ///< Calls of type().
  size_t texts = 0;         ///< Distinct ones.
  size_t texts_wanted = 0;  ///< Texts interned, each as often as it came.
  size_t text_copies = 0;   ///< Texts for which memory was taken.
  size_t bytes = 0;         ///< Held from the system: nodes, types, texts, and the tables that find them.
  size_t used_bytes = 0;    ///< Of those, without what the arena has not handed out yet.
  size_t peak_bytes = 0;    ///< The most that was ever held.
};

class Graph {
 public:
  explicit Graph(std::string_view name = "main");
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  std::string_view name() const { return name_; }

  // ---- types and text
  const Type* type(DType dtype, Device device, std::span<const int64_t> sizes, std::span<const int64_t> strides);
  const Type* contiguous_type(DType dtype, Device device, std::span<const int64_t> sizes);
  const Type* symbolic_type(DType dtype, Device device, std::span<const Size> sizes, std::span<const Size> strides);
  size_t type_count() const;
  /// Copies text into the graph, once per distinct text. Empty text gives an empty view.
  std::string_view intern(std::string_view text);
  /// Copies integers into the graph (for attributes).
  std::span<const int64_t> ints(std::span<const int64_t> values);
  std::span<const Size> sizes(std::span<const Size> values);

  // ---- symbols
  /// Owns the symbols that sizes of this graph may mention, and the guards on them. Made when first asked for.
  ShapeEnv& shape_env();
  const ShapeEnv* find_shape_env() const;  ///< Null if there are no symbols: all sizes are numbers.
  /// Answers about sizes that hold for all values of the symbols; no other is given (ir/shape_env.h).
  SizeRules prove() const;
  /// Answers about all sizes, with guards where they are not proved. \param why  for people; outlives the answers.
  SizeRules decide(std::string_view why);

  // ---- building; new nodes go before the insertion point (by default: the end)
  Value* add_input(std::string_view name, const Type* type, InputKind kind);
  /// Copies operands (resolved), attributes and the texts and integers in them; attribute names must be static.
  Node* create(Op op, std::span<Value* const> operands, std::span<const Attr> attrs,
               std::span<const Type* const> results);
  Value* create(Op op, std::initializer_list<Value*> operands, std::initializer_list<Attr> attrs,
                const Type* result);
  /// The types of the results follow from the op's row (ir/infer.h); what they do not say is `stated`. Sizes that
  /// cannot be compared otherwise are decided, with guards. Throws InternalError where no type follows.
  Node* add(Op op, std::span<Value* const> operands, std::span<const Attr> attrs, const Stated& stated);
  Value* add(Op op, std::initializer_list<Value*> operands, std::initializer_list<Attr> attrs = {});
  Value* add(Op op, std::initializer_list<Value*> operands, std::initializer_list<Attr> attrs,
             const Stated& stated);
  /// A node of op `scalar`; the number is rounded by round_to().
  Value* scalar(DType dtype, Number value, Device device = {});
  void set_insertion_point(Node* before) { insertion_point_ = before; }
  Node* insertion_point() const { return insertion_point_; }
  /// Given to every node created from now on.
  void set_source(std::string_view interned) { source_ = interned; }
  std::string_view source() const { return source_; }

  // ---- reading
  /// The nodes that define inputs are not in the list of nodes.
  const std::vector<Input>& inputs() const { return inputs_; }
  Node* first() const { return first_; }
  Node* last() const { return last_; }
  std::vector<Value*>& outputs() { return outputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  std::vector<Mutation>& mutations() { return mutations_; }
  const std::vector<Mutation>& mutations() const { return mutations_; }
  size_t node_count() const { return node_count_; }     ///< Nodes now in the list, inputs not counted.
  uint32_t value_limit() const { return next_value_; }  ///< Above every Value::id: sizes a side table.

  // ---- changing
  /// Every use of `old` means `with` from now on. Uses are rewritten by apply_replacements(), and by resolve() as a
  /// pass walks.
  void replace(Value* old, Value* with);
  static Value* resolve(Value* value);
  void apply_replacements();
  /// Takes an unused node out of the list.
  void erase(Node* node);

  GraphStats stats() const;

 private:
  struct Storage;
  Node* make_node(Op op, std::span<Value* const> operands, std::span<const Attr> attrs, size_t results);
  Node* insert(Node* node);
  std::unique_ptr<Storage> storage_;
  std::string_view name_;
  std::vector<Input> inputs_;
  std::vector<Value*> outputs_;
  std::vector<Mutation> mutations_;
  Node *first_ = nullptr, *last_ = nullptr, *insertion_point_ = nullptr;
  std::string_view source_;
  size_t node_count_ = 0;
  uint32_t next_value_ = 0, next_node_ = 0;
};

/// Structure and types, not names, sources or scalar values: equal for x+1 and x+2.
Hash128 structural_hash(const Graph& graph);
/// structural_hash() and the scalar values.
Hash128 exact_hash(const Graph& graph);

/// Walks the nodes in order; the body may erase the node it is given and insert before it.
template <typename Body>
void for_each_node(const Graph& graph, Body&& body) {
  for (Node* node = graph.first(); node;) {
    Node* next = node->next;
    body(node);
    node = next;
  }
}

}  // namespace braze::ir
