// python/compile/rebuild_iterators.cpp: builtin iterators, as far as they have come.
#include <algorithm>
#include <string_view>

#include "python/compile/rebuild_parts.h"
#include "python/guards/iterators.h"
#include "python/guards/referents.h"
#include "python/guards/storage_access.h"

namespace braze::python {

using guards::first_referent;
using guards::Ref;

namespace {

/// Iterators whose `__reduce__` says all that they are: `type(*parts)`.
bool reduces_to_call(PyTypeObject* type) {
  return type == &PyEnum_Type || type == &PyZip_Type || type == &PyMap_Type || type == &PyFilter_Type;
}

/// Of itertools, likewise, but for what chain and islice say of their state. Versions of CPython in which these are
/// classes on the heap warn of `__reduce__`.
bool is_lazy(PyTypeObject* type) {
  static constexpr std::string_view names[] = {"itertools.chain", "itertools.count", "itertools.islice",
                                               "itertools.repeat"};
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::ranges::find(names, type->tp_name) != std::end(names);
}

bool is_sequence_iterator(PyTypeObject* type) {
  return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyRangeIter_Type ||
         type == &PyListRevIter_Type;
}

/// One row a kind of iterator over a dict: the view that it goes through.
struct DictIterator {
  PyTypeObject* type;
  const char* method;
};
constexpr DictIterator dict_iterators[] = {{&PyDictIterKey_Type, "keys"},
                                           {&PyDictIterValue_Type, "values"},
                                           {&PyDictIterItem_Type, "items"},
                                           {&PyODictIter_Type, "items"}};

const char* dict_iterator_method(PyTypeObject* type) {
  for (const DictIterator& row : dict_iterators)
    if (row.type == type) return row.method;
  return nullptr;
}

/// In the same order. The very objects.
bool has_same_keys(PyObject* a, PyObject* b) {
  if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
  Py_ssize_t at_a = 0, at_b = 0;
  PyObject *key_a, *key_b;
  while (PyDict_Next(a, &at_a, &key_a, nullptr))
    if (!PyDict_Next(b, &at_b, &key_b, nullptr) || key_a != key_b) return false;
  return true;
}

}  // namespace

bool is_iterator_in_flight(PyTypeObject* type) {
  return reduces_to_call(type) || is_lazy(type) || is_sequence_iterator(type) || dict_iterator_method(type);
}

Rebuilder::Node Rebuilder::dict_iterator(PyObject* iterator) {
  PyObject* dict = first_referent(iterator);
  const bool is_ordered = Py_IS_TYPE(iterator, &PyODictIter_Type);
  const guards::IteratorKind kind = guards::iterator_kind(iterator);
  if (is_ordered && kind == guards::IteratorKind::none)
    refuse("an iterator over keys, values or backwards", iterator);
  const Py_ssize_t left =
      is_ordered ? guards::items_left(iterator, PY_SSIZE_T_MAX) : PyObject_LengthHint(iterator, -1);
  if (!dict || left < 0) refuse("an iterator that has ended", iterator);
  if (!(is_ordered ? PyODict_CheckExact(dict) : PyDict_CheckExact(dict)))
    refuse("an iterator over a dict of a subclass", dict);
  // One whose dict got other keys meanwhile raises, or goes by places that a new one would not have.
  const bool stands = kind == guards::IteratorKind::none || guards::items_left(iterator, PY_SSIZE_T_MAX) == left;
  const bool changed =
      values_.effects().changed(dict) && (is_ordered || !has_same_keys(values_.effects().before(dict), dict));
  if (!stands || changed) refuse("an iterator over a dict that has changed", iterator);
  const char* method = dict_iterator_method(Py_TYPE(iterator));
  auto* type = reinterpret_cast<PyObject*>(is_ordered ? &PyODict_Type : &PyDict_Type);
  const Ref unbound = taken(PyObject_GetAttrString(type, method), iterator);
  const Node view = call(unbound.get(), node_of(dict));
  return builder_.iterator(view, static_cast<uint32_t>(PyDict_GET_SIZE(dict) - left));
}

/// An iterator of itertools, of what its `__reduce__` tells.
struct Rebuilder::Lazy {
  Rebuilder& rebuilder;
  PyObject* iterator;

  Node node(PyObject* parts, PyObject* state) const;

