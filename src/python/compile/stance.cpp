#include "python/compile/stance.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "capture/trace.h"
#include "python/interpreter/evaluate.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

py::tuple set_stance(std::string_view name, const py::object& forced_backend) {
  const auto found = std::ranges::find(stance_names, name);
  if (found == stance_names.end())
    throw UserError(concat("braze: no stance is named \"", name,
                           "\"; there are default, force_eager, eager_on_recompile, fail_on_recompile and "
                           "eager_then_compile"),
                    UserError::Kind::value);
  const Stance before = detail::stance.exchange(static_cast<Stance>(found - stance_names.begin()));
  PyObject* const forced = forced_backend.is_none() ? nullptr : forced_backend.inc_ref().ptr();
  const auto forced_before = py::reinterpret_steal<py::object>(std::exchange(detail::forced_backend, forced));
  return py::make_tuple(std::string(stance_names[static_cast<size_t>(before)]),
                        forced_before ? forced_before : py::object(py::none()));
}

struct DisabledObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;
  PyObject* dict;
  PyObject* weak_references;
  bool recursive;
};

DisabledObject* as_disabled(PyObject* self) {
  return reinterpret_cast<DisabledObject*>(self);
}

PyObject* disabled_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  const DisabledObject* disabled = as_disabled(self);
  const int deeper = disabled->recursive ? 1 : 0;
  detail::disabled_depth += deeper;
  // The frames that it enters are no segments of the function that called it.
  const interpreter::Pause native;
  PyObject* result = PyObject_Vectorcall(disabled->function, args, flags, names);
  detail::disabled_depth -= deeper;
  return result;
}

PyObject* disabled_bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* disabled_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* function = nullptr;
  int recursive = 1;
  static const char* names[] = {"function", "recursive", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|p", const_cast<char**>(names), &function, &recursive))
    return nullptr;
  if (!PyCallable_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "disable takes a function, a module or another callable");
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  as_disabled(self)->vectorcall = disabled_call;
  as_disabled(self)->function = Py_NewRef(function);
  as_disabled(self)->recursive = recursive != 0;
  return self;
}

int disabled_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_disabled(self)->function);
  Py_VISIT(as_disabled(self)->dict);
  return 0;
}

int disabled_clear(PyObject* self) {
  Py_CLEAR(as_disabled(self)->function);
  Py_CLEAR(as_disabled(self)->dict);
  return 0;
}

void disabled_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (as_disabled(self)->weak_references) PyObject_ClearWeakRefs(self);
  disabled_clear(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyGetSetDef properties[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(DisabledObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(DisabledObject, weak_references), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(DisabledObject, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(disabled_new)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(disabled_bind)},
                       {Py_tp_traverse, reinterpret_cast<void*>(disabled_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(disabled_clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(disabled_dealloc)},
                       {Py_tp_getset, properties},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>("A callable that is never captured.")},
                       {0, nullptr}};

PyType_Spec spec = {"braze.Disabled", sizeof(DisabledObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

bool is_disabled(PyObject* object) noexcept {
  return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HAVE_VECTORCALL) &&
         PyVectorcall_Function(object) == disabled_call;
}

void add_stance(py::module_& module) {
  module.def("set_stance", &set_stance, py::arg("name"), py::arg("forced_backend") = py::none(),
             "Sets the stance of all compiled functions.");
  module.def(
      "is_compiling", [] { return capture::Tracer::current() != nullptr; }, "Whether a capture is going on.");
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  module.add_object("Disabled", py::reinterpret_steal<py::object>(type));
}

}  // namespace braze::python
