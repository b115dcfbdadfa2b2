#include <algorithm>
#include <optional>

#include "ir/text.h"
#include "ir/verify_node.h"
#include "support/error.h"

namespace braze::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), rules_(graph.prove()), defined_(graph.value_limit()), types_(graph.type_count()) {}

  void run() {
    for (const Input& input : graph_.inputs()) {
      if (input.value->def->op != Op::input) fail("an input that is not defined by an input node");
      define(*input.value, input.value->def, 0, nullptr);
    }
    size_t count = 0;
    const Node* previous = nullptr;
    for (const Node* node = graph_.first(); node; previous = node, node = node->next, ++count) {
      if (node->previous != previous) fail("the list of nodes is not linked both ways", node);
      check(*node);
    }
    if (count != graph_.node_count())
      fail(concat("node_count() is ", graph_.node_count(), " for ", count, " nodes"));
    for (const Value* output : graph_.outputs())
      if (!is_defined(output)) fail("an output is not defined in the graph");
    check_mutations();
  }

 private:
  [[noreturn]] void fail(const std::string& what, const Node* node = nullptr) const {
    std::string message = concat("invalid graph @", graph_.name(), ": ", what);
    if (node) {
      message += "\n  in  " + print(*node, ValueNames(graph_));
      if (!node->source.empty()) message.append("  ; ").append(node->source);
    }
    throw InternalError(message);
  }

  bool is_defined(const Value* value) const {
    return value && value->id < defined_.size() && defined_[value->id] == value;
  }

  bool is_of_this_graph(Size size) const {
    const ShapeEnv* env = graph_.find_shape_env();
    return size.is_constant() || (env && size.expr()->table == &env->table());
  }

  void define(const Value& value, const Node* def, uint32_t result, const Node* node) {
    if (value.def != def || value.result != result) fail("a result does not know its node", node);
    if (value.id >= defined_.size() || defined_[value.id]) fail("a result's id is taken or out of range", node);
    if (value.replacement) fail("a replacement was not applied", node);
    if (!value.type || value.type->id >= types_.size()) fail("a result's type is not of this graph", node);
    const Type*& known = types_[value.type->id];
    if (known && known != value.type) fail("a result's type is of another graph", node);
    known = value.type;
    for (const SizeSpan& sizes : {value.type->sizes, value.type->strides})
      for (const Size size : sizes.symbolic())
        if (!is_of_this_graph(size)) fail("a size is of another graph", node);
    for (const Size size : value.type->sizes.symbolic())
      if (!size.is_constant() && !rules_.at_least(size, 0))
        fail(concat("the size ", to_text(size), " may be negative"), node);
    defined_[value.id] = &value;
  }

  void check(const Node& node) {
    const OpInfo& row = info(node.op);
    const auto operands = static_cast<int>(node.operands.size());
    if (node.op == Op::input) fail("an input node in the list of nodes", &node);
    if (operands < row.fewest_operands || (row.most_operands >= 0 && operands > row.most_operands))
      fail("the wrong number of operands", &node);
    if (row.results >= 0 && std::ssize(node.results) != row.results) fail("the wrong number of results", &node);
    for (size_t k = 0; k < node.operands.size(); ++k)
      if (!is_defined(node.operands[k])) fail(concat("operand ", k, " is not defined above"), &node);
    for (uint32_t k = 0; k < node.results.size(); ++k) define(node.results[k], &node, k, &node);
    if (row.kind != OpKind::Source && node.op != Op::call && !has_small_attributes(node))
      fail("a number here is larger than any tensor", &node);
    if (const auto wrong = complaint(node, rules_)) fail(*wrong, &node);
    for (const Value& result : node.results)
      if (node.op != Op::call && !is_kernel_dtype(result.type->dtype) && info(node.op).kind != OpKind::View &&
          info(node.op).kind != OpKind::Library)
        fail("complex and other opaque dtypes are for call and views only", &node);
  }

  /// Starts, steps, pads: whoever calculates with them need not fear an overflow.
  static bool has_small_attributes(const Node& node) {
    const auto small = [](int64_t number) { return number > -(int64_t{1} << 48) && number < int64_t{1} << 48; };
    return std::ranges::all_of(node.attrs, [&](const Attr& attr) {
      if (const auto* one = std::get_if<int64_t>(&attr.value)) return small(*one);
      if (const auto* many = std::get_if<std::span<const int64_t>>(&attr.value))
        return std::ranges::all_of(*many, small);
      return true;  // Arithmetic on expressions is checked.
    });
  }

  void check_mutations() const {
    std::vector<bool> mutated(graph_.inputs().size());
    for (const Mutation& mutation : graph_.mutations()) {
      if (mutation.input >= mutated.size()) fail("a mutation of an input that is not there");
      if (mutated[mutation.input]) fail("an input is mutated twice");
      mutated[mutation.input] = true;
      if (!is_defined(mutation.value)) fail("a mutation's value is not defined in the graph");
      const Type& from = *mutation.value->type;
      const Type& to = *graph_.inputs()[mutation.input].value->type;
      if (from.dtype != to.dtype || !rules_.equal(from.sizes.symbolic(), to.sizes.symbolic()))
        fail("a mutation's value has not the input's dtype and shape");
    }
  }

  const Graph& graph_;
  const SizeRules rules_;
  std::vector<const Value*> defined_;  ///< By Value::id.
  std::vector<const Type*> types_;     ///< By Type::id, as far as met.
};

}  // namespace

void verify(const Graph& graph) {
  Verifier(graph).run();
}

}  // namespace braze::ir
