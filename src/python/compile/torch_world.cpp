// python/compile/torch_world.cpp
#include "python/compile/torch_world.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "capture/devices.h"
#include "capture/dim.h"
#include "capture/number.h"
#include "capture/size_node.h"
#include "capture/traceable.h"
#include "capture/tracer_tensor.h"
#include "python/compile/announce.h"
#include "python/compile/stance.h"
#include "python/compile/value_reads.h"
#include "python/errors.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/raised.h"
#include "runtime/device/device.h"
#include "runtime/geometry.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// PyTorch's code asks for modes to which a default device, which captures leave out, makes no difference.
bool runs_torchs_code() {
  PyObject* globals = PyEval_GetGlobals();
  PyObject* name = globals ? PyDict_GetItemString(globals, "__name__") : nullptr;
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text && std::string_view(text).starts_with("torch.");
}

std::string text_of(PyObject* name) {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text ? text : "";
}

/// What a closure's cell, a bound method, a weak reference or an iterator holds, and the gradient of a tensor.
bool is_held(const guards::Source* source) {
  using enum guards::Member;
  if (source->kind != guards::SourceKind::member) return false;
  const auto member = static_cast<guards::Member>(source->index);
  return member == function_closure || member == cell_contents || member == method_self || member == iterated ||
         member == weakref_referent || member == tensor_grad;
}

/// Reached from what a call or frame is given, and no parameter or buffer of a module: another tensor at each call.
/// \param others  there is a program for other tensors: parameters, buffers and attributes of what was compiled are
///                passed as well, so that the next one is for all of them.
bool is_passed(const guards::Source* source, PyObject* tensor, TorchWorld::Others others) {
  const bool all = others == TorchWorld::Others::all, is_bound = !all && others != TorchWorld::Others::parameters;
  const bool is_parameter = reinterpret_cast<PyObject*>(Py_TYPE(tensor)) == torch_names().parameter_type;
  bool any_attribute = false;
  for (; source->parent; source = source->parent) {
    using enum guards::SourceKind;
    const bool is_attribute = source->kind == dict_of || source->kind == slot;
    any_attribute |= is_attribute;
    if (is_attribute && is_parameter && is_bound) return false;
    const bool is_buffer = source->kind == dict_item && PyUnicode_Check(source->key.get()) &&
                           PyUnicode_CompareWithASCIIString(source->key.get(), "_buffers") == 0;
    if (is_buffer && is_bound) return false;
    const bool is_item = source->kind == sequence_item || source->kind == dict_item || source->kind == next_item;
    if (!is_item && !is_attribute && !is_held(source)) return false;
  }
  if (source->kind == guards::SourceKind::argument) return true;
  return source->kind == guards::SourceKind::object && any_attribute &&
         (all || others == TorchWorld::Others::attributes);
}

}  // namespace

/// "model.py:3", of the innermost frame.
static std::string user_place() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (!frame) return "";
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const std::string_view path = file ? file : "?";
  std::string place = concat(path.substr(path.rfind('/') + 1), ":", PyFrame_GetLineNumber(frame));
  Py_DECREF(code);
  Py_DECREF(frame);
  return place;
}

TorchWorld::~TorchWorld() {
  // Views share the counter of their base: what was met first has seen it as it was.
  for (auto tensor = tensors_.rbegin(); tensor != tensors_.rend(); ++tensor)
    if (tensor->version.enabled() && tensor->version.current_version() != tensor->version_before)
      tensor->version.set_version(tensor->version_before);
}

bool TorchWorld::is_tensor(PyObject* object) const {
  return guards::is_tensor(object);  // Not THPVariable_Check: it asks the object for its __class__.
}

namespace {

/// Says once why tensors of a device run natively that a user would expect to be compiled for.
bool is_supported(const at::Tensor& tensor) {
  std::string why_not;
  if (runtime::is_supported(tensor.device(), &why_not)) return true;
  static std::once_flag told;
  if (tensor.is_cuda())
    std::call_once(told, [&] { warn(concat("calls on CUDA tensors run natively: ", why_not)); });
  return false;
}

}  // namespace

