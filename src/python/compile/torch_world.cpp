// python/compile/torch_world.cpp
#include "python/compile/torch_world.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <string_view>

#include "capture/inner_gradients.h"
#include "capture/number.h"
#include "capture/recorder.h"
#include "capture/replaced_data.h"
#include "capture/tape.h"
#include "capture/traceable.h"
#include "capture/tracer_tensor.h"
#include "python/compile/announce.h"
#include "python/compile/code_table.h"
#include "python/compile/scripts.h"
#include "python/compile/stance.h"
#include "python/compile/tensor_classes.h"
#include "python/errors.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "python/imported.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/raised.h"
#include "python/user_line.h"
#include "runtime/device/device.h"
#include "runtime/geometry.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// Really, or by what stands for it: where its sizes vary, or as its `data`.
bool may_be_written(const TorchWorld::Tensor& tensor, const TorchSizes& sizes, bool by_data = true) {
  if (!tensor.version.enabled() || tensor.version.current_version() != tensor.version_before) return true;
  PyObject* tracer = sizes.tracer_of(tensor.object);
  const capture::TracerTensor* traced = by_data && tensor.shown.defined() ? capture::as_tracer(tensor.shown)
                                        : tracer ? capture::as_tracer(THPVariable_Unpack(tracer))
                                                 : nullptr;
  return traced && traced->view()->memory->version > 0;
}

/// One of `tensors` may have been written, and lies over the same memory.
bool shares_written_memory(std::span<const TorchWorld::Tensor> tensors, const TorchSizes& sizes,
                           const at::Tensor& tensor) {
  return std::ranges::any_of(tensors, [&](const TorchWorld::Tensor& known) {
    return may_be_written(known, sizes) && runtime::share_memory(THPVariable_Unpack(known.object), tensor);
  });
}

/// Autograd knows, or has learnt in this run, that it requires grad.
bool is_tracked(PyObject* object, capture::Tracer& tracer) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool is_computed = capture::is_tracer(tensor) || capture::is_transformed(tensor);
  return is_computed ? tensor.requires_grad() : tracer.impl().is_tracked(tensor);
}

/// A leaf from outside is one as long as nothing with a history has been written into it, and guards say so.
bool is_untouched_leaf(const at::Tensor& real, capture::Tracer& tracer) {
  return real.is_leaf() && tracer.stand_in(real).is_leaf();
}

bool runs_code_of(std::string_view package) {
  PyObject* globals = PyEval_GetGlobals();
  PyObject* name = globals ? PyDict_GetItemString(globals, "__name__") : nullptr;
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text && std::string_view(text).starts_with(package);
}

/// Of code that asks for modes. PyTorch's hands its calls to them: a default device, which captures leave out,
/// makes no difference there. Its layers do something else where there is any.
constexpr std::string_view torchs_code = "torch.", torchs_layers = "torch.nn.modules.";

std::string text_of(PyObject* name) {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text ? text : "";
}

/// What a closure's cell, a bound method, a weak reference or an iterator holds.
bool is_held(const guards::Source* source) {
  using enum guards::Member;
  if (source->kind != guards::SourceKind::member) return false;
  const auto member = static_cast<guards::Member>(source->index);
  return member == function_closure || member == cell_contents || member == method_self || member == iterated ||
         member == weakref_referent;
}

/// A gradient, or a tensor over an array.
bool is_of_each_call(const guards::Source* source) {
  if (source->kind != guards::SourceKind::member) return false;
  const auto member = static_cast<guards::Member>(source->index);
  return member == guards::Member::tensor_grad || member == guards::Member::tensor_over;
}

