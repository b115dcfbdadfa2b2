// python/interpreter/watch/cached_functions.cpp: calls of what functools.lru_cache makes.
#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/addresses.h"
#include "python/interpreter/watch/library.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/lru_cache.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr Py_ssize_t most_entries = 256;  // Each of which Python code may be asked about.

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

template <typename Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef give_self_method = {"give_self", as_method(give_self), METH_FASTCALL | METH_KEYWORDS, nullptr};
PyMethodDef use_cached_method = {"use_cached", as_method(use_cached), METH_FASTCALL, nullptr};

constexpr const char* capsule_name = "braze.cached_call";

/// A call whose key hashes and compares by Python code: the instruction looks it up, as the cached function would,
/// so that this code is watched.
struct CachedCall {
  Library& library;
  guards::Ref wrapper, key;
};

PyObject* find_cached(PyObject* capsule, PyObject* const*, Py_ssize_t, PyObject*) {
  auto* call = static_cast<CachedCall*>(PyCapsule_GetPointer(capsule, capsule_name));
  return call ? call->library.find_cached(call->wrapper.get(), call->key.get()) : nullptr;
}

PyMethodDef find_cached_method = {"find_cached", as_method(find_cached), METH_FASTCALL | METH_KEYWORDS, nullptr};

/// The key of the entry that dicts would find, borrowed; null, maybe with a Python error, if there is none.
PyObject* find_key(PyObject* entries, PyObject* key) {
  const Py_hash_t hash = PyObject_Hash(key);
  if (hash == -1) return nullptr;
  Py_ssize_t at = 0;
  Py_hash_t own_hash;
  PyObject *own, *value;
  while (_PyDict_Next(entries, &at, &own, &value, &own_hash)) {
    if (own_hash != hash) continue;
    const guards::Ref held = guards::Ref::borrow(own);
    const int is_equal = PyObject_RichCompareBool(own, key, Py_EQ);
    if (is_equal != 0) return is_equal > 0 ? own : nullptr;
  }
  return nullptr;
}

}  // namespace

bool Library::call_cached(PyObject* wrapper, PyObject* const* arguments, Py_ssize_t count) {
  if (!values_.pin(wrapper)) return abandon("a function of unknown origin", wrapper);
  const LruCache cache(wrapper);
  if (!run_.callee || !cache.is_understood()) return abandon("a function with a cache of another kind", wrapper);
  const guards::Ref key = cache.key(arguments, count, run_.keyword_names);
  const bool is_plain = key && std::all_of(arguments, arguments + count, guards::is_plain_key) &&
                        guards::has_plain_keys(cache.entries());
  if (!is_plain) return key && watch_key(wrapper, key.get(), arguments, count);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!is_cache_key(arguments[i])) return abandon("an object given to a function that has a cache", wrapper);
  PyObject* kept = guards::entry_of_key(cache.entries(), key.get());
  if (!kept) {
    run_.is_for_later = true;
    return abandon("a function whose cache has no result yet", wrapper);
  }
  PyObject* result = learn_cached(wrapper, key.get(), kept);
  PyObject* answer = result ? PyCFunction_New(&give_self_method, result) : nullptr;
  if (!result || !answer) return result && abandon("no memory");
  use(wrapper, arguments, count);
  Py_SETREF(*run_.callee, answer);
  return allow(Entry::none);
}

