// python/interpreter/handlers_containers.cpp: building and unpacking containers.
#include "python/interpreter/handlers.h"

namespace braze::interpreter {

namespace {

bool is_iterable(PyObject* object) {
  return Py_TYPE(object)->tp_iter || PySequence_Check(object);
}

/// Replaces the error of a failed iteration when the object is no iterable at all. `format` has one %.200s.
void explain_not_iterable(PyObject* object, const char* format) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) || is_iterable(object)) return;
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, format, Py_TYPE(object)->tp_name);
}

/// Pops the topmost `count` values into a new tuple or list.
template <typename New, typename Set>
Step build_sequence(Activation& a, int count, New make, Set set) {
  Ref sequence = Ref::steal(make(count));
  if (!sequence) return Step::error;
  while (--count >= 0) set(sequence.get(), count, a.pop().object.release());
  a.push(std::move(sequence));
  return Step::next;
}

Step too_few_values(int expected, Py_ssize_t got, bool at_least) {
  PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %s%d, got %zd)",
               at_least ? "at least " : "", expected, got);
  return Step::error;
}

/// Reads `count` items so that the first ends on top: they are stored downwards from `slot`.
Step read_items(PyObject* iterator, int count, int expected, bool at_least, PyObject**& slot) {
  for (int i = 0; i < count; ++i) {
    PyObject* item = PyIter_Next(iterator);
    if (!item) return PyErr_Occurred() ? Step::error : too_few_values(expected, i, at_least);
    *--slot = item;
  }
  return Step::next;
}

/// Drops what was read into [first, last) before an error.
Step drop_items(PyObject** first, PyObject** last) {
  for (; first < last; ++first) Py_CLEAR(*first);
  return Step::error;
}

/// Unpacks any iterable through iter() and next(), like a for loop. `after` < 0: no starred target.
Step unpack_iterable(Activation& a, PyObject* iterable, int before, int after) {
  const Ref iterator = Ref::steal(PyObject_GetIter(iterable));
  if (!iterator) {
    explain_not_iterable(iterable, "cannot unpack non-iterable %.200s object");
    return Step::error;
  }
  const bool starred = after >= 0;
  const int count = starred ? before + 1 + after : before;
  PyObject** const end = a.top + count;
  PyObject** slot = end;
  if (read_items(iterator.get(), before, starred ? before + after : before, starred, slot) != Step::next)
    return drop_items(slot, end);
  if (starred) {
    Ref rest = Ref::steal(PySequence_List(iterator.get()));
    if (!rest) return drop_items(slot, end);
    const Py_ssize_t length = PyList_GET_SIZE(rest.get());
    if (length < after) {
      too_few_values(before + after, before + length, true);
      return drop_items(slot, end);
    }
    PyObject* list = rest.release();
    *--slot = list;
    for (int i = after; i > 0; --i) *--slot = PyList_GET_ITEM(list, length - i);
    Py_SET_SIZE(list, length - after);
  } else if (const Ref extra = Ref::steal(PyIter_Next(iterator.get()))) {
    PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    return drop_items(slot, end);
  } else if (PyErr_Occurred()) {
    return drop_items(slot, end);
  }
  a.top = end;
  return Step::next;
}

}  // namespace

Step build_tuple(Activation& a, int arg) {
  return build_sequence(a, arg, PyTuple_New, [](PyObject* t, int i, PyObject* v) { PyTuple_SET_ITEM(t, i, v); });
}

Step build_list(Activation& a, int arg) {
  return build_sequence(a, arg, PyList_New, [](PyObject* l, int i, PyObject* v) { PyList_SET_ITEM(l, i, v); });
}

Step build_set(Activation& a, int arg) {
  Ref set = Ref::steal(PySet_New(nullptr));
  if (!set) return Step::error;
  for (int depth = arg; depth > 0; --depth)
    if (PySet_Add(set.get(), a.peek(depth)) < 0) return Step::error;
  a.drop(arg);
  a.push(std::move(set));
  return Step::next;
}

Step build_map(Activation& a, int arg) {
  Ref map = Ref::steal(_PyDict_NewPresized(arg));
  if (!map) return Step::error;
  for (int depth = 2 * arg; depth > 0; depth -= 2)
    if (PyDict_SetItem(map.get(), a.peek(depth), a.peek(depth - 1)) < 0) return Step::error;
  a.drop(2 * arg);
  a.push(std::move(map));
  return Step::next;
}

Step build_const_key_map(Activation& a, int arg) {
  const Value keys = a.pop();
  Ref map = Ref::steal(_PyDict_NewPresized(arg));
  if (!map) return Step::error;
  for (int i = 0; i < arg; ++i)
    if (PyDict_SetItem(map.get(), PyTuple_GET_ITEM(keys.get(), i), a.peek(arg - i)) < 0) return Step::error;
  a.drop(arg);
  a.push(std::move(map));
  return Step::next;
}

Step build_string(Activation& a, int arg) {
  const Ref empty = Ref::steal(PyUnicode_New(0, 0));
  PyObject* joined = _PyUnicode_JoinArray(empty.get(), a.top - arg, arg);
  a.drop(arg);
  return a.push_result(joined);
}

// The container that a comprehension or display fills lies `arg` below the value.
Step list_append(Activation& a, int arg) {
  const Value value = a.pop();
  return Activation::check(PyList_Append(a.peek(arg), value.get()));
}

Step set_add(Activation& a, int arg) {
  const Value value = a.pop();
  return Activation::check(PySet_Add(a.peek(arg), value.get()));
}

Step map_add(Activation& a, int arg) {
  const Value value = a.pop(), key = a.pop();
  return Activation::check(PyDict_SetItem(a.peek(arg), key.get(), value.get()));
}

Step list_extend(Activation& a, int arg) {
  const Value iterable = a.pop();
  const Ref none = Ref::steal(_PyList_Extend(reinterpret_cast<PyListObject*>(a.peek(arg)), iterable.get()));
  if (none) return Step::next;
  explain_not_iterable(iterable.get(), "Value after * must be an iterable, not %.200s");
  return Step::error;
}

Step set_update(Activation& a, int arg) {
  const Value iterable = a.pop();
  return Activation::check(_PySet_Update(a.peek(arg), iterable.get()));
}

Step dict_update(Activation& a, int arg) {
  const Value mapping = a.pop();
  if (PyDict_Update(a.peek(arg), mapping.get()) == 0) return Step::next;
  if (PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(mapping.get())->tp_name);
  return Step::error;
}

Step list_to_tuple(Activation& a, int) {
  const Value list = a.pop();
  return a.push_result(PyList_AsTuple(list.get()));
}

// The first item ends on top. Exact tuples and lists of the right length are copied; anything else is iterated, so
// that a user's __iter__ runs once and in order.
Step unpack_sequence(Activation& a, int arg) {
  const Value sequence = a.pop();
  PyObject* object = sequence.get();
  const bool is_exact = PyTuple_CheckExact(object) || PyList_CheckExact(object);
  if (!is_exact || PySequence_Fast_GET_SIZE(object) != arg) return unpack_iterable(a, object, arg, -1);
  for (int i = arg; i-- > 0;) a.push_borrowed(PySequence_Fast_GET_ITEM(object, i));
  return Step::next;
}

// first, *rest, last = ...: the low byte counts the targets before the starred one, the rest those after it.
Step unpack_ex(Activation& a, int arg) {
  const Value sequence = a.pop();
  return unpack_iterable(a, sequence.get(), arg & 0xFF, arg >> 8);
}

}  // namespace braze::interpreter
