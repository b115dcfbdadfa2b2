// python/compile/stand_ins.cpp
#include "python/compile/stand_ins.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "capture/inner_gradients.h"
#include "capture/number.h"
#include "capture/recorder.h"
#include "capture/tape.h"
#include "capture/traced_function.h"
#include "capture/tracer_tensor.h"
#include "python/compile/gradient_marks.h"
#include "python/compile/late_reads.h"
#include "python/compile/modes.h"
#include "python/compile/reentrant.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "python/imported.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/watch/late_calls.h"
#include "python/interpreter/watch/tensor_hooks.h"
#include "python/interpreter/watch/traced_arrays.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// One for the process, filled when braze is imported. Never destroyed: the interpreter may be gone first.
std::unordered_map<PyObject*, PyObject*>& all_stand_ins() {
  static auto& all = *new std::unordered_map<PyObject*, PyObject*>;  // NOLINT
  return all;
}

capture::Recorder& recorder() {
  capture::Tracer* tracer = capture::Tracer::current();
  if (!tracer) throw UserError("braze: this is for functions that are being captured");
  return tracer->impl();
}

bool is_known(py::handle tensor) {
  if (!guards::is_tensor(tensor.ptr())) throw UserError("is_known takes a tensor", UserError::Kind::type);
  const at::Tensor& real = THPVariable_Unpack(tensor.ptr());
  return capture::is_tracer(real) && recorder().known().find(real).defined();
}

/// The number of a member of torch.nn.attention.SDPBackend, or of a copy of one; -1 is something else.
int attention_backend(py::handle backend) {
  static const PyObject* const type = py::object(imported("torch._C").attr("_SDPBackend")).ptr();
  const bool is_member = reinterpret_cast<PyObject*>(Py_TYPE(backend.ptr())) == type;
  return is_member ? py::int_(py::reinterpret_borrow<py::object>(backend)).cast<int>() : -1;
}

std::string_view module_of(PyObject* function) noexcept {
  PyObject* globals = PyFunction_GET_GLOBALS(function);
  PyObject* name = PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : nullptr;
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text ? text : "";
}

bool is_of_transforms(PyObject* function) noexcept {
  const std::string_view module = module_of(function);
  return module.starts_with("torch._functorch.") || module.starts_with("torch._higher_order_ops.");
}

/// Whether it is one of the transforms that take gradients, or what one of them made, or holds one.
bool takes_gradients(PyObject* function) noexcept {
  constexpr std::string_view transforms[] = {"grad",   "grad_and_value", "vjp", "_vjp_with_argnums",
                                             "jacrev", "hessian"};
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  const char* text = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(object->func_code)->co_qualname);
  const std::string_view name = text ? text : "";
  if (std::ranges::find(transforms, name.substr(0, name.find('.'))) != std::end(transforms)) return true;
  for (Py_ssize_t i = 0; object->func_closure && i < PyTuple_GET_SIZE(object->func_closure); ++i) {
    PyObject* held = PyCell_GET(PyTuple_GET_ITEM(object->func_closure, i));
    if (held && PyFunction_Check(held) && is_of_transforms(held) && takes_gradients(held)) return true;
  }
  return false;
}

/// torch.func loads what it needs when it is first used, under a lock: it does so now, natively, as a capture may
/// be given up at any instruction.
void prepare_transforms(PyObject* function) {
  static bool is_prepared = false, is_prepared_for_gradients = false;  // Once a process, guarded by the GIL.
  if (is_prepared && is_prepared_for_gradients) return;
  if (!is_of_transforms(function)) return;
  // Taking gradients loads the whole of torch._dynamo, which others do without.
  const bool for_gradients = takes_gradients(function);
  if (is_prepared && !for_gradients) return;
  is_prepared = true;
  is_prepared_for_gradients |= for_gradients;
  const capture::RunForReal real;
  const interpreter::Pause unwatched;
  try {
    imported("braze._stand_ins").attr("prepare_transforms")(for_gradients);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("braze");
  }
}

/// What `torch._compile._disable_dynamo` is around: it keeps Dynamo out, and is loaded without it. Else null.
PyObject* kept_from_dynamo(PyObject* function) noexcept {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  const auto* code = reinterpret_cast<PyCodeObject*>(object->func_code);
  if (!object->func_closure ||
      PyUnicode_CompareWithASCIIString(code->co_qualname, "_disable_dynamo.<locals>.inner") != 0)
    return nullptr;
  PyObject* module = PyDict_GetItemString(object->func_globals, "__name__");
  if (!module || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "torch._compile") != 0)
    return nullptr;
  PyObject* original = PyCell_GET(PyTuple_GET_ITEM(object->func_closure, 0));  // `fn`, and `recursive` behind it.
  return original && PyFunction_Check(original) ? original : nullptr;
}

