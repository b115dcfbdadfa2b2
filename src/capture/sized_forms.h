// capture/sized_forms.h: composite operators made of others for sizes that are expressions, row by row of
// sized_composites.cpp.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <span>

namespace braze::capture {

/// What a form is given, and gives: the results; nullopt: the call is PyTorch's.
using FormArguments = std::span<const c10::IValue>;
using FormResult = std::optional<c10::IValue>;

/// (sequences, batch_first, padding_value, padding_side)
FormResult pad_sequence(FormArguments arguments);
/// (self, fill_value, wrap)
FormResult fill_diagonal(FormArguments arguments);
/// (log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity), of lists of lengths.
FormResult ctc_loss_of_sizes(FormArguments arguments);
/// (self, ord, dim, keepdim, dtype): the norms that singular values decide.
FormResult matrix_norm_by_number(FormArguments arguments);
FormResult matrix_norm_by_name(FormArguments arguments);

}  // namespace braze::capture
