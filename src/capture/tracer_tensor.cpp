#include "capture/tracer_tensor.h"

#include "capture/types.h"

namespace braze::capture {
namespace {

c10::DispatchKeySet tracer_keys(c10::Device device, bool inference) {
  if (inference) return c10::DispatchKeySet(kKey);
  const auto autograd = device.is_cuda() ? c10::DispatchKey::AutogradCUDA : c10::DispatchKey::AutogradCPU;
  return c10::DispatchKeySet(kKey) | c10::DispatchKeySet({autograd, c10::DispatchKey::ADInplaceOrView});
}

}  // namespace

TracerTensor::TracerTensor(ViewPtr view, uint64_t trace, c10::ScalarType dtype, c10::Device device, bool inference)
    : TensorImpl(VIEW, c10::Storage(view->memory->storage), tracer_keys(device, inference),
                 c10::scalarTypeToTypeMeta(dtype)),
      view_(std::move(view)),
      trace_(trace) {
  set_sizes_and_strides(to_ref(view_->type->sizes), to_ref(view_->type->strides), view_->offset);
}

void TracerTensor::rebind(ViewPtr view) {
  view_ = std::move(view);
  storage_ = view_->memory->storage;
  set_sizes_and_strides(to_ref(view_->type->sizes), to_ref(view_->type->strides), view_->offset);
}

template <typename Version>
c10::intrusive_ptr<TracerTensor> TracerTensor::copy(Version&& version, bool allow_tensor_metadata_change) const {
  const auto dtype = c10::typeMetaToScalarType(this->dtype());
  auto made = c10::make_intrusive<TracerTensor>(view_, trace_, dtype, device(),
                                                !key_set().has(c10::DispatchKey::ADInplaceOrView));
  copy_tensor_metadata(this, made.get(), std::forward<Version>(version), allow_tensor_metadata_change);
  return made;
}

c10::intrusive_ptr<c10::TensorImpl> TracerTensor::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  return copy(version_counter, allow_tensor_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> TracerTensor::shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                                          bool allow_tensor_metadata_change) const {
  return copy(std::move(version_counter), allow_tensor_metadata_change);
}

void TracerTensor::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) {
  TORCH_CHECK(impl->key_set().has(kKey),
              "braze: while tracing, `.data` of a tensor of the trace can only be set to another one.");
  view_ = static_cast<TracerTensor*>(impl.get())->view_;
  TensorImpl::shallow_copy_from(impl);
}

}  // namespace braze::capture
