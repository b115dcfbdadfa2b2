// loops/parse_number.h: numbers in the text of kernels.
#pragma once

#include "ir/graph.h"
#include "support/lexer.h"

namespace braze::loops {

/// `3`, `-0.5`, `inf`, `nan`, `nan("7ff8000000000001")` with its bits, `true`. Throws UserError with line and
/// column.
ir::Number parse_number(Lexer& lexer);

}  // namespace braze::loops
