#include "ir/verify_node.h"

#include <algorithm>

#include "ir/attributes.h"
#include "ir/infer.h"
#include "ir/library_call.h"
#include "support/error.h"

namespace braze::ir {
namespace {

template <typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) throw InvalidNode{concat(parts...)};
}

// ---- attributes

/// Calls `visit` with every name in OpInfo::attributes.
template <typename Visit>
void for_each_attribute(std::string_view names, Visit&& visit) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    visit(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

/// A size that is a number is an integer.
bool holds(const AttrValue& value, AttrType type) {
  const auto held = static_cast<AttrType>(value.index());
  return held == type || (held == AttrType::integer && type == AttrType::size) ||
         (held == AttrType::integers && type == AttrType::sizes);
}

void check_attributes(const Node& node) {
  size_t known = 0;
  for_each_attribute(info(node.op).attributes, [&](std::string_view name) {
    const AttrInfo* row = find_attribute(name);
    require(row, "attribute ", name, " is not in ir/attributes.h");
    const auto count = std::ranges::count(node.attrs, name, &Attr::name);
    require(count <= 1, "attribute ", name, " is there twice");
    require(count == 1 || !row->required, "attribute ", name, " is missing");
    if (count == 0) return;
    ++known;
    require(holds(node.find(name)->value, row->type), "attribute ", name, " has the wrong type");
  });
  require(known == node.attrs.size(), "an attribute that ", info(node.op).name, " does not have");
}

// ---- library calls

void check_call(const Node& node) {
  LibraryCall call;
  try {
    call = library_call(node);
  } catch (const UserError& error) {
    throw InvalidNode{error.what()};
  }
  int64_t operands = 0;
  require(names_operands(call.arguments, operands) && operands == static_cast<int64_t>(node.operands.size()),
          "the arguments must name every operand once, in order");
  for (const Argument& argument : call.arguments) {
    const bool is_item = argument.kind == Argument::Kind::wrapped && argument.elements.size() == 1 &&
                         argument.elements[0].kind == Argument::Kind::operand;
    if (!is_item) continue;
    const Type& type = *node.operands[static_cast<size_t>(argument.elements.at(0).integer)]->type;
    require(type.dtype == DType::f64 && type.rank() == 0 && type.device == Device{},
            "a number is an f64 on the CPU");
  }
  for (const uint32_t operand : call.written)
    require(operand < node.operands.size(), "operand ", operand, ", which is written, does not exist");
  require(call.results.size() == node.results.size(), call.results.size(), " results are placed, there are ",
          node.results.size());
  for (const CallResult& result : call.results)
    require(result.returned >= 0 || static_cast<size_t>(result.element) < call.written.size(), "clone ",
            result.element, " of a written operand does not exist");
}

// ---- types

void check_types(const Node& node, const SizeRules& rules) {
  // What the op lets its caller state, the results say.
  Stated stated;
  if (!node.results.empty()) {
    const auto sizes = node.results[0].type->sizes.symbolic();
    stated.sizes.emplace(sizes.begin(), sizes.end());
    stated.dtype = node.results[0].type->dtype;
  }
  std::vector<Inferred> wanted = infer(node, stated, rules);
  for (size_t k = 0; k < wanted.size(); ++k) {
    const Type& type = *node.results[k].type;
    if (k > 0) {
      stated.dtype = type.dtype;
      wanted = infer(node, stated, rules);
    }
    const std::string which = node.results.size() > 1 ? concat("result ", k) : "result";
    require(rules.equal(type.sizes.symbolic(), wanted[k].sizes), "the ", which, " must have the shape ",
            to_text(wanted[k].sizes));
    require(type.dtype == wanted[k].dtype, "the ", which, " must be ", name(wanted[k].dtype));
  }
}

void check_number(const Node& node) {
  const Number value = node.number_attr("value");
  const DType dtype = node.results[0].type->dtype;
  require(value.same_bits(round_to(value, dtype)), "the number is not one that ", name(dtype), " can hold");
}

/// Calls alone move values between devices. Numbers are wherever they are read.
void check_device(const Node& node) {
  if (node.op == Op::call || node.results.empty()) return;
  const Device device = node.results[0].type->device;
  for (Value* value : node.operands) {
    const Value* from = Graph::resolve(value);
    const bool is_number = from->def->op == Op::scalar || from->def->op == Op::size;
    require(is_number || from->type->device == device, "an operand is on ", to_string(from->type->device),
            ", the result on ", to_string(device));
  }
}

}  // namespace

std::optional<std::string> complaint(const Node& node, const SizeRules& rules) {
  try {
    check_attributes(node);
    check_types(node, rules);
    check_device(node);
    if (node.op == Op::scalar) check_number(node);
    if (node.op == Op::call) check_call(node);
  } catch (const InvalidNode& broken) {
    return broken.what;
  }
  return std::nullopt;
}

}  // namespace braze::ir
