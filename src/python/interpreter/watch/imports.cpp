// python/interpreter/watch/imports.cpp
#include "python/interpreter/watch/imports.h"

#include <optional>
#include <string>

#include "python/interpreter/activation.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

bool has_all(PyObject* dict, PyObject* names) {
  if (!PyTuple_CheckExact(names)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (!PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(names, i))) return false;
  return true;
}

}  // namespace

/// The whole name of a module that code names from where it stands: `from ..models import x`. Nothing if it is not
/// known.
std::optional<std::string> Imports::imported_name(Frame* frame, PyObject* name, PyObject* level) {
  const long levels = PyLong_Check(level) ? PyLong_AsLong(level) : -1;
  const std::string given(text_of(name));
  if (levels == 0) return given;
  PyObject* globals = frame->f_globals;
  const Ref key = Ref::steal(PyUnicode_InternFromString("__package__"));
  PyObject* package = key && PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, key.get()) : nullptr;
  guards::SourceTable& sources = values_.sources();
  std::string full(package && PyUnicode_CheckExact(package) ? text_of(package) : "");
  for (long i = 1; i < levels && !full.empty(); ++i) {
    const size_t dot = full.rfind('.');
    full.resize(dot == std::string::npos ? 0 : dot);
  }
  if (levels < 0 || full.empty() || values_.effects().wrote(globals, key.get()) ||
      !values_.learn(package, sources.dict_item(sources.object(globals, "G"), key.get()))) {
    abandon("a relative import", name);
    return std::nullopt;
  }
  return given.empty() ? full : full + "." + given;
}

bool Imports::import_module(Activation& a, int arg) {
  PyObject *name = a.name(arg), *from_list = a.peek(1), *level = a.peek(2);
  activity().is_quiet = true;
  guards::SourceTable& sources = values_.sources();
  PyObject* builtins = a.frame->f_builtins;
  PyObject* import = PyDict_CheckExact(builtins) ? PyDict_GetItemString(builtins, "__import__") : nullptr;
  if (!import || import != default_import(a.thread)) return abandon("an import that is replaced");
  PyObject* modules = PyImport_GetModuleDict();
  const guards::Source* source = sources.object(modules, "sys.modules");
  const std::optional<std::string> absolute = imported_name(a.frame, name, level);
  if (!absolute) return false;
  const std::string& full = *absolute;
  const bool is_relative = PyLong_AsLong(level) > 0;
  const std::string first(full.substr(0, full.find('.')));
  for (const std::string& part : {full, first}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(part.c_str()));
    PyObject* module = key ? PyDict_GetItemWithError(modules, key.get()) : nullptr;
    if (!module || !PyModule_Check(module)) return abandon("an import of a module that is not loaded", name);
    values_.learn(module, sources.dict_item(source, key.get()));
    if (from_list != Py_None && PyObject_HasAttrString(module, "__path__")) {
      // A name that is not there may be a module that this imports; of the others nothing is done.
      if (!has_all(PyModule_GetDict(module), from_list)) return abandon("an import of names from a package", name);
      allow(Entry::trusted);
    }
    if (is_relative) allow(Entry::trusted);  // The module's `__spec__` is asked for its parent.
    if (from_list != Py_None) break;
  }
  const Ref key = Ref::steal(PyUnicode_InternFromString("__import__"));
  return (key && values_.learn(import, sources.dict_item(sources.object(builtins, "builtins"), key.get()))) ||
         abandon(Break::no_memory);
}

}  // namespace braze::interpreter
