// Attributes of nodes.
#include "ir/graph.h"
#include "support/error.h"

namespace braze::ir {
namespace {

template <typename T>
const T& get(const Node& node, std::string_view name) {
  const Attr* attr = node.find(name);
  BRAZE_CHECK(attr, info(node.op).name, " has no attribute ", name);
  const T* value = std::get_if<T>(&attr->value);
  BRAZE_CHECK(value, "attribute ", name, " of ", info(node.op).name, " has another type");
  return *value;
}

}  // namespace

const Attr* Node::find(std::string_view name) const {
  for (const Attr& attr : attrs)
    if (attr.name == name) return &attr;
  return nullptr;
}

int64_t Node::int_attr(std::string_view name) const {
  return get<int64_t>(*this, name);
}

int64_t Node::int_attr(std::string_view name, int64_t otherwise) const {
  return find(name) ? get<int64_t>(*this, name) : otherwise;
}

bool Node::bool_attr(std::string_view name, bool otherwise) const {
  return find(name) ? get<bool>(*this, name) : otherwise;
}

Number Node::number_attr(std::string_view name) const {
  return get<Number>(*this, name);
}

double Node::double_attr(std::string_view name, double otherwise) const {
  return find(name) ? get<Number>(*this, name).as_double() : otherwise;
}

std::string_view Node::text_attr(std::string_view name) const {
  return get<std::string_view>(*this, name);
}

std::span<const int64_t> Node::ints_attr(std::string_view name) const {
  return get<std::span<const int64_t>>(*this, name);
}

Size Node::size_attr(std::string_view name) const {
  const Attr* attr = find(name);
  if (attr && std::holds_alternative<Size>(attr->value)) return std::get<Size>(attr->value);
  return get<int64_t>(*this, name);
}

std::span<const Size> Node::sizes_attr(std::string_view name) const {
  const Attr* attr = find(name);
  if (attr && std::holds_alternative<std::span<const Size>>(attr->value))
    return std::get<std::span<const Size>>(attr->value);
  return as_sizes(get<std::span<const int64_t>>(*this, name));
}

bool Node::has_effect() const {
  return op == Op::call && bool_attr("effect");
}

}  // namespace braze::ir
