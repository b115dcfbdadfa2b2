#include "capture/tracer_tensor.h"

#include "capture/types.h"

namespace braze::capture {
namespace {

c10::DispatchKeySet tracer_keys(c10::Device device, bool inference) {
  const bool cuda = device.is_cuda();
  // TensorImpl adds the autocast key itself, except in the constructor for views.
  const auto keys =
      c10::DispatchKeySet(kKey) | c10::getAutocastRelatedKeySetFromBackend(cuda ? c10::BackendComponent::CUDABit
                                                                                : c10::BackendComponent::CPUBit);
  if (inference) return keys;
  const auto autograd = cuda ? c10::DispatchKey::AutogradCUDA : c10::DispatchKey::AutogradCPU;
  return keys | c10::DispatchKeySet({autograd, c10::DispatchKey::ADInplaceOrView});
}

}  // namespace

TracerTensor::TracerTensor(ViewPtr view, std::shared_ptr<TraceTensors> trace, c10::Device device, bool inference)
    : TensorImpl(VIEW, c10::Storage(view->memory->storage), tracer_keys(device, inference),
                 c10::scalarTypeToTypeMeta(view->dtype)),
      view_(std::move(view)),
      trace_(std::move(trace)) {
  take_geometry();
  trace_->add(this);
}

void TracerTensor::take_geometry() {
  set_sizes_and_strides(to_ref(view_->type->sizes), to_ref(view_->type->strides), capture::storage_offset(*view_));
  _set_neg(view_->is_neg);
  if (view_->is_conj != is_conj()) _set_conj(view_->is_conj);
}

TracerTensor::~TracerTensor() {
  trace_->remove(this);
}

void TracerTensor::become(const at::Tensor& real) {
  copy_tensor_metadata(real.unsafeGetTensorImpl(), this, version_counter(), allow_tensor_metadata_change());
  view_.reset();
}

void TraceTensors::add(TracerTensor* tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  alive_.insert(tensor);
}

void TraceTensors::remove(TracerTensor* tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  alive_.erase(tensor);
}

std::vector<at::Tensor> TraceTensors::alive() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<at::Tensor> tensors;
  for (TracerTensor* tensor : alive_)
    tensors.emplace_back(c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(tensor));
  return tensors;
}

void TracerTensor::rebind(ViewPtr view) {
  view_ = std::move(view);
  storage_ = view_->memory->storage;
  take_geometry();
}

template <typename Version>
c10::intrusive_ptr<TracerTensor> TracerTensor::copy(Version&& version, bool allow_tensor_metadata_change) const {
  auto made =
      c10::make_intrusive<TracerTensor>(view_, trace_, device(), !key_set().has(c10::DispatchKey::ADInplaceOrView));
  copy_tensor_metadata(this, made.get(), std::forward<Version>(version), allow_tensor_metadata_change);
  return made;
}

c10::intrusive_ptr<c10::TensorImpl> TracerTensor::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  if (!view_) return TensorImpl::shallow_copy_and_detach(version_counter, allow_tensor_metadata_change);
  return copy(version_counter, allow_tensor_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> TracerTensor::shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                                          bool allow_tensor_metadata_change) const {
  if (!view_) return TensorImpl::shallow_copy_and_detach(std::move(version_counter), allow_tensor_metadata_change);
  return copy(std::move(version_counter), allow_tensor_metadata_change);
}

void TracerTensor::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) {
  if (!view_) return TensorImpl::shallow_copy_from(impl);
  TORCH_CHECK(impl->key_set().has(kKey),
              "braze: while tracing, `.data` of a tensor of the trace can only be set to another one.");
  view_ = static_cast<TracerTensor*>(impl.get())->view_;
  TensorImpl::shallow_copy_from(impl);
}

}  // namespace braze::capture
