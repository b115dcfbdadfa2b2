// python/guards/tensor_guards.cpp: guards on tensors, and the facts about PyTorch's objects that other guards ask
// for.
#include <ATen/core/Tensor.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <optional>
#include <utility>

#include "capture/tracer_tensor.h"
#include "capture/wrappers.h"
#include "python/guards/array.h"
#include "python/guards/keys.h"
#include "python/guards/kinds.h"
#include "python/guards/torch_values.h"
#include "runtime/tensor_form.h"
#include "support/error.h"

namespace braze::guards {

namespace {

const at::Tensor& unpack(PyObject* tensor) noexcept {
  return THPVariable_Unpack(tensor);
}

/// Facts of a tensor that are single bits. `text` follows the tensor's name.
struct Fact {
  const char* text;
  bool (*read)(const c10::TensorImpl& impl, const torch::autograd::AutogradMeta* meta) noexcept;
};

using Meta = torch::autograd::AutogradMeta;

/// Whether writing to the view is autograd's business. Any other view is a tensor like others: `batch[i]` comes and
/// goes.
bool views_grad(const Meta& meta) noexcept {
  const auto& view = static_cast<const torch::autograd::DifferentiableViewMeta&>(meta);
  return view.has_bw_view() && view.get_backward_view().base_.requires_grad();
}

constexpr Fact kFacts[] = {
    {".requires_grad", [](const c10::TensorImpl&,
                          const Meta* meta) noexcept { return meta && (meta->requires_grad_ || meta->grad_fn_); }},
    {".is_leaf", [](const c10::TensorImpl&, const Meta* meta) noexcept { return !meta || !meta->grad_fn_; }},
    {" is a view of what requires grad",
     [](const c10::TensorImpl&, const Meta* meta) noexcept { return meta && meta->is_view_ && views_grad(*meta); }},
    {".retains_grad",
     [](const c10::TensorImpl&, const Meta* meta) noexcept { return meta && meta->retains_grad_; }},
    {" has hooks",
     [](const c10::TensorImpl&, const Meta* meta) noexcept {
       return meta && (!meta->hooks_.empty() || meta->cpp_hooks_list_ || meta->post_acc_grad_hooks_);
     }},
    // Where one has been, an empty holder stays.
    {" has a tangent",
     [](const c10::TensorImpl&, const Meta* meta) noexcept {
       return meta && meta->fw_grad_ && !meta->fw_grad_->empty();
     }},
    {" is a wrapped number",
     [](const c10::TensorImpl& impl, const Meta*) noexcept { return impl.is_wrapped_number(); }},
};

const Meta* meta_of(const at::Tensor& tensor) noexcept {
  return torch::autograd::impl::get_autograd_meta(tensor);
}

template <size_t... i>
uint32_t read_facts(const c10::TensorImpl& impl, const Meta* meta, std::index_sequence<i...>) noexcept {
  return (... | (static_cast<uint32_t>(kFacts[i].read(impl, meta)) << i));
}

/// Unrolled, so that the table costs no calls.
uint32_t facts_of(const at::Tensor& tensor) noexcept {
  return read_facts(*tensor.unsafeGetTensorImpl(), meta_of(tensor), std::make_index_sequence<std::size(kFacts)>());
}

/// The address of the first element; 0 without storage. Never faults fake storages in.
uintptr_t data_of(const c10::TensorImpl& impl) noexcept {
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (!storage) return 0;
  const auto base = reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
  return base ? base + impl.storage_offset() * impl.itemsize() : 0;
}

bool has_plain_geometry(const at::Tensor& tensor) {
  using c10::DispatchKey;
  if (capture::is_dispatched(tensor) && !capture::is_wrapper(tensor)) return false;
  const c10::DispatchKeySet odd({DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
                                 DispatchKey::Functionalize, DispatchKey::NestedTensor});
  return !tensor.key_set().has_any(odd) && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         tensor.layout() == at::kStrided;
}

std::string dtype_text(caffe2::TypeMeta dtype) {
  return describe_dtype(static_cast<int8_t>(dtype.toScalarType()));
}

std::string sizes_text(const int64_t* sizes, size_t rank) {
  std::string text = "(";
  for (size_t i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + (rank == 1 ? ",)" : ")");
}

struct Properties : Payload {
  PyTypeObject* type;  ///< Owned.
  runtime::TensorForm form;
  uint32_t facts;
  uint32_t alignment;
  /// Null: any tensor will do. Else where it lies, and no reference, not even a weak one: torch.utils.swap_tensors
  /// refuses tensors that have any. Another tensor of this form at the same place will do as well: a program reads
  /// what lies there.
  const c10::TensorImpl* only = nullptr;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> life;  ///< Of its memory.

  Properties(PyObject* object, uint32_t alignment, bool is_same, runtime::TensorForm::Layout layout)
      : type(reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(object))))),
        form(unpack(object), layout),
        facts(facts_of(unpack(object))),
        alignment(alignment) {
    if (!is_same) return;
    only = unpack(object).unsafeGetTensorImpl();
    life.emplace(unpack(object).storage().getWeakStorageImpl());
  }
  ~Properties() override { Py_DECREF(type); }
  Properties(const Properties&) = delete;
  Properties& operator=(const Properties&) = delete;

