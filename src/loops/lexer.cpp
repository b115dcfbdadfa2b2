#include "loops/lexer.h"

#include <cctype>

#include "support/error.h"

namespace braze::loops {

namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c));
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
/// Names may hold dots inside, as in `layer.0.weight`, but `%a..%b` is a range.
bool is_inner_dot(char dot, char after) {
  return dot == '.' && is_word(after);
}

Token::Kind sigil_kind(char c) {
  switch (c) {
    case '%': return Token::Kind::value;
    case '$': return Token::Kind::scalar;
    case '#': return Token::Kind::symbol;
    case '@': return Token::Kind::at;
    default: return Token::Kind::mark;
  }
}

}  // namespace

void Lexer::fail_at(const Token& token, const std::string& message) {
  throw UserError(concat("line ", token.line, ", column ", token.column, ": ", message), UserError::Kind::value);
}

void Lexer::skip_blanks() {
  for (;;) {
    const char c = peek();
    if (c == '\n') {
      ++at_;
      ++line_;
      line_start_ = at_;
      first_on_line_ = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == ';' || (c == '/' && peek(1) == '/')) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

size_t Lexer::number_length(Token::Kind& kind) const {
  kind = Token::Kind::integer;
  size_t n = 0;
  if (peek() == '0' && peek(1) == 'x') {
    n = 2;
    while (std::isxdigit(static_cast<unsigned char>(peek(n)))) ++n;
    return n;
  }
  while (is_digit(peek(n))) ++n;
  // `0..8` is a range, `0.5` a number.
  if (peek(n) == '.' && is_digit(peek(n + 1))) {
    kind = Token::Kind::floating;
    ++n;
    while (is_digit(peek(n))) ++n;
  }
  if (peek(n) == 'e') {
    size_t exponent = n + 1;
    if (peek(exponent) == '+' || peek(exponent) == '-') ++exponent;
    if (!is_digit(peek(exponent))) return n;
    kind = Token::Kind::floating;
    for (n = exponent; is_digit(peek(n));) ++n;
  }
  return n;
}

Token Lexer::next() {
  const Token current = token_;
  skip_blanks();
  token_ = {Token::Kind::end, {}, line_, static_cast<int>(at_ - line_start_) + 1, first_on_line_};
  first_on_line_ = false;
  const char c = peek();
  if (at_ >= text_.size()) return current;

  size_t skip = 0, length = 1;
  if (is_digit(c)) {
    length = number_length(token_.kind);
  } else if (is_word(c) || sigil_kind(c) != Token::Kind::mark) {
    token_.kind = is_word(c) ? Token::Kind::word : sigil_kind(c);
    skip = is_word(c) ? 0 : 1;
    length = 0;
    while (is_word(peek(skip + length)) || (length && is_inner_dot(peek(skip + length), peek(skip + length + 1))))
      ++length;
    if (length == 0) fail(concat("a name is missing after '", c, "'"));
  } else {
    token_.kind = Token::Kind::mark;
    if (c == '.' && peek(1) == '.') length = 2;
  }
  token_.text = text_.substr(at_ + skip, length);
  at_ += skip + length;
  return current;
}

}  // namespace braze::loops