bool TorchWorld::learn(PyObject* tensor, const guards::Source* source) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
  if (type != torch_names().tensor_type && type != torch_names().parameter_type) return false;
  const at::Tensor& real = THPVariable_Unpack(tensor);
  if (capture::is_tracer(real) || capture::is_transformed(real) || real.layout() != at::kStrided ||
      !is_supported(real))
    return false;
  const bool is_argument = is_passed(source, tensor, others_);
  // What was met before has been written, and this tensor's memory with it.
  if (is_argument && sealed_ && shares_written_memory(real)) return false;
  const auto which = is_argument ? guards::GuardSet::Which::any : guards::GuardSet::Which::same;
  const std::string name = guards::to_text(source);
  const bool may_vary = is_argument && history_ && !tracers_.contains(tensor);
  if (may_vary ? !vary(tensor, source, name) : !guards_.tensor(source, tensor, 1, which)) return false;
  if (is_argument) {
    try {
      tracer_.add_argument(real, name);
    } catch (const UserError&) {
      return false;
    }
  } else {
    tracer_.name_parameter(real, name);
  }
  if (varies(source)) tracers_.emplace(tensor, guards::Ref::steal(THPVariable_Wrap(tracer_.stand_in(real))));
  const c10::VariableVersion& version = real.unsafeGetTensorImpl()->version_counter();
  tensors_.push_back({tensor, source, is_argument, version, version.enabled() ? version.current_version() : 0});
  return true;
}

// ---- sizes that vary

/// Adds the guards on the tensor. Those that share memory with others keep their sizes: how they overlap is told by
/// numbers.
bool TorchWorld::vary(PyObject* tensor, const guards::Source* source, const std::string& name) {
  const at::Tensor& real = THPVariable_Unpack(tensor);
  const VaryingForm form = history_->note(name, real, marks_of(tensor), dynamic_);
  const bool is_alone = std::ranges::none_of(
      tensors_, [&](const Tensor& known) { return runtime::share_memory(THPVariable_Unpack(known.object), real); });
  if (!form.any() || !is_alone || !tracer_.symbols()) return guards_.tensor(source, tensor);
  if (!guards_.tensor_of_rank(source, tensor)) return false;
  tracer_.vary(real, name, form.sizes, {form.strides.begin(), form.strides.end()});
  varied_sources_.insert(source);
  return true;
}

bool TorchWorld::may_vary(std::span<PyObject* const> given) const {
  if (!history_ || dynamic_ == Dynamic::never) return false;
  if (dynamic_ == Dynamic::always || !history_->empty()) return true;
  return std::ranges::any_of(given, [&](PyObject* one) { return one && is_tensor(one) && !marks_of(one).empty(); });
}

bool TorchWorld::has_sizes() const {
  const capture::Symbols* symbols = tracer_.symbols();
  return has_numbers_ || (symbols && symbols->env->table().symbol_count() > 0);
}

PyObject* TorchWorld::tracer_of(PyObject* tensor) const {
  const auto found = tracers_.find(tensor);
  return found == tracers_.end() ? nullptr : found->second.get();
}

interpreter::Ref TorchWorld::to_symbolic(ir::Size size) const {
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(py::cast(capture::to_sym_int(size)).release().ptr());
}

/// Of half types eager's kernels take a number as f32, where a tensor would be rounded.
interpreter::Ref TorchWorld::to_number(ir::Size size, PyObject* beside) const {
  const at::Tensor& other = THPVariable_Unpack(beside);
  if (other.scalar_type() == at::kHalf || other.scalar_type() == at::kBFloat16 || other.is_complex()) return {};
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(THPVariable_Wrap(tracer_.wrap_number(size)));
}

std::optional<ir::Size> TorchWorld::from_symbolic(PyObject* object) const {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != torch_names().symbolic_int) return std::nullopt;
  try {
    const capture::Dim dim = capture::dim_of(py::handle(object).cast<c10::SymInt>());
    return tracer_.symbols()->env->simplify(dim.size());
  } catch (const std::exception&) {
    PyErr_Clear();
    return std::nullopt;
  }
}

int64_t TorchWorld::value_of(ir::Size size) const {
  return tracer_.symbols()->env->example(size);
}

