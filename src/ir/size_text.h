// ir/size_text.h: sizes within longer texts: in the loop IR symbols have a mark before their names; graphs and
// plans declare their symbols, and the guards on them.
#pragma once

#include <string>

#include "ir/shape_env.h"
#include "ir/size.h"
#include "support/lexer.h"

namespace braze::ir {

/// As to_text(size), with `mark` before every symbol: "#n*#m + 1".
std::string to_text(Size size, std::string_view mark);
/// A sum, as far as it goes. Throws UserError at an unknown name.
Size parse_size(Lexer& lexer, SizeTable& table, std::string_view mark);
/// A number, a symbol, a call or what stands in parentheses: a factor within something else.
Size parse_size_factor(Lexer& lexer, SizeTable& table, std::string_view mark);

/// "n >= 5". Throws UserError with line and column.
SizeTest parse_size_test(Lexer& lexer, SizeTable& table);

struct SymbolDeclaration {
  std::string name;
  int64_t example = 0;
  SymbolFacts facts = {};
};
/// "n = 8", "m = 5 in 2..64", "k = 12 mod 4 == 0": what is known of all values where that is more than n >= 0.
void append_declaration(std::string& out, const SymbolDeclaration& symbol);
/// Throws UserError with line and column, also where the example is none of the values.
SymbolDeclaration parse_declaration(Lexer& lexer);

}  // namespace braze::ir
