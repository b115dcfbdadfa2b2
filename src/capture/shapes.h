// capture/shapes.h: eager's rules for result types, shapes and strides.
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "capture/dim.h"

namespace braze::capture {

/// How much an operand's element type counts in promotion.
enum class Rank : uint8_t { dimensioned, zero_dim, number };

/// PyTorch's result_type: tensors with dimensions decide, then 0-dim tensors, then Python numbers; a lower rank
/// only raises the kind (integer to float). Source: ATen/native/TypeProperties.cpp, torch.result_type.
class Promotion {
 public:
  void add(c10::ScalarType dtype, Rank rank);
  c10::ScalarType result() const;

 private:
  c10::ScalarType by_rank_[3] = {c10::ScalarType::Undefined, c10::ScalarType::Undefined,
                                 c10::ScalarType::Undefined};
};

/// The broadcast shape of both in `sizes`; false if there is none.
bool broadcast_into(Sizes& sizes, DimsRef other);

struct Layout {
  DimsRef sizes, strides;
};

/// Strides of a fresh result of `sizes` in TensorIterator: contiguous if all operands are, else in the order of the
/// operands' strides. Source: TensorIteratorBase::reorder_dimensions and allocate_or_resize_outputs.
Sizes iterator_strides(std::span<const Layout> operands, DimsRef sizes);

Sizes contiguous(DimsRef sizes);
/// As Tensor::is_contiguous(): strides of dimensions of size 1 mean nothing.
bool is_row_major(DimsRef sizes, DimsRef strides);
/// The strides are those of rows, as expressions: nothing is asked of sizes that vary.
bool has_strides_of_rows(DimsRef sizes, DimsRef strides);
Dim numel(DimsRef sizes);
/// A size of 0 is there. The sizes that make a tensor empty are numbers, as a rule: 0 and 1 are no symbol's value.
bool is_empty(DimsRef sizes);
/// clone() and empty_like() with torch.preserve_format: the same strides if dense, else dense ones of the same
/// order.
Sizes preserved_strides(DimsRef sizes, DimsRef strides);
bool is_dense(DimsRef sizes, DimsRef strides);
/// Strides without gaps, in the order in which those of an example lie.
Sizes packed_strides(DimsRef sizes, c10::IntArrayRef like);
/// Of an explicit memory format (Preserve excluded).
Sizes format_strides(DimsRef sizes, c10::MemoryFormat format);

/// A dimension counted from the end if negative; nullopt if out of range. 0-dim tensors have one dimension here.
std::optional<int64_t> wrap(int64_t dim, int64_t rank);

/// The sizes that view() is asked for, with -1 filled in; nullopt if they do not fit `numel` elements.
std::optional<Sizes> inferred_sizes(DimsRef asked, Dim numel);
/// Strides of a view of other sizes; nullopt if there is none.
std::optional<Sizes> view_strides(DimsRef sizes, DimsRef strides, DimsRef wanted);

}  // namespace braze::capture
