#include <doctest/doctest.h>

#include "support/error.h"
#include "support/lexer.h"

using namespace braze;

TEST_CASE("the lexer tells tokens apart") {
  Lexer lexer("add %x.1, @main -12 1.5e-05 0..8 \"a b\" 'c \"' ; comment\n// comment\n {", "text");
  using Kind = Token::Kind;
  const std::pair<Kind, std::string_view> wanted[] = {
      {Kind::word, "add"},        {Kind::value, "x.1"},     {Kind::punctuation, ","},
      {Kind::symbol, "main"},     {Kind::punctuation, "-"}, {Kind::integer, "12"},
      {Kind::decimal, "1.5e-05"}, {Kind::integer, "0"},     {Kind::punctuation, "."},
      {Kind::punctuation, "."},   {Kind::integer, "8"},     {Kind::text, "a b"},
      {Kind::text, "c \""},       {Kind::punctuation, "{"}, {Kind::end, ""}};
  for (const auto& [kind, text] : wanted) {
    const Token token = lexer.next();
    CHECK(token.kind == kind);
    CHECK(token.text == text);
  }
  CHECK(lexer.at_end());
}

TEST_CASE("the lexer's errors name the place") {
  Lexer lexer("a\n  b", "some text");
  lexer.expect("a");
  CHECK_THROWS_WITH_AS(lexer.expect("c"), "some text, line 2, column 3: expected 'c', found 'b'", UserError);
}

TEST_CASE("integers of all sizes") {
  Lexer lexer("-9223372036854775808 9223372036854775807 9223372036854775808", "text");
  CHECK(lexer.expect_integer() == INT64_MIN);
  CHECK(lexer.expect_integer() == INT64_MAX);
  CHECK_THROWS_AS(lexer.expect_integer(), UserError);
}
