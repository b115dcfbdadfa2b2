// python/compile/torch_sizes.cpp
#include "python/compile/torch_sizes.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <string_view>

#include "capture/devices.h"
#include "capture/dim.h"
#include "capture/number.h"
#include "capture/numbers_in_calls.h"
#include "capture/size_node.h"
#include "capture/tracer_tensor.h"
#include "python/compile/torch_names.h"
#include "python/compile/torch_parameters.h"
#include "python/guards/random_state.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/evaluate.h"
#include "python/user_line.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// "model.py:3", of the innermost frame that is not braze's own.
std::string user_place() {
  using interpreter::Ref;
  Ref frame = Ref::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* object = reinterpret_cast<PyFrameObject*>(frame.get());
    const Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(object)));
    Ref outer = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(object)));
    if (!outer || !is_own_code(reinterpret_cast<PyCodeObject*>(code.get()))) {
      const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code.get())->co_filename);
      const std::string_view path = file ? file : "?";
      return concat(path.substr(path.rfind('/') + 1), ":", PyFrame_GetLineNumber(object));
    }
    frame = std::move(outer);
  }
  return "";
}

/// Each hook of a module has the next one as its key (torch.utils.hooks.RemovableHandle).
bool counts_hooks(PyObject* number) {
  PyObject* const type = torch_names().hook_handle_type;
  return PyDict_GetItemString(guards::class_dict(reinterpret_cast<PyTypeObject*>(type)), "next_id") == number;
}

/// How many things a run has decided about what varies; nothing where nothing does.
std::optional<size_t> decisions_of(const capture::Symbols* symbols, const std::vector<guards::DerivedTest>& tests) {
  return symbols ? std::optional(tests.size() + symbols->env->guards().size()) : std::nullopt;
}

}  // namespace

TorchSizes::~TorchSizes() {
  capture::ParsedNumbers::forget();
}

bool TorchSizes::learn(PyObject* tensor, const guards::Source* source, const std::string& name) {
  const at::Tensor& real = THPVariable_Unpack(tensor);
  const VaryingForm form = history_->note(name, real, marks_of(tensor), dynamic_);
  if (!form.any() || !tracer_.symbols()) return guards_.tensor(source, tensor);
  if (!guards_.tensor_of_rank(source, tensor)) return false;
  tracer_.vary(real, name, form.sizes, {form.strides.begin(), form.strides.end()});
  varied_sources_.insert(source);
  return true;
}

void TorchSizes::keep_tracer(PyObject* tensor, const guards::Source* source) {
  if (!varies(source)) return;
  const at::Tensor stand_in = tracer_.stand_in(THPVariable_Unpack(tensor));
  tracers_.emplace(tensor, guards::Ref::steal(THPVariable_Wrap(stand_in)));
}

bool TorchSizes::may_vary(std::span<PyObject* const> given) const {
  if (!history_) return false;
  if (history_->has_data() || history_->has_draws()) return true;
  if (dynamic_ == Dynamic::always) return true;
  const bool by_history = !history_->empty() || history_->expects_numbers() || history_->expects_sizes();
  if (dynamic_ != Dynamic::never && by_history) return true;
  return std::ranges::any_of(
      given, [&](PyObject* one) { return one && guards::is_tensor(one) && !marks_of(one).empty(); });
}

bool TorchSizes::has_sizes() const {
  const capture::Symbols* symbols = tracer_.symbols();
  return !floats_.empty() || (symbols && symbols->env->table().symbol_count() > 0);
}

std::optional<ir::Size> TorchSizes::length_of(PyObject* tensor) const {
  PyObject* tracer = tracer_of(tensor);
  if (!tracer && guards::is_tensor(tensor) && capture::is_tracer(THPVariable_Unpack(tensor))) tracer = tensor;
  const capture::DimsRef sizes = tracer ? capture::dims_of(THPVariable_Unpack(tracer)) : capture::DimsRef();
  return sizes.empty() ? std::nullopt : std::optional(sizes[0].size());
}

PyObject* TorchSizes::behind_tracer(PyObject* tracer) const {
  const auto found = std::ranges::find_if(tracers_, [&](const auto& one) { return one.second.get() == tracer; });
  return found == tracers_.end() ? nullptr : found->first;
}

PyObject* TorchSizes::tracer_of(PyObject* tensor) const {
  const auto found = tracers_.find(tensor);
  return found == tracers_.end() ? nullptr : found->second.get();
}

