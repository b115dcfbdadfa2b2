// codegen/x86/strided.h: vectors of every n-th element, without a gather.
//
// A gather takes about two instructions of the processor's own a lane. Whole vectors that cover the elements and a
// shuffle of each into place take two a vector:
//   elements 0, 2, 4, 6 of p   =   shuffle(p[0..4), p[3..7))   by   0, 2, 5, 7
// Nothing behind the last element is read: the last vector ends with it.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>

namespace braze::codegen {

/// Whether every `stride`-th element is worth reading so, `width` of them.
bool is_short_stride(int64_t stride, unsigned width);

/// `width` elements, `stride` apart, is_short_stride().
/// \param mask  null, or width lanes: where false nothing is read, and the lane is 0.
/// \param load  makes a load of `width` successive elements from element `first` on, under a mask if that is given.
llvm::Value* load_strided(llvm::IRBuilderBase& b, int64_t stride, unsigned width, llvm::Value* mask,
                          llvm::function_ref<llvm::Value*(int64_t first, llvm::Value* mask)> load);

}  // namespace braze::codegen
