// ir/size_bounds.h: what is known of whole expressions beside what their symbols say.
#pragma once

#include "ir/size_table.h"

namespace braze::ir {

/// All values of the size lie in `range`.
void learn_bounds(SizeTable& table, Size size, SizeRange range);

/// A size of which it is known that it is above 0, as the factor of another one or as the same in other words: a
/// divisor, which has to look it.
Size known_positive(SizeTable& table, Size size);

}  // namespace braze::ir
