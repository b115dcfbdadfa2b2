// loops/recompute.h: cheap work done again by the kernel that reads it, instead of being stored for it.
//
// Nothing may follow a reduction that is split over threads (Group::wide), so what goes on from its results is
// another kernel, which mostly reads what the first one computed on the way: of a batch norm's backward the
// gradient behind the activation and the normalised input, each as large as what they are computed from.
//   before                                    after
//   kernel 1   %g = where %mask, %z, %dy      kernel 1   sums of %g and %g * %n, both computed there
//              %n = (%x - %mean) * %rstd      kernel 2   %g and %n again, from %dy and %x
//              sums of %g and %g * %n
//   kernel 2   reads %g and %n
// Done where that moves fewer bytes than storing them and reading them again.
#pragma once

#include <vector>

#include "loops/fusion.h"

namespace braze::loops {

/// `units`: in the order in which they run.
void recompute_shared(const ir::Graph& graph, std::vector<Unit>& units, Facts& facts);

}  // namespace braze::loops
