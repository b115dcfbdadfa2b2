// python/compile/compiled_function.cpp
#include "python/compile/compiled_function.h"

#include <pybind11/stl.h>
#include <structmember.h>

#include <cstddef>
#include <memory>

#include "python/compile/function_state.h"
#include "python/errors.h"
#include "python/program_object.h"

namespace braze::python {

namespace {

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  FunctionState* state;  ///< Owned; deleted by dealloc.
  PyObject* weak_references;
  PyObject* dict;
};

FunctionState& state_of(PyObject* self) {
  return *reinterpret_cast<FunctionObject*>(self)->state;
}

PyObject* function_vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  try {
    return state_of(self).call({args, flags, names}).release().ptr();
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
  PyObject *function = nullptr, *settings = Py_None;
  if (!PyArg_ParseTuple(args, "O|O", &function, &settings)) return nullptr;
  if (!PyCallable_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "braze.compile takes a function or a module");
    return nullptr;
  }
  return guarded([&] {
    auto state =
        std::make_unique<FunctionState>(py::reinterpret_borrow<py::object>(function), make_settings(settings));
    auto* self = reinterpret_cast<FunctionObject*>(type->tp_alloc(type, 0));
    if (!self) throw py::error_already_set();
    self->vectorcall = function_vectorcall;
    self->state = state.release();
    return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(self));
  });
}

int function_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<FunctionObject*>(self)->dict);
  return reinterpret_cast<FunctionObject*>(self)->state->visit(visit, arg);
}

int function_clear(PyObject* self) {
  state_of(self).reset();
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

PyObject* function_counts(PyObject* self, PyObject*) {
  return guarded([&] { return state_of(self).counts(); });
}

PyObject* function_operators(PyObject* self, PyObject*) {
  return guarded([&] { return state_of(self).operators(); });
}

PyObject* function_reasons(PyObject* self, PyObject*) {
  return guarded([&] { return py::cast(state_of(self).reasons()); });
}

PyObject* function_guards(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list texts;
    for (const auto& one : state_of(self).specialisations()) texts.append(one->guards.texts());
    return texts;
  });
}

PyObject* function_steps(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list steps;
    for (const auto& one : state_of(self).specialisations()) steps.append(py::cast(one->program->steps()));
    return steps;
  });
}

PyObject* function_report(PyObject* self, PyObject*) {
  return guarded([&] { return state_of(self).report(); });
}

PyObject* function_reset(PyObject* self, PyObject*) {
  state_of(self).reset();
  Py_RETURN_NONE;
}

PyObject* function_programs(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list programs;
    for (const auto& one : state_of(self).specialisations()) {
      if (auto program = one->program->program()) programs.append(make_program_view(one->name, std::move(program)));
      if (auto backward = one->program->backward())
        programs.append(make_program_view(concat(one->name, " (backward)"), std::move(backward)));
    }
    return programs;
  });
}

PyObject* function_repr(PyObject* self) {
  return guarded(
      [&] { return py::str("<compiled by braze: " + describe_function(state_of(self).function()) + ">"); });
}

PyObject* function_wrapped(PyObject* self, void*) {
  return Py_NewRef(state_of(self).function().ptr());
}

PyMethodDef methods[] = {
    {"counts", function_counts, METH_NOARGS, "counts(): how many calls were captured, replayed, run natively."},
    {"operators", function_operators, METH_NOARGS,
     "operators(): how many operators of all calls ran compiled, how many natively, and why these did."},
    {"reasons", function_reasons, METH_NOARGS, "reasons(): why calls ran natively, with how many did."},
    {"guards", function_guards, METH_NOARGS, "guards(): by program, what must hold for it to be replayed."},
    {"steps", function_steps, METH_NOARGS, "steps(): by program, what a call of it runs."},
    {"programs", function_programs, METH_NOARGS,
     "programs(): what braze compiled, each a braze.Program to be looked at, not to be called; the backward of one "
     "comes after it."},
    {"report", function_report, METH_NOARGS, "report(): all that is known of the programs, as a dict."},
    {"reset", function_reset, METH_NOARGS, "reset(): forgets all programs."},
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
                       {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
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

PyObject* compiled_from(PyObject* object) noexcept {
  // By its vectorcall: the type is made once a module, and nobody else has this function.
  const bool is_one = PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HAVE_VECTORCALL) &&
                      PyVectorcall_Function(object) == function_vectorcall;
  return is_one ? state_of(object).function().ptr() : nullptr;
}

void add_compiled_function(py::module_& module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  module.add_object("CompiledFunction", py::reinterpret_steal<py::object>(type));
}

}  // namespace braze::python
