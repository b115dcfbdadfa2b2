// python/interpreter/handlers_modules.cpp: imports, class bodies, the interactive prompt.
#include "python/interpreter/handlers.h"

namespace braze::interpreter {

namespace {

/// A builtin that an instruction needs; null with `exception` if it was deleted.
Ref builtin(Activation& a, const char* name, PyObject* exception) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  if (!key) return {};
  PyObject* builtins = a.frame->f_builtins;
  if (PyDict_CheckExact(builtins)) {
    Ref value = Ref::borrow(PyDict_GetItemWithError(builtins, key.get()));
    if (!value && !PyErr_Occurred()) PyErr_Format(exception, "%s not found", name);
    return value;
  }
  Ref value = Ref::steal(PyObject_GetItem(builtins, key.get()));
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Format(exception, "%s not found", name);
  return value;
}

/// A submodule may already be in sys.modules while its package has no such attribute yet.
Ref submodule(PyObject* package_name, PyObject* name) {
  const Ref full_name = Ref::steal(PyUnicode_FromFormat("%U.%U", package_name, name));
  return full_name ? Ref::steal(PyImport_GetModule(full_name.get())) : Ref();
}

void raise_cannot_import(PyObject* module, PyObject* package_name, PyObject* name) {
  const Ref unknown = Ref::steal(PyUnicode_FromString("<unknown module name>"));
  PyObject* shown = package_name ? package_name : unknown.get();
  const Ref path = Ref::steal(PyModule_GetFilenameObject(module));
  Ref message;
  if (!path || !PyUnicode_Check(path.get())) {
    PyErr_Clear();
    message = Ref::steal(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown));
    PyErr_SetImportError(message.get(), package_name, nullptr);
    return;
  }
  const Ref spec = Ref::steal(PyObject_GetAttrString(module, "__spec__"));
  const char* format = _PyModuleSpec_IsInitializing(spec.get())
                           ? "cannot import name %R from partially initialized module %R (most likely due to a "
                             "circular import) (%S)"
                           : "cannot import name %R from %R (%S)";
  message = Ref::steal(PyUnicode_FromFormat(format, name, shown, path.get()));
  PyErr_SetImportError(message.get(), package_name, path.get());
}

}  // namespace

Step import_name(Activation& a, int arg) {
  const Value from_list = a.pop(), level = a.pop();
  Frame* frame = a.frame;
  const Ref import = builtin(a, "__import__", PyExc_ImportError);
  if (!import) return Step::error;
  PyObject* locals = frame->f_locals ? frame->f_locals : Py_None;
  if (import.get() != default_import(a.thread))
    return a.push_result(PyObject_CallFunctionObjArgs(import.get(), a.name(arg), frame->f_globals, locals,
                                                      from_list.get(), level.get(), nullptr));
  const int number = _PyLong_AsInt(level.get());
  if (number == -1 && PyErr_Occurred()) return Step::error;
  return a.push_result(
      PyImport_ImportModuleLevelObject(a.name(arg), frame->f_globals, locals, from_list.get(), number));
}

// Leaves the module on the stack.
Step import_from(Activation& a, int arg) {
  PyObject *module = a.peek(1), *name = a.name(arg), *attribute = nullptr;
  const int found = _PyObject_LookupAttr(module, name, &attribute);
  if (found != 0) return a.push_result(attribute);
  Ref package_name = Ref::steal(PyObject_GetAttrString(module, "__name__"));
  if (package_name && !PyUnicode_Check(package_name.get())) package_name = Ref();
  if (package_name) {
    Ref loaded = submodule(package_name.get(), name);
    if (loaded || PyErr_Occurred()) return a.push_result(loaded.release());
  }
  raise_cannot_import(module, package_name.get(), name);
  return Step::error;
}

// Only module and exec code, which runs once.
Step import_star(Activation& a, int) {
  return a.hand_over(Handover::import_star);
}

Step load_build_class(Activation& a, int) {
  return a.push_result(builtin(a, "__build_class__", PyExc_NameError).release());
}

Step setup_annotations(Activation& a, int) {
  PyObject* locals = a.frame->f_locals;
  if (!locals) {
    PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
    return Step::error;
  }
  const Ref name = Ref::steal(PyUnicode_InternFromString("__annotations__"));
  if (!name) return Step::error;
  if (PyDict_CheckExact(locals)) {
    if (PyDict_GetItemWithError(locals, name.get())) return Step::next;
    if (PyErr_Occurred()) return Step::error;
  } else {
    const Ref present = Ref::steal(PyObject_GetItem(locals, name.get()));
    if (present) return Step::next;
    if (!PyErr_ExceptionMatches(PyExc_KeyError)) return Step::error;
    PyErr_Clear();
  }
  const Ref annotations = Ref::steal(PyDict_New());
  if (!annotations) return Step::error;
  return Activation::check(PyObject_SetItem(locals, name.get(), annotations.get()));
}

Step print_expr(Activation& a, int) {
  const Value value = a.pop();
  PyObject* hook = PySys_GetObject("displayhook");
  if (!hook) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return Step::error;
  }
  const Ref held = Ref::borrow(hook);
  const Ref result = Ref::steal(PyObject_CallOneArg(hook, value.get()));
  return result ? Step::next : Step::error;
}

}  // namespace braze::interpreter