 private:
  Node chain(PyObject* state) const;
  void own(PyObject* holder) const;
};

/// The iterators in a tuple are the iterator's own.
void Rebuilder::Lazy::own(PyObject* holder) const {
  interpreter::Values& values = rebuilder.values_;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(holder); ++i) {
    PyObject* one = PyTuple_GET_ITEM(holder, i);
    if (!is_iterator_in_flight(Py_TYPE(one)) || values.is_known(one)) continue;
    values.make(one);
    // What chain was given, in a tuple of the call.
    PyObject* const tuple = Py_IS_TYPE(one, &PyTupleIter_Type) ? first_referent(one) : nullptr;
    if (tuple && !values.is_known(tuple)) values.make(tuple);
  }
}

/// The iterator that gives items now, and then those that the other one gives.
Rebuilder::Node Rebuilder::Lazy::chain(PyObject* state) const {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(iterator));
  if (!PyTuple_Check(state)) return rebuilder.builder_.call(type, {});
  own(state);
  const Ref joins = taken(PyObject_GetAttrString(type, "from_iterable"), iterator);
  const Node later = rebuilder.call(joins.get(), rebuilder.node_of(PyTuple_GET_ITEM(state, 0)));
  if (PyTuple_GET_SIZE(state) < 2) return later;
  const Node all[] = {rebuilder.node_of(PyTuple_GET_ITEM(state, 1)), later};
  return rebuilder.builder_.call(type, all);
}

Rebuilder::Node Rebuilder::Lazy::node(PyObject* parts, PyObject* state) const {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(iterator));
  own(parts);
  if (std::string_view(Py_TYPE(iterator)->tp_name) == "itertools.chain") return chain(state);
  if (!PyLong_CheckExact(state)) return rebuilder.builder_.call(type, rebuilder.nodes_of(parts));
  // Of islice: places are counted from where the iterator behind it is now.
  std::vector<Node> arguments{rebuilder.node_of(PyTuple_GET_ITEM(parts, 0))};
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(parts); ++i) {
    PyObject* const number = PyTuple_GET_ITEM(parts, i);
    const bool is_place = i < 3 && number != Py_None;
    const Ref counted = is_place ? taken(PyNumber_Subtract(number, state), iterator) : Ref::borrow(number);
    arguments.push_back(rebuilder.constant(counted.get()));
  }
  return rebuilder.builder_.call(type, arguments);
}

Rebuilder::Node Rebuilder::iterator(PyObject* iterator) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (dict_iterator_method(type)) return dict_iterator(iterator);
  const Ref reduced = taken(PyObject_CallMethod(iterator, "__reduce__", nullptr), iterator);
  hold(reduced.get());
  PyObject* parts = PyTuple_GET_ITEM(reduced.get(), 1);
  PyObject* state = PyTuple_GET_SIZE(reduced.get()) > 2 ? PyTuple_GET_ITEM(reduced.get(), 2) : Py_None;
  if (reduces_to_call(type)) {
    // The iterators that it took from its arguments are its own.
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i)
      if (is_iterator_in_flight(Py_TYPE(PyTuple_GET_ITEM(parts, i)))) values_.make(PyTuple_GET_ITEM(parts, i));
    std::vector<Node> arguments = nodes_of(parts);
    if (state != Py_True) return builder_.call(reinterpret_cast<PyObject*>(type), arguments);
    const Ref strict = taken(Py_BuildValue("(s)", "strict"), iterator);
    arguments.push_back(constant(Py_True));
    return builder_.call(reinterpret_cast<PyObject*>(type), arguments, strict.get());
  }
  if (is_lazy(type)) return Lazy{*this, iterator}.node(parts, state);
  Py_ssize_t at = state == Py_None ? 0 : PyLong_AsSsize_t(state);
  PyObject* sequence = PyTuple_GET_ITEM(parts, 0);
  const Py_ssize_t length = PySequence_Size(sequence);
  if (length < 0 || at > length || length > UINT32_MAX) refuse("an iterator that has ended", iterator);
  // A replay makes it before it changes the list, and an iterator that comes to an end stays there.
  if (values_.effects().changed(sequence) &&
      (type == &PyListRevIter_Type || at > PyObject_Size(values_.effects().before(sequence))))
    refuse("an iterator over a list that has changed", iterator);
  if (!values_.is_known(sequence) && length == 0) values_.make(sequence);  // Ended: the sequence is a stand-in.
  if (type == &PyRangeIter_Type) {
    const Ref rest = taken(PySequence_GetSlice(sequence, at, length), iterator);
    hold(rest.get());
    return builder_.iterator(range(rest.get()), 0);
  }
  if (type != &PyListRevIter_Type) return builder_.iterator(node_of(sequence), static_cast<uint32_t>(at));
  const Node reversed = call(&PyReversed_Type, node_of(sequence));
  return builder_.iterator(reversed, static_cast<uint32_t>(length - 1 - at));
}

}  // namespace braze::python
