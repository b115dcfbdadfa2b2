#include "capture/tracer_tensor.h"

#include "capture/shapes.h"
#include "capture/size_node.h"
#include "capture/tape.h"
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

/// Operators of PyTorch's hold on to the list that they were shown while sizes in it become numbers: it stays where
/// it is, and its elements too.
static void keep_in_place(std::vector<c10::SymInt>& shown, DimsRef now) {
  shown.resize(now.size());
  for (size_t k = 0; k < now.size(); ++k) shown[k] = to_sym_int(now[k]);
}

void TracerTensor::take_geometry() {
  const DimsRef sizes = view_->type->sizes, strides = view_->type->strides;
  const Dim offset = capture::storage_offset(*view_);
  const bool is_symbolic = !sizes.is_numbers() || !strides.is_numbers() || !offset.is_number();
  if (is_symbolic || !sym_sizes_.empty()) {
    keep_in_place(sym_sizes_, sizes);
    keep_in_place(sym_strides_, strides);
  }
  if (is_symbolic) {
    // The numbers below are the example's, and nobody is shown them.
    Places example_sizes, example_strides;
    for (const Dim size : sizes) example_sizes.push_back(size.hint());
    for (const Dim stride : strides) example_strides.push_back(stride.hint());
    set_sizes_and_strides(example_sizes, example_strides, offset.hint());
  } else {
    set_sizes_and_strides(sizes.numbers(), strides.numbers(), static_cast<int64_t>(offset));
  }
  set_custom_sizes_strides(is_symbolic ? SizesStridesPolicy::CustomSizes : SizesStridesPolicy::Default);
  _set_neg(view_->is_neg);
  if (view_->is_conj != is_conj()) _set_conj(view_->is_conj);
}

bool TracerTensor::lies_as(at::MemoryFormat format) const {
  if (!view_) return TensorImpl::is_strides_like_default(format);
  const DimsRef sizes = view_->type->sizes, strides = view_->type->strides;
  if (format == at::MemoryFormat::Contiguous) return is_row_major(sizes, strides);
  const size_t rank = format == at::MemoryFormat::ChannelsLast ? 4 : 5;
  if (sizes.size() != rank) return false;
  const Sizes wanted = format_strides(sizes, format);
  for (size_t k = 0; k < rank; ++k)
    if (sizes[k] != 1 && strides[k] != wanted[k]) return false;
  return true;
}

/// In the order of such a format, gaps or none: what an operator lays its result out by. Source:
/// is_channels_last_strides_2d() and _3d() in c10/core/MemoryFormat.h.
bool TracerTensor::lies_like(at::MemoryFormat format) const {
  if (!view_) return TensorImpl::is_strides_like_default(format);
  const DimsRef sizes = view_->type->sizes, strides = view_->type->strides;
  const size_t rank = format == at::MemoryFormat::ChannelsLast ? 4 : 5;
  if (sizes.size() != rank || strides[1] == 0) return false;
  Dim least = 0;
  const auto follows = [&](size_t k) {
    if (sizes[k] == 0 || strides[k] < least || (k == 0 && least == strides[1])) return false;
    least = sizes[k] > 1 ? strides[k] * sizes[k] : strides[k];
    return true;
  };
  if (!follows(1)) return false;
  for (size_t k = rank - 1; k >= 2; --k)
    if (!follows(k)) return false;
  return follows(0);
}

bool TracerTensor::lies_dense() const {
  return is_dense(view_->type->sizes, view_->type->strides);
}

// What asks for numbers gets them, and the sizes are those from then on.
c10::IntArrayRef TracerTensor::sizes_custom() const {
  return DimsRef(view_->type->sizes).numbers();
}
c10::IntArrayRef TracerTensor::strides_custom() const {
  return DimsRef(view_->type->strides).numbers();
}
int64_t TracerTensor::size_custom(int64_t dim) const {
  return DimsRef(view_->type->sizes)[c10::maybe_wrap_dim(dim, dim_custom(), false)];
}
c10::SymInt TracerTensor::sym_size_custom(int64_t dim) const {
  return sym_sizes_[c10::maybe_wrap_dim(dim, dim_custom(), false)];
}
int64_t TracerTensor::numel_custom() const {
  return capture::numel(view_->type->sizes);
}
int64_t TracerTensor::dim_custom() const {
  return static_cast<int64_t>(view_->type->sizes.size());
}
int64_t TracerTensor::storage_offset_custom() const {
  return capture::storage_offset(*view_);
}
c10::SymIntArrayRef TracerTensor::sym_sizes_custom() const {
  return sym_sizes_;
}
c10::SymIntArrayRef TracerTensor::sym_strides_custom() const {
  return sym_strides_;
}
c10::SymInt TracerTensor::sym_numel_custom() const {
  return to_sym_int(capture::numel(view_->type->sizes));
}
c10::SymInt TracerTensor::sym_storage_offset_custom() const {
  return to_sym_int(capture::storage_offset(*view_));
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
  if (TapeRecorder* const tape = TapeRecorder::current()) tape->note_detached();
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
