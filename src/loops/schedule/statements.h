// loops/schedule/statements.h: pieces that the builders of kernels share.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "loops/kernel.h"
#include "loops/schedule/extents.h"

namespace braze::loops {

Stmt as_statement(std::unique_ptr<Loop> loop);
/// All threads of a GPU's block wait for each other.
Stmt barrier();
/// Appends `body`, under an `if` unless the guard is none.
void close_guarded(Block& into, ValueId guard, Block body);
/// `whole` as indices of the given sizes, innermost first: the last one takes what the others leave.
std::vector<Affine> take_apart(Extents& extents, Builder builder, Affine whole, std::span<const Size> sizes);

}  // namespace braze::loops
