// python/interpreter/watch/given.cpp
#include "python/interpreter/watch/given.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "python/guards/scalar.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// Classes and functions that do nothing with items but give them to a function, and order them by what it says.
const Names& names_of_those_handing_on() {
  static const Names names = {"filter",
                              "map",
                              "max",
                              "min",
                              "sorted",
                              "itertools.accumulate",
                              "itertools.dropwhile",
                              "itertools.filterfalse",
                              "itertools.groupby",
                              "itertools.takewhile"};
  return names;
}

/// Of several functions that are called with the same arguments.
Does stricter(Does a, Does b) {
  if (a == Does::unknown || b == Does::unknown) return Does::unknown;
  return std::max(a, b);
}

/// sys.set_int_max_str_digits() says whether int() takes such a text, itself or in a list.
bool has_long_text(PyObject* value) {
  constexpr Py_ssize_t most = 640;
  if (PyUnicode_Check(value) || PyBytes_Check(value)) return guards::length_of(value) > most;
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
  PyObject** const items = PySequence_Fast_ITEMS(value);
  return std::any_of(items, items + PySequence_Fast_GET_SIZE(value), has_long_text);
}

}  // namespace

Given::Items Given::items_given_to(std::string_view name) {
  return names_of_those_handing_on().contains(name) ? Items::handed_on : Items::looked_into;
}

/// A method of a builtin type written in C, bound to `self` or found in the class.
Does Given::what_method_does(PyObject* self, PyTypeObject* type, PyObject* name) {
  const TensorWorld& tensors = values_.tensors();
  if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(tensors.tensor_type()), type) && type != &PyBaseObject_Type)
    return tensors.may_call_method(name) ? Does::computes : Does::unknown;
  if (type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyLong_Type || type == &PyFloat_Type ||
      type == &PyBool_Type || type == &PyComplex_Type)
    return Does::writes_text;
  for (PyTypeObject* storage :
       {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PyODict_Type, &PySet_Type, &PyFrozenSet_Type}) {
    if (type != storage) continue;
    const Does does = what_container_method_does(type, text_of(name));
    // What the run made is made again as it is in the end.
    const bool may_change =
        self && values_.is_made(self) && is_builtin_container(self) && !values_.is_constant(self);
    return does == Does::changes && may_change ? Does::computes : does;
  }
  return Does::unknown;
}

/// What happens when C code calls `callable`. Nothing if it is no function, or a Python function that is watched
/// then.
std::optional<Does> Given::what_given_does(PyObject* callable) {
  const TensorWorld& tensors = values_.tensors();
  if (guards::is_scalar(callable) || is_builtin_container(callable) || tensors.is_tensor(callable))
    return std::nullopt;
  if (tensors.may_call(callable)) return Does::computes;
  const bool is_known = values_.is_known(callable);
  if (PyFunction_Check(callable) && is_known) return std::nullopt;
  if (Py_IS_TYPE(callable, &PyMethod_Type) && is_known) {
    if (!watch_.calls.learn_method(callable)) return Does::unknown;
    return what_given_does(PyMethod_GET_FUNCTION(callable));
  }
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    if (!self || PyModule_Check(self))
      return is_known ? what_function_does(module_of(callable), name) : Does::unknown;
    const Ref text =
        Ref::steal(PyUnicode_FromString(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name));
    return text ? what_bound_does(self, text.get()) : Does::unknown;
  }
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
    const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    const Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    return name && self ? what_bound_does(self.get(), name.get()) : Does::unknown;
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type))
    return what_method_does(nullptr, PyDescr_TYPE(callable), PyDescr_NAME(callable));
  if (!PyCallable_Check(callable)) return std::nullopt;
  if (!is_known) return Does::unknown;
  if (PyType_Check(callable) && is_exact_builtin(reinterpret_cast<PyTypeObject*>(callable)))
    return what_class_does(reinterpret_cast<PyTypeObject*>(callable)->tp_name);
  if (is_a(callable, "functools.partial")) return what_partial_does(callable);
  if (is_a(callable, "operator.itemgetter")) return Does::computes;
  return Does::unknown;
}

/// A method that is bound to an object: what it reads there is guarded.
Does Given::what_bound_does(PyObject* self, PyObject* name) {
  if (PyType_Check(self)) return Does::unknown;
  if (!values_.is_known(self) || !absorb(values_, self)) return Does::unknown;
  watch_.sizes.settle_tensors_within(self);
  PyTypeObject* type = storage_type(self);
  if (type && type != Py_TYPE(self)) return Does::unknown;  // A subclass may have its say.
  if (values_.tensors().is_tensor(self)) type = reinterpret_cast<PyTypeObject*>(values_.tensors().tensor_type());
  return what_method_does(self, type ? type : Py_TYPE(self), name);
}