void TorchSizes::settle(PyObject* tensor) {
  PyObject* tracer = tracer_of(tensor);
  const at::Tensor& looked_at = THPVariable_Unpack(tracer ? tracer : tensor);
  for (const capture::DimsRef dims : {capture::dims_of(looked_at), capture::strides_of(looked_at)})
    for (const capture::Dim dim : dims)
      if (!dim.is_number()) decide(ir::equal(dim.size(), value_of(dim.size())));
}

interpreter::Ref TorchSizes::to_symbolic(ir::Size size) const {
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(py::cast(capture::to_sym_int(size)).release().ptr());
}

interpreter::Ref TorchSizes::to_number(ir::Size size, PyObject* beside) const {
  const at::Tensor& other = THPVariable_Unpack(beside);
  if (other.is_complex()) return {};
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(THPVariable_Wrap(tracer_.wrap_number(size)));
}

bool TorchSizes::holds_sizes(PyObject* tensor) const {
  const c10::ScalarType type = THPVariable_Unpack(tensor).scalar_type();
  return type == c10::kBool || capture::holds_sizes(type);
}

bool TorchSizes::is_number(PyObject* tensor) const {
  return capture::is_number(THPVariable_Unpack(tensor));
}

std::optional<ir::Size> TorchSizes::from_symbolic(PyObject* object) const {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != torch_names().symbolic_int) return std::nullopt;
  try {
    const capture::Dim dim = capture::dim_of(py::handle(object).cast<c10::SymInt>());
    return tracer_.symbols()->env->simplify(dim.size());
  } catch (const std::exception&) {
    PyErr_Clear();
    return std::nullopt;
  }
}

int64_t TorchSizes::value_of(ir::Size size) const {
  return tracer_.symbols()->env->example(size);
}

bool TorchSizes::decide(const ir::SizeTest& test) {
  capture::Symbols& symbols = *tracer_.symbols();
  if (const std::optional<bool> known = symbols.env->prove(test)) return *known;
  const bool answer = symbols.env->decide(test, user_place());
  symbols.specialisations += test.kind == ir::SizeTest::Kind::equal && answer;
  draws_.note_decision();
  if (test.kind == ir::SizeTest::Kind::equal && answer) draws_.note_number_is_known();
  return answer;
}

std::optional<ir::Size> TorchSizes::vary_number(PyObject* number, const guards::Source* source) {
  if (source->kind == guards::SourceKind::drawn) {
    if (!draws_.may_draw(decisions_of(tracer_.symbols(), tests_))) return std::nullopt;
    const int64_t most = guards::largest_drawn(source->key.get());
    draws_.note_number(most);
    numbers_.push_back({.source = source});
    return tracer_.vary_number(guards::to_text(source), PyLong_AsLongLong(number), {.low = 0, .high = most});
  }
  if (!history_ || !PyLong_CheckExact(number)) return std::nullopt;
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  constexpr int64_t most = int64_t{1} << 40;
  if (overflow || value > most || value < -most) return std::nullopt;
  const std::string name = guards::to_text(source);
  const bool counts = counts_hooks(number);
  using enum guards::SourceKind;
  if (history_->gives_items() && (source->kind == next_item || source->kind == next_key))
    history_->expect_counter(name);
  const bool varies = history_->note_number(name, value, counts ? Dynamic::automatic : dynamic_, counts);
  if (!varies || !tracer_.symbols()) return std::nullopt;
  numbers_.push_back({.source = source});
  // What is below 2 now may be anything; of others the capture goes by their being sizes of more than one element.
  const bool may_be_any = value < 2 || history_->expects_any_number(name);
  const int64_t least = may_be_any ? -ir::SizeRange::infinity : 2;
  return tracer_.vary_number(name, value, {.low = least});
}

interpreter::Ref TorchSizes::select(PyObject* tensor, int64_t dim, ir::Size index) {
  const interpreter::Pause unwatched;
  try {
    const at::Tensor part = THPVariable_Unpack(tensor).select_symint(dim, capture::to_sym_int(index));
    return interpreter::Ref::steal(THPVariable_Wrap(part));
  } catch (const std::exception&) {  // The instruction will raise it.
    return {};
  }
}

// ---- floats that vary

/// An argument of the graph once an operator is given it, or two symbols where a GPU's tensor stands beside it.
TorchSizes::DerivedNumber TorchSizes::vary_float(PyObject* number, const guards::Source* source) {
  const double value = PyFloat_AS_DOUBLE(number);
  const bool varies = source->kind == guards::SourceKind::drawn
                          ? draws_.may_draw(decisions_of(tracer_.symbols(), tests_))
                          : history_ && history_->note_float(guards::to_text(source), value, dynamic_);
  if (!varies || !tracer_.symbols()) return nullptr;
  std::string name = guards::to_text(source);
  const auto is_taken = [&](const guards::Source* one) { return guards::to_text(one) == name; };
  if (std::ranges::any_of(floats_, is_taken)) name += concat("#", floats_.size());
  floats_.push_back(source);
  float_values_.push_back(value);
  return std::make_shared<const guards::Derived>(static_cast<int>(floats_.size()) - 1, std::move(name));
}

