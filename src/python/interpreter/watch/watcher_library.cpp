// python/interpreter/watch/watcher_library.cpp: functions of the standard library that are known as a whole.
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
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

/// The dict in which functools.lru_cache keeps results. Null if it keeps none.
PyObject* cache_of(PyObject* wrapper) {
  PyObject** const attributes = _PyObject_GetDictPtr(wrapper);
  PyObject* cache = nullptr;
  for_each_referent(wrapper, [&](PyObject* referent) {
    if (PyDict_CheckExact(referent) && !(attributes && *attributes == referent)) cache = referent;
  });
  return cache;
}

/// The key under which it keeps the result for these arguments, if types do not count.
Ref key_of(PyObject* const* arguments, Py_ssize_t count) {
  if (count == 1 && (PyUnicode_CheckExact(arguments[0]) || PyLong_CheckExact(arguments[0])))
    return Ref::borrow(arguments[0]);
  Ref key = Ref::steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; key && i < count; ++i) PyTuple_SET_ITEM(key.get(), i, Py_NewRef(arguments[i]));
  return key;
}

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
    while (PyDict_Next(mapping, &at, &name, &parameter)) values_.make(parameter);
  });
}

/// What functools.lru_cache keeps for plain arguments stays as it is until the cache drops it: guarded is the
/// entry, and not what the function would compute now. What is not there yet is computed at once, as it would be
/// natively; no operators are recorded. The cache's own counts of hits differ from eager's.
bool Watcher::call_cached(PyObject* wrapper, PyObject* const* arguments, Py_ssize_t count) {
  if (!values_.pin(wrapper)) return abandon("a function of unknown origin", wrapper);
  if (keyword_names_) return abandon("a call with keywords of a function that has a cache", wrapper);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!guards::is_scalar(arguments[i])) return abandon("an object given to a function that has a cache", wrapper);
  const Ref result = Ref::steal(values_.tensors().call_for_real(wrapper, arguments, count));
  PyErr_Clear();
  PyObject* cache = cache_of(wrapper);
  const Ref key = key_of(arguments, count);
  if (!result || !guards::is_scalar(result.get()) || !cache || !key)
    return abandon("a function with a cache of another kind", wrapper);
  PyObject* kept = PyDict_GetItemWithError(cache, key.get());
  if (!kept) {
    PyErr_Clear();
    return abandon("a function with a cache of another kind", wrapper);
  }
  guards::SourceTable& sources = values_.sources();
  values_.guards().identity(sources.dict_item(sources.object(cache, "the cache of a function"), key.get()), kept);
  return true;
}

}  // namespace braze::interpreter
