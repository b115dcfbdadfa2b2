// python/interpreter/watch/lru_cache.h: what functools.lru_cache keeps, read without counting as a use
// (Modules/_functoolsmodule.c).
#pragma once

#include <Python.h>

#include <string_view>

#include "python/guards/ref.h"

namespace braze::interpreter {

class LruCache {
 public:
  /// \param object  an object of exactly the type that functools.lru_cache makes.
  explicit LruCache(PyObject* object) : object_(reinterpret_cast<Object*>(object)) {}

  /// The layout is the one that is known here, and something is kept.
  bool is_understood() const {
    return Py_TYPE(object_)->tp_basicsize == sizeof(Object) && object_->cache &&
           PyDict_CheckExact(object_->cache) && object_->maxsize != 0 && object_->keyword_mark &&
           Py_IS_TYPE(object_->keyword_mark, &PyBaseObject_Type);
  }

  PyObject* entries() const { return object_->cache; }

  /// The key for these arguments, the last ones of which are named. Null without memory.
  guards::Ref key(PyObject* const* arguments, Py_ssize_t count, PyObject* names) const {
    using guards::Ref;
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0, positional = count - named;
    if (!object_->typed && !named && count == 1 &&
        (PyUnicode_CheckExact(arguments[0]) || PyLong_CheckExact(arguments[0])))
      return Ref::borrow(arguments[0]);
    Ref key = Ref::steal(PyTuple_New(count + (named ? named + 1 : 0) + (object_->typed ? count : 0)));
    Py_ssize_t at = 0;
    const auto put = [&](PyObject* item) { PyTuple_SET_ITEM(key.get(), at++, Py_NewRef(item)); };
    if (!key) return key;
    for (Py_ssize_t i = 0; i < positional; ++i) put(arguments[i]);
    if (named) put(object_->keyword_mark);
    for (Py_ssize_t i = 0; i < named; ++i) put(PyTuple_GET_ITEM(names, i)), put(arguments[positional + i]);
    for (Py_ssize_t i = 0; object_->typed && i < count; ++i)
      put(reinterpret_cast<PyObject*>(Py_TYPE(arguments[i])));
    return key;
  }

  /// The result in an entry of entries(). Null if the entry is of another kind.
  PyObject* result(PyObject* entry) const {
    if (object_->maxsize < 0) return entry;
    const bool is_link = std::string_view(Py_TYPE(entry)->tp_name) == "functools._lru_list_elem" &&
                         Py_TYPE(entry)->tp_basicsize == sizeof(Link);
    return is_link ? reinterpret_cast<Link*>(entry)->result : nullptr;
  }

 private:
  struct Link {
    PyObject_HEAD Link *previous, *next;
    Py_hash_t hash;
    PyObject *key, *result;
  };
  struct Object {
    Link root;
    PyObject* (*wrapper)(PyObject*, PyObject*, PyObject*);
    int typed;
    PyObject* cache;
    Py_ssize_t hits;
    PyObject* function;
    Py_ssize_t maxsize;  ///< Negative: no limit, and entries are results.
    Py_ssize_t misses;
    PyObject* keyword_mark;
    PyTypeObject* link_type;
    PyObject *info_type, *dict, *weak_references;
  };
  Object* object_;
};

}  // namespace braze::interpreter
