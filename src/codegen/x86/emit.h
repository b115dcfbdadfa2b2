// codegen/x86/emit.h: loop kernels to LLVM IR for x86, at the machine's vector width.
//
// The IR is meant to be good as it stands: vectors of the target's width, loop-invariant code in front of its loop,
// pointers stepped rather than multiplied, tails under masks. No pass of LLVM's middle end is needed after it.
#pragma once

#include <string_view>

#include "loops/kernel.h"
#include "target/target.h"

namespace llvm {
class Module;
}

namespace braze::codegen {

/// Adds one external function a phase, `<prefix>0`, `<prefix>1`, ..., with compiler.h's PhaseFunction as signature.
/// The kernel must pass loops::verify. `module` has the data layout of the target.
/// Templates are InternalErrors: they are lowered before.
///
///   for %i in 0..#n parallel vector { %a = load %x[%i]; %b = compute exp %a; store %y[%i], %b }
/// becomes (W lanes, U = schedule.unroll)
///   main:  W*U elements a step, U copies of each op next to each other, no mask
///   tail:  W elements a step under a mask (AVX2 with 1- or 2-byte elements: one element a step)
/// Lanes of a vector loop, and copies of a sum, add up separately and are joined at the end.
void emit(const loops::Kernel& kernel, const Target& target, llvm::Module& module, std::string_view prefix);

}  // namespace braze::codegen
