// capture/rules_backward.h: operators of PyTorch's backward formulas.
#pragma once

#include "capture/registry.h"

namespace braze::capture {

/// Activations and losses, normalisations, and what gives parts of a tensor their place in the whole.
std::span<const RuleRow> backward_rules();

}  // namespace braze::capture
