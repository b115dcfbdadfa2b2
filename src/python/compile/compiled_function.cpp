// python/compile/compiled_function.cpp: first calls, later calls, native calls.
#include "python/compile/compiled_function.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <pybind11/stl.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include "capture/trace.h"
#include "capture/tracer_tensor.h"
#include "python/compile/rebuild.h"
#include "python/compile/torch_world.h"
#include "python/errors.h"
#include "python/guards/scalar.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/watch/watcher.h"
#include "python/source.h"
#include "runtime/program.h"
#include "support/error.h"

namespace braze::python {

namespace {

constexpr size_t most_specialisations = 8;
constexpr int most_failed_captures = 4;  // After these without a success the function runs natively for good.

/// One captured call.
struct Specialisation {
  guards::GuardProgram guards;
  std::shared_ptr<runtime::Program> program;
  size_t argument_count;  ///< The first values that the guards give are the program's arguments.
  size_t result_count;
  guards::Recipe recipe;
};

struct State {
  py::object function;
  std::vector<std::unique_ptr<Specialisation>> specialisations;  ///< The one used last comes first.
  std::map<std::string, int64_t> reasons;
  int64_t captured = 0, replayed = 0, native = 0;
  int failed_captures = 0;
  bool is_capturing = false;
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  State* state;  ///< Owned; deleted by dealloc.
  PyObject* weak_references;
  PyObject* dict;
};

/// The vectorcall arguments as they came.
struct Arguments {
  PyObject* const* values;
  size_t flags;
  PyObject* names;

  guards::Call call() const { return {values, static_cast<size_t>(PyVectorcall_NARGS(flags)), names}; }
};

py::object call_natively(const py::object& function, const Arguments& arguments) {
  PyObject* result = PyObject_Vectorcall(function.ptr(), arguments.values, arguments.flags, arguments.names);
  if (!result) throw_python_error();
  return py::reinterpret_steal<py::object>(result);
}

/// Torch's grad mode as it was, whatever the captured function did before it was given up.
class GradModeScope {
 public:
  ~GradModeScope() { at::GradMode::set_enabled(before_); }
  bool is_unchanged() const { return at::GradMode::is_enabled() == before_; }

 private:
  bool before_ = at::GradMode::is_enabled();
};

/// Why a capture came to nothing.
struct GivenUp {
  std::string reason;
};

/// The guards, the tracer and the watcher of one first call.
class Capture {
 public:
  Capture(const py::object& function, const Arguments& arguments)
      : function_(function),
        arguments_(arguments),
        tracer_(py::str(py::getattr(function, "__name__", py::str("compiled"))).cast<std::string>(), &times_),
        world_(tracer_, guards_),
        watcher_(guards_, world_) {}

  /// Throws GivenUp.
  std::unique_ptr<Specialisation> run() {
    // Operators without a deterministic form must raise, as only the kernels themselves know how.
    if (at::globalContext().deterministicAlgorithms()) throw GivenUp{"deterministic algorithms are asked for"};
    learn_call();
    capture::Trace trace = record();
    world_.guard_aliasing();
    const size_t argument_count = options_.example_arguments.size();
    std::shared_ptr<runtime::Program> program;
    {
      py::gil_scoped_release unlocked;
      program = runtime::Program::compile(std::move(trace), options_, std::move(times_));
    }
    if (program->argument_count() != argument_count) throw GivenUp{"an argument of the graph is not passed"};
    const size_t results = program->result_count();
    return std::make_unique<Specialisation>(Specialisation{guards::GuardProgram(std::move(guards_)),
                                                           std::move(program), argument_count, results,
                                                           *std::move(recipe_)});
  }

 private:
  void learn_call() {
    const guards::Call call = arguments_.call();
    guards_.torch_state();
    guards_.call_shape(call);
    interpreter::Values& values = watcher_.values();
    guards::SourceTable& sources = values.sources();
    if (!values.learn(function_.ptr(), sources.object(function_.ptr(), "f")))
      throw GivenUp{"a function of its kind"};
    for (uint32_t i = 0; i < call.size(); ++i) {
      const std::string name = argument_name(i);
      if (!values.learn(call.arguments[i], sources.argument(i, name)))
        throw GivenUp{"argument " + name + " cannot be guarded"};
      if (interpreter::is_builtin_container(call.arguments[i])) values.absorb(call.arguments[i]);
    }
    world_.seal();
  }

  std::string argument_name(uint32_t i) const {
    const guards::Call call = arguments_.call();
    if (i >= call.positional)
      return py::handle(PyTuple_GET_ITEM(call.keywords, i - call.positional)).cast<std::string>();
    PyObject* function = function_.ptr();
    if (!PyFunction_Check(function)) return concat("args[", i, "]");
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    if (static_cast<int>(i) >= code->co_argcount) return concat("args[", i, "]");
    return py::handle(PyTuple_GET_ITEM(code->co_localsplusnames, i)).cast<std::string>();
  }

