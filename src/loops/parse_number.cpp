#include "loops/parse_number.h"

#include <bit>
#include <charconv>
#include <limits>

namespace braze::loops {

namespace {

using ir::Number;
using Kind = Token::Kind;

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

}  // namespace

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

}  // namespace braze::loops