  bool equals(const Payload& payload) const noexcept override {
    const auto& other = static_cast<const Properties&>(payload);
    return type == other.type && form == other.form && facts == other.facts && alignment == other.alignment &&
           only == other.only;
  }
  bool is_dead() const noexcept override { return life && life->expired(); }
  int visit(visitproc visit, void* arg) const override {
    Py_VISIT(type);
    return 0;
  }

  /// What differs, in the order in which it is looked at; null if nothing does.
  const char* difference(PyObject* value) const noexcept {
    if (Py_TYPE(value) != type) return "type";
    const at::Tensor& tensor = unpack(value);
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (only && &impl != only) return "identity";
    if (const char* what = form.difference(impl)) return what;
    if (facts_of(tensor) != facts) return "facts";
    if (alignment > 1 && data_of(impl) % alignment) return "alignment";
    return nullptr;
  }
};

/// "requires_grad is True, was False", for the first fact that differs.
std::string facts_text(uint32_t expected, uint32_t found) {
  for (size_t i = 0; i < std::size(kFacts); ++i) {
    const bool a = expected >> i & 1, b = found >> i & 1;
    if (a != b) return concat(kFacts[i].text, " == ", a ? "True" : "False", ", was ", b ? "True" : "False");
  }
  return "facts as they were";
}

}  // namespace

// ----------------------------------------------------------------------------------------------- guard

std::shared_ptr<Payload> make_tensor_payload(PyObject* tensor, uint32_t alignment, bool is_same, bool any_sizes) {
  if (!is_tensor(tensor) || !has_plain_geometry(unpack(tensor))) return nullptr;
  using Layout = runtime::TensorForm::Layout;
  return std::make_shared<Properties>(tensor, alignment, is_same, any_sizes ? Layout::any : Layout::same);
}

bool test_tensor(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return !static_cast<const Properties*>(expected.payload)->difference(values[0]);
}

std::string explain_tensor(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const auto& then = *static_cast<const Properties*>(expected.payload);
  const runtime::TensorForm& form = then.form;
  const bool any_layout = form.takes_any_layout();
  const char* what = values ? then.difference(values[0]) : nullptr;
  if (!what && any_layout)
    return concat(texts[0], " is a ", then.type->tp_name, " of ", dtype_text(form.dtype()), " with ", form.rank(),
                  " dimensions on ", form.device().str());
  if (!what)
    return concat(texts[0], " is a ", then.type->tp_name, " of ", dtype_text(form.dtype()), " ",
                  sizes_text(form.sizes(), form.rank()), " with strides ", sizes_text(form.strides(), form.rank()),
                  " on ", form.device().str());
  const std::string_view which = what;
  if (which == "type")
    return concat("type(", texts[0], ") is ", then.type->tp_name, ", was ", Py_TYPE(values[0])->tp_name);
  if (which == "identity")
    return concat(texts[0], then.is_dead() ? " is a tensor that has died" : " is the tensor that it was",
                  ", was another one");
  const at::Tensor& now = unpack(values[0]);
  const auto changed = [&](const char* name, const std::string& a, const std::string& b) {
    return concat(texts[0], ".", name, " == ", a, ", was ", b);
  };
  if (which == "dtype") return changed("dtype", dtype_text(form.dtype()), dtype_text(now.dtype()));
  if (which == "device") return changed("device", form.device().str(), now.device().str());
  if (which == "dispatch keys")
    return concat(texts[0], " has dispatch keys ", c10::toString(form.keys()), ", was ",
                  c10::toString(now.key_set()));
  if (which == "symbolic sizes") return concat(texts[0], " has plain sizes, was symbolic");
  if (which == "rank" && any_layout) return changed("ndim", std::to_string(form.rank()), std::to_string(now.dim()));
  if (which == "rank" || which == "sizes")
    return changed("shape", sizes_text(form.sizes(), form.rank()), sizes_text(now.sizes().data(), now.dim()));
  if (which == "strides")
    return changed("stride()", sizes_text(form.strides(), form.rank()),
                   sizes_text(now.strides().data(), now.dim()));
  if (which == "facts") return concat(texts[0], facts_text(then.facts, facts_of(now)));
  return concat(texts[0], " is aligned to ", then.alignment, " bytes, was not");
}