  capture::Trace record() {
    const GradModeScope grad_mode;
    SourceScope sources;
    capture::Tracer::Scope tracing(tracer_);
    const runtime::RefuseValues refuse;
    const py::object result = interpret();
    if (!grad_mode.is_unchanged()) throw GivenUp{"the function changes the grad mode"};
    want_arguments();
    capture::Trace trace = tracer_.finish(rebuild(result));
    if (trace.any_requires_grad) throw GivenUp{"gradients are wanted"};
    if (!trace.warnings.empty()) throw GivenUp{trace.warnings.front()};
    return trace;
  }

  /// The arguments of the graph come first among the values of the guards.
  void want_arguments() {
    for (const TorchWorld::Tensor& tensor : world_.tensors()) {
      if (!tensor.is_argument) continue;
      if (guards_.want(tensor.source) != options_.example_arguments.size())
        throw InternalError("an argument of the graph is wanted twice");
      options_.example_arguments.push_back(THPVariable_Unpack(tensor.object));
    }
  }

  /// Makes the recipe. \returns the outputs of the graph.
  std::vector<at::Tensor> rebuild(const py::object& result) {
    guards::RecipeBuilder builder;
    Rebuilder rebuilder(builder, watcher_.values(), guards_);
    try {
      const guards::RecipeNode node = rebuilder.node(result.ptr());
      recipe_ = std::move(builder).finish({&node, 1});
    } catch (const NotRebuilt& failed) {
      throw GivenUp{"a result that cannot be rebuilt: " + failed.reason};
    }
    std::vector<at::Tensor> outputs;
    for (PyObject* tensor : rebuilder.outputs()) outputs.push_back(THPVariable_Unpack(tensor));
    return outputs;
  }

  py::object interpret() {
    const guards::Call call = arguments_.call();
    PyObject* result = nullptr;
    if (watcher_.begin(function_.ptr(), call.arguments, static_cast<Py_ssize_t>(call.size()))) {
      const interpreter::Scope scope(&watcher_);
      result = PyObject_Vectorcall(function_.ptr(), arguments_.values, arguments_.flags, arguments_.names);
    }
    py::object owned = py::reinterpret_steal<py::object>(result);
    if (watcher_.abandoned()) {
      PyErr_Clear();
      throw GivenUp{watcher_.reason()};
    }
    if (!result) {
      const py::error_already_set error;  // Takes the exception; raised again by the native run.
      throw GivenUp{std::string("the function raises ") + std::string(py::str(error.type().attr("__name__")))};
    }
    return owned;
  }

  const py::object& function_;
  const Arguments& arguments_;
  PhaseTimes times_;
  capture::Tracer tracer_;
  guards::GuardSet guards_;
  TorchWorld world_;
  interpreter::Watcher watcher_;
  runtime::ProgramOptions options_;
  std::optional<guards::Recipe> recipe_;
};

/// Runs a program on what its guards found. Nothing if the call must run natively after all: no input was written.
std::optional<py::object> replay(const Specialisation& one, PyObject* const* values) {
  c10::SmallVector<at::Tensor, 8> held;
  c10::SmallVector<const at::Tensor*, 8> pointers;
  for (size_t k = 0; k < one.argument_count; ++k) held.push_back(THPVariable_Unpack(values[k]));
  for (const at::Tensor& tensor : held) pointers.push_back(&tensor);
  c10::SmallVector<guards::Ref, 8> read;  // The program may let other threads run.
  for (size_t k = 0; k < one.guards.wanted(); ++k) read.push_back(guards::Ref::borrow(values[k]));
  if (!one.program->accepts(pointers.data()) || one.program->loses_grad(pointers.data())) return std::nullopt;
  c10::SmallVector<at::Tensor, 4> results(one.result_count);
  try {
    if (one.program->is_long()) {
      py::gil_scoped_release unlocked;
      one.program->run(pointers.data(), results.data());
    } else {
      one.program->run(pointers.data(), results.data());
    }
  } catch (const UserError&) {
    return std::nullopt;  // An index out of range: eager says so in its own words.
  }
  c10::SmallVector<py::object, 4> outputs;
  c10::SmallVector<PyObject*, 4> borrowed;
  for (at::Tensor& tensor : results) {
    outputs.push_back(py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(tensor))));
    borrowed.push_back(outputs.back().ptr());
  }
  guards::Ref result;
  if (!one.recipe.run({values, one.guards.wanted()}, {borrowed.data(), borrowed.size()}, &result))
    throw_python_error();
  return py::reinterpret_steal<py::object>(result.release());
}

py::object run_natively(State& state, const Arguments& arguments, const std::string& reason) {
  ++state.native;
  ++state.reasons[reason];
  return call_natively(state.function, arguments);
}

py::object first_call(State& state, const Arguments& arguments) {
  std::string reason;
  state.is_capturing = true;
  try {
    std::unique_ptr<Specialisation> made = Capture(state.function, arguments).run();
    state.is_capturing = false;
    ++state.captured;
    state.failed_captures = 0;
    std::vector<PyObject*> values(made->guards.wanted());
    const guards::Call call = arguments.call();
    const int32_t failed = made->guards.check(call, values.data());
    if (failed != guards::GuardProgram::ok)
      return run_natively(state, arguments, "guards fail at once: " + made->guards.explain(failed, call));
    std::optional<py::object> result = replay(*made, values.data());
    state.specialisations.insert(state.specialisations.begin(), std::move(made));
    if (result) return *std::move(result);
    return run_natively(state, arguments, "the program does not take these arguments");
  } catch (const GivenUp& given_up) {
    reason = given_up.reason;
  } catch (const UserError& error) {
    reason = error.what();
  } catch (const py::error_already_set& error) {
    reason = error.what();
  }
  state.is_capturing = false;
  ++state.failed_captures;
  return run_natively(state, arguments, reason);
}

