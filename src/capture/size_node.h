// capture/size_node.h: sizes of a trace as PyTorch's own code holds them, c10::SymInt.
//
// A number is a number there. An expression is a node of ours: arithmetic on it makes expressions, a question about
// it is decided for the example with a guard, and whoever wants the number of it specialises it. In Python such a
// size would be a torch.SymInt; code that braze watches sees numbers instead (python/interpreter/watch/sizes.h).
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymIntArrayRef.h>

#include "capture/dim.h"

namespace braze::capture {

c10::SymInt to_sym_int(Dim dim);
/// Throws where it is a size that no trace of ours has made.
Dim dim_of(const c10::SymInt& size);
/// An integer among the arguments of an operator.
Dim dim_of(const c10::IValue& value);

/// Among the arguments of an operator or in a list of them: a size that is an expression.
bool has_symbols(const c10::IValue& value);
/// The argument with all such sizes as numbers, which they are specialised to.
c10::IValue specialised(const c10::IValue& value);

/// Whether a size, whatever it is, is a number of the type. Eager converts numbers with a check.
bool holds_sizes(c10::ScalarType type);

}  // namespace braze::capture