/// What a wrapper of Dynamo's is around. Once torch.compile was used in a process, PyTorch's own functions are
/// wrapped to keep Dynamo out of them (torch._dynamo.eval_frame.TorchPatcher); what the user has wrapped by
/// torch.compile() is compiled with what calls it. Else null.
PyObject* wrapped_by_dynamo(PyObject* function) noexcept {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* original = dict ? PyDict_GetItemString(dict, "_torchdynamo_orig_callable") : nullptr;
  if (!original || !PyFunction_Check(original) || module_of(function) != "torch._dynamo.eval_frame") return nullptr;
  const bool is_kept_out = PyDict_GetItemString(dict, "_torchdynamo_disable") == Py_True;
  const std::string_view module = module_of(original);
  return !is_kept_out || module.starts_with("torch.") ? original : nullptr;
}

/// Functions of modules that few programs load: what stands in for them is loaded when a capture first meets them.
struct LateForm {
  std::string_view module;
  const char* name;
  const char* form;  ///< The module that has it, by the same name.
};

constexpr LateForm late_forms[] = {
    {"torch.nn.attention.flex_attention", "flex_attention", "braze._flex_attention"},
    {"torch._dynamo.decorators", "mark_static", "braze._marks"},
    {"torch.masked._ops", "_combine_input_and_mask", "braze._masked"},
};

/// Null: there is none, or it cannot be loaded.
PyObject* late_form_of(PyObject* function) noexcept {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  for (const LateForm& row : late_forms) {
    if (PyUnicode_CompareWithASCIIString(object->func_name, row.name) != 0) continue;
    if (module_of(function) != row.module || PyDict_GetItemString(object->func_globals, row.name) != function)
      continue;
    const capture::RunForReal real;
    const interpreter::Pause unwatched;
    try {
      py::object form = imported(row.form).attr(row.name);
      return all_stand_ins()[Py_NewRef(function)] =
                 form.release().ptr();  // Both for good, as add_stand_ins() has it.
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("braze");
    }
  }
  return nullptr;
}

/// Once torch.compile was used in a process, every module that is made is noted down by its address, for Dynamo
/// alone (torch._dynamo.mutation_guard).
bool notes_module_down(PyObject* function) noexcept {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  if (PyUnicode_CompareWithASCIIString(object->func_qualname, "GenerationTracker.tag") != 0) return false;
  return module_of(function) == "torch._dynamo.mutation_guard";
}

PyObject* leave_module_unnoted() {
  static PyObject* const function = [] {  // For good.
    py::object found = imported("braze._stand_ins").attr("leave_module_unnoted");
    return found.release().ptr();
  }();
  return function;
}

}  // namespace

