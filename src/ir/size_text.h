// ir/size_text.h: sizes within longer texts (loop IR), where symbols have a mark before their names.
#pragma once

#include "ir/size.h"
#include "support/lexer.h"

namespace braze::ir {

/// As to_text(size), with `mark` before every symbol: "#n*#m + 1".
std::string to_text(Size size, std::string_view mark);
/// A sum, as far as it goes. Throws UserError at an unknown name.
Size parse_size(Lexer& lexer, SizeTable& table, std::string_view mark);
/// A number, a symbol, a call or what stands in parentheses: a factor within something else.
Size parse_size_factor(Lexer& lexer, SizeTable& table, std::string_view mark);

}  // namespace braze::ir
