// loops/lexer.h: splits the text of a kernel into tokens. Comments run from `//` or `;` to the end of the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braze::loops {

struct Token {
  enum class Kind : uint8_t {
    end,
    word,      ///< `kernel`, `f32`, `add`
    value,     ///< `%x`; text is without the sigil, as in the next three.
    scalar,    ///< `$alpha`
    symbol,    ///< `#rows`
    at,        ///< `@main`
    integer,   ///< `12`, `0xff`; signs are punctuation.
    floating,  ///< `1.5`, `1e-05`
    mark,      ///< `(`, `..`, `=` and so on.
  } kind = Kind::end;
  std::string_view text;
  int line = 1, column = 1;
  bool first_on_line = true;  ///< A statement's optional tail must stand on its line.
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { next(); }
  const Token& token() const { return token_; }  ///< The one to be read next.
  Token next();                                  ///< Returns token() and goes on.
  /// Throws UserError: what was expected at token() and what stands there.
  [[noreturn]] void fail(const std::string& message) const { fail_at(token_, message); }
  [[noreturn]] static void fail_at(const Token& token, const std::string& message);

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void skip_blanks();
  size_t number_length(Token::Kind& kind) const;

  std::string_view text_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  bool first_on_line_ = true;
  Token token_;
};

}  // namespace braze::loops