at::Tensor TorchSizes::float_argument(const DerivedNumber& derived, double value) {
  const auto known = std::ranges::find_if(
      float_arguments_, [&](const FloatArgument& one) { return one.derived->text() == derived->text(); });
  if (known != float_arguments_.end()) return known->tracer;
  at::Tensor example;
  {
    const capture::RunForReal outside_of_the_trace;
    example = c10::scalar_to_tensor(value);
  }
  example.unsafeGetTensorImpl()->set_wrapped_number(true);
  const at::Tensor tracer = tracer_.add_argument(example, derived->text());
  tracer.unsafeGetTensorImpl()->set_wrapped_number(true);
  float_arguments_.push_back({tensor_arguments_ + float_arguments_.size(), derived, example, tracer});
  return tracer;
}

// ---- numbers that are computed

std::optional<ir::Size> TorchSizes::symbol_of(const DerivedNumber& derived, guards::DerivedPart part,
                                              PyObject* value) {
  const std::optional<int64_t> example = guards::part_of(value, part);
  if (!example) return std::nullopt;
  const auto [known, is_new] = derived_.try_emplace({derived->text(), part});
  if (is_new) {
    numbers_.push_back({.derived = derived, .part = part});
    const int64_t least = part == guards::DerivedPart::divisor ? 1 : -ir::SizeRange::infinity;
    known->second = tracer_.vary_number(derived->text(), *example, {.low = least});
  }
  return known->second;
}

std::optional<ir::Size> TorchSizes::derive(const DerivedNumber& derived, PyObject* value) {
  return symbol_of(derived, guards::DerivedPart::whole, value);
}

/// Undefined: it cannot be one of the trace. \param beside  null: nothing.
std::optional<std::pair<ir::Size, ir::Size>> TorchSizes::quotient_of(const DerivedNumber& derived,
                                                                     PyObject* value) {
  const std::optional<ir::Size> significand = symbol_of(derived, guards::DerivedPart::significand, value),
                                divisor = symbol_of(derived, guards::DerivedPart::divisor, value);
  return significand && divisor ? std::optional(std::pair(*significand, *divisor)) : std::nullopt;
}

at::Tensor TorchSizes::number_of(const DerivedNumber& derived, PyObject* value, PyObject* beside) {
  if (beside && THPVariable_Unpack(beside).is_complex()) return {};
  const interpreter::Pause unwatched;
  if (derived->reads_floats()) {
    const double number = PyFloat_AS_DOUBLE(value);
    if (!may_be_input(number)) return {};
    // Kernels of a GPU could not read an argument that lies on the CPU, and do compute with symbols.
    if (beside && THPVariable_Unpack(beside).is_cpu()) return float_argument(derived, number);
  }
  const auto quotient = quotient_of(derived, value);
  return quotient ? tracer_.wrap_number(quotient->first, quotient->second) : at::Tensor();
}

interpreter::Ref TorchSizes::to_number(const DerivedNumber& derived, PyObject* value, PyObject* beside) {
  const at::Tensor number = number_of(derived, value, beside);
  const interpreter::Pause unwatched;
  return number.defined() ? interpreter::Ref::steal(THPVariable_Wrap(number)) : interpreter::Ref();
}

interpreter::Ref TorchSizes::to_scalar(const DerivedNumber& derived, PyObject* value, PyObject* beside,
                                       std::string_view name) {
  const at::Tensor number = number_of(derived, value, beside);
  if (!number.defined()) return {};
  capture::NumberInCall call{PyFloat_AS_DOUBLE(value), {}, concat("aten::", name)};
  if (beside && !THPVariable_Unpack(beside).is_cpu()) call.quotient = quotient_of(derived, value);
  // Asked for while the trace is made alone (capture/number.cpp). Operators copy it, and run without the GIL.
  call.fix = [this, number = call.value, known = std::weak_ptr<const guards::Derived>(derived)] {
    const py::gil_scoped_acquire locked;
    const guards::Ref value = guards::Ref::steal(PyFloat_FromDouble(number));
    const DerivedNumber derived = known.lock();
    if (!value || !derived) throw UserError("braze: the value of a number is wanted after its run has ended");
    decide(derived, value.get());
  };
  const interpreter::Pause unwatched;
  capture::ParsedNumbers::expect();
  const py::object held = py::cast(capture::node_as_int(capture::to_sym_float(number, std::move(call))));
  return interpreter::Ref::steal(py::handle(torch_names().symbolic_float)(held.attr("node")).release().ptr());
}