/// Reached from what a call or frame is given, and no parameter or buffer of a module: another tensor at each call.
/// So is a gradient, or a tensor over an array, wherever that is reached from.
/// \param others  there is a program for other tensors: parameters, buffers and attributes of what was compiled are
///                passed as well, so that the next one is for all of them.
bool is_passed(const guards::Source* source, PyObject* tensor, TorchWorld::Others others) {
  const bool all = others == TorchWorld::Others::all, is_bound = !all && others != TorchWorld::Others::parameters;
  const bool is_parameter =
      PyType_IsSubtype(Py_TYPE(tensor), reinterpret_cast<PyTypeObject*>(torch_names().parameter_type));
  const bool is_reached = source->parent;
  for (; source->parent; source = source->parent) {
    using enum guards::SourceKind;
    if (is_of_each_call(source)) return true;
    const bool is_attribute = source->kind == dict_of || source->kind == slot;
    if (is_attribute && is_parameter && is_bound) return false;
    const bool is_buffer = source->kind == dict_item && PyUnicode_Check(source->key.get()) &&
                           PyUnicode_CompareWithASCIIString(source->key.get(), "_buffers") == 0;
    if (is_buffer && is_bound) return false;
    const bool is_item = source->kind == sequence_item || source->kind == dict_item || source->kind == next_item;
    if (!is_item && !is_attribute && !is_held(source)) return false;
  }
  if (is_of_call(*source)) return true;
  return source->kind == guards::SourceKind::object && is_reached &&
         (all || others == TorchWorld::Others::attributes);
}

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

TorchWorld::~TorchWorld() {
  // Views share the counter of their base: what was met first has seen it as it was.
  for (auto tensor = tensors_.rbegin(); tensor != tensors_.rend(); ++tensor)
    if (tensor->version.enabled() && tensor->version.current_version() != tensor->version_before)
      tensor->version.set_version(tensor->version_before);
}

/// Tensors without a counter of versions are told by nothing.
bool TorchWorld::has_written_older() const {
  return writes() > 0 &&
         std::ranges::any_of(tensors_, [this](const Tensor& one) { return may_be_written(one, sizes_); });
}

bool TorchWorld::is_tensor(PyObject* object) const {
  return guards::is_tensor(object);  // Not THPVariable_Check: it asks the object for its __class__.
}

bool TorchWorld::keep_tensor_class(PyTypeObject* type) {
  if (!is_plain_tensor_class(type)) return false;
  if (has_own_handler(type)) modes_.note_handler();
  auto* object = reinterpret_cast<PyObject*>(type);
  if (object != torch_names().tensor_type && object != torch_names().parameter_type)
    guards_.class_entries(guards_.sources().object(object, type->tp_name), type, names_of_tensor_classes());
  return true;
}

bool TorchWorld::learn(PyObject* tensor, const guards::Source* source) {
  if (wrappers_.is_wrapper(tensor)) return wrappers_.learn(tensor, source);
  if (!keep_tensor_class(Py_TYPE(tensor))) return false;
  const at::Tensor& real = THPVariable_Unpack(tensor);
  if (capture::is_tracer(real) || capture::is_transformed(real) || !capture::is_strided(real) ||
      !real.has_storage())
    return false;
  const std::string name = guards::to_text(source);
  const bool is_argument = is_passed(source, tensor, others_) || history_.is_replaced(name);
  // Without elements: an object like others, if not made anew in each call. The gate refuses operators on it.
  const bool is_lasting = others_ != Others::all && !history_.is_replaced(name);
  if (real.is_meta() && is_lasting && !is_passed(source, tensor, Others::none))
    return guards_.tensor(source, tensor, 1, guards::GuardSet::Which::same);
  if (!is_supported(real)) return false;
  // What was met before has been written, and this tensor's memory with it.
  if (is_argument && sealed_ && shares_written_memory(tensors_, sizes_, real)) return false;
  const auto which = is_argument ? guards::GuardSet::Which::any : guards::GuardSet::Which::same;
  // Other classes may say more than torch.Tensor does, for which a tracer could not stand.
  const bool is_plain = reinterpret_cast<PyObject*>(Py_TYPE(tensor)) == torch_names().tensor_type;
  const bool may_vary = is_argument && is_plain && sizes_.may_learn(tensor);
  if (may_vary ? !sizes_.learn(tensor, source, name) : !guards_.tensor(source, tensor, 1, which)) return false;
  if (is_argument) {
    try {
      tracer_.add_argument(real, name);
      sizes_.note_argument();
    } catch (const UserError&) {
      return false;
    }
  } else {
    tracer_.name_parameter(real, name);
  }
  sizes_.keep_tracer(tensor, source);
  const c10::VariableVersion& version = real.unsafeGetTensorImpl()->version_counter();
  tensors_.push_back({tensor, source, is_argument, version, version.enabled() ? version.current_version() : 0});
  return true;
}