// ---------------------------------------------------------------------------------------- torch_values

bool is_torch_device(PyObject* value) noexcept {
  return Py_IS_TYPE(value, &THPDeviceType);
}

bool same_torch_device(PyObject* a, PyObject* b) noexcept {
  return is_torch_device(b) && reinterpret_cast<THPDevice*>(a)->device == reinterpret_cast<THPDevice*>(b)->device;
}

bool is_torch_size(PyTypeObject* type) noexcept {
  return type == &THPSizeType;
}

bool is_tensor(PyObject* value) noexcept {
  // Not THPVariable_Check: it asks isinstance(), which may run a metaclass's Python code.
  return THPVariableClass && PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool is_tensor_key(PyObject* value) noexcept {
  static PyObject* const name = PyUnicode_InternFromString("__hash__");  // Kept for good.
  return name && is_tensor(value) &&
         _PyType_Lookup(Py_TYPE(value), name) ==
             _PyType_Lookup(reinterpret_cast<PyTypeObject*>(THPVariableClass), name);
}

std::string describe_dtype(int8_t scalar_type) {
  return concat("torch.", torch::getTHPDtype(static_cast<at::ScalarType>(scalar_type))->name);
}

std::string describe_tensor(PyObject* object) {
  const at::Tensor& tensor = unpack(object);
  if (!has_plain_geometry(tensor)) return dtype_text(tensor.dtype());
  return dtype_text(tensor.dtype()) + sizes_text(tensor.sizes().data(), tensor.dim());
}

Ref tensor_over(PyObject* array) noexcept {
  if (!is_number_array(array) || !parts_of_array(array).is_writeable()) return {};
  try {
    const capture::RunForReal outside_of_a_trace;
    return Ref::steal(THPVariable_Wrap(torch::utils::tensor_from_numpy(array, /*warn_if_not_writeable=*/false)));
  } catch (const std::exception&) {  // A type, or strides, that tensors do not have.
    PyErr_Clear();
    return {};
  }
}

Ref storage_offset(PyObject* value) noexcept {
  if (!is_tensor(value) || unpack(value).unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return {};
  Ref offset = Ref::steal(PyLong_FromLongLong(unpack(value).storage_offset()));
  if (!offset) PyErr_Clear();
  return offset;
}

PyObject* tensor_grad(PyObject* value) noexcept {
  if (!is_tensor(value)) return nullptr;
  const Meta* meta = meta_of(unpack(value));
  if (!meta || !meta->grad_.defined()) return nullptr;
  try {
    PyObject* grad = THPVariable_Wrap(meta->grad_);
    if (!grad) PyErr_Clear();
    Py_XDECREF(grad);  // the gradient, which the tensor keeps, keeps its Python object
    return grad;
  } catch (const std::exception&) {  // no memory
    return nullptr;
  }
}

MemoryRange memory_of(PyObject* value) noexcept {
  if (!is_tensor(value)) return {};
  const c10::TensorImpl& impl = *unpack(value).unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (!storage || impl.has_symbolic_sizes_strides()) return {};
  const auto first = reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
  if (!first) return {};
  return {first, first + storage->nbytes(), data_of(impl)};
}

}  // namespace braze::guards
