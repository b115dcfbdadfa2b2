#include <cmath>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "ir/attributes.h"
#include "ir/shape_env.h"
#include "ir/shapes.h"
#include "ir/size_text.h"
#include "ir/text.h"
#include "support/error.h"
#include "support/lexer.h"

namespace braze::ir {
namespace {

using Kind = Token::Kind;

std::vector<int64_t> integers(Lexer& lexer, std::string_view close) {
  std::vector<int64_t> values;
  if (lexer.take(close)) return values;
  do values.push_back(lexer.expect_integer());
  while (lexer.take(","));
  lexer.expect(close);
  return values;
}

struct ParsedType {
  DType dtype;
  Device device;
  SymbolicSizes sizes, strides;
};

/// \param size  reads one size or stride.
template <typename ReadSize>
ParsedType type_of(Lexer& lexer, ReadSize&& size) {
  const auto list = [&](std::string_view close) {
    SymbolicSizes sizes;
    if (lexer.take(close)) return sizes;
    do sizes.push_back(size());
    while (lexer.take(","));
    lexer.expect(close);
    return sizes;
  };
  const Token word = lexer.expect(Kind::word, "a type, as f32[4,8]");
  const auto dtype = parse_dtype(word.text);
  if (!dtype) lexer.fail(word, "expected a dtype (f32, i64, bool, ...)");
  lexer.expect("[");
  ParsedType type{.dtype = *dtype, .device = {}, .sizes = list("]"), .strides = {}};
  for (const Size size : type.sizes)
    if (size.is_constant() && size.constant() < 0) lexer.fail(word, "a negative size in this type");
  type.strides = contiguous_strides(std::span<const Size>(type.sizes));
  if (lexer.take("{")) {
    type.strides = list("}");
    if (type.strides.size() != type.sizes.size()) lexer.fail(word, "this type has not one stride a dimension");
  }
  if (lexer.at(Kind::symbol)) type.device = parse_device(lexer);
  return type;
}

class Parser {
 public:
  explicit Parser(Lexer& lexer) : lexer_(lexer) {}

  std::unique_ptr<Graph> graph() {
    lexer_.expect("graph");
    graph_ = std::make_unique<Graph>(lexer_.expect(Kind::symbol, "the graph's name, as @main").text);
    values_.clear();
    inputs_.clear();
    if (lexer_.take("[")) {
      do symbol();
      while (lexer_.take(","));
      lexer_.expect("]");
    }
    lexer_.expect("(");
    if (!lexer_.take(")")) {
      do input();
      while (lexer_.take(","));
      lexer_.expect(")");
    }
    lexer_.expect("{");
    while (lexer_.take("guard")) guard();
    while (!lexer_.peek().is("mutate") && !lexer_.peek().is("return")) node();
    while (lexer_.take("mutate")) mutation();
    lexer_.expect("return");
    if (lexer_.at(Kind::value)) {
      do graph_->outputs().push_back(use());
      while (lexer_.take(","));
    }
    lexer_.expect("}");
    return std::move(graph_);
  }

 private:
  void define(const Token& name, Value* value) {
    if (!values_.emplace(name.text, value).second) lexer_.fail(name, "a second definition of this value");
  }

  Value* use() {
    const Token name = lexer_.expect(Kind::value, "a value, as %x");
    const auto found = values_.find(name.text);
    if (found == values_.end()) lexer_.fail(name, "this value is not defined above");
    return found->second;
  }

  /// Without symbols a number: the same text as ever, the same errors.
  Size size() {
    if (!graph_->find_shape_env()) return lexer_.expect_integer();
    return parse_size(lexer_, graph_->shape_env().table(), "");
  }

  const Type* type() {
    const ParsedType parsed = type_of(lexer_, [this] { return size(); });
    return graph_->symbolic_type(parsed.dtype, parsed.device, parsed.sizes, parsed.strides);
  }

  void symbol() {
    const Token name = lexer_.peek();
    const SymbolDeclaration symbol = parse_declaration(lexer_);
    ShapeEnv& env = graph_->shape_env();
    if (env.table().find(symbol.name)) lexer_.fail(name, "a second symbol of this name");
    env.create_symbol(symbol.name, symbol.example, symbol.facts);
  }

  void guard() {
    const Token where = lexer_.peek();
    const SizeTest test = parse_size_test(lexer_, graph_->shape_env().table());
    if (!graph_->decide("").answer(test)) lexer_.fail(where, "the examples break this guard");
  }

  void input() {
    const Token name = lexer_.expect(Kind::value, "an input, as %x");
    lexer_.expect(":");
    const Type* its_type = type();
    InputKind kind = InputKind::argument;
    if (lexer_.take("param"))
      kind = InputKind::param;
    else if (lexer_.take("constant"))
      kind = InputKind::constant;
    Value* value = graph_->add_input(name.text, its_type, kind);
    inputs_.emplace(value, static_cast<uint32_t>(graph_->inputs().size() - 1));
    define(name, value);
  }

  void mutation() {
    const Token where = lexer_.peek();
    const auto input = inputs_.find(use());
    if (input == inputs_.end()) lexer_.fail(where, "only inputs can be mutated");
    lexer_.expect(",");
    graph_->mutations().push_back({input->second, use()});
  }

