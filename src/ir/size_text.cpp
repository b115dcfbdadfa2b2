#include "ir/size_text.h"

#include <algorithm>

#include "ir/size_bounds.h"
#include "ir/size_table.h"
#include "support/error.h"

namespace braze::ir {

namespace {

class Printer {
 public:
  explicit Printer(std::string_view mark) : mark_(mark) {}

  std::string sum(Size size) const {
    const SizeExpr* expr = size.expr();
    if (!expr) return std::to_string(size.constant());
    std::string text;
    for (const SizeTerm& term : expr->terms) {
      // -max(a, b) reads better as min(-a, -b).
      const bool is_min = term.coefficient < 0 && term.product->degree == 1 &&
                          term.product->powers[0].atom->kind == SizeAtom::Kind::max;
      const bool negative = term.coefficient < 0 && !is_min;
      text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
      const uint64_t count = term.coefficient < 0 ? -static_cast<uint64_t>(term.coefficient) : term.coefficient;
      if (term.product->degree == 0) {
        text += std::to_string(count);
        continue;
      }
      if (count != 1) text += std::to_string(count) + "*";
      // "-n mod 2" would be (-n) mod 2.
      const bool alone = count == 1 && term.product->degree == 1 && text != "-";
      bool first = true;
      for (const auto& [atom, exponent] : term.product->powers)
        for (uint32_t k = 0; k < exponent; ++k) {
          if (!first) text += '*';
          first = false;
          text += is_min ? call("min", *atom, true) : this->atom(*atom, alone);
        }
    }
    return text;
  }

 private:
  std::string call(const char* name, const SizeAtom& atom, bool negated) const {
    std::string text = concat(name, "(");
    for (size_t k = 0; k < atom.operands.size(); ++k)
      text += (k ? ", " : "") + sum(negated ? -atom.operands[k] : atom.operands[k]);
    return text + ")";
  }

  std::string atom(const SizeAtom& atom, bool alone) const {
    switch (atom.kind) {
      case SizeAtom::Kind::symbol: return concat(mark_, atom.name);
      case SizeAtom::Kind::max: return call("max", atom, false);
      default: break;
    }
    const char* word = atom.kind == SizeAtom::Kind::mod ? " mod " : " floordiv ";
    const std::string text = operand(atom.operands[0]) + word + operand(atom.operands[1]);
    return alone ? text : "(" + text + ")";
  }

  /// In parentheses unless it is one word.
  std::string operand(Size size) const {
    const SizeExpr* expr = size.expr();
    if (!expr) return std::to_string(size.constant());
    const SizeTerm& term = expr->terms[0];
    const bool word = expr->terms.size() == 1 && term.coefficient == 1 && term.product->degree == 1 &&
                      (term.product->powers[0].atom->kind == SizeAtom::Kind::symbol ||
                       term.product->powers[0].atom->kind == SizeAtom::Kind::max);
    return word ? sum(size) : "(" + sum(size) + ")";
  }

  std::string_view mark_;
};

}  // namespace

std::string to_text(Size size, std::string_view mark) {
  return Printer(mark).sum(size);
}
std::string to_text(Size size) {
  return to_text(size, "");
}

Size parse_size_factor(Lexer& lexer, SizeTable& table, std::string_view mark) {
  if (lexer.take("-")) return -parse_size_factor(lexer, table, mark);
  if (lexer.at(Token::Kind::integer)) return lexer.expect_integer();
  if (lexer.take("(")) {
    const Size inner = parse_size(lexer, table, mark);
    lexer.expect(")");
    return inner;
  }
  const bool largest = lexer.peek().is("max"), smallest = lexer.peek().is("min");
  if (largest || smallest) {
    lexer.next();
    lexer.expect("(");
    Size all = parse_size(lexer, table, mark);
    while (lexer.take(",")) {
      const Size other = parse_size(lexer, table, mark);
      all = largest ? max(all, other) : min(all, other);
    }
    lexer.expect(")");
    return all;
  }
  if (!mark.empty()) lexer.expect(mark);
  const Token name = lexer.expect(Token::Kind::word, "a number or a symbol");
  const std::optional<Size> symbol = table.find(name.text);
  if (!symbol) lexer.fail(name, concat("no symbol is called ", mark, name.text));
  return *symbol;
}

Size parse_size(Lexer& lexer, SizeTable& table, std::string_view mark) {
  // What is written as a divisor was known to be above 0 where it was written.
  const auto divisor = [&] { return known_positive(table, parse_size_factor(lexer, table, mark)); };
  const auto product = [&] {
    Size left = parse_size_factor(lexer, table, mark);
    while (true) {
      if (lexer.take("*"))
        left = left * parse_size_factor(lexer, table, mark);
      else if (lexer.take("floordiv"))
        left = floor_div(left, divisor());
      else if (lexer.take("mod"))
        left = mod(left, divisor());
      else
        return left;
    }
  };
  Size sum = product();
  while (true) {
    if (lexer.take("+"))
      sum = sum + product();
    else if (lexer.take("-"))
      sum = sum - product();
    else
      return sum;
  }
}

SizeTest parse_size_test(Lexer& lexer, SizeTable& table) {
  const Token where = lexer.peek();
  const Size left = parse_size(lexer, table, "");
  std::string comparison;
  while (lexer.at(Token::Kind::punctuation) && comparison.size() < 2) comparison += lexer.next().text;
  const Size right = parse_size(lexer, table, "");
  if (comparison == "==") return equal(left, right);
  if (comparison == "!=") return differs(left, right);
  if (comparison == "<=") return at_most(left, right);
  if (comparison != ">=") lexer.fail(where, "expected a guard: two sizes with ==, !=, >= or <= between them");
  return at_least(left, right);
}

void append_declaration(std::string& out, const SymbolDeclaration& symbol) {
  const SymbolFacts& facts = symbol.facts;
  out += concat(symbol.name, " = ", symbol.example);
  if (facts.range != SymbolFacts{}.range) {
    out += concat(" in ", facts.range.low);
    out += facts.range.high == SizeRange::infinity ? "..inf" : concat("..", facts.range.high);
  }
  if (facts.modulus != 1) out += concat(" mod ", facts.modulus, " == ", facts.remainder);
}

SymbolDeclaration parse_declaration(Lexer& lexer) {
  const Token name = lexer.expect(Token::Kind::word, "a symbol");
  SymbolDeclaration symbol{.name = std::string(name.text)};
  SymbolFacts& facts = symbol.facts;
  lexer.expect("=");
  symbol.example = lexer.expect_integer();
  if (lexer.take("in")) {
    facts.range.low = lexer.expect_integer();
    lexer.expect(".");
    lexer.expect(".");
    facts.range.high = lexer.take("inf") ? SizeRange::infinity : lexer.expect_integer();
  }
  if (lexer.take("mod")) {
    facts.modulus = lexer.expect_integer();
    lexer.expect("=");
    lexer.expect("=");
    facts.remainder = lexer.expect_integer();
  }
  const bool holds = facts.range.low >= 0 && facts.modulus >= 1 && facts.remainder >= 0 &&
                     facts.remainder < facts.modulus && facts.range.has(symbol.example) &&
                     symbol.example % facts.modulus == facts.remainder;
  if (!holds) lexer.fail(name, "the example is none of the symbol's values");
  return symbol;
}

Size parse_size(std::string_view text, SizeTable& table) {
  Lexer lexer(text, "size");
  const Size size = parse_size(lexer, table, "");
  if (!lexer.at_end()) lexer.fail("the size ends before this");
  return size;
}

}  // namespace braze::ir
