#include "loops/parse_values.h"

#include <algorithm>

namespace braze::loops {

bool ValueParser::take_tail(std::string_view word) {
  const std::string_view before = lexer_.text().substr(0, token().offset);
  const size_t last = before.find_last_not_of(" \t\r");
  const bool first_on_line = last == std::string_view::npos || before[last] == '\n';
  return !first_on_line && take(word);
}

Token ValueParser::expect_name(std::string_view sigil, std::string_view meaning) {
  if (!take(sigil)) lexer_.fail(concat("expected ", meaning));
  return expect(Kind::word, meaning);
}

int64_t ValueParser::parse_named_integer(std::string_view name) {
  expect(name);
  expect("=");
  return parse_integer();
}

DType ValueParser::parse_type() {
  const Token name = expect(Kind::word, "a type");
  const auto type = ir::parse_dtype(name.text);
  if (!type) lexer_.fail(name, concat("'", name.text, "' is not a type"));
  return *type;
}

ValueId ValueParser::use(const Token& name) const {
  for (auto scope = values_.rbegin(); scope != values_.rend(); ++scope)
    if (scope->first == name.text) return scope->second;
  lexer_.fail(name, concat("%", name.text, " is not defined here"));
}

std::vector<ValueId> ValueParser::use_list() {
  std::vector<ValueId> list;
  do list.push_back(use());
  while (take(","));
  return list;
}

void ValueParser::define(const Token& name, ValueId value) {
  const bool taken =
      std::any_of(values_.begin(), values_.end(), [&](const auto& v) { return v.first == name.text; });
  if (taken || buffers_.count(name.text)) lexer_.fail(name, concat("%", name.text, " is defined twice"));
  values_.emplace_back(name.text, value);
}

ValueId ValueParser::define_new(DType type) {
  const Token name = expect(Kind::value, "a value's name");
  const ValueId value = kernel_.add_value(type);
  define(name, value);
  return value;
}

BufferId ValueParser::add_buffer(const Token& name, Buffer buffer) {
  if (!buffers_.emplace(name.text, kernel_.buffers.size()).second)
    lexer_.fail(name, concat("%", name.text, " is defined twice"));
  buffer.name = name.text;
  kernel_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

BufferId ValueParser::use_buffer() {
  const Token name = expect(Kind::value, "a buffer");
  const auto found = buffers_.find(name.text);
  if (found == buffers_.end()) lexer_.fail(name, concat("no buffer is called %", name.text));
  return found->second;
}

uint32_t ValueParser::use_slot(std::string_view sigil, const std::unordered_map<std::string_view, uint32_t>& table,
                               std::string_view what) {
  const Token name = expect_name(sigil, what);
  const auto found = table.find(name.text);
  if (found == table.end()) lexer_.fail(name, concat("'", name.text, "' is not in the kernel's parameters"));
  return found->second;
}

Extent ValueParser::parse_size() {
  expect("[");
  const Extent size = parse_extent();
  expect("]");
  return size;
}

Extent ValueParser::multiply(const Extent& a, const Extent& b) const {
  if (!a.is_constant() && !b.is_constant()) lexer_.fail("a product of two symbols is not an extent");
  const Extent& symbolic = a.is_constant() ? b : a;
  const int64_t by = a.is_constant() ? a.constant : b.constant;
  Extent result = symbolic;
  result.constant *= by;
  result.factor *= by;
  return result;
}

void ValueParser::add_to(Extent& sum, const Extent& part) const {
  if (part.symbol != none && sum.symbol != none && part.symbol != sum.symbol)
    lexer_.fail("an extent holds one symbol only");
  if (part.symbol != none) sum.symbol = part.symbol;
  sum.constant += part.constant;
  sum.factor += part.factor;
}

ValueParser::Product ValueParser::parse_product(bool negative) {
  Product product;
  product.extent = negative ? -1 : 1;
  do {
    if (token().kind == Kind::value) {
      if (product.value != none) lexer_.fail("a product of two values is not affine");
      product.value = use();
    } else if (at("#")) {
      Extent symbol;
      symbol.symbol = use_symbol();
      symbol.factor = 1;
      product.extent = multiply(product.extent, symbol);
    } else if (take("(")) {
      product.extent = multiply(product.extent, parse_extent());
      expect(")");
    } else {
      product.extent = multiply(product.extent, parse_integer());
    }
  } while (take("*"));
  return product;
}

Affine ValueParser::parse_affine() {
  Affine index;
  bool negative = take("-");
  for (;;) {
    const Product product = parse_product(negative);
    if (product.value == none)
      add_to(index.offset, product.extent);
    else
      index.add(product.extent, product.value);
    negative = at("-");
    if (!negative && !at("+")) return index;
    lexer_.next();
  }
}

Extent ValueParser::parse_extent() {
  const Token start = token();
  const Affine sum = parse_affine();
  if (!sum.terms.empty()) lexer_.fail(start, "a size is made of numbers and symbols, not of values");
  return sum.offset;
}

Affine ValueParser::parse_index() {
  expect("[");
  Affine index = parse_affine();
  expect("]");
  return index;
}

}  // namespace braze::loops
