// loops/parse_values.h: the small parts of a kernel's text: words, numbers, names and index expressions.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loops/kernel.h"
#include "loops/words.h"
#include "support/error.h"
#include "support/lexer.h"

namespace braze::loops {

/// Reads them, and knows which names stand for what. Statements are read by the one that is derived from it
/// (loops/parse.cpp).
class ValueParser {
 protected:
  using Kind = Token::Kind;

  ValueParser(Lexer& lexer, Kernel& kernel) : lexer_(lexer), kernel_(kernel) {}

  // ---- tokens
  const Token& token() const { return lexer_.peek(); }
  bool at(std::string_view wanted) const { return token().is(wanted); }
  bool take(std::string_view wanted) { return lexer_.take(wanted); }
  void expect(std::string_view wanted) { lexer_.expect(wanted); }
  Token expect(Kind kind, std::string_view meaning) { return lexer_.expect(kind, meaning); }
  /// A word that ends a statement without braces stands on the statement's line.
  bool take_tail(std::string_view word);
  template <typename Enum, size_t N>
  std::optional<Enum> take_one_of(const std::array<std::string_view, N>& words) {
    if (token().kind != Kind::word) return std::nullopt;
    const auto found = find_word<Enum>(words, token().text);
    if (found) lexer_.next();
    return found;
  }
  template <typename Enum, size_t N>
  Enum expect_one_of(const std::array<std::string_view, N>& words) {
    if (const auto found = take_one_of<Enum>(words)) return *found;
    std::string all;
    for (std::string_view word : words) all += concat(all.empty() ? "" : ", ", word);
    lexer_.fail(concat("expected one of ", all));
  }
  /// The name after `$` or `#`.
  Token expect_name(std::string_view sigil, std::string_view meaning);

  // ---- numbers
  int64_t parse_integer() { return lexer_.expect_integer(); }
  int64_t parse_named_integer(std::string_view name);
  DType parse_type();

  // ---- names
  ValueId use(const Token& name) const;
  ValueId use() { return use(expect(Kind::value, "a value")); }
  std::vector<ValueId> use_list();
  void define(const Token& name, ValueId value);
  ValueId define_new(DType type);
  BufferId add_buffer(const Token& name, Buffer buffer);
  BufferId use_buffer();
  uint32_t use_scalar() { return use_slot("$", scalars_, "a scalar"); }
  uint32_t use_symbol() { return use_slot("#", symbols_, "a symbol"); }

  // ---- index expressions
  Extent parse_size();  ///< [extent]
  Affine parse_affine();
  Extent parse_extent();
  Affine parse_index();  ///< [affine]

  Lexer& lexer_;
  Kernel& kernel_;
  std::vector<std::pair<std::string_view, ValueId>> values_;  ///< In scope, innermost last.
  std::unordered_map<std::string_view, BufferId> buffers_;
  std::unordered_map<std::string_view, uint32_t> scalars_, symbols_;

 private:
  struct Product {
    Extent extent = 1;
    ValueId value = none;
  };
  uint32_t use_slot(std::string_view sigil, const std::unordered_map<std::string_view, uint32_t>& table,
                    std::string_view what);
  Extent multiply(const Extent& a, const Extent& b) const;
  void add_to(Extent& sum, const Extent& part) const;
  Product parse_product(bool negative);
};

}  // namespace braze::loops
