#include "ir/literals.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace braze::ir {

namespace {

using Kind = Token::Kind;

template <typename T, typename... Base>
void append_digits(std::string& out, T value, Base... base) {
  char digits[32];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value, base...).ptr);
}

/// Shortest text that reads back to the same bits, always told apart from an integer.
void append_floating(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";
    const auto bits = std::bit_cast<uint64_t>(value);
    if (bits == std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN())) return;
    out += "('";
    append_digits(out, bits, 16);
    out += "')";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  const size_t start = out.size();
  append_digits(out, value);
  if (out.find_first_of(".e", start) == std::string::npos) out += ".0";
}

template <typename T, typename... Base>
T read_number(const Lexer& lexer, const Token& token, Base... base) {
  T value{};
  const char* end = token.text.data() + token.text.size();
  const auto read = std::from_chars(token.text.data(), end, value, base...);
  if (read.ec != std::errc() || read.ptr != end) lexer.fail(token, "expected a number in range");
  return value;
}

double parse_nan(Lexer& lexer) {
  if (!lexer.take("(")) return std::numeric_limits<double>::quiet_NaN();
  const auto bits = read_number<uint64_t>(lexer, lexer.expect(Kind::text, "the bits of a NaN"), 16);
  lexer.expect(")");
  return std::bit_cast<double>(bits);
}

/// What a text in quotes, within an attribute in quotes, cannot hold.
bool needs_escape(char c) {
  return c < ' ' || c > '~' || c == '\'' || c == '"' || c == '\\';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void append_number(std::string& out, Number number) {
  number.floating ? append_floating(out, number.f) : append_digits(out, number.i);
}

Number parse_number(Lexer& lexer) {
  if (lexer.take("true")) return Number::of_int(1);
  if (lexer.take("false")) return Number::of_int(0);
  if (lexer.take("nan")) return Number::of(parse_nan(lexer));
  const Lexer start = lexer;
  const double sign = lexer.take("-") ? -1.0 : 1.0;
  if (lexer.take("inf")) return Number::of(sign * std::numeric_limits<double>::infinity());
  if (lexer.at(Kind::decimal)) return Number::of(sign * read_number<double>(lexer, lexer.next()));
  lexer = start;  // An integer is read with its sign: the most negative one has no opposite.
  return Number::of_int(lexer.expect_integer());
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '\'';
  for (const char c : text) {
    if (!needs_escape(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    ((out += '\\') += digits[byte >> 4]) += digits[byte & 15];
  }
  out += '\'';
}

std::string parse_quoted(Lexer& lexer) {
  const Token token = lexer.expect(Kind::text, "a text in quotes");
  std::string text;
  for (size_t k = 0; k < token.text.size(); ++k) {
    if (token.text[k] != '\\') {
      text += token.text[k];
      continue;
    }
    const int high = k + 1 < token.text.size() ? hex_digit(token.text[k + 1]) : -1;
    const int low = k + 2 < token.text.size() ? hex_digit(token.text[k + 2]) : -1;
    if (high < 0 || low < 0) lexer.fail(token, "expected two hexadecimal digits behind each backslash");
    text += static_cast<char>(high << 4 | low);
    k += 2;
  }
  return text;
}

}  // namespace braze::ir