bool TorchWorld::is_plain(PyObject* object) const {
  return THPDtype_Check(object) || THPLayout_Check(object) || THPMemoryFormat_Check(object) ||
         THPDevice_Check(object);
}

bool TorchWorld::is_computed(PyObject* object) const {
  return is_tensor(object) &&
         (capture::is_tracer(THPVariable_Unpack(object)) || capture::is_transformed(THPVariable_Unpack(object)));
}

namespace {

/// Asks for dispatch keys, of which tracers have their own. All strided tensors are alike in it.
PyObject* compares_kinds() {
  static PyObject* const function =  // For good.
      py::object(imported("torch").attr("_has_compatible_shallow_copy_type")).release().ptr();
  return function;
}

}  // namespace

bool TorchWorld::may_call(PyObject* function) const {
  const TorchNames& names = torch_names();
  const bool left_any = modes_.default_device().left_any();
  const interpreter::ModeWorld::Use use = modes_.use_of_stack(function);
  // The stack is another one than it will be: the run goes without the default device.
  if (left_any && use != interpreter::ModeWorld::Use::nothing && function != names.asks_for_function_mode)
    return false;
  const bool asks =
      use == interpreter::ModeWorld::Use::counts || (left_any && names.ask_for_torch_function.contains(function));
  const bool sees_none = left_any && !modes_.has_default_device() && runs_code_of(torchs_layers);
  if (asks && (sees_none || !runs_code_of(torchs_code))) {
    if (left_any) return false;
    guards_.no_default_device();
  }
  if (names.of_grad_mode.contains(function))
    if (auto* const tape = capture::TapeRecorder::current()) tape->note_grad_mode();
  return torch_names().functions.contains(function) || function == compares_kinds();
}

/// A handler is given the function itself. What leaves handlers out, or calls them, is no call that they see.
PyObject* TorchWorld::stand_in_for(PyObject* function) const {
  const bool is_seen = modes_.are_calls_handled() && !torch_names().unseen_by_handlers.contains(function) &&
                       !is_kept_from_dynamo(function);
  // Asked for in any case: what torch.func loads at its first use is loaded by that.
  PyObject* other = python::stand_in_for(function);
  return is_seen ? nullptr : other;
}

bool TorchWorld::gives_other_class(PyObject* function) const {
  return function == torch_names().gives_other_class;
}

bool TorchWorld::may_call_method(PyObject* name) const {
  return torch_names().methods.contains(text_of(name));
}

/// Those of aten by name, as elsewhere. Others are called again at every replay; only those that PyTorch decomposes
/// by functions in Python could depend on more than their arguments.
bool TorchWorld::is_operator(PyObject* object) const {
  const std::string name = operator_name(object);
  if (name.empty()) return false;
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

TorchWorld::Own TorchWorld::own_function(PyObject* function) const {
  const TorchNames& names = torch_names();
  if (function == names.ends_graph) return Own::ends_graph;
  if (function == names.shares_array) return Own::shares_array;
  return function == names.counts_effects ? Own::counts_effects : Own::none;
}

namespace {

/// torch.library notes what it has registered: "namespace/name.overload/key".
bool has_python_gradient(PyObject* object) {
  const std::string name = operator_name(object);
  const size_t colons = name.find("::");
  PyObject* library = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.library");
  PyObject* all = library ? PyDict_GetItemString(PyModule_GetDict(library), "_impls") : nullptr;
  if (colons == name.npos || !all || !PySet_Check(all)) return false;
  const std::string prefix = concat(name.substr(0, colons), "/", name.substr(colons + 2));
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(all, &at, &item, &hash);) {
    const std::string one = text_of(item);
    const size_t slash = one.rfind('/');
    if (slash == one.npos || !one.substr(slash + 1).starts_with("Autograd")) continue;
    const std::string operators = one.substr(0, slash);
    if (operators == prefix || operators.starts_with(prefix + ".")) return true;
  }
  return false;
}

}  // namespace