namespace {

/// One for the process, filled when braze is imported; held for good.
FunctionForms& forms() {
  static FunctionForms all;
  return all;
}

/// The gradient of a tensor will be looked at, by who waits for the end of the run: from here on the run takes no
/// gradients itself, as the hooks would see these. None where that may not be.
py::object mark_gradient(py::handle tensor) {
  using Own = capture::Recorder::OwnGradients;
  if (!guards::is_tensor(tensor.ptr())) throw UserError("mark_gradient takes a tensor", UserError::Kind::type);
  // Other people's compilers make the history, of which this tensor may be no part.
  const auto* const tape = capture::TapeRecorder::current();
  if ((tape && !tape->can_be_lost()) || recorder().own_gradients == Own::some) return py::none();
  const std::optional<int64_t> mark = gradient_mark(THPVariable_Unpack(tensor.ptr()));
  if (!mark) return py::none();
  recorder().own_gradients = Own::refused;
  return py::int_(*mark);
}

std::vector<at::Tensor> to_tensors(const py::list& list) {
  std::vector<at::Tensor> tensors;
  for (const py::handle one : list) {
    if (!one.is_none() && !guards::is_tensor(one.ptr())) throw UserError("a list of tensors is wanted");
    tensors.push_back(one.is_none() ? at::Tensor() : THPVariable_Unpack(one.ptr()));
  }
  return tensors;
}

py::list to_list(const std::vector<at::Tensor>& tensors) {
  py::list list;
  for (const at::Tensor& tensor : tensors) list.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
  return list;
}

void add_functions(py::module_& module) {
  module.def("set_function_forms", [](py::handle apply, py::handle call_operator, py::handle call_script) {
    forms() = {apply.inc_ref().ptr(), call_operator.inc_ref().ptr(), call_script.inc_ref().ptr()};
  });
  module.def("effects_so_far", [] { return 0; });                           // A capture answers itself.
  module.def("tensor_over", [](const py::object&) { return py::none(); });  // Likewise.
  module.def("function_tangents", [](const py::list& outputs) {
    // Natively a backward in Python sees the modes that are entered when it runs.
    if (at::impl::PythonTorchFunctionTLS::stack_len() > 0)
      throw UserError("braze: an autograd.Function whose backward is wanted, under a mode of torch functions");
    return to_list(capture::function_tangents(recorder(), to_tensors(outputs)));
  });
  module.def(
      "join_function", [](std::string name, const py::list& inputs, const py::list& gradients,
                          const py::list& outputs, const py::list& constants, const py::list& dirty,
                          const py::list& saved, const py::list& tangents, bool is_once, uintptr_t backward) {
        std::shared_ptr<const capture::LateReads> late = late_reads(name, backward);
        return to_list(capture::join_function(
            recorder(),
            {std::move(name), to_tensors(inputs), to_tensors(gradients), to_tensors(outputs), to_tensors(constants),
             to_tensors(dirty), to_tensors(saved), to_tensors(tangents), is_once, std::move(late)}));
      });
  module.def("note_inner_function",
             [](std::string name, const py::list& inputs, const py::list& gradients, const py::list& outputs,
                const py::list& constants, const py::list& dirty, bool is_once, bool is_bare) {
               capture::note_inner_function({std::move(name),
                                             to_tensors(inputs),
                                             to_tensors(gradients),
                                             to_tensors(outputs),
                                             to_tensors(constants),
                                             to_tensors(dirty),
                                             {},
                                             {},
                                             is_once,
                                             nullptr},
                                            is_bare);
             });
  module.def("inner_gradients",
             [](const py::list& outputs, const py::list& inputs, const py::list& tangents, bool keeps_graph,
                bool creates_graph) -> py::object {
               const auto found = capture::inner_gradients(
                   recorder(),
                   {to_tensors(outputs), to_tensors(inputs), to_tensors(tangents), keeps_graph, creates_graph});
               return found ? py::object(to_list(*found)) : py::none();
             });
  module.def("mark_gradient", &mark_gradient, py::arg("tensor"));
  module.def("history_mark", [] {
    const HistoryMark mark = history_mark();
    return py::make_tuple(mark.node, mark.marks);
  });
  module.def("is_same_within", [](const py::list& results, const py::list& inputs, const py::tuple& mark) {
    return is_same_within(to_tensors(results), to_tensors(inputs),
                          {mark[0].cast<uint64_t>(), mark[1].cast<uint64_t>()});
  });
  module.add_object("hooks_of", py::reinterpret_borrow<py::object>(interpreter::hooks_function()));
  module.add_object("call_later", py::reinterpret_borrow<py::object>(interpreter::late_call_function()));
  module.def("begin_function_forward", [] {
    if (auto* const tape = capture::TapeRecorder::current()) tape->begin_forward();
  });
  module.def("set_in_backward", [](bool on) {
    if (auto* const tape = capture::TapeRecorder::current()) tape->set_in_backward(on);
  });
  module.def("function_depth", [] {
    const auto* const tape = capture::TapeRecorder::current();
    return tape ? tape->function_depth() : 0;
  });
}

}  // namespace

const FunctionForms& function_forms() noexcept {
  return forms();
}

bool stands_for_other(PyTypeObject* type) noexcept {
  PyObject* module =
      type->tp_flags & Py_TPFLAGS_HEAPTYPE ? PyDict_GetItemString(guards::class_dict(type), "__module__") : nullptr;
  return module && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "braze._library_in_python") == 0;
}

PyObject* stand_in_for(PyObject* function) noexcept {
  if (PyFunction_Check(function)) {
    prepare_transforms(function);
    if (PyObject* original = wrapped_by_dynamo(function)) return original;
    if (notes_module_down(function)) return leave_module_unnoted();
  }
  const auto found = all_stand_ins().find(function);
  if (found != all_stand_ins().end()) return found->second;
  if (!PyFunction_Check(function)) return nullptr;
  PyObject* original = kept_from_dynamo(function);
  return original ? original : late_form_of(function);
}

