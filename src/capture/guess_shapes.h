// capture/guess_shapes.h: sizes of library calls' results as expressions, for operators that no rule knows.
//
// The operator is asked for its results' shapes at several values of the symbols (capture/ask_shapes.h). What fits
// all of them, of expressions that shapes are made of - a size of an operand, n*m, n // 2 + 1, 2*n - 1 - is taken
// for the size. It may be wrong for others, so that a program for other values is made only after the operator was
// asked for these too: check_guesses().
#pragma once

#include "capture/ask_shapes.h"

namespace braze::capture {

/// The operator is one that may be asked.
bool may_guess_shapes(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments);

/// Nullopt: some size is none of these expressions, or the operator is not one that may be asked.
std::optional<Shapes> guess_shapes(Recorder& recorder, const OpEntry& entry,
                                   std::span<const c10::IValue> arguments);

/// Throws UserError if a call of the graph, of an operator whose shapes were guessed, gives others for these values
/// of the symbols.
void check_guesses(const Trace& trace, std::span<const int64_t> symbols);

}  // namespace braze::capture