/// Other people's compilers are given the calls as the dispatcher saw them, and run under autograd: the backward
/// would be lost.
TorchWorld::PythonGradient TorchWorld::python_gradient_of(PyObject* object) const {
  if (is_script(object)) return script_gradient_of(object);
  const bool is_function = PyType_Check(object);
  if (!is_function && !has_python_gradient(object)) return {};
  if (const auto* tape = capture::TapeRecorder::current(); tape && !tape->can_be_lost()) return {true, nullptr};
  return {true, is_function ? function_forms().apply : function_forms().call_operator};
}

bool LibraryWorld::is_plain_script(PyObject* function) const {
  return is_script(function) && python::is_plain_script(function);
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
  if (tensor.is_neg()) return false;  // That is a key before the CPU's.
  return dtype && THPDtype_Check(dtype.get()) && cuda.get() == Py_False && layout &&
         THPLayout_Check(layout.get()) && reinterpret_cast<THPLayout*>(layout.get())->layout == at::kStrided &&
         tensor.device().is_cpu() && tensor.scalar_type() == reinterpret_cast<THPDtype*>(dtype.get())->scalar_type;
}

void LibraryWorld::make_attribute(PyObject* object, PyObject* name) const {
  if (!torch_names().lazy_types.contains(reinterpret_cast<PyObject*>(Py_TYPE(object)))) return;
  PyObject* dict = guards::instance_dict(object);
  if (!dict || PyDict_Contains(dict, name)) return;
  const capture::RunForReal real;
  const interpreter::Pause unwatched;
  Py_XDECREF(PyObject_GetAttr(object, name));
  PyErr_Clear();
}

bool TorchWorld::may_read_without_grad(PyObject* tensor, PyObject* name) const {
  const std::string text = text_of(name);
  if (!torch_names().is_of_history(text)) return false;
  if (!is_tracked(tensor, tracer_)) return true;
  // What an operator has given a history to is none that begins one, with gradients of the run's own or without.
  const at::Tensor& one = THPVariable_Unpack(tensor);
  if (is_computed(tensor)) return text == "is_leaf" && !capture::is_transformed(one) && one.grad_fn();
  return text != "retains_grad" && is_untouched_leaf(one, tracer_);
}

/// A tensor of the run whose memory the run has made, or one that existed before and has its memory still.
static bool has_own_offset(const at::Tensor& tensor) {
  const capture::TracerTensor* tracer = capture::as_tracer(tensor);
  if (!tracer) return !capture::is_transformed(tensor) && !capture::replaced_data()->contains(tensor);
  return !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         std::ranges::all_of(tracer->view()->memory->roots,
                             [](const capture::ViewPtr& root) { return root->input < 0; });
}

/// Whether a tensor of the run requires grad, is a view, and which one of its memory, dies with the run.
bool TorchWorld::changes_only_itself(PyObject* tensor, PyObject* name, PyObject* const* arguments,
                                     Py_ssize_t count) const {
  const std::string text = text_of(name);
  if (text == "storage_offset") return count == 0 && has_own_offset(THPVariable_Unpack(tensor));
  if (text == "detach_") return is_computed(tensor) && count == 0;
  if (torch_names().moves_view(text)) return is_computed(tensor);
  if (text != "requires_grad_" || count > 1 || (count == 1 && !PyBool_Check(arguments[0]))) return false;
  const bool wanted = count == 0 || arguments[0] == Py_True;
  if (is_computed(tensor)) {
    // What follows has a history, which ends here: the gradient that arrives here belongs to the trace.
    const at::Tensor& computed = THPVariable_Unpack(tensor);
    return !wanted || computed.requires_grad() || capture::begin_leaf(tracer_.impl(), computed, wants_gradients_);
  }
  return THPVariable_Unpack(tensor).requires_grad() == wanted;
}