/// A partial calls its function with more arguments than C code gives it.
std::optional<Does> Given::what_partial_does(PyObject* partial) {
  guards::Ref parts[3];
  if (!watch_.partials.open_partial(partial, parts)) return Does::unknown;
  const std::optional<Does> does = what_given_does(parts[0].get());
  if (!does) return does;
  watch_.sizes.settle_tensors_within(partial);
  values_.numbers().settle_sizes_within(partial);
  const auto holds = [&](PyObject* value) {
    return absorb(values_, value) && (*does != Does::writes_text || is_data(value));
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts[1].get()); ++i)
    if (!holds(PyTuple_GET_ITEM(parts[1].get(), i))) return Does::unknown;
  Py_ssize_t at = 0;
  PyObject *name, *value;
  while (PyDict_Next(parts[2].get(), &at, &name, &value))
    if (!holds(value)) return Does::unknown;
  return does;
}

namespace {

bool gives_what_lies_there(PyObject* value);

/// All iterators that a zip or an enumerate goes through are such.
bool are_parts_alike(PyObject* value) {
  const visitproc visit = [](PyObject* part, void*) {
    if (PyTuple_CheckExact(part)) {  // Of a zip; its results are tuples, too.
      PyObject** const items = PySequence_Fast_ITEMS(part);
      return std::any_of(items, items + PyTuple_GET_SIZE(part),
                         [](PyObject* one) { return Py_TYPE(one)->tp_iternext && !gives_what_lies_there(one); })
                 ? 1
                 : 0;
    }
    return Py_TYPE(part)->tp_iternext && !gives_what_lies_there(part) ? 1 : 0;
  };
  return Py_TYPE(value)->tp_traverse(value, visit, nullptr) == 0;
}

/// Its items lie in a list or tuple, or are numbers or one object: C code finds them there, and asks nobody.
bool gives_what_lies_there(PyObject* value) {
  if (Py_IS_TYPE(value, &PyListIter_Type) || Py_IS_TYPE(value, &PyTupleIter_Type) ||
      Py_IS_TYPE(value, &PyListRevIter_Type) || Py_IS_TYPE(value, &PyRangeIter_Type))
    return true;
  if (is_a(value, "itertools.repeat") || is_a(value, "itertools.count"))
    return true;  // Guarded when they were made.
  if (Py_IS_TYPE(value, &PyZip_Type) || Py_IS_TYPE(value, &PyEnum_Type)) return are_parts_alike(value);
  if (!Py_IS_TYPE(value, &PyReversed_Type)) return false;
  const Ref reduced = Ref::steal(PyObject_CallMethod(value, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  PyObject* parts = reduced && PyTuple_Check(reduced.get()) ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
  PyObject* behind = parts && PyTuple_GET_SIZE(parts) == 1 ? PyTuple_GET_ITEM(parts, 0) : nullptr;
  return behind && (PyTuple_CheckExact(behind) || PyList_CheckExact(behind) || is_a(behind, "torch.Size"));
}

}  // namespace

/// Of numbers, which may be sizes that vary.
static bool computes_numbers(PyObject* callable) {
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyFloat_Type))
    return true;
  const auto function = function_of_module(callable);
  if (!function) return false;
  return function->module == "math" || function->module == "_operator" ||
         (function->module == "builtins" && (function->name == "abs" || function->name == "round"));
}

/// In the place of a function that no row tells about, or that may be given sizes, and that is to be called with
/// items, code in Python that calls it, where C code finds it.
bool Given::put_caller(std::string_view callee, PyObject* const* arguments, Py_ssize_t count) {
  static const Names callees = {
      "map", "filter", "itertools.dropwhile", "itertools.filterfalse", "itertools.starmap", "itertools.takewhile"};
  if (count < 1 || !callees.contains(callee) || !watch_.partials.are_on_stack(arguments)) return true;
  PyObject*& slot = const_cast<PyObject**>(arguments)[0];
  const bool makes_numbers = values_.tensors().sizes().has_sizes() && computes_numbers(slot);
  const bool goes_by_python =
      slot != Py_None && std::any_of(arguments + 1, arguments + count,
                                     [&](PyObject* value) { return watch_.iterables.goes_by_python(value); });
  const bool is_python = calls_python(slot);
  if ((makes_numbers || (goes_by_python && !is_python) || what_given_does(slot) == Does::unknown) &&
      values_.is_known(slot))
    watch_.stand_ins.put_caller(slot);
  return !abandoned();
}

