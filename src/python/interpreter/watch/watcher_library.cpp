// python/interpreter/watch/watcher_library.cpp: functions of the standard library that are known as a whole.
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/lru_cache.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

template <typename Visit>
void for_each_referent(PyObject* object, Visit&& visit) {
  const visitproc call = [](PyObject* referent, void* visit) {
    (*static_cast<std::remove_reference_t<Visit>*>(visit))(referent);
    return 0;
  };
  Py_TYPE(object)->tp_traverse(object, call, &visit);
}

/// In place of a C function that the run must not call: gives what it is bound to, whatever the arguments are.
PyObject* give_self(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  return Py_NewRef(self);
}

/// Called by a replay with a function, the names of its last arguments or None, and its arguments.
PyObject* use_cached(PyObject*, PyObject* const* given, Py_ssize_t count) {
  PyObject* names = given[1] == Py_None ? nullptr : given[1];
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  return PyObject_Vectorcall(given[0], given + 2, static_cast<size_t>(count - 2 - named), names);
}

bool has_all(PyObject* dict, PyObject* names) {
  if (!PyTuple_CheckExact(names)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (!PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(names, i))) return false;
  return true;
}

PyMethodDef give_self_method = {"give_self", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(give_self)),
                                METH_FASTCALL | METH_KEYWORDS, nullptr};
PyMethodDef use_cached_method = {"use_cached", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(use_cached)),
                                 METH_FASTCALL, nullptr};

/// inspect.signature itself.
bool is_signature(PyObject* function) {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  if (PyUnicode_CompareWithASCIIString(object->func_qualname, "signature") != 0) return false;
  PyObject* inspect = PyDict_GetItemString(PyImport_GetModuleDict(), "inspect");
  return inspect && PyModule_Check(inspect) && PyModule_GetDict(inspect) == object->func_globals;
}

}  // namespace

bool Watcher::calls_signature(PyObject* function, Py_ssize_t count) const {
  return count == 1 && is_signature(function);
}

/// inspect.signature() of a Python function reads its code and defaults, which are guarded, its annotations, and
/// the attributes with which decorators lead it elsewhere.
bool Watcher::call_signature(PyObject* function) {
  if (Py_IS_TYPE(function, &PyMethod_Type)) {
    if (!learn_method(function)) return false;
    function = PyMethod_GET_FUNCTION(function);
  }
  if (!PyFunction_Check(function) || !values_.is_known(function))
    return abandon("the signature of an object of this kind", function);
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (dict && PyDict_GET_SIZE(dict) > 0) return abandon("the signature of a function with attributes", function);
  const guards::Source* source = values_.source_of(function);
  activities_.back().entry = Entry::trusted;
  activities_.back().makes_result = true;
  activities_.back().makes_signature = true;
  activities_.back().is_quiet = true;
  if (!source) return true;
  guards::SourceTable& sources = values_.sources();
  for (const char* name : {"__signature__", "__wrapped__", "__text_signature__"})
    values_.guards().absent(sources.attribute(source, name));
  // signature() asks for them, and a function without annotations is given an empty dict then.
  const Ref annotations = Ref::steal(PyObject_GetAttrString(function, "__annotations__"));
  const guards::Source* entries = sources.member(source, guards::Member::function_annotations);
  return (annotations && PyDict_CheckExact(annotations.get()) && values_.learn(annotations.get(), entries) &&
          values_.open(annotations.get())) ||
         abandon("annotations that cannot be guarded", function);
}

/// The parameters of a signature that was just made, which functions that nobody watched have put together.
void Watcher::make_signature(PyObject* signature) {
  const Ref parameters = Ref::steal(PyObject_GetAttrString(signature, "_parameters"));
  if (!parameters) return PyErr_Clear();
  values_.make(parameters.get());
  for_each_referent(parameters.get(), [&](PyObject* mapping) {
    if (!PyDict_Check(mapping)) return;
    values_.make(mapping);
    Py_ssize_t at = 0;
    PyObject *name, *parameter;
    while (PyDict_Next(mapping, &at, &name, &parameter)) {
      values_.make(parameter);
      // A member of an enum, which is the same in every run.
      const Ref kind = Ref::steal(PyObject_GetAttrString(parameter, "_kind"));
      if (kind) values_.learn(kind.get(), values_.sources().object(kind.get(), "the kind of a parameter"));
    }
  });
}