/// `.data` of a tensor that existed before is memory that the tracer knows nothing of: it is the tracer's there. So
/// is what autograd has learnt of it.
PyObject* TorchWorld::answer_attribute(PyObject* tensor, PyObject* name) {
  if (is_computed(tensor)) return nullptr;
  if (text_of(name) == "requires_grad" && is_tracked(tensor, tracer_)) return Py_True;
  if (text_of(name) != "data") return nullptr;
  const at::Tensor& real = THPVariable_Unpack(tensor);
  const at::Tensor shown = tracer_.stand_in(real);
  if (const auto known = std::ranges::find(tensors_, tensor, &Tensor::object); known != tensors_.end())
    known->shown = shown;
  answers_.push_back(guards::Ref::steal(THPVariable_Wrap(shown.variable_data())));
  return answers_.back().get();
}

TorchWorld::StoredData TorchWorld::store_data(PyObject* tensor, PyObject* value) {
  const at::Tensor& target = THPVariable_Unpack(tensor);
  const at::Tensor& given = THPVariable_Unpack(value);
  if (capture::is_transformed(target) || capture::is_transformed(given)) return {};
  const auto wrap = [](at::Tensor one) { return guards::Ref::steal(THPVariable_Wrap(std::move(one))); };
  const at::Tensor data = (is_computed(value) ? given : tracer_.stand_in(given)).variable_data();
  if (is_computed(tensor)) {
    const capture::ViewPtr &mine = tracer_.impl().view_of(target), &other = tracer_.impl().view_of(data);
    const bool is_alike = mine->type == other->type && mine->dtype == other->dtype;
    if (!is_alike || target.requires_grad() || target.is_view() || target.is_inference() || data.is_inference())
      return {};
    return {guards::Ref::borrow(tensor), wrap(data), false};
  }
  const auto known = std::ranges::find(tensors_, tensor, &Tensor::object);
  capture::ReplacedData* replaced = capture::replaced_data();
  // What was written by its `data` may be replaced by it: `w.data *= mask`.
  if (known == tensors_.end() || may_be_written(*known, sizes_, /*by_data=*/false) || !replaced) return {};
  using Outcome = capture::ReplacedData::Outcome;
  const Outcome outcome = replaced->replace(tracer_.impl(), target, data);
  if (outcome == Outcome::refused) return {};
  return {wrap(tracer_.stand_in(target)), wrap(data), outcome == Outcome::other};
}

bool TorchWorld::wants_history(PyObject* const* arguments, Py_ssize_t count) const {
  return at::GradMode::is_enabled() && std::any_of(arguments, arguments + count, [this](PyObject* argument) {
           return is_tensor(argument) && is_tracked(argument, tracer_);
         });
}

bool TorchWorld::is_within_gradient() const {
  const auto* const tape = capture::TapeRecorder::current();
  return tape && tape->lost().empty() && tape->function_depth() > 0;
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
  if (modes_.has_default_device() && modes_.asks_for_torch_function(function) && runs_code_of(torchs_layers))
    return Py_True;
  if (count == 2 && function == compares_kinds() && !modes_.are_calls_handled() && is_tensor(arguments[0]) &&
      is_tensor(arguments[1])) {
    const at::Tensor &one = THPVariable_Unpack(arguments[0]), &other = THPVariable_Unpack(arguments[1]);
    if (!capture::is_transformed(one) && !capture::is_transformed(other)) return Py_True;
  }
  if (function == names.reads_autocast_cache) return autocast_cache_ ? Py_True : Py_False;
  return nullptr;
}

bool LibraryWorld::is_library(PyCodeObject* code) const {
  return is_library_code(code) || is_own_code(code);
}

bool LibraryWorld::is_cpu(PyObject* object) const {
  if (!THPDevice_Check(object)) return false;
  const c10::Device device = reinterpret_cast<THPDevice*>(object)->device;
  return device.is_cpu() && !device.has_index();
}

interpreter::Promise TorchWorld::promise_about(PyObject* function) const {
  return is_disabled(function) ? interpreter::Promise::disabled : python::promise_about(function);
}

