#include "ir/clone.h"

#include <unordered_map>
#include <vector>

#include "ir/shape_env.h"
#include "support/error.h"

namespace braze::ir {

namespace {

class Clone {
 public:
  Clone(const Graph& from, std::span<const int64_t> examples)
      : from_(from), values_(from.value_limit()), to_(std::make_unique<Graph>(from.name())) {
    if (const ShapeEnv* env = from.find_shape_env()) copy_symbols(*env, examples);
  }

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
  void copy_symbols(const ShapeEnv& env, std::span<const int64_t> examples) {
    BRAZE_CHECK(examples.size() == env.table().symbol_count(), "an example is needed for every symbol");
    ShapeEnv& own = to_->shape_env();
    for (uint32_t slot = 0; slot < examples.size(); ++slot)
      own.create_symbol(env.table().name(slot), examples[slot], env.declared(slot));
    for (const ShapeEnv::Guard& guard : env.guards()) {
      const SizeTest test{guard.test.kind, size(guard.test.left)};
      if (!own.decide(test, guard.why))
        throw UserError(concat("the guard ", to_text(guard.test), " is broken"), UserError::Kind::value);
    }
  }

  /// By its text: expressions of two tables never meet.
  Size size(Size from) {
    if (from.is_constant()) return from;
    const auto [at, is_new] = sizes_.try_emplace(from.bits());
    if (is_new) at->second = parse_size(to_text(from), to_->shape_env().table());
    return at->second;
  }
  std::vector<Size> sizes(std::span<const Size> from) {
    std::vector<Size> result;
    for (const Size each : from) result.push_back(size(each));
    return result;
  }

  const Type* type(const Type& from) {
    return to_->symbolic_type(from.dtype, from.device, sizes(from.sizes.symbolic()),
                              sizes(from.strides.symbolic()));
  }

  void copy(const Node& node) {
    to_->set_source(to_->intern(node.source));
    std::vector<Attr> attrs(node.attrs.begin(), node.attrs.end());
    for (Attr& attr : attrs) {
      if (const auto* one = std::get_if<Size>(&attr.value)) attr.value = size(*one);
      if (const auto* several = std::get_if<std::span<const Size>>(&attr.value))
        attr.value = to_->sizes(sizes(*several));
    }
    std::vector<Value*> operands;
    for (Value* operand : node.operands) operands.push_back(values_[Graph::resolve(operand)->id]);
    std::vector<const Type*> types;
    for (const Value& result : node.results) types.push_back(result.type ? type(*result.type) : nullptr);
    Node* made = to_->create(node.op, operands, attrs, types);
    for (size_t k = 0; k < node.results.size(); ++k) values_[node.results[k].id] = made->result(k);
  }

  const Graph& from_;
  std::vector<Value*> values_;  ///< Of the copy, by the Value::id of `from_`.
  std::unique_ptr<Graph> to_;
  std::unordered_map<uint64_t, Size> sizes_;  ///< By the bits of the original.
};

}  // namespace

std::unique_ptr<Graph> clone(const Graph& graph, std::span<const int64_t> examples) {
  return Clone(graph, examples).run();
}

}  // namespace braze::ir
