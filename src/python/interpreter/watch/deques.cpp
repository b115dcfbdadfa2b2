// python/interpreter/watch/deques.cpp
#include "python/interpreter/watch/deques.h"

#include <string>
#include <string_view>

#include "python/guards/deque.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// Methods that read nothing but how many items there are.
const Names& moving_methods() {
  static const Names names = {"append", "appendleft", "pop", "popleft", "clear", "rotate", "reverse", "insert"};
  return names;
}

bool has_limit(PyObject* deque) {
  const Ref most = Ref::steal(PyObject_GetAttrString(deque, "maxlen"));
  return !most || most.get() != Py_None;
}

}  // namespace

bool Deques::call_deque(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  static const Names adding = {"append", "appendleft", "extend", "extendleft", "clear"};
  const bool is_known = adding.contains(name) ? values_.is_known(self) : values_.open(self);
  if (!is_known) return abandon("a deque that cannot be guarded", self);
  const bool extends = (name == "extend" || name == "extendleft") && count == 1;
  if (name == "copy" && count == 0) return allow_made_result();
  if (name == "count" || name == "index")
    return absorb_all(&self, 1, nullptr) && absorb_all(arguments, count, nullptr);
  if (name == "remove" && count == 1 && (!is_data(arguments[0]) || !is_data_deque(self)))
    return abandon("an object is removed from a deque", self);
  if (name == "remove" && count == 1 && values_.is_made(self))
    return absorb_all(&self, 1, nullptr) && absorb_all(arguments, count, nullptr);
  if (extends && values_.is_made(self)) return watch_.containers.iterate(arguments[0]);
  const bool changes = extends || moving_methods().contains(name) || name == "remove";
  if (!changes) return abandon("a method that is not understood", self);
  return values_.is_made(self) || change_deque(name, self, arguments, count);
}

/// Items are data: comparing them runs no code.
bool Deques::is_data_deque(PyObject* deque) const {
  for (Py_ssize_t i = 0; i < Py_SIZE(deque); ++i)
    if (!is_data(guards::deque_item(deque, i))) return false;
  return true;
}

bool Deques::store_in_deque(PyObject* deque, PyObject* key, PyObject* value) {
  if (!values_.open(deque)) return abandon("a deque that cannot be guarded", deque);
  if (values_.is_made(deque)) return operand(key, "an index of unknown origin");
  if (!PyLong_CheckExact(key)) return abandon("a place in a deque that is no number", deque);
  const Py_ssize_t place = PyLong_AsSsize_t(key);
  if (PyErr_Occurred()) PyErr_Clear();
  if (place >= Py_SIZE(deque) || place < -Py_SIZE(deque)) return true;
  if (!lets_go(deque, values_.source_of(deque), true)) return false;
  values_.effects().change_deque(deque, "__setitem__", {key, value});
  return true;
}

/// A deque that existed before the call.
bool Deques::change_deque(std::string_view name, PyObject* deque, PyObject* const* arguments, Py_ssize_t count) {
  if (run_.keyword_names) return abandon("a deque is changed with keywords", deque);
  const bool may_drop =
      has_limit(deque) || name == "pop" || name == "popleft" || name == "clear" || name == "remove";
  if (may_drop && !lets_go(deque, values_.source_of(deque), true)) return false;
  Effects& effects = values_.effects();
  if (name == "extend" || name == "extendleft") {
    PyObject* items = arguments[0];
    if ((!PyList_CheckExact(items) && !PyTuple_CheckExact(items)) || !values_.is_known(items) ||
        !values_.open(items))
      return abandon("a deque is extended by what is no list or tuple", items);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i)
      effects.change_deque(deque, name == "extend" ? "append" : "appendleft", {PySequence_Fast_GET_ITEM(items, i)});
    return true;
  }
  const bool has_number = (name == "rotate" || name == "insert") && count > 0;
  if (has_number && !PyLong_CheckExact(arguments[0])) return abandon("a place in a deque that is no number", deque);
  // Where the method raises, it changes nothing.
  if ((name == "pop" || name == "popleft") && Py_SIZE(deque) == 0) return true;
  if (name == "insert" && has_limit(deque)) return abandon("an item is inserted into a deque with a limit", deque);
  if (name == "remove" && PySequence_Contains(deque, arguments[0]) != 1) return true;
  const Py_ssize_t wanted = name == "insert"                                               ? 2
                            : name == "append" || name == "appendleft" || name == "remove" ? 1
                                                                                           : 0;
  if (count != wanted && !(name == "rotate" && count == 1)) return true;  // A TypeError.
  effects.change_deque(deque, std::string(name).c_str(), {arguments, arguments + count});
  return true;
}

}  // namespace braze::interpreter
