// ir/literals.h: numbers and texts of braze's own languages; what is printed reads back to the same bits.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "support/lexer.h"

namespace braze::ir {

/// `3`, `-0.5`, `2.0`, `inf`, `nan`, and `nan('7ff8000000000001')` with its bits if they are not the usual ones.
void append_number(std::string& out, Number number);

/// What append_number() writes; also `true` and `false` as 1 and 0. Throws UserError with line and column.
Number parse_number(Lexer& lexer);

/// In single quotes. What a text in quotes cannot hold, and \ itself, are two hexadecimal digits behind \.
void append_quoted(std::string& out, std::string_view text);
/// Throws UserError with line and column.
std::string parse_quoted(Lexer& lexer);

}  // namespace braze::ir