/// isinstance() or issubclass() with an abstract base class. It keeps the answer until a class is registered
/// somewhere; what it asks of the classes to find it does not count any more.
bool Watcher::check_abstract(PyObject* type, PyObject* subject, bool is_instance) {
  values_.guards().abc_registrations();
  if (!values_.is_known(type) || !values_.is_known(subject))
    return abandon("isinstance with an object of unknown origin", subject);
  PyObject* own = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__class__");
  if (is_instance && class_entry(reinterpret_cast<PyObject*>(Py_TYPE(subject)), "__class__") != own)
    return abandon("isinstance with an object that says its class itself", subject);
  if (!keep_class_of(subject)) return false;
  activities_.back().is_quiet = true;
  return keep_in_class(type, class_source(type), {"__subclasshook__"}) && allow(Entry::trusted);
}

/// What functools.lru_cache keeps stays as it is until the cache drops it: guarded is the entry, and not what the
/// function would compute now. The run takes the result out of it, and a replay calls the cached function, which is
/// a use like any other: the order in which entries are dropped and the counts are eager's. What is not there yet
/// has the function called, whose effects are its own: the call runs natively, and the next one finds it.
bool Watcher::call_cached(PyObject* wrapper, PyObject* const* arguments, Py_ssize_t count) {
  if (!values_.pin(wrapper)) return abandon("a function of unknown origin", wrapper);
  const LruCache cache(wrapper);
  if (!callee_ || !cache.is_understood()) return abandon("a function with a cache of another kind", wrapper);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!guards::is_plain_key(arguments[i]) || !is_cache_key(arguments[i]))
      return abandon("an object given to a function that has a cache", wrapper);
  const guards::Ref key = cache.key(arguments, count, keyword_names_);
  if (!key || !guards::has_plain_keys(cache.entries()))
    return abandon("a function with a cache of another kind", wrapper);
  PyObject* kept = PyDict_GetItemWithError(cache.entries(), key.get());
  if (!kept) {
    PyErr_Clear();
    is_for_later_ = true;
    return abandon("a function whose cache has no result yet", wrapper);
  }
  PyObject* result = cache.result(kept);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* entry =
      sources.dict_item(sources.object(cache.entries(), "the cache of a function"), key.get());
  values_.guards().identity(entry, kept);
  const guards::Source* source = result == kept ? entry : sources.object(result, "a result in a cache");
  if (!result || !values_.learn(result, source))
    return abandon("a result in a cache that cannot be guarded", result);
  static PyObject* const use = PyCFunction_New(&use_cached_method, nullptr);  // Kept for good.
  PyObject* answer = PyCFunction_New(&give_self_method, result);
  if (!use || !answer) return abandon("no memory");
  values_.effects().call(use, wrapper, keyword_names_ ? keyword_names_ : Py_None, {arguments, arguments + count});
  Py_SETREF(*callee_, answer);
  return allow(Entry::none);
}

/// Later calls are given an equal one: scalars and dtypes, tuples of such and of objects that are the same ones.
bool Watcher::is_cache_key(PyObject* argument) {
  if (!values_.is_known(argument)) return false;
  if (guards::is_scalar(argument) || values_.tensors().is_plain(argument)) return true;
  if (PyTuple_Check(argument)) {
    if (is_data(argument)) return values_.absorb(argument);
    if (!values_.open(argument)) return false;
    PyObject** const items = PySequence_Fast_ITEMS(argument);
    return std::all_of(items, items + PyTuple_GET_SIZE(argument),
                       [this](PyObject* one) { return is_cache_key(one); });
  }
  const guards::Source* source = values_.source_of(argument);
  // The guard on the entry holds the key, and so the argument.
  if (source) values_.guards().identity(source, argument, guards::Hold::strong);
  values_.keep_protocols(argument);
  return source != nullptr;
}

/// The whole name of a module that code names from where it stands: `from ..models import x`. Nothing if it is not
/// known.
std::optional<std::string> Watcher::imported_name(Frame* frame, PyObject* name, PyObject* level) {
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

/// Of a module that is loaded: what sys.modules holds. Packages are asked for the names that are imported from
/// them, by code that is not understood.
bool Watcher::import_module(Activation& a, int arg) {
  PyObject *name = a.name(arg), *from_list = a.peek(1), *level = a.peek(2);
  activities_.back().is_quiet = true;
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
    if (!values_.learn(module, sources.dict_item(source, key.get()))) return abandon("an import", name);
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
         abandon("an import", name);
}

}  // namespace braze::interpreter
