#include "support/lexer.h"

#include <algorithm>
#include <charconv>

#include "support/error.h"

namespace braze {
namespace {

// Locale-free and defined for every char, unlike <cctype>.
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(char c) {
  return is_letter(c) || is_digit(c) || c == '.';
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view what) : text_(text), what_(what) {
  token_ = scan();
}

Token Lexer::next() {
  const Token token = token_;
  token_ = scan();
  return token;
}

bool Lexer::take(std::string_view wanted) {
  if (!token_.is(wanted)) return false;
  next();
  return true;
}

void Lexer::expect(std::string_view wanted) {
  if (!take(wanted)) fail(concat("expected '", wanted, "'"));
}

Token Lexer::expect(Token::Kind kind, std::string_view meaning) {
  if (token_.kind != kind) fail(concat("expected ", meaning));
  return next();
}

int64_t Lexer::expect_integer() {
  const bool negative = take("-");
  const Token token = expect(Token::Kind::integer, "an integer");
  // Parsed with its sign, so that the most negative number fits.
  const std::string digits = (negative ? "-" : "") + std::string(token.text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) fail(token, "the integer does not fit 64 bits");
  return value;
}

void Lexer::fail(const Token& where, std::string_view message) const {
  const std::string_view before = text_.substr(0, where.offset);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
  const std::string found = where.kind == Token::Kind::end ? "the end" : concat("'", where.text, "'");
  throw UserError(
      concat(what_, ", line ", line, ", column ", where.offset - line_start + 1, ": ", message, ", found ", found),
      UserError::Kind::value);
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else if (c == ';' || text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

/// Where the number at position_ ends. "0..8" is a number, two dots and a number.
size_t Lexer::scan_number() const {
  const auto digits = [this](size_t at) {
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at;
  };
  size_t end = digits(position_);
  if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) end = digits(end + 1);
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    size_t exponent = end + 1;
    if (exponent < text_.size() && (text_[exponent] == '-' || text_[exponent] == '+')) ++exponent;
    if (exponent < text_.size() && is_digit(text_[exponent])) end = digits(exponent);
  }
  return end;
}

Token Lexer::scan() {
  skip_blanks();
  Token token;
  token.offset = position_;
  if (position_ >= text_.size()) return token;
  const char c = text_[position_];
  const auto finish = [&](Token::Kind kind, size_t begin, size_t end, size_t next) {
    token.kind = kind;
    token.text = text_.substr(begin, end - begin);
    position_ = next;
    return token;
  };
  const auto name_end = [&](size_t at) {
    while (at < text_.size() && is_name(text_[at])) ++at;
    return at;
  };
  if (is_letter(c)) {
    size_t end = position_ + 1;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    return finish(Token::Kind::word, position_, end, end);
  }
  if (is_digit(c)) {
    const size_t end = scan_number();
    const bool whole = std::ranges::all_of(text_.substr(position_, end - position_), is_digit);
    return finish(whole ? Token::Kind::integer : Token::Kind::decimal, position_, end, end);
  }
  if (c == '%' || c == '@') {
    const size_t end = name_end(position_ + 1);
    if (end > position_ + 1)
      return finish(c == '%' ? Token::Kind::value : Token::Kind::symbol, position_ + 1, end, end);
  }
  if (c == '"' || c == '\'') {
    const size_t end = text_.find(c, position_ + 1);
    if (end == std::string_view::npos) fail(token, "a text without its closing quote");
    return finish(Token::Kind::text, position_ + 1, end, end + 1);
  }
  return finish(Token::Kind::punctuation, position_, position_ + 1, position_ + 1);
}

}  // namespace braze
