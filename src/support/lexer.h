// support/lexer.h: words, numbers and punctuation of braze's own texts (graphs, kernels).
//
// Comments run from ';' or "//" to the end of the line. Errors are UserErrors that name line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braze {

struct Token {
  enum class Kind : uint8_t {
    end,
    word,         ///< add, f32, inf
    value,        ///< %x, %layer.0.weight (text without the %)
    symbol,       ///< @main (text without the @)
    integer,      ///< 12
    decimal,      ///< 1.5, 1e-05
    text,         ///< "aten::add" or 'mean' (without the quotes)
    punctuation,  ///< one character
  };
  Kind kind = Kind::end;
  std::string_view text;
  size_t offset = 0;  ///< Of the first character, in bytes.
  bool is(std::string_view wanted) const {
    return (kind == Kind::word || kind == Kind::punctuation) && text == wanted;
  }
};

class Lexer {
 public:
  /// `what` begins every message: "graph text".
  Lexer(std::string_view text, std::string_view what);

  const Token& peek() const { return token_; }
  bool at(Token::Kind kind) const { return token_.kind == kind; }
  bool at_end() const { return at(Token::Kind::end); }
  Token next();
  /// Consumes the word or punctuation if it comes next.
  bool take(std::string_view wanted);
  void expect(std::string_view wanted);
  /// Consumes a token of that kind; `meaning` is for the message: "expected <meaning>".
  Token expect(Token::Kind kind, std::string_view meaning);
  int64_t expect_integer();  ///< With an optional '-'.
  /// The whole text, for cutting pieces out by offset.
  std::string_view text() const { return text_; }

  [[noreturn]] void fail(const Token& where, std::string_view message) const;
  [[noreturn]] void fail(std::string_view message) const { fail(token_, message); }

 private:
  Token scan();
  void skip_blanks();
  size_t scan_number() const;

  std::string_view text_;
  std::string what_;
  size_t position_ = 0;
  Token token_;
};

}  // namespace braze