/// Python's floats have the place of such numbers: those of integers are others, and eager refuses tensors that
/// require grad.
interpreter::Ref TorchWorld::number_of(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool is_one = tensor.dim() == 0 && tensor.device().is_cpu() && tensor.layout() == at::kStrided;
  if (!is_one || !at::isFloatingType(tensor.scalar_type()) || tensor.requires_grad() || capture::is_number(tensor))
    return {};
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(
      THPVariable_Wrap(capture::to_number(is_computed(object) ? tensor : tracer_.stand_in(tensor))));
}

/// On the CPU, where an error is known before anything is done with the results. It draws and changes nothing.
bool TorchWorld::expect(PyObject* object, bool truth) {
  const at::Tensor& given = THPVariable_Unpack(object);
  if (!given.device().is_cpu() || given.layout() != at::kStrided || given.is_complex() ||
      given.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || given.numel() != 1 ||
      capture::is_transformed(given))
    return false;
  const at::NoGradGuard without_history;
  const at::Tensor tensor = is_computed(object) ? given : tracer_.stand_in(given);
  at::_assert_async(truth ? tensor : at::logical_not(tensor));
  return true;
}

void TorchWorld::answered() {
  at::autocast::set_autocast_cache_enabled(false);
}

bool TorchWorld::may_read(PyObject* name) const {
  return torch_names().is_readable(text_of(name));
}

namespace {

/// Tensors, by their places in what the run has met, that guards compare with each other: which share memory, and
/// at which distance. Where a memory is not written, and all that lie in it are arguments, how they lie to each
/// other decides nothing: in a loop over the rows of a batch it is never the same. Each of them is only to stay
/// apart from what is written, and is compared without the others.
std::vector<std::vector<size_t>> compared_memories(std::span<const TorchWorld::Tensor> tensors,
                                                   const TorchSizes& sizes) {
  std::vector<guards::MemoryRange> ranges;
  std::vector<size_t> order;
  for (const TorchWorld::Tensor& tensor : tensors) {
    order.push_back(ranges.size());
    ranges.push_back(guards::memory_of(tensor.object));
  }
  std::ranges::stable_sort(order, {}, [&](size_t k) { return ranges[k].first; });
  std::vector<std::vector<size_t>> rounds(1);
  std::vector<size_t> written;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    uintptr_t last = ranges[order[begin]].last;
    for (end = begin + 1; end < order.size() && ranges[order[end]].first < last; ++end)
      last = std::max(last, ranges[order[end]].last);
    const std::span group(order.begin() + static_cast<ptrdiff_t>(begin), end - begin);
    const bool is_written = std::ranges::any_of(group, [&](size_t k) { return may_be_written(tensors[k], sizes); });
    const bool is_free =
        !is_written && std::ranges::all_of(group, [&](size_t k) { return tensors[k].is_argument; });
    for (size_t member = 0; member < group.size(); ++member) {
      const size_t round = is_free ? member : 0;
      if (round == rounds.size()) rounds.emplace_back();
      rounds[round].push_back(group[member]);
      if (is_written) written.push_back(group[member]);
    }
  }
  for (size_t round = 1; round < rounds.size(); ++round)
    rounds[round].insert(rounds[round].end(), written.begin(), written.end());
  if (written.empty()) rounds.resize(1);
  return rounds;
}

}  // namespace

void TorchWorld::guard_aliasing() {
  if (tensors_.size() + wrappers_.learnt().size() < 2) return;
  std::vector<const guards::Source*> sources;
  std::vector<PyObject*> objects;
  const auto add = [&](const auto& tensor) {
    sources.push_back(tensor.source);
    objects.push_back(tensor.object);
  };
  std::ranges::for_each(tensors_, add);
  std::ranges::for_each(wrappers_.learnt(), add);
  guards_.objects(sources, objects);
  for (std::vector<size_t>& compared : compared_memories(tensors_, sizes_)) {
    std::ranges::sort(compared);
    sources.clear();
    objects.clear();
    for (const size_t k : compared) {
      sources.push_back(tensors_[k].source);
      objects.push_back(tensors_[k].object);
    }
    guards_.storages(sources, objects);
  }
}

}  // namespace braze::python
