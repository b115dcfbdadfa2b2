// loops/alike.h: kernels of a plan that differ in sizes alone are one, which is given them at its launches.
//
// A network has the same layer at a dozen sizes, and machine code is what most of its compilation takes:
// ResNet-50's training has 77 kernels of 36 kinds. What a number decides about the code stays a number (lengths of
// vector loops that leave a rest, whatever lanes multiply or divide by); the others cost an addition or two a row
// as values.
#pragma once

#include "loops/plan.h"

namespace braze::loops {

/// Rounding does not change: loops and their order stay as they are.
void share_alike_kernels(Plan& plan);

}  // namespace braze::loops