bool is_kept_from_dynamo(PyObject* function) noexcept {
  return PyFunction_Check(function) && (wrapped_by_dynamo(function) || kept_from_dynamo(function));
}

namespace {

/// Whether a capture that meets a call of it does more than to watch its code: it calls something else, or runs it
/// unwatched, or loads what functions that transform others need, which waits for the call.
bool is_called_specially(PyObject* function) noexcept {
  if (all_stand_ins().contains(function)) return true;
  if (!PyFunction_Check(function)) return false;
  return is_of_transforms(function) || module_of(function) == "torch.utils._pytree" || late_form_of(function);
}

}  // namespace

void add_stand_ins(py::module_& module) {
  module.def(
      "set_stand_in",
      [](py::handle function, py::handle stand_in) {
        // Both for good: an address must not be used again.
        all_stand_ins()[function.inc_ref().ptr()] = stand_in.inc_ref().ptr();
      },
      py::arg("function"), py::arg("stand_in"),
      "Captures call the second function or class in the place of the first.");
  module.def(
      "is_called_specially", [](py::handle function) { return is_called_specially(function.ptr()); },
      py::arg("function"), "Whether captures do more where it is called than to watch its code.");
  module.def(
      "set_traced_arrays",
      [](const py::type& arrays, const py::type& numbers, const py::type& given) {
        interpreter::set_traced_arrays(reinterpret_cast<PyTypeObject*>(py::type(arrays).release().ptr()),
                                       reinterpret_cast<PyTypeObject*>(py::type(numbers).release().ptr()),
                                       reinterpret_cast<PyTypeObject*>(py::type(given).release().ptr()));
      },
      py::arg("arrays"), py::arg("numbers"), py::arg("given"), "Captures know the objects of these classes.");
  module.def("end_graph", [](const py::str& why) { throw UserError("braze: " + why.cast<std::string>()); });
  module.def("is_known", &is_known, py::arg("tensor"));
  module.def("attention_backend", &attention_backend, py::arg("backend"));
  module.def("to_number", [](py::handle tensor) {
    if (!guards::is_tensor(tensor.ptr())) throw UserError("to_number takes a tensor", UserError::Kind::type);
    return py::reinterpret_steal<py::object>(
        THPVariable_Wrap(capture::to_number(THPVariable_Unpack(tensor.ptr()))));
  });
  // What inference mode changes, before it: for leave_inference_mode().
  module.def(
      "set_inference_mode",
      [](bool on) {
        const Modes before = Modes::now();
        set_inference_mode(on);
        const Modes::Inference& inference = before.inference;
        return py::make_tuple(before.grad, inference.is_on, inference.forward_grad, inference.multithreading,
                              inference.included, inference.excluded);
      },
      py::arg("on"));
  module.def(
      "leave_inference_mode",
      [](const py::tuple& before) {
        Modes modes = Modes::now();
        const Modes now = modes;
        modes.grad = before[0].cast<bool>();
        modes.inference = {before[1].cast<bool>(), before[2].cast<bool>(), before[3].cast<bool>(),
                           before[4].cast<uint64_t>(), before[5].cast<uint64_t>()};
        modes.set_from(now);
      },
      py::arg("before"));
  // at::impl::TorchFunctionDisabledState. Gives what it was.
  module.def(
      "set_torch_functions",
      [](int state) {
        using Functions = at::impl::PythonTorchFunctionTLS;
        const auto before = static_cast<int>(Functions::get_disabled_state());
        Functions::set_disabled_state(static_cast<at::impl::TorchFunctionDisabledState>(state));
        return before;
      },
      py::arg("state"));
  module.def("trace_mark", [] {
    const capture::Recorder::Mark mark = recorder().mark();
    return py::make_tuple(mark.memories, mark.writes, mark.effects);
  });
  // By its address: as an object it would be guarded in all its parts.
  module.def("late_reads", &count_late_reads);
  module.def("wrote_nothing_since", [](const py::tuple& mark) {
    const capture::Recorder::Mark now = recorder().mark();
    return recorder().only_computed_since({mark[0].cast<size_t>(), mark[1].cast<uint64_t>(), now.effects});
  });
  module.def("only_computed_since", [](const py::tuple& mark) {
    return recorder().only_computed_since(
        {mark[0].cast<size_t>(), mark[1].cast<uint64_t>(), mark[2].cast<size_t>()});
  });
  add_functions(module);
}

}  // namespace braze::python
