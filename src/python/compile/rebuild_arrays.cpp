// python/compile/rebuild_arrays.cpp: how a replay makes arrays of NumPy's.
#include <algorithm>
#include <string>
#include <vector>

#include "python/compile/rebuild.h"
#include "python/guards/array.h"
#include "python/guards/scalar.h"
#include "python/interpreter/watch/traced_arrays.h"

namespace braze::python {

using guards::Ref;

namespace {

/// Unwraps what a C function gave.
Ref taken(PyObject* owned, PyObject* about) {
  if (owned) return Ref::steal(owned);
  PyErr_Clear();
  throw NotRebuilt{"an object that does not tell what it is made of: " + guards::describe(about)};
}

/// What a view was made by, and of: a function, an array, and places that a replay can make again.
bool is_understood(const interpreter::Values& values, PyObject* value, int depth = 0) {
  constexpr int deepest = 3;
  if (depth > deepest) return false;
  if (PyTuple_CheckExact(value)) {
    PyObject** const items = PySequence_Fast_ITEMS(value);
    return std::all_of(items + (depth == 0 ? 1 : 0), items + PyTuple_GET_SIZE(value),
                       [&](PyObject* item) { return is_understood(values, item, depth + 1); });
  }
  return guards::is_scalar(value) || value == Py_Ellipsis || interpreter::is_traced_array(value) ||
         (PySlice_Check(value) && values.is_known(value));
}

}  // namespace

/// What owns its memory is copied; a view is made of what that is copied to, or of an older array.
Rebuilder::Node Rebuilder::array(PyObject* array) {
  if (PyObject* traced = values_.arrays().computed(array)) return node_of(traced);
  if (!values_.arrays().may_rebuild(array))
    throw NotRebuilt{"an array whose memory a tensor shares, or that is read-only: " + guards::describe(array)};
  PyObject* root = interpreter::ArrayMemory::root_of(array);
  if (root == array) {
    const Ref order = taken(PyUnicode_FromString("K"), array);  // Its strides, too.
    const Ref kept = taken(PyObject_CallMethod(array, "copy", "O", order.get()), array);
    const Ref copy = taken(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(array)), "copy"), array);
    const Node arguments[] = {constant(kept.get()), constant(order.get())};
    return builder_.call(copy.get(), arguments);
  }
  const guards::ArrayParts parts = guards::parts_of_array(array);
  const Ref sizes = taken(PyObject_GetAttrString(array, "shape"), array);
  const Ref strides = taken(PyObject_GetAttrString(array, "strides"), array);
  const Ref offset = taken(PyLong_FromSsize_t(parts.data - guards::parts_of_array(root).data), array);
  const Node arguments[] = {constant(sizes.get()), constant(parts.dtype), node_of(root), constant(offset.get()),
                            constant(strides.get())};
  return builder_.call(reinterpret_cast<PyObject*>(Py_TYPE(array)), arguments);
}

/// What the graph has computed: the numpy() of its tensor, or what lies there for a number.
Rebuilder::Node Rebuilder::traced_array(PyObject* array) {
  const Ref given = taken(PyObject_GetAttrString(array, "_given"), array);
  if (given.get() != Py_None) return node_of(given.get());
  if (const Ref number = interpreter::number_behind(array)) {
    const Ref type = taken(PyObject_GetAttrString(array, "_type"), array);
    hold(number.get());
    return call(type.get(), node_of(number.get()));
  }
  const Ref origin = taken(PyObject_GetAttrString(array, "_origin"), array);
  if (PyTuple_CheckExact(origin.get()) && is_understood(values_, origin.get())) {
    hold(origin.get());
    std::vector<Node> parts;
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(origin.get()); ++i)
      parts.push_back(node_of(PyTuple_GET_ITEM(origin.get(), i)));
    return builder_.call(PyTuple_GET_ITEM(origin.get(), 0), parts);
  }
  const Ref tensor = taken(PyObject_GetAttrString(array, "_tensor"), array);
  const Ref shows = taken(PyObject_GetAttrString(values_.tensors().tensor_type(), "numpy"), array);
  hold(tensor.get());
  const Node shown = call(shows.get(), node_of(tensor.get()));
  if (!interpreter::is_traced_number(array)) return shown;
  const Ref operators = taken(PyImport_ImportModule("_operator"), array);
  const Ref subscript = taken(PyObject_GetAttrString(operators.get(), "getitem"), array);
  const Ref whole = taken(PyTuple_New(0), array);
  const Node arguments[] = {shown, constant(whole.get())};
  return builder_.call(subscript.get(), arguments);
}

}  // namespace braze::python
