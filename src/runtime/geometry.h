// runtime/geometry.h: dtype, device, sizes and strides of a tensor, and the cheap test that a tensor has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace braze::runtime {

c10::ScalarType scalar_type(ir::DType dtype);  ///< Throws InternalError for `other`.
ir::DType ir_dtype(c10::ScalarType type);      ///< `other` for what the graph has no name for.
c10::Device device(ir::Device device);

struct Geometry {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::vector<int64_t> sizes, strides;
  int64_t numel = 0;
  int64_t span = 0;  ///< Elements from the first to the end of the last, gaps included.

  static Geometry of(const ir::Type& type);  ///< dtype Undefined where the graph says `other`.
  static Geometry of(const at::Tensor& tensor);
  static Geometry of(ir::DType dtype, c10::Device device, std::vector<int64_t> sizes, std::vector<int64_t> strides);
  /// Of elements that only ATen knows: as many as there may be.
  int64_t bytes() const {
    constexpr size_t most = sizeof(c10::complex<double>);
    return span * static_cast<int64_t>(dtype == c10::ScalarType::Undefined ? most : c10::elementSize(dtype));
  }
  /// A new uninitialised tensor.
  at::Tensor allocate() const;
  /// Likewise, of elements of that type where the graph has no name for theirs.
  at::Tensor allocate(c10::ScalarType otherwise) const;
  /// The layout agrees wherever it can be seen: strides of dimensions of size 1, and of empty tensors, do not
  /// matter.
  bool same_layout(c10::IntArrayRef sizes, c10::IntArrayRef strides) const noexcept;
  /// dtype, device, layout; strided, without lazy conjugation or negation, not of a Python subclass that
  /// dispatches.
  bool matches(const at::Tensor& tensor) const noexcept;
};

/// An ordinary dense tensor of that device: its bytes are the whole story.
bool is_plain(const at::Tensor& tensor, c10::DeviceType device) noexcept;

/// "f32[4,8]", with strides where they are not row-major: "f32[4,8]{1,4}".
std::string describe(const Geometry& geometry);
/// The same of any tensor, with what makes it special: "f32[4,8] (sparse)".
std::string describe(const at::Tensor& tensor);

/// Whether their storages overlap: are one, or two over the same memory (of NumPy, say).
bool share_memory(const at::Tensor& a, const at::Tensor& b);

/// Another tensor on the storage of `base`. Shares its version counter; detached.
at::Tensor alias(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t storage_offset);
/// Likewise, of elements of another type.
at::Tensor alias(const at::Tensor& base, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                 int64_t storage_offset);

}  // namespace braze::runtime
