// runtime/geometry.cpp
#include "runtime/geometry.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>

#include "capture/devices.h"
#include "ir/text.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

struct DTypeRow {
  ir::DType ir;
  c10::ScalarType torch;
};
constexpr DTypeRow dtypes[] = {
    {ir::DType::f64, c10::kDouble}, {ir::DType::f32, c10::kFloat},        {ir::DType::bf16, c10::kBFloat16},
    {ir::DType::f16, c10::kHalf},   {ir::DType::i64, c10::kLong},         {ir::DType::i32, c10::kInt},
    {ir::DType::i16, c10::kShort},  {ir::DType::i8, c10::kChar},          {ir::DType::u8, c10::kByte},
    {ir::DType::b8, c10::kBool},    {ir::DType::c64, c10::kComplexFloat}, {ir::DType::c128, c10::kComplexDouble},
};

// The dispatch keys of an ordinary dense tensor of that device. Any key beyond them (sparse, conjugate, negative,
// Python, functorch) means that the bytes in memory are not the whole story.
c10::DispatchKeySet plain_keys(c10::DeviceType type) {
  const c10::BackendComponent backend = type == c10::kCPU    ? c10::BackendComponent::CPUBit
                                        : type == c10::kCUDA ? c10::BackendComponent::CUDABit
                                                             : c10::BackendComponent::MetaBit;
  return c10::DispatchKeySet(c10::DispatchKey::Dense) | c10::DispatchKeySet(backend) |
         c10::DispatchKeySet({c10::DispatchKey::ADInplaceOrView}) | c10::autograd_dispatch_keyset |
         c10::getAutocastRelatedKeySetFromBackend(backend);
}

int64_t span_of(const Geometry& g) {
  if (g.numel == 0) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < g.sizes.size(); ++i) last += (g.sizes[i] - 1) * g.strides[i];
  return last + 1;
}

}  // namespace

c10::ScalarType scalar_type(ir::DType dtype) {
  for (const DTypeRow& row : dtypes)
    if (row.ir == dtype) return row.torch;
  BRAZE_CHECK(false, "no tensor has dtype ", ir::name(dtype));
}

ir::DType ir_dtype(c10::ScalarType type) {
  for (const DTypeRow& row : dtypes)
    if (row.torch == type) return row.ir;
  return ir::DType::other;
}

c10::Device device(ir::Device device) {
  return capture::to_torch(device);
}

Geometry Geometry::of(const ir::Type& type) {
  return of(type.dtype, runtime::device(type.device), {type.sizes.begin(), type.sizes.end()},
            {type.strides.begin(), type.strides.end()});
}

Geometry Geometry::of(const at::Tensor& tensor) {
  Geometry g;
  g.dtype = tensor.scalar_type();
  g.device = tensor.device();
  g.sizes = tensor.sizes().vec();
  if (tensor.layout() == c10::kStrided) g.strides = tensor.strides().vec();
  g.numel = tensor.numel();
  if (tensor.layout() == c10::kStrided) g.span = span_of(g);
  return g;
}

at::Tensor Geometry::allocate() const {
  return allocate(dtype);
}

at::Tensor Geometry::allocate(c10::ScalarType otherwise) const {
  const c10::ScalarType type = dtype == c10::ScalarType::Undefined ? otherwise : dtype;
  if (device.is_cpu()) return at::detail::empty_strided_cpu(sizes, strides, type);
  return at::empty_strided(sizes, strides, at::TensorOptions().dtype(type).device(device));
}

Geometry Geometry::of(ir::DType dtype, c10::Device device, std::vector<int64_t> sizes,
                      std::vector<int64_t> strides) {
  Geometry g;
  g.dtype = dtype == ir::DType::other ? c10::ScalarType::Undefined : scalar_type(dtype);
  g.device = device;
  g.sizes = std::move(sizes);
  g.strides = std::move(strides);
  g.numel = c10::multiply_integers(g.sizes);
  g.span = span_of(g);
  return g;
}

bool Geometry::same_layout(c10::IntArrayRef other_sizes, c10::IntArrayRef other_strides) const noexcept {
  if (other_sizes != c10::IntArrayRef(sizes)) return false;
  if (other_strides == c10::IntArrayRef(strides) || numel == 0) return true;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1 && strides[i] != other_strides[i]) return false;
  return true;
}

bool is_plain(const at::Tensor& tensor, c10::DeviceType device) noexcept {
  static const c10::DispatchKeySet cpu = plain_keys(c10::kCPU);
  const c10::DispatchKeySet allowed = device == c10::kCPU ? cpu : plain_keys(device);
  return (tensor.unsafeGetTensorImpl()->key_set().raw_repr() & ~allowed.raw_repr()) == 0;
}

bool Geometry::matches(const at::Tensor& tensor) const noexcept {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!is_plain(tensor, device.type()) || impl->dtype().toScalarType() != dtype) return false;
  if (!device.is_cpu() && impl->device() != device) return false;
  return same_layout(impl->sizes(), impl->strides());
}

std::string describe(const Geometry& geometry) {
  std::string text;
  const ir::DType dtype = ir_dtype(geometry.dtype);
  text += dtype == ir::DType::other ? c10::toString(geometry.dtype) : std::string(ir::name(dtype)).c_str();
  text += '[';
  for (size_t i = 0; i < geometry.sizes.size(); ++i) text += (i ? "," : "") + std::to_string(geometry.sizes[i]);
  text += ']';
  if (!geometry.strides.empty() && !geometry.same_layout(geometry.sizes, ir::contiguous_strides(geometry.sizes))) {
    text += '{';
    for (size_t i = 0; i < geometry.strides.size(); ++i)
      text += (i ? "," : "") + std::to_string(geometry.strides[i]);
    text += '}';
  }
  if (!geometry.device.is_cpu()) text += "@" + geometry.device.str();
  return text;
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "no tensor";
  std::string text = describe(Geometry::of(tensor));
  if (tensor.layout() != c10::kStrided) return text + concat(" (", tensor.layout(), ")");
  if (tensor.is_conj()) return text + " (lazily conjugated: call resolve_conj())";
  if (tensor.is_neg()) return text + " (lazily negated: call resolve_neg())";
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) return text + " (of a subclass with __torch_dispatch__)";
  if (!is_plain(tensor, tensor.device().type()))
    return text + concat(" (with dispatch keys ", tensor.key_set(), ")");
  return text;
}

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  const c10::StorageImpl* one = a.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const c10::StorageImpl* other = b.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (one == other) return true;
  const auto *first = static_cast<const char*>(one->data()), *second = static_cast<const char*>(other->data());
  return first < second + other->nbytes() && second < first + one->nbytes();
}

at::Tensor alias(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t storage_offset) {
  const c10::TensorImpl* impl = base.unsafeGetTensorImpl();
  auto copy = impl->shallow_copy_and_detach(impl->version_counter(), /*allow_tensor_metadata_change=*/true);
  copy->set_sizes_and_strides(sizes, strides, storage_offset);
  return at::Tensor(std::move(copy));
}

at::Tensor alias(const at::Tensor& base, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                 int64_t storage_offset) {
  if (dtype == base.scalar_type()) return alias(base, sizes, strides, storage_offset);
  const c10::TensorImpl* impl = base.unsafeGetTensorImpl();
  auto made = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                   impl->key_set(), c10::scalarTypeToTypeMeta(dtype));
  made->set_sizes_and_strides(sizes, strides, storage_offset);
  if (impl->version_counter().enabled()) made->set_version_counter(impl->version_counter());
  return at::Tensor(std::move(made));
}

}  // namespace braze::runtime
