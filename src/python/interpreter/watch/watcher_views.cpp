// python/interpreter/watch/watcher_views.cpp: views of dicts, proxies of mappings, and keys of what the run makes.
#include <opcode.h>

#include "python/guards/scalar.h"
#include "python/guards/source.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

/// The dict behind a view that the run made, or behind a proxy. Null for all else.
PyObject* Watcher::dict_behind(PyObject* view) {
  const guards::Source* root = Py_IS_TYPE(view, &PyDictProxy_Type) ? values_.source_of(view) : nullptr;
  while (root && root->parent) root = root->parent;
  if (root && root->kind == guards::SourceKind::argument) return nullptr;  // Another one at each call.
  if (root) {
    // An older proxy: it is the same one on later calls, and goes on standing for the same dict.
    PyObject* mapping = mapping_of_proxy(view);
    if (!mapping || !is_exact_dict(mapping) || !values_.pin(view)) return nullptr;
    if (!values_.is_known(mapping))
      values_.learn(mapping, values_.sources().object(mapping, "a dict by its proxy"));
    return mapping;
  }
  if (!values_.is_made(view)) return nullptr;
  if (PyDictViewSet_Check(view) || PyDictValues_Check(view))
    return reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(view)->dv_dict);
  if (!Py_IS_TYPE(view, &PyDictProxy_Type)) return nullptr;
  PyObject* mapping = mapping_of_proxy(view);
  return mapping && PyDict_Check(mapping) && values_.is_known(mapping) ? mapping : nullptr;
}

/// `item in view`. Of keys it is what the dict says, the others are compared one after the other.
bool Watcher::view_contains(PyObject* view, PyObject* dict, PyObject* item) {
  if (PyDictKeys_Check(view) || Py_IS_TYPE(view, &PyDictProxy_Type)) return contains(dict, item);
  return (values_.open(dict) && is_data(dict) && is_data(item) && values_.absorb(dict) && values_.absorb(item)) ||
         abandon("`in` the values of a dict of objects", dict);
}

/// `&`, `|`, `-` and `^` of the keys of a dict: its values do not matter. False, and no abandonment, for anything
/// else.
bool Watcher::combines_keys(PyObject* left, PyObject* right, int operation) {
  if (operation != NB_AND && operation != NB_OR && operation != NB_SUBTRACT && operation != NB_XOR) return false;
  const auto dict_of_keys = [this](PyObject* view) {
    PyObject* dict = PyDictKeys_Check(view) ? dict_behind(view) : nullptr;
    return dict && has_scalar_keys(dict) ? dict : nullptr;
  };
  if (!dict_of_keys(left) && !dict_of_keys(right)) return false;
  for (PyObject* operand : {left, right}) {
    if (PyObject* dict = dict_of_keys(operand))
      values_.iterate_dict(dict);
    else if (!is_data(operand) || !values_.absorb(operand))
      return abandon("an operand", operand);
  }
  return true;
}

/// A key that a dict or set of the run's own is asked for, or given: by value, by address, or as Python code says,
/// which is watched.
bool Watcher::hashes(PyObject* key) {
  const auto raise = [this](Entry entry) {
    activities_.back().entry = std::max(activities_.back().entry, entry);
    return true;
  };
  if (guards::is_scalar(key) || values_.tensors().is_plain(key)) return true;
  if (!values_.is_known(key)) return abandon("a key of unknown origin", key);
  if (values_.tensors().is_tensor(key)) return raise(Entry::tensor);
  if (PyTuple_CheckExact(key)) {
    if (!values_.open(key)) return abandon("a key that cannot be guarded", key);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!hashes(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  if (is_derived_scalar(key)) return values_.absorb(key) || abandon("a key that hashes itself", key);
  if (guards::is_plain_key(key) && keep_special(key, {"__hash__", "__eq__"})) return values_.pin(key);
  const bool in_python = special_function(key, "__hash__") &&
                         (special_function(key, "__eq__") ||
                          (Py_TYPE(key)->tp_richcompare == PyBaseObject_Type.tp_richcompare && values_.pin(key)));
  return (!abandoned_ && in_python && keep_special(key, {"__eq__"}) && raise(Entry::known)) ||
         abandon("a key that is no scalar", key);
}

}  // namespace braze::interpreter
