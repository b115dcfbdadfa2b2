#include <charconv>
#include <cmath>
#include <unordered_set>

#include "ir/shape_env.h"
#include "ir/size_text.h"
#include "ir/text.h"
#include "support/error.h"

namespace braze::ir {
namespace {

void append(std::string& out, int64_t value) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

void append(std::string& out, std::span<const int64_t> values, char open, char close) {
  out += open;
  for (size_t k = 0; k < values.size(); ++k) {
    if (k != 0) out += ',';
    append(out, values[k]);
  }
  out += close;
}

void append(std::string& out, const SizeSpan& sizes, char open, char close) {
  if (sizes.is_constant()) return append(out, std::span<const int64_t>(sizes), open, close);
  const std::string text = to_text(sizes.symbolic());
  ((out += open) += std::string_view(text).substr(1, text.size() - 2)) += close;
}

/// The shortest text that reads back as the same number, and as a floating one.
template <typename Float>
void append_float(std::string& out, Float value) {
  if (std::isnan(value)) {
    out += std::signbit(value) ? "-nan" : "nan";
    return;
  }
  char buffer[40];
  const std::string_view text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr - buffer);
  out += text;
  if (text.find_first_of(".en") == std::string_view::npos) out += ".0";  // 'n' is in "inf"
}

struct AttrPrinter {
  std::string& out;
  bool as_f32;  ///< The number was rounded to f32 and reads back through that rounding.

  void operator()(bool value) { out += value ? "true" : "false"; }
  void operator()(int64_t value) { append(out, value); }
  void operator()(const Number& value) {
    if (!value.floating) return append(out, value.i);
    as_f32 ? append_float(out, static_cast<float>(value.f)) : append_float(out, value.f);
  }
  void operator()(std::string_view value) { (out += '"').append(value) += '"'; }
  void operator()(std::span<const int64_t> value) { append(out, value, '[', ']'); }
  void operator()(Size value) { out += to_text(value); }
  void operator()(std::span<const Size> value) { out += to_text(value); }
};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/// Letters, digits, '_' and '.', not beginning with a digit (those are results).
std::string sanitise(std::string_view name) {
  std::string text;
  for (const char c : name) text += is_name(c) ? c : '_';
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) text.insert(0, "_");
  return text;
}

void append(std::string& out, const Type& type) {
  out += name(type.dtype);
  append(out, type.sizes, '[', ']');
  const auto rows = contiguous_strides(type.sizes.symbolic());
  if (!std::ranges::equal(type.strides.symbolic(), rows)) append(out, type.strides, '{', '}');
  if (type.device != Device{}) (out += '@') += to_string(type.device);
}

void append(std::string& out, const Node& node, const ValueNames& names) {
  std::string_view separator;
  for (const Value& result : node.results) {
    out.append(separator).append(names(&result));
    separator = ", ";
  }
  if (!node.results.empty()) out += " = ";
  out += info(node.op).name;
  separator = " ";
  for (Value* operand : node.operands) {
    out.append(separator).append(names(Graph::resolve(operand)));
    separator = ", ";
  }
  for (const Attr& attr : node.attrs) {
    const bool as_f32 = node.op == Op::scalar && compute_dtype(node.results[0].type->dtype) == DType::f32;
    (out.append(separator) += attr.name) += '=';
    std::visit(AttrPrinter{out, as_f32}, attr.value);
    separator = " ";
  }
  separator = " : ";
  for (const Value& result : node.results) {
    append(out += separator, *result.type);
    separator = ", ";
  }
}

std::string_view text(InputKind kind) {
  switch (kind) {
    case InputKind::argument: return "";
    case InputKind::param: return " param";
    case InputKind::constant: return " constant";
  }
  return "";
}

/// "[n = 8, m = 5 in 2..64]": with what was declared of them.
void append_symbols(std::string& out, const ShapeEnv& env) {
  if (env.table().symbol_count() == 0) return;
  for (uint32_t slot = 0; slot < env.table().symbol_count(); ++slot) {
    out += slot == 0 ? "[" : ", ";
    append_declaration(out, {std::string(env.table().name(slot)), env.examples()[slot], env.declared(slot)});
  }
  out += ']';
}

}  // namespace

ValueNames::ValueNames(const Graph& graph) : names_(graph.value_limit(), "%?") {
  std::unordered_set<std::string> taken;
  for (const Input& input : graph.inputs()) {
    const std::string base = sanitise(input.name);
    std::string name = base;
    for (int copy = 2; !taken.insert(name).second; ++copy) name = base + "_" + std::to_string(copy);
    names_[input.value->id] = "%" + name;
  }
  int64_t number = 0;
  for (const Node* node = graph.first(); node; node = node->next)
    for (const Value& result : node->results) {
      std::string& name = names_[result.id];
      name = "%";
      append(name, number++);
    }
}

std::string_view ValueNames::operator()(const Value* value) const {
  return value->id < names_.size() ? std::string_view(names_[value->id]) : "%?";
}

std::string print(const Type& type) {
  std::string out;
  append(out, type);
  return out;
}

std::string print(const Node& node, const ValueNames& names) {
  std::string out;
  append(out, node, names);
  return out;
}

std::string print(const Graph& graph, const PrintOptions& options) {
  const ValueNames names(graph);
  std::string out = "graph @" + sanitise(graph.name());
  const ShapeEnv* env = graph.find_shape_env();
  if (env) append_symbols(out, *env);
  out += '(';
  std::string_view separator;
  for (const Input& input : graph.inputs()) {
    out.append(separator).append(names(input.value)) += ": ";
    append(out, *input.value->type);
    out += text(input.kind);
    separator = ", ";
  }
  out += ") {\n";
  if (env)
    for (const ShapeEnv::Guard& guard : env->guards()) {
      (out += "  guard ") += to_text(guard.test);
      if (options.sources && !guard.why.empty()) (out += "  ; ") += guard.why;
      out += '\n';
    }
  for (const Node* node = graph.first(); node; node = node->next) {
    append(out += "  ", *node, names);
    if (options.sources && !node->source.empty()) (out += "  ; ") += node->source;
    out += '\n';
  }
  for (const Mutation& mutation : graph.mutations()) {
    const bool known = mutation.input < graph.inputs().size();
    (out += "  mutate ") += known ? names(graph.inputs()[mutation.input].value) : "%?";
    (out.append(", ") += names(Graph::resolve(mutation.value))) += '\n';
  }
  out += "  return";
  separator = " ";
  for (Value* output : graph.outputs()) {
    out.append(separator).append(names(Graph::resolve(output)));
    separator = ", ";
  }
  return out += "\n}\n";
}

}  // namespace braze::ir