py::object call(State& state, const Arguments& arguments) {
  // Inside of a trace the function is part of it; inside of its own capture it is a callee.
  if (state.is_capturing || capture::Tracer::current()) return call_natively(state.function, arguments);
  const guards::Call call = arguments.call();
  for (size_t i = 0; i < state.specialisations.size(); ++i) {
    Specialisation& one = *state.specialisations[i];
    c10::SmallVector<PyObject*, 16> values(one.guards.wanted());
    if (one.guards.check(call, values.data()) != guards::GuardProgram::ok) continue;
    if (i > 0)
      std::rotate(state.specialisations.begin(), state.specialisations.begin() + i,
                  state.specialisations.begin() + i + 1);
    std::optional<py::object> result = replay(one, values.data());
    if (!result) return run_natively(state, arguments, "the program does not take these arguments");
    ++state.replayed;
    return *std::move(result);
  }
  if (state.specialisations.size() >= most_specialisations)
    return run_natively(state, arguments, "too many specialisations");
  if (state.failed_captures >= most_failed_captures && state.specialisations.empty())
    return run_natively(state, arguments, "captures were given up too often");
  return first_call(state, arguments);
}

State& state_of(PyObject* self) {
  return *reinterpret_cast<FunctionObject*>(self)->state;
}

PyObject* function_vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  try {
    return call(state_of(self), {args, flags, names}).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* function_bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* function_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* function = nullptr;
  if (!PyArg_ParseTuple(args, "O", &function)) return nullptr;
  if (!PyCallable_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "braze.compile takes a function or a module");
    return nullptr;
  }
  auto* self = reinterpret_cast<FunctionObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = function_vectorcall;
  self->state = new State{};
  self->state->function = py::reinterpret_borrow<py::object>(function);
  return reinterpret_cast<PyObject*>(self);
}

int function_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<FunctionObject*>(self)->dict);
  const State& state = state_of(self);
  Py_VISIT(state.function.ptr());
  for (const auto& one : state.specialisations)
    for (const int stop : {one->guards.visit(visit, arg), one->recipe.visit(visit, arg)})
      if (stop) return stop;
  return 0;
}

int function_clear(PyObject* self) {
  State& state = state_of(self);
  const auto specialisations = std::move(state.specialisations);
  Py_CLEAR(reinterpret_cast<FunctionObject*>(self)->dict);
  return 0;
}

void function_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* object = reinterpret_cast<FunctionObject*>(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  function_clear(self);
  PyTypeObject* type = Py_TYPE(self);
  delete object->state;
  type->tp_free(self);
  Py_DECREF(type);
}

template <typename Body>
PyObject* guarded(Body&& body) {
  try {
    return py::object(body()).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* function_counts(PyObject* self, PyObject*) {
  return guarded([&] {
    const State& state = state_of(self);
    py::dict counts;
    counts["captured"] = state.captured;
    counts["replayed"] = state.replayed;
    counts["native"] = state.native;
    return counts;
  });
}

PyObject* function_reasons(PyObject* self, PyObject*) {
  return guarded([&] { return py::cast(state_of(self).reasons); });
}

PyObject* function_guards(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list texts;
    for (const auto& one : state_of(self).specialisations) texts.append(one->guards.texts());
    return texts;
  });
}

PyObject* function_steps(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list steps;
    for (const auto& one : state_of(self).specialisations) steps.append(py::cast(one->program->steps()));
    return steps;
  });
}

PyObject* function_wrapped(PyObject* self, void*) {
  return Py_NewRef(state_of(self).function.ptr());
}

PyMethodDef methods[] = {
    {"counts", function_counts, METH_NOARGS, "counts(): how many calls were captured, replayed, run natively."},
    {"reasons", function_reasons, METH_NOARGS, "reasons(): why calls ran natively, with how many did."},
    {"guards", function_guards, METH_NOARGS, "guards(): by program, what must hold for it to be replayed."},
    {"steps", function_steps, METH_NOARGS, "steps(): by program, what a call of it runs."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {{"__wrapped__", function_wrapped, nullptr, "What was compiled.", nullptr},
                            {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weak_references), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(function_new)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(function_bind)},
                       {Py_tp_traverse, reinterpret_cast<void*>(function_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(function_clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(function_dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>("A function that braze captures, guards and replays.")},
                       {0, nullptr}};

PyType_Spec spec = {"braze.CompiledFunction", sizeof(FunctionObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void add_compiled_function(py::module_& module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  module.add_object("CompiledFunction", py::reinterpret_steal<py::object>(type));
}

}  // namespace braze::python