bool Given::absorb_given(PyObject* const* arguments, Py_ssize_t count, Items items) {
  if (!watch_.partials.put_getters(arguments, count)) return false;
  std::optional<Does> does;
  bool any_python = false;
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* value = arguments[i];
    const bool is_python = calls_python(value);
    const std::optional<Does> own = what_given_does(value);
    if (abandoned()) return false;
    any_python |= is_python;
    if (own == Does::changes) return abandon("a C function is given one that changes objects", value);
    if (own == Does::unknown) return abandon("a C function is given one that is not understood", value);
    if (own)
      does = does ? stricter(*does, *own) : *own;
    else if (!is_python && !is_a(value, "functools.partial"))
      values.push_back(value);
  }
  for (PyObject* value : values) {
    if (items == Items::handed_on && any_python && !does && hands_on(value)) continue;
    if (abandoned()) return false;
    if (does != Does::writes_text && maps_by_python(value)) {
      run_.hands_to_c |= does.has_value();
      run_.looks_lazily |= does.has_value();
      continue;
    }
    const bool goes_through = does || items == Items::handed_on;
    if (PyObject* dict = goes_through ? watch_.instances.keys_of(value) : nullptr; dict && has_scalar_keys(dict)) {
      const Ref keys = Ref::steal(PySequence_Tuple(value));  // C code is given these alone.
      if (!keys) throw std::bad_alloc();
      if (has_long_text(keys.get())) return abandon("a text of so many characters is given to a C function");
      if (!watch_.containers.iterate(value)) return false;
      run_.hands_to_c = true;
      continue;
    }
    // All that it gives is looked at when it does.
    if (run_.looks_lazily && !does && !storage_type(value) && watch_.iterables.goes_by_python(value)) {
      if (!watch_.containers.iterate(value)) return false;
      continue;
    }
    if (!absorb(values_, value))
      return abandon("a C function is given an object whose parts are not guarded", value);
    const bool is_plain = guards::is_scalar(value) || is_builtin_container(value) || PyTuple_Check(value) ||
                          PyRange_Check(value) || values_.tensors().is_tensor(value) ||
                          (values_.is_made(value) && gives_what_lies_there(value));
    // What a generator of this run gives is looked at when it gives it.
    const bool is_watched = does == Does::computes && PyGen_CheckExact(value);
    if (does && !is_plain && !is_watched)
      return abandon("a C function is given to another, with more than containers");
    if (does == Does::writes_text && !is_data(value) && !PyRange_Check(value))
      return abandon("text or a set of objects", value);
    if (does) watch_.sizes.settle_tensors_within(value);  // What is called reads them.
    run_.hands_to_c |= does.has_value();
    if (does && has_long_text(value)) return abandon("a text of so many characters is given to a C function");
  }
  return true;
}

/// A Python function, or a partial of one: it is watched when it is called.
bool Given::calls_python(PyObject* callable) {
  if (is_a(callable, "functools.partial")) {
    const Ref function = Ref::steal(PyObject_GetAttrString(callable, "func"));
    return function && values_.is_made(callable) && calls_python(function.get());
  }
  return (PyFunction_Check(callable) || Py_IS_TYPE(callable, &PyMethod_Type)) && values_.is_known(callable);
}

/// A `map` of this run by Python code. What it gives is guarded when that code gives it.
bool Given::maps_by_python(PyObject* value) {
  if (!Py_IS_TYPE(value, &PyMap_Type) || !values_.is_made(value)) return false;
  const Ref reduced = Ref::steal(PyObject_CallMethod(value, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  return reduced && calls_python(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0));
}

/// An object, or the items of a container, that a C function only gives to a Python function: what is read of them
/// is read there. False, and no abandonment, for what must be looked into.
bool Given::hands_on(PyObject* value) {
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value))
    return values_.is_known(value) && watch_.containers.iterate(value);
  if (PyDictItems_Check(value) || PyDictValues_Check(value)) {
    PyObject* dict = watch_.views.dict_behind(value);
    if (!dict || !has_scalar_keys(dict) || !values_.is_known(dict) || !values_.open(dict)) return false;
    values_.iterate_dict(dict);
    return true;
  }
  if (watch_.iterables.goes_by_python(value)) return watch_.containers.iterate(value);
  // What an iterator of this run goes through was opened for it.
  if (Py_IS_TYPE(value, &PyListIter_Type) || Py_IS_TYPE(value, &PyTupleIter_Type)) return values_.is_made(value);
  return values_.is_known(value) && !Py_TYPE(value)->tp_iter && !Py_TYPE(value)->tp_iternext &&
         !values_.tensors().is_tensor(value);
}

/// functools.reduce() with an operator that changes its left operand: that is what it begins with.
bool Given::reduces_in_place(PyObject* const* arguments, Py_ssize_t count) {
  if (count < 2 || count > 3 || what_given_does(arguments[0]) != Does::changes) return false;
  if (!PyCFunction_Check(arguments[0]) || module_of(arguments[0]) != "_operator" ||
      *reinterpret_cast<PyCFunctionObject*>(arguments[0])->m_ml->ml_name != 'i')
    return false;
  PyObject* first = count == 3 ? arguments[2] : nullptr;
  if (!first && (PyList_CheckExact(arguments[1]) || PyTuple_CheckExact(arguments[1])))
    first = PySequence_Fast_GET_SIZE(arguments[1]) > 0 ? PySequence_Fast_GET_ITEM(arguments[1], 0) : Py_None;
  if (!first) return false;
  return guards::is_scalar(first) || PyTuple_CheckExact(first) || values_.tensors().is_tensor(first) ||
         (values_.is_made(first) && is_builtin_container(first));
}

bool Given::call_reduce(PyObject* const* arguments, Py_ssize_t count) {
  const bool in_place = reduces_in_place(arguments, count);
  if (abandoned()) return false;
  return absorb_given(arguments + in_place, count - in_place, Items::handed_on) && allow(Entry::tensor) && looks();
}

}  // namespace braze::interpreter
