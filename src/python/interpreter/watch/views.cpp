// python/interpreter/watch/views.cpp
#include "python/interpreter/watch/views.h"

#include <opcode.h>

#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

PyObject* Views::dict_behind(PyObject* view) {
  const guards::Source* root = Py_IS_TYPE(view, &PyDictProxy_Type) ? values_.source_of(view) : nullptr;
  while (root && root->parent) root = root->parent;
  if (root && is_of_call(*root)) return nullptr;  // Another one at each call.
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

bool Views::view_contains(PyObject* view, PyObject* dict, PyObject* item) {
  if (PyDictKeys_Check(view) || Py_IS_TYPE(view, &PyDictProxy_Type)) return watch_.containers.contains(dict, item);
  return (values_.open(dict) && is_data(dict) && is_data(item) && absorb(values_, dict) && absorb(values_, item)) ||
         abandon("`in` the values of a dict of objects", dict);
}

bool Views::combines_keys(PyObject* left, PyObject* right, int operation) {
  if (operation != NB_AND && operation != NB_OR && operation != NB_SUBTRACT && operation != NB_XOR) return false;
  const auto dict_of_keys = [this](PyObject* view) {
    PyObject* dict = PyDictKeys_Check(view) ? dict_behind(view) : nullptr;
    return dict && has_scalar_keys(dict) ? dict : nullptr;
  };
  if (!dict_of_keys(left) && !dict_of_keys(right)) return false;
  for (PyObject* operand : {left, right}) {
    if (PyObject* dict = dict_of_keys(operand))
      values_.iterate_dict(dict);
    else if (!is_data(operand) || !absorb(values_, operand))
      return abandon("an operand", operand);
  }
  return true;
}

}  // namespace braze::interpreter
