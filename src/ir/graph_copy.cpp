#include "ir/graph_copy.h"

#include <utility>

#include "support/error.h"

namespace braze::ir {

void GraphCopy::run(const Node** place) {
  copy_inputs();
  const Node *before = nullptr, *const wanted = place ? *place : nullptr;
  for (const Node* node = from_.first(); node; node = node->next) {
    if (node == wanted) before = to_.last();
    copy(*node);
  }
  if (wanted) *place = before ? before->next : to_.first();
  for (const Value* output : from_.outputs()) to_.outputs().push_back((*this)[output]);
  for (const Mutation& mutation : from_.mutations())
    to_.mutations().push_back({mutation.input, (*this)[mutation.value]});
}

void GraphCopy::copy_inputs() {
  for (const Input& input : from_.inputs()) copy_input(input);
}

void GraphCopy::copy_input(const Input& input) {
  values_[input.value->id] = to_.add_input(input.name, type(*input.value->type), input.kind);
}

void GraphCopy::add_input(const Value& old, std::string_view name, const Type& lies) {
  values_[old.id] = to_.add_input(name, type(lies), InputKind::argument);
}

Value* GraphCopy::exchange(const Value& old, Value* instead) {
  return std::exchange(values_[Graph::resolve(const_cast<Value*>(&old))->id], instead);
}

Value* GraphCopy::operator[](const Value* old) const {
  Value* made = found(old);
  BRAZE_CHECK(made, "a value of the graph is not in its copy");
  return made;
}

void GraphCopy::copy(const Node& node) {
  to_.set_source(to_.intern(node.source));
  if (Value* instead = replaced(node)) {
    values_[node.results[0].id] = instead;
    return;
  }
  std::vector<Attr> attributes(node.attrs.begin(), node.attrs.end());
  change(node, attributes);
  std::vector<Value*> operands;
  operands.reserve(node.operands.size());
  for (const Value* operand : node.operands) operands.push_back((*this)[operand]);
  Node* made = make(node, operands, attributes);
  for (size_t k = 0; k < node.results.size(); ++k) values_[node.results[k].id] = made->result(k);
}

const Type* GraphCopy::type(const Type& from) {
  return to_.type(from.dtype, from.device, from.sizes, from.strides);
}

void GraphCopy::change(const Node&, std::vector<Attr>&) {}

Value* GraphCopy::replaced(const Node&) {
  return nullptr;
}

Node* GraphCopy::make(const Node& node, std::span<Value* const> operands, std::span<const Attr> attributes) {
  std::vector<const Type*> types;
  for (const Value& result : node.results) types.push_back(result.type ? type(*result.type) : nullptr);
  return to_.create(node.op, operands, attributes, types);
}

}  // namespace braze::ir
