// capture/tracer_tensor.h: a tensor without data that stands for a value of the graph.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "capture/memory.h"

namespace braze::capture {

/// The dispatch key of braze's kernels: a backend key that no backend uses.
constexpr auto kKey = c10::DispatchKey::CustomRNGKeyId;

/// While it lives operators of this thread run for real: not recorded, even on tracers (which have no other
/// kernels). Factories are recorded only because the Scope excludes BackendSelect, which would choose the CPU's
/// kernel.
class RunForReal {
 public:
  RunForReal() : guard_(without_tracing()) {}

 private:
  static c10::impl::LocalDispatchKeySet without_tracing() {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    keys.included_ = keys.included_.remove(kKey);
    keys.excluded_ = keys.excluded_.add(kKey).remove(c10::DispatchKey::BackendSelect);
    return keys;
  }
  c10::impl::ForceDispatchKeyGuard guard_;
};

class TracerTensor;

/// A trace as its tensors know it: its number, and which of them are alive.
class TraceTensors {
 public:
  explicit TraceTensors(uint64_t serial) : serial_(serial) {}
  uint64_t serial() const { return serial_; }
  void add(TracerTensor* tensor);
  void remove(TracerTensor* tensor);
  std::vector<at::Tensor> alive() const;

 private:
  const uint64_t serial_;
  mutable std::mutex mutex_;  ///< Guards alive_: the last owner of a tensor may be another thread.
  std::unordered_set<TracerTensor*> alive_;
};

/// Has the device, sizes, strides and storage offset of eager's tensor, a storage that raises when it is read, and
/// autograd's keys. Shallow copies (detach in autograd, `.data`, saved outputs) stand for the same view.
class TracerTensor final : public c10::TensorImpl {
 public:
  /// `inference`: an inference tensor, without autograd's keys. (Views of others are none, even in inference mode.)
  TracerTensor(ViewPtr view, std::shared_ptr<TraceTensors> trace, c10::Device device, bool inference);

  const ViewPtr& view() const { return view_; }
  uint64_t trace() const { return trace_->serial(); }
  /// Makes the tensor stand for another view (an `out=` tensor that was resized).
  void rebind(ViewPtr view);
  /// Makes the tensor a real one, for all who hold it: `real`'s elements, memory, layout.
  void become(const at::Tensor& real);
  ~TracerTensor() override;

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                         bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                         bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;
  /// Sizes that were expressions have become numbers.
  void refresh() {
    if (view_) take_geometry();
  }

  // ---- sizes that are expressions: PyTorch asks for them as such, or as numbers, which specialises them
  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  int64_t size_custom(int64_t dim) const override;
  c10::SymInt sym_size_custom(int64_t dim) const override;
  int64_t numel_custom() const override;
  int64_t dim_custom() const override;
  int64_t storage_offset_custom() const override;
  c10::SymIntArrayRef sym_sizes_custom() const override;
  c10::SymIntArrayRef sym_strides_custom() const override;
  c10::SymInt sym_numel_custom() const override;
  c10::SymInt sym_storage_offset_custom() const override;
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override { return lies_as(format); }
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override { return lies_dense(); }
  bool is_strides_like_custom(at::MemoryFormat format) const override { return lies_like(format); }

 private:
  const char* tensorimpl_type_name() const override { return "braze::TracerTensor"; }
  void take_geometry();
  bool lies_as(at::MemoryFormat format) const;
  bool lies_like(at::MemoryFormat format) const;
  bool lies_dense() const;
  template <typename Version>
  c10::intrusive_ptr<TracerTensor> copy(Version&& version, bool allow_tensor_metadata_change) const;

  ViewPtr view_;  ///< Null after become(): an ordinary tensor.
  std::shared_ptr<TraceTensors> trace_;
  std::vector<c10::SymInt> sym_sizes_, sym_strides_;  ///< Empty where all are numbers.
};

/// Null for any other tensor, undefined ones included.
inline TracerTensor* as_tracer(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const c10::DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  // What functionalizes a tensor has the keys of that tensor beside its own.
  if (!keys.has(kKey) || keys.has(c10::DispatchKey::Functionalize)) return nullptr;
  return static_cast<TracerTensor*>(tensor.unsafeGetTensorImpl());
}

}  // namespace braze::capture