/// Has the call's instruction look the key up. What the keys in the cache hold, and Python code may read, is known.
bool Library::watch_key(PyObject* wrapper, PyObject* key, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* entries = LruCache(wrapper).entries();
  if (PyDict_GET_SIZE(entries) > most_entries) return abandon("a function with a cache of another kind", wrapper);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!watch_.containers.hashes(arguments[i])) return false;
  const auto learn_key = [&](PyObject* own) {
    if (guards::is_scalar(own) || values_.tensors().is_plain(own)) return true;
    if (values_.tensors().is_tensor(own) || PyWeakref_Check(own)) return false;
    if (!values_.is_known(own) && !values_.learn(own, values_.sources().object(own, "a key of a cache")))
      return false;
    // Which of the arguments are objects in the cache decides whether they are compared.
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (guards::is_scalar(arguments[i])) continue;
      if (arguments[i] == own && !values_.pin(own)) return false;
      values_.tell_apart(arguments[i]);
      values_.tell_apart(own);
    }
    return watch_.containers.hashes(own);
  };
  Py_ssize_t at = 0;
  PyObject *own, *value;
  while (PyDict_Next(entries, &at, &own, &value)) {
    const bool all =
        PyTuple_CheckExact(own)
            ? std::all_of(PySequence_Fast_ITEMS(own), PySequence_Fast_ITEMS(own) + PyTuple_GET_SIZE(own), learn_key)
            : learn_key(own);
    if (!all) return !abandoned() && abandon("an object given to a function that has a cache", wrapper);
  }
  auto call = std::make_unique<CachedCall>(CachedCall{*this, Ref::borrow(wrapper), Ref::borrow(key)});
  const Ref capsule = Ref::steal(PyCapsule_New(call.get(), capsule_name, [](PyObject* self) {
    delete static_cast<CachedCall*>(PyCapsule_GetPointer(self, capsule_name));
  }));
  if (capsule) call.release();
  PyObject* function = capsule ? PyCFunction_New(&find_cached_method, capsule.get()) : nullptr;
  if (!function) return abandon("no memory");
  use(wrapper, arguments, count);
  Py_SETREF(*run_.callee, function);
  return allow(Entry::known);
}

PyObject* Library::find_cached(PyObject* wrapper, PyObject* key) {
  try {
    const LruCache cache(wrapper);
    const size_t before = values_.effects().count();
    PyObject* own = find_key(cache.entries(), key);
    if (!own && PyErr_Occurred()) return nullptr;
    PyObject* kept = own ? guards::entry_of_object(cache.entries(), own) : nullptr;
    PyObject* result = kept ? learn_cached(wrapper, own, kept) : nullptr;
    if (!kept) {
      run_.is_for_later = true;
      abandon("a function whose cache has no result yet", wrapper);
    } else if (values_.effects().count() != before) {
      abandon("a key that hashes itself", wrapper);  // The replay's use would do it again.
    }
    return Py_NewRef(result && !abandoned() ? result : Py_None);
  } catch (const std::exception& error) {
    abandon(BreakReason::told(error.what()));
    return Py_NewRef(Py_None);
  }
}

/// The result in an entry, and that it stays there. Null, and abandoned, if that cannot be guarded.
PyObject* Library::learn_cached(PyObject* wrapper, PyObject* key, PyObject* kept) {
  const LruCache cache(wrapper);
  PyObject* result = cache.result(kept);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* entry = sources.dict_item(sources.object(cache.entries(), "the cache of a function"), key);
  values_.guards().identity(entry, kept);
  const guards::Source* source = result == kept ? entry : sources.object(result, "a result in a cache");
  if (result && values_.learn(result, source)) return result;
  abandon("a result in a cache that cannot be guarded", result);
  return nullptr;
}

void Library::use(PyObject* wrapper, PyObject* const* arguments, Py_ssize_t count) {
  static PyObject* const use = PyCFunction_New(&use_cached_method, nullptr);  // Kept for good.
  values_.effects().call(use, wrapper, run_.keyword_names ? run_.keyword_names : Py_None,
                         {arguments, arguments + count});
}

/// Later calls are given an equal one: scalars and dtypes, tuples of such and of objects that are the same ones.
bool Library::is_cache_key(PyObject* argument) {
  if (!values_.is_known(argument)) return false;
  if (holds_address(values_, argument)) return false;
  if (guards::is_scalar(argument) || values_.tensors().is_plain(argument)) return true;
  if (PyTuple_Check(argument)) {
    if (is_data(argument)) return absorb(values_, argument);
    values_.keep_protocols(argument);
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

}  // namespace braze::interpreter