bool TorchSizes::is_operator_object(PyObject* callable) const {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(callable));
  return type == torch_names().operator_type || type == torch_names().overload_type;
}

std::string_view TorchSizes::operator_of_tensors(PyObject* operator_object) const {
  const bool is_packet = reinterpret_cast<PyObject*>(Py_TYPE(operator_object)) == torch_names().operator_type;
  constexpr std::string_view prefix = "aten::", suffix = ".Tensor";
  std::string_view name = text_of_operator(operator_object);
  if (!name.starts_with(prefix) || (!is_packet && !name.ends_with(suffix))) return "";
  name.remove_prefix(prefix.size());
  if (!is_packet) name.remove_suffix(suffix.size());
  return name;
}

void TorchSizes::expect_integers(std::string_view name, bool in_lists) {
  capture::ParsedNumbers::expect_integers(concat("aten::", name), in_lists);
}

interpreter::Parameter TorchSizes::parameter(std::string_view name, size_t place, std::string_view keyword) const {
  return parameter_of_operator(name, place, keyword);
}

interpreter::Ref TorchSizes::element(PyObject* number, const ir::Size* size, const DerivedNumber& derived,
                                     interpreter::ElementType type) {
  using interpreter::ElementType;
  c10::Scalar scalar;
  if (size) {
    scalar = c10::Scalar(capture::to_sym_int(*size));
  } else if (derived) {
    const at::Tensor float_of_trace = number_of(derived, number, nullptr);
    if (!float_of_trace.defined()) return {};
    scalar = c10::Scalar(capture::to_sym_float(float_of_trace));
  } else if (PyFloat_CheckExact(number)) {
    scalar = PyFloat_AS_DOUBLE(number);
  } else if (PyBool_Check(number)) {
    scalar = number == Py_True;
  } else {
    int overflow = 0;
    scalar = static_cast<int64_t>(PyLong_AsLongLongAndOverflow(number, &overflow));
    if (overflow) return {};
  }
  const c10::ScalarType dtype = type == ElementType::truth   ? c10::kBool
                                : type == ElementType::whole ? c10::kLong
                                : type == ElementType::exact ? c10::kDouble
                                                             : c10::typeMetaToScalarType(c10::get_default_dtype());
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(
      THPVariable_Wrap(at::full({}, scalar, at::TensorOptions(dtype).device(c10::kCPU))));
}

interpreter::Ref TorchSizes::stack(const std::vector<interpreter::Ref>& parts) {
  const interpreter::Pause unwatched;
  std::vector<at::Tensor> tensors;
  for (const interpreter::Ref& part : parts) {
    tensors.push_back(THPVariable_Unpack(part.get()));
    if (tensors.back().sizes() != tensors[0].sizes()) return {};
  }
  return interpreter::Ref::steal(THPVariable_Wrap(at::stack(tensors)));
}

/// By the device's kernel itself, which records nothing.
interpreter::Ref TorchSizes::other_of_its_type(PyObject* object) {
  const auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type != torch_names().tensor_type && type != torch_names().parameter_type) return {};
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const c10::Device device = tensor.device();
  if (tensor.layout() != at::kStrided || !(device.is_cpu() || device.is_cuda())) return {};
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(THPVariable_Wrap(at::_ops::empty_strided::redispatch(
      c10::DispatchKeySet(device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA), {0}, {1},
      tensor.scalar_type(), at::kStrided, device, /*pin_memory=*/false)));
}

void TorchSizes::settle_scalars() {
  capture::ParsedNumbers::fix();
}

interpreter::Ref TorchSizes::value_of(const guards::Derived& derived) const {
  const interpreter::Pause unwatched;
  return derived.evaluate({tracer_.symbols()->env->examples(), float_values_});
}

void TorchSizes::decide(const DerivedNumber& derived, PyObject* value) {
  draws_.note_decision();
  if (PyFloat_CheckExact(value) && derived->reads_floats()) draws_.note_float_is_known();
  const bool is_known = std::ranges::any_of(tests_, [&](const guards::DerivedTest& test) {
    return test.derived->text() == derived->text() && guards::same_scalar(test.expected.get(), value);
  });
  if (!is_known) tests_.push_back({derived, guards::Ref::borrow(value), user_place()});
}

}  // namespace braze::python
