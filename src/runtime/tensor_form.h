// runtime/tensor_form.h: what a captured program depends on of a tensor beside its elements and its place.
//
// The one test of "a tensor like the one that was traced" before a program is chosen: guards of Python's calls
// (python/guards) and signatures of the C++ face (api) ask it. What a chosen program asks of memory that is handed
// to its kernels is less, and is Geometry's (runtime/geometry.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

namespace braze::runtime {

class TensorForm {
 public:
  /// Which sizes and strides will do.
  enum class Layout : uint8_t { same, any };

  /// \pre tensor has numbers for sizes, and strides.
  explicit TensorForm(const at::Tensor& tensor, Layout layout = Layout::same)
      : keys_(tensor.key_set()),
        dtype_(tensor.dtype()),
        device_(tensor.device()),
        rank_(static_cast<uint32_t>(tensor.dim())),
        layout_(layout) {
    extents_.append(tensor.sizes().begin(), tensor.sizes().end());
    extents_.append(tensor.strides().begin(), tensor.strides().end());
  }

  /// What differs, by its name, in the order in which it is looked at; null if nothing does. A few nanoseconds.
  const char* difference(const c10::TensorImpl& impl) const noexcept {
    if (impl.dtype() != dtype_) return "dtype";
    if (impl.key_set() != keys_) return impl.device_type() != device_.type() ? "device" : "dispatch keys";
    if (impl.device() != device_) return "device";
    if (impl.has_symbolic_sizes_strides()) return "symbolic sizes";
    const c10::IntArrayRef sizes = impl.sizes();
    if (sizes.size() != rank_) return "rank";
    if (layout_ == Layout::any) return nullptr;
    if (!same_words(sizes.data(), extents_.data())) return "sizes";
    return same_words(impl.strides().data(), extents_.data() + rank_) ? nullptr : "strides";
  }
  bool matches(const at::Tensor& tensor) const noexcept { return !difference(*tensor.unsafeGetTensorImpl()); }
  bool operator==(const TensorForm& other) const noexcept {
    return keys_ == other.keys_ && dtype_ == other.dtype_ && device_ == other.device_ && layout_ == other.layout_ &&
           rank_ == other.rank_ && extents_ == other.extents_;
  }

  c10::DispatchKeySet keys() const { return keys_; }
  caffe2::TypeMeta dtype() const { return dtype_; }
  c10::Device device() const { return device_; }
  uint32_t rank() const { return rank_; }
  bool takes_any_layout() const { return layout_ == Layout::any; }
  const int64_t* sizes() const { return extents_.data(); }
  const int64_t* strides() const { return extents_.data() + rank_; }

 private:
  /// Without a call: most are one to four words, and a model has hundreds of tensors.
  bool same_words(const int64_t* a, const int64_t* b) const noexcept {
    for (uint32_t i = 0; i < rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

  c10::DispatchKeySet keys_;  ///< Device type, layout, inference tensor, lazy conjugation.
  caffe2::TypeMeta dtype_;
  c10::Device device_;
  uint32_t rank_;
  Layout layout_;
  c10::SmallVector<int64_t, 8> extents_;  ///< Sizes, then strides; beside the rest up to four dimensions.
};

}  // namespace braze::runtime
