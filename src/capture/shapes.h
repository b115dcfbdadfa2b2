// capture/shapes.h: eager's rules for result types, shapes and strides.
#pragma once

#include <ATen/ATen.h>

#include <span>

namespace braze::capture {

using Sizes = c10::SmallVector<int64_t, 5>;

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
bool broadcast_into(Sizes& sizes, c10::IntArrayRef other);

struct Layout {
  c10::IntArrayRef sizes, strides;
};

/// Strides of a fresh result of `sizes` in TensorIterator: contiguous if all operands are, else in the order of the
/// operands' strides. Source: TensorIteratorBase::reorder_dimensions and allocate_or_resize_outputs.
Sizes iterator_strides(std::span<const Layout> operands, c10::IntArrayRef sizes);

Sizes contiguous(c10::IntArrayRef sizes);
/// As Tensor::is_contiguous(): strides of dimensions of size 1 mean nothing.
bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides);
int64_t numel(c10::IntArrayRef sizes);
/// clone() and empty_like() with torch.preserve_format: the same strides if dense, else dense ones of the same
/// order.
Sizes preserved_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides);
bool is_dense(c10::IntArrayRef sizes, c10::IntArrayRef strides);
/// Of an explicit memory format (Preserve excluded).
Sizes format_strides(c10::IntArrayRef sizes, c10::MemoryFormat format);

/// A dimension counted from the end if negative; nullopt if out of range. 0-dim tensors have one dimension here.
std::optional<int64_t> wrap(int64_t dim, int64_t rank);

}  // namespace braze::capture
