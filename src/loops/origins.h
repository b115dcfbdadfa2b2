// loops/origins.h: where in its buffers a kernel begins, as a number of the launch.
//
// The steps of an unrolled recurrence read successive parts of one buffer. With the offsets in their indices they
// would be as many kernels, each to be compiled; with the offset added to the address they are one.
//   before                                        after, launched at element 64 of %x
//   kernel @step(%x: f32 in, ..) {                kernel @step(%x: f32 in, ..) {
//     .. load %x[%0 + 64]                           .. load %x[%0]
#pragma once

#include <cstdint>
#include <vector>

#include "loops/kernel.h"

namespace braze::loops {

/// Takes the constant that all places in a parameter have in common out of the kernel. Returns, by parameter, the
/// elements that its address is to be moved by; empty if none is. What is read and written stays where it is.
/// \param strict  Bytes that the target's widest loads ask of an address; 0 where they take any. Kernels for places
///                that are known to be multiples of less are not those for unknown ones, which may turn out to be.
std::vector<int64_t> move_origins(Kernel& kernel, int64_t strict);

}  // namespace braze::loops