bool TorchWorld::decide(const ir::SizeTest& test) {
  capture::Symbols& symbols = *tracer_.symbols();
  if (const std::optional<bool> known = symbols.env->prove(test)) return *known;
  const bool answer = symbols.env->decide(test, user_place());
  symbols.specialisations += test.kind == ir::SizeTest::Kind::equal && answer;
  return answer;
}

std::optional<ir::Size> TorchWorld::vary_number(PyObject* number, const guards::Source* source) {
  if (!history_ || !PyLong_CheckExact(number)) return std::nullopt;
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  constexpr int64_t most = int64_t{1} << 40;
  if (overflow || value > most || value < -most) return std::nullopt;
  const std::string name = guards::to_text(source);
  const bool varies = history_->note_number(name, value, dynamic_);
  if (!varies || !tracer_.symbols()) return std::nullopt;
  numbers_.push_back(source);
  return tracer_.vary_number(name, value);
}

// ---- floats that vary

namespace {

/// A float as PyTorch has it among its tensors.
at::Tensor wrapped(double number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace

/// Kernels of a GPU could not read it where it lies.
interpreter::Ref TorchWorld::vary_float(PyObject* number, const guards::Source* source) {
  const double value = PyFloat_AS_DOUBLE(number);
  const std::string name = guards::to_text(source);
  if (!history_ || !history_->note_float(name, value, dynamic_) || capture::has_met_cuda()) return {};
  const interpreter::Pause unwatched;
  at::Tensor real;
  {
    const capture::RunForReal outside_of_the_trace;
    real = wrapped(value);
  }
  const at::Tensor tracer = tracer_.add_argument(real, name);
  tracer.unsafeGetTensorImpl()->set_wrapped_number(true);
  answers_.push_back(guards::Ref::steal(THPVariable_Wrap(real)));
  tensors_.push_back({answers_.back().get(), source, true, real.unsafeGetTensorImpl()->version_counter(), 0, true});
  has_numbers_ = true;
  return interpreter::Ref::steal(THPVariable_Wrap(tracer));
}

interpreter::Ref TorchWorld::compute_number(interpreter::Arithmetic operation, PyObject* left, PyObject* right) {
  const auto is_plain = [](PyObject* one) { return PyFloat_CheckExact(one) || PyLong_CheckExact(one); };
  const auto value_of = [](PyObject* one) {
    const double value = PyFloat_CheckExact(one) ? PyFloat_AS_DOUBLE(one) : PyLong_AsDouble(one);
    if (PyErr_Occurred()) throw py::error_already_set();
    return value;
  };
  const auto operand = [&](PyObject* one) {
    return is_plain(one) ? wrapped(value_of(one)) : at::Tensor(THPVariable_Unpack(one));
  };
  const interpreter::Pause unwatched;
  try {
    const at::Tensor a = operand(left), b = operand(right);
    const auto give = [](const at::Tensor& result) { return interpreter::Ref::steal(THPVariable_Wrap(result)); };
    switch (operation) {
      case interpreter::Arithmetic::add: return give(a + b);
      case interpreter::Arithmetic::subtract: return give(a - b);
      case interpreter::Arithmetic::multiply: return give(a * b);
      // Python raises where a divisor is 0.
      case interpreter::Arithmetic::divide:
        return is_plain(right) && value_of(right) != 0 ? give(a / b) : interpreter::Ref();
    }
    return {};
  } catch (const std::exception&) {
    PyErr_Clear();
    return {};
  }
}

bool TorchWorld::takes_numbers(PyObject* tensor) const {
  const at::Tensor& other = THPVariable_Unpack(tensor);
  return !other.is_complex() && other.is_cpu();
}

bool TorchWorld::is_number(PyObject* value) const {
  return is_tensor(value) && capture::is_number(THPVariable_Unpack(value));
}

bool TorchWorld::shares_written_memory(const at::Tensor& tensor) const {
  return std::ranges::any_of(tensors_, [&](const Tensor& known) {
    const bool may_be_written = !known.version.enabled() || known.version.current_version() != known.version_before;
    return may_be_written && runtime::share_memory(THPVariable_Unpack(known.object), tensor);
  });
}

bool TorchWorld::is_plain(PyObject* object) const {
  return THPDtype_Check(object) || THPLayout_Check(object) || THPMemoryFormat_Check(object) ||
         THPDevice_Check(object);
}

bool TorchWorld::is_computed(PyObject* object) const {
  return is_tensor(object) &&
         (capture::is_tracer(THPVariable_Unpack(object)) || capture::is_transformed(THPVariable_Unpack(object)));
}

bool TorchWorld::may_call(PyObject* function) const {
  if (function == torch_names().asks_for_function_mode && !runs_torchs_code()) return false;
  return torch_names().functions.contains(function);
}

bool TorchWorld::may_call_method(PyObject* name) const {
  return torch_names().methods.contains(text_of(name));
}

/// Those of aten by name, as elsewhere. Others are called again at every replay; only those that PyTorch decomposes
/// by functions in Python could depend on more than their arguments.
bool TorchWorld::is_operator(PyObject* object) const {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const bool is_packet = type == torch_names().operator_type;
  if (!is_packet && type != torch_names().overload_type) return false;
  PyObject* dict = guards::instance_dict(object);
  PyObject* text = dict ? PyDict_GetItemString(dict, is_packet ? "_qualified_op_name" : "_name") : nullptr;
  if (!text) return false;
  std::string name = text_of(text);
  name = name.substr(0, name.find('.'));
  constexpr std::string_view aten = "aten::";
  if (name.starts_with(aten)) return torch_names().is_understood(name.substr(aten.size()));
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  bool found = false;
  for (const c10::OperatorName& each : dispatcher.getAllOpNames()) {
    if (each.name != name) continue;
    const auto op = dispatcher.findOp(each);
    found = op && op->hasSchema() && !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    if (!found) return false;
  }
  return found;
}

/// Its code never changes. What prints, warns or calls Python shows in its text.
bool TorchWorld::is_plain_script(PyObject* function) const {
  if (reinterpret_cast<PyObject*>(Py_TYPE(function)) != torch_names().script_type) return false;
  const guards::Ref graph = guards::Ref::steal(PyObject_GetAttrString(function, "inlined_graph"));
  const guards::Ref text = guards::Ref::steal(graph ? PyObject_Str(graph.get()) : nullptr);
  PyErr_Clear();
  const std::string code = text ? text_of(text.get()) : "^";
  constexpr std::string_view effects[] = {"^",         "prim::Print", "aten::warn",
                                          "prim::rpc", "aten::fork",  "prim::fork"};
  return std::ranges::none_of(effects,
                              [&](std::string_view effect) { return code.find(effect) != std::string::npos; });
}

/// The classes ask for the dispatch key, which tracers have of their own: answered is by dtype. They are those of
/// strided tensors on the CPU, or of none that a run may have.
bool TorchWorld::is_of_legacy_type(PyObject* object, PyObject* classes) const {
  if (!is_tensor(object)) return false;
  if (PyTuple_Check(classes)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i)
      if (is_of_legacy_type(object, PyTuple_GET_ITEM(classes, i))) return true;
    return false;
  }
  if (Py_TYPE(classes)->tp_name != std::string_view("torch.tensortype")) return false;
  const auto says = [classes](const char* name) {
    return guards::Ref::steal(PyObject_GetAttrString(classes, name));
  };
  const guards::Ref dtype = says("dtype"), cuda = says("is_cuda"), layout = says("layout");
  PyErr_Clear();
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return dtype && THPDtype_Check(dtype.get()) && cuda.get() == Py_False && layout &&
         THPLayout_Check(layout.get()) && reinterpret_cast<THPLayout*>(layout.get())->layout == at::kStrided &&
         tensor.device().is_cpu() && tensor.scalar_type() == reinterpret_cast<THPDtype*>(dtype.get())->scalar_type;
}

void TorchWorld::make_attribute(PyObject* object, PyObject* name) const {
  if (!torch_names().lazy_types.contains(reinterpret_cast<PyObject*>(Py_TYPE(object)))) return;
  PyObject* dict = guards::instance_dict(object);
  if (!dict || PyDict_Contains(dict, name)) return;
  const capture::RunForReal real;
  const interpreter::Pause unwatched;
  Py_XDECREF(PyObject_GetAttr(object, name));
  PyErr_Clear();
}

bool TorchWorld::may_read_without_grad(PyObject* tensor, PyObject* name) const {
  return torch_names().is_of_history(text_of(name)) && !THPVariable_Unpack(tensor).requires_grad();
}

std::optional<interpreter::Break> TorchWorld::why_not(PyObject* name) const {
  using interpreter::Break;
  static const std::unordered_map<std::string_view, Break> reasons = {{"tolist", Break::tolist},
                                                                      {"numpy", Break::numpy},
                                                                      {"__array__", Break::numpy},
                                                                      {"data_ptr", Break::memory_address},
                                                                      {"storage", Break::memory_address},
                                                                      {"untyped_storage", Break::memory_address},
                                                                      {"_typed_storage", Break::memory_address}};
  const auto found = reasons.find(text_of(name));
  return found == reasons.end() ? std::nullopt : std::optional(found->second);
}

std::optional<interpreter::Break> TorchWorld::why_raised() const {
  if (tracer_.last_read().empty()) return std::nullopt;
  return python::why_read(tracer_.last_read());
}

/// Whether a tensor of the run requires grad, and is a view, dies with the run.
bool TorchWorld::changes_only_itself(PyObject* tensor, PyObject* name, PyObject* const* arguments,
                                     Py_ssize_t count) const {
  const std::string text = text_of(name);
  if (text == "detach_") return is_computed(tensor) && count == 0;
  if (text != "requires_grad_" || count > 1 || (count == 1 && !PyBool_Check(arguments[0]))) return false;
  const bool wanted = count == 0 || arguments[0] == Py_True;
  if (is_computed(tensor)) return !wanted;  // Else what follows has a history, which programs do not record.
  return THPVariable_Unpack(tensor).requires_grad() == wanted;
}

/// `.data` of a tensor that existed before is memory that the tracer knows nothing of: it is the tracer's there.
PyObject* TorchWorld::answer_attribute(PyObject* tensor, PyObject* name) {
  if (is_computed(tensor) || text_of(name) != "data") return nullptr;
  const at::Tensor& real = THPVariable_Unpack(tensor);
  answers_.push_back(guards::Ref::steal(THPVariable_Wrap(tracer_.stand_in(real).variable_data())));
  return answers_.back().get();
}

bool TorchWorld::wants_history(PyObject* const* arguments, Py_ssize_t count) const {
  return at::GradMode::is_enabled() && std::any_of(arguments, arguments + count, [this](PyObject* argument) {
           return is_tensor(argument) && THPVariable_Unpack(argument).requires_grad();
         });
}

PyObject* TorchWorld::gradient_of(PyObject* tensor) {
  const at::Tensor& gradient = THPVariable_Unpack(tensor).grad();
  if (!gradient.defined()) return nullptr;
  answers_.push_back(guards::Ref::steal(THPVariable_Wrap(gradient)));
  return answers_.back().get();
}

PyObject* TorchWorld::answer(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  const TorchNames& names = torch_names();
  if (function == names.sets_autocast_cache && count == 1 && PyBool_Check(arguments[0])) {
    autocast_cache_ = arguments[0] == Py_True;
    return Py_None;
  }
  if (function == names.reads_autocast_cache) return autocast_cache_ ? Py_True : Py_False;
  return nullptr;
}

interpreter::Promise TorchWorld::promise_about(PyObject* function) const {
  return is_disabled(function) ? interpreter::Promise::disabled : python::promise_about(function);
}

void TorchWorld::answered() {
  at::autocast::set_autocast_cache_enabled(false);
}

bool TorchWorld::may_read(PyObject* name) const {
  return torch_names().is_readable(text_of(name));
}

void TorchWorld::guard_aliasing() {
  std::vector<const guards::Source*> sources;
  std::vector<PyObject*> objects;
  for (const Tensor& tensor : tensors_) {
    if (tensor.is_number) continue;
    sources.push_back(tensor.source);
    objects.push_back(tensor.object);
  }
  if (sources.size() < 2) return;
  guards_.objects(sources, objects);
  guards_.storages(sources, objects);
}

}  // namespace braze::python