  Number number() {
    const bool negative = lexer_.take("-");
    const auto sign = [negative](double value) { return Number::of(negative ? -value : value); };
    if (lexer_.take("inf")) return sign(std::numeric_limits<double>::infinity());
    if (lexer_.take("nan")) return sign(std::numeric_limits<double>::quiet_NaN());
    const Token token = lexer_.next();
    const std::string digits = (negative ? "-" : "") + std::string(token.text);
    // strtod is correctly rounded and, unlike from_chars, gives inf and 0 beyond the range.
    if (token.kind == Kind::decimal) return Number::of(std::strtod(digits.c_str(), nullptr));
    if (token.kind != Kind::integer) lexer_.fail(token, "expected a number");
    errno = 0;
    const int64_t value = std::strtoll(digits.c_str(), nullptr, 10);
    if (errno != 0) lexer_.fail(token, "the integer does not fit 64 bits");
    return Number::of_int(value);
  }

  AttrValue attr_value(AttrType type) {
    switch (type) {
      case AttrType::boolean:
        if (lexer_.take("true")) return true;
        if (!lexer_.take("false")) lexer_.fail("expected true or false");
        return false;
      case AttrType::integer: return lexer_.expect_integer();
      case AttrType::size: return size();
      case AttrType::sizes: {
        lexer_.expect("[");
        sizes_.clear();
        if (lexer_.take("]")) return std::span<const Size>();
        do sizes_.push_back(size());
        while (lexer_.take(","));
        lexer_.expect("]");
        return graph_->sizes(sizes_);
      }
      case AttrType::number: return number();
      case AttrType::text: return lexer_.expect(Kind::text, "a text in quotes").text;
      case AttrType::integers: break;
    }
    lexer_.expect("[");
    return graph_->ints(integers(lexer_, "]"));
  }

  void node() {
    std::vector<Token> names;
    if (lexer_.at(Kind::value)) {
      do names.push_back(lexer_.expect(Kind::value, "a value, as %1"));
      while (lexer_.take(","));
      lexer_.expect("=");
    }
    const Token word = lexer_.expect(Kind::word, "an op, mutate or return");
    const auto op = parse_op(word.text);
    if (!op || *op == Op::input) lexer_.fail(word, "no such op");

    std::vector<Value*> operands;
    if (lexer_.at(Kind::value)) {
      do operands.push_back(use());
      while (lexer_.take(",") && lexer_.at(Kind::value));
    }
    std::vector<Attr> attrs;
    // A node without results ends where no attribute follows; any other ends with ':'.
    while (lexer_.at(Kind::word) && (!names.empty() || find_attribute(lexer_.peek().text)))
      attrs.push_back(attribute());

    std::vector<const Type*> types;
    if (!names.empty()) {
      lexer_.expect(":");
      do types.push_back(type());
      while (lexer_.take(","));
    }
    if (types.size() != names.size())
      lexer_.fail(word, concat(names.size(), " results but ", types.size(), " types"));
    if (*op == Op::scalar) round_scalar(word, attrs, types);
    Node* node = graph_->create(*op, operands, attrs, types);
    for (size_t k = 0; k < names.size(); ++k) define(names[k], node->result(k));
  }

  Attr attribute() {
    const Token name = lexer_.next();
    const AttrInfo* row = find_attribute(name.text);
    if (!row) lexer_.fail(name, "no such attribute");
    lexer_.expect("=");
    return {row->name, attr_value(row->type)};
  }

  /// The same rounding as Graph::scalar().
  void round_scalar(const Token& where, std::vector<Attr>& attrs, const std::vector<const Type*>& types) {
    if (attrs.size() != 1 || attrs[0].name != "value" || types.size() != 1)
      lexer_.fail(where, "scalar needs value=NUMBER and one result");
    attrs[0].value = round_to(std::get<Number>(attrs[0].value), types[0]->dtype);
  }

  Lexer& lexer_;
  std::unique_ptr<Graph> graph_;
  SymbolicSizes sizes_;
  std::unordered_map<std::string_view, Value*> values_;
  std::unordered_map<const Value*, uint32_t> inputs_;
};

}  // namespace

Device parse_device(Lexer& lexer) {
  const Token kind = lexer.next();
  Device device;
  if (kind.text == "cpu")
    device.kind = DeviceKind::cpu;
  else if (kind.text == "cuda")
    device.kind = DeviceKind::cuda;
  else if (kind.text == "meta")
    device.kind = DeviceKind::meta;
  else
    lexer.fail(kind, "expected a device: cpu, cuda or meta");
  if (lexer.take(":")) device.index = static_cast<int8_t>(lexer.expect_integer());
  return device;
}

TypeParts parse_type(Lexer& lexer) {
  const ParsedType parsed = type_of(lexer, [&lexer] { return Size(lexer.expect_integer()); });
  const SizeSpan sizes(parsed.sizes), strides(parsed.strides);
  return {parsed.dtype, parsed.device, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}};
}

std::unique_ptr<Graph> parse(std::string_view text) {
  Lexer lexer(text, "graph text");
  std::unique_ptr<Graph> graph = Parser(lexer).graph();
  if (!lexer.at_end()) lexer.fail("expected the end of the text after the graph");
  return graph;
}

std::vector<std::unique_ptr<Graph>> parse_all(std::string_view text) {
  Lexer lexer(text, "graph text");
  std::vector<std::unique_ptr<Graph>> graphs;
  while (!lexer.at_end()) graphs.push_back(Parser(lexer).graph());
  return graphs;
}

}  // namespace braze::ir
