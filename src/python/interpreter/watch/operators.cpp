// python/interpreter/watch/operators.cpp
#include "python/interpreter/watch/operators.h"

#include <opcode.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "python/guards/array.h"
#include "python/guards/deque.h"
#include "python/guards/scalar.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/special_names.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// A heap class, or not, that leaves an operation to `object` itself.
bool has_default_truth(PyTypeObject* type) {
  const bool number = type->tp_as_number && type->tp_as_number->nb_bool;
  const bool sequence = type->tp_as_sequence && type->tp_as_sequence->sq_length;
  const bool mapping = type->tp_as_mapping && type->tp_as_mapping->mp_length;
  return !number && !sequence && !mapping;
}

/// An object whose class was made by a class statement, and no tensor.
bool has_own_class(PyObject* object, const TensorWorld& tensors) {
  return is_changeable(Py_TYPE(object)) && !tensors.is_tensor(object) && !guards::is_scalar(object);
}

/// Two builtin containers whose items go into a third one, or into the first, as they are.
bool joins(PyObject* left, PyObject* right, int operation) {
  switch (operation % NB_INPLACE_ADD) {
    case NB_ADD:
      return (PyList_CheckExact(left) && PyList_CheckExact(right)) ||
             (PyTuple_CheckExact(left) && PyTuple_CheckExact(right));
    case NB_OR: return PyDict_CheckExact(left) && PyDict_CheckExact(right);
    default: return false;
  }
}

/// A class whose metaclass makes a union of it and another with `|`, as `type` does.
bool leaves_or_to_type(PyObject* object) {
  if (!PyType_Check(object)) return false;
  auto* meta = reinterpret_cast<PyObject*>(Py_TYPE(object));
  auto* type = reinterpret_cast<PyObject*>(&PyType_Type);
  return class_entry(meta, "__or__") == class_entry(type, "__or__") &&
         class_entry(meta, "__ror__") == class_entry(type, "__ror__");
}

constexpr BreakReason own_operators = "an operand of unknown origin, or of a class with operators of its own";

}  // namespace

bool Operators::truth(PyObject* value) {
  if (guards::is_scalar(value)) return true;
  if (values_.tensors().is_tensor(value)) return abandon("a branch on the value of a tensor");
  if (Arrays::is_object(value)) return operand(value, "a branch on a value of unknown origin");
  const bool in_python =
      is_derived_scalar(value) && values_.is_known(value) &&
      (watch_.classes.special_function(value, "__bool__") || watch_.classes.special_function(value, "__len__"));
  if (is_derived_scalar(value) && !in_python && absorb(values_, value)) return true;
  if (guards::is_deque(value)) return values_.open(value) || abandon("a deque that cannot be guarded", value);
  if (PyRange_Check(value) && values_.is_known(value)) return true;  // Its numbers are guarded.
  if (watch_.classes.acts_as_builtin(value, "__len__") && watch_.classes.keep_special(value, {"__bool__"})) {
    const guards::Source* source = values_.source_of(value);
    if (source && values_.effects().changed(value))
      return values_.open(value) || abandon("a container that cannot be guarded", value);
    if (source) values_.guards().length(source, static_cast<size_t>(guards::length_of(value)));
    return source || values_.is_made(value) || abandon("a branch on a value of unknown origin", value);
  }
  if (values_.is_known(value) &&
      (watch_.classes.special_function(value, "__bool__") || watch_.classes.special_function(value, "__len__")))
    return watch_.classes.keep_special(value, {"__bool__"}) && allow(Entry::known);
  if (values_.is_known(value) && has_default_truth(Py_TYPE(value)))
    return watch_.classes.keep_special(value, {"__bool__", "__len__"});
  return abandon("a branch on an object that decides its truth itself", value);
}

bool Operators::call_operator(std::string_view name, PyObject* const* arguments, Py_ssize_t count) {
  using As = OperatorRow::As;
  const OperatorRow* row = operator_row(name);
  if (!row || run_.keyword_names)
    return watch_.given.absorb_given(arguments, count) && allow_made_result(Entry::tensor) && looks();
  const bool is_unary = row->as == As::unary || row->as == As::truth;
  if (row->as == As::call)
    return count > 0 ? watch_.calls.call(arguments[0], arguments + 1, count - 1)
                     : allow(Entry::none);                                                // A TypeError.
  if (count != (is_unary ? 1 : row->as == As::store ? 3 : 2)) return allow(Entry::none);  // Likewise.
  switch (row->as) {
    case As::binary: return binary(arguments[0], arguments[1], row->operation);
    case As::comparison: return comparison(arguments[0], arguments[1], row->operation);
    case As::unary: return unary(arguments[0], row->method);
    case As::contains: return watch_.containers.contains(arguments[0], arguments[1]);
    case As::subscript: return watch_.containers.subscript(arguments[0], arguments[1]);
    case As::store: return watch_.containers.store_item(arguments[0], arguments[1], arguments[2]);
    case As::remove: return watch_.containers.delete_item(arguments[0], arguments[1]);
    case As::identity: return compare_identity(arguments[0], arguments[1]);
    case As::truth: return truth(arguments[0]);
    case As::call: break;
  }
  return false;
}

/// The method `name` of an operand, if its class has one: learnt if it is written in Python. Null if it is neither
/// that nor missing, nor object's own.
Operators::Method Operators::learn_operator(PyObject* operand, const std::string& name) {
  if (!has_own_class(operand, values_.tensors())) return Method::none;
  if (watch_.classes.special_function(operand, name.c_str())) return Method::python;
  PyObject* found = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(operand)), name.c_str());
  if (found && found != class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name.c_str()))
    return Method::other;
  return watch_.classes.keep_special(operand, {name.c_str()}) ? Method::none : Method::other;
}

/// A binary operator, in place or not, that the class of an operand has in Python: whichever of the methods is
/// asked, it is learnt. False, and no abandonment, if there is none, or C code has a say in it.
bool Operators::user_operator(PyObject* left, PyObject* right, int operation) {
  const std::string name = name_of_operator(operation);
  std::vector<std::pair<PyObject*, std::string>> asked = {{left, "__" + name + "__"}};
  if (!Py_IS_TYPE(right, Py_TYPE(left))) asked.emplace_back(right, "__r" + name + "__");
  if (operation >= NB_INPLACE_ADD) asked.insert(asked.begin(), {left, "__i" + name + "__"});
  return user_methods(left, right, asked);
}

/// A comparison, likewise.
bool Operators::user_comparison(PyObject* left, PyObject* right, int operation) {
  std::vector<std::pair<PyObject*, std::string>> asked = {
      {left, name_of_comparison(operation)}, {right, name_of_comparison(reflected_comparison(operation))}};
  if (operation == Py_NE) asked.insert(asked.end(), {{left, "__eq__"}, {right, "__eq__"}});
  if (!user_methods(left, right, asked)) return false;
  if (is_traced_array(left) || is_traced_array(right)) return true;  // Theirs answer.
  // What no method answers is decided by identity.
  return (operation != Py_EQ && operation != Py_NE) || compare_identity(left, right);
}

/// Text and builtin containers know nothing of such an object, which is asked instead.
bool Operators::leaves_it_to(PyObject* right) const {
  return has_own_class(right, values_.tensors()) && !storage_type(right);
}

static bool is_comparison(std::string_view method) {
  static const Names names = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
  return names.contains(method);
}

/// A builtin class answers NotImplemented where the other operand is not of its kind.
static bool compares_with_other_kind(PyObject* right, std::string_view method) {
  return is_comparison(method) && !storage_type(right) && !is_derived_scalar(right);
}

bool Operators::user_methods(PyObject* left, PyObject* right,
                             const std::vector<std::pair<PyObject*, std::string>>& asked) {
  bool any_own = false;
  // A tensor on the right has its say where the other's method does not answer: what it gives then is of unknown
  // origin.
  const auto comes_after = [&](PyObject* operand) {
    return operand == right && operand != left && values_.tensors().is_tensor(operand) &&
           has_own_class(left, values_.tensors()) && !asked.front().second.starts_with("__r") &&
           !is_comparison(asked.front().second) && learn_operator(left, asked.front().second) == Method::python &&
           watch_.classes.keep_special(left, {"__torch_function__"});  // Which the tensor asks for.
  };
  for (PyObject* operand : {left, right}) {
    const bool is_own = has_own_class(operand, values_.tensors());
    // Numbers and None leave it to the other, and so do text and containers on the right, or where what stands
    // there is compared with something of another kind; tensors look at it.
    const bool is_number = PyLong_CheckExact(operand) || PyFloat_CheckExact(operand) || PyBool_Check(operand) ||
                           PyComplex_CheckExact(operand);
    const bool is_text_or_container =
        guards::is_scalar(operand) || is_builtin_container(operand) || guards::is_deque(operand);
    const bool is_passive =
        is_number || operand == Py_None ||
        (is_text_or_container &&
         (operand == right || leaves_it_to(right) || compares_with_other_kind(right, asked.front().second))) ||
        (Arrays::is_object(operand) && is_traced_array(operand == left ? right : left)) || comes_after(operand);
    if (!values_.is_known(operand) || (!is_own && !is_passive)) return false;
    any_own |= is_own;
  }
  bool any_python = false;
  for (const auto& [operand, name] : asked) {
    if (!any_own) return false;
    const Method method = learn_operator(operand, name);
    if (method == Method::other) return false;
    any_python |= method == Method::python;
  }
  return any_python;
}

bool Operators::unary(PyObject* value, const char* method) {
  if (values_.is_known(value) && !guards::is_scalar(value) && !values_.tensors().is_tensor(value) &&
      watch_.classes.special_function(value, method))
    return allow(Entry::known);
  return !abandoned() && operands({value}, own_operators);
}

/// What has an addition of its own is asked for that before a list or deque is made longer by it.
static bool has_addition(PyObject* object) {
  const PyNumberMethods* number = Py_TYPE(object)->tp_as_number;
  return number && number->nb_add;
}

/// `list += iterable`: C code goes through something else than a list or tuple, such as a generator or the values
/// of a dict.
static bool goes_through(PyObject* left, PyObject* right, int operation) {
  return operation == NB_INPLACE_ADD && PyList_CheckExact(left) && !PyList_CheckExact(right) &&
         !PyTuple_CheckExact(right) && !has_addition(right);
}

/// `dict |= mapping` and `dict |= pairs` do what update() does, whatever the other says of `|`.
bool Operators::update_dict(PyObject* dict, PyObject* entries) {
  static PyObject* const update = interned("update");
  if (!values_.is_known(dict) || !update) return abandon("a dict that cannot be guarded", dict);
  run_.keyword_names = nullptr;
  if (!watch_.methods.call_method(update, dict, &entries, 1)) return false;
  activity().makes_result = false;
  return true;
}

bool Operators::binary(PyObject* left, PyObject* right, int operation) {
  if (is_traced_array(left) || is_traced_array(right))
    return watch_.traced_arrays.decides(left, right, operation >= NB_INPLACE_ADD) &&
           (user_operator(left, right, operation) ? allow(Entry::known) : !abandoned() && abandon(Break::numpy));
  if (guards::is_number_array(left) || guards::is_number_array(right))
    return watch_.arrays.binary(left, right, operation);
  const bool in_place = operation >= NB_INPLACE_ADD;
  const bool changes = in_place && is_builtin_container(left) && !PyTuple_CheckExact(left);
  const bool formats = PyUnicode_Check(left) && operation % NB_INPLACE_ADD == NB_REMAINDER;
  if (formats && !watch_.conversions.formats_as_data(right)) {
    const bool is_plain = PyUnicode_CheckExact(left) && text_of(left).find("%(") == std::string_view::npos;
    if (!abandoned() && is_plain && watch_.conversions.formats_by_methods(right))
      return allow_made_result(Entry::known) && looks();
    return !abandoned() && abandon("text is made of an object", right);
  }
  if (changes && PyList_CheckExact(left) && values_.source_of(left)) {
    if (operation == NB_INPLACE_ADD)
      return watch_.containers.extend(left, right) && (goes_through(left, right, operation) || allow(Entry::none));
    return watch_.containers.change_list(left) && operand(right, "an operand");
  }
  if (changes && PySet_CheckExact(left) && values_.source_of(left) && PyAnySet_CheckExact(right)) {
    const char* method = operation == NB_INPLACE_OR         ? "update"
                         : operation == NB_INPLACE_AND      ? "intersection_update"
                         : operation == NB_INPLACE_SUBTRACT ? "difference_update"
                         : operation == NB_INPLACE_XOR      ? "symmetric_difference_update"
                                                            : "";
    run_.keyword_names = nullptr;
    return watch_.containers.change_set(method, left, &right, 1);
  }
  if (operation == NB_INPLACE_OR && (PyDict_CheckExact(left) || PyODict_CheckExact(left)))
    return update_dict(left, right);
  if (operation == NB_INPLACE_ADD && guards::is_deque(left) && !has_addition(right))
    return watch_.deques.call_deque("extend", left, &right, 1);
  if (changes && !values_.is_made(left)) return abandon("a container that existed before is changed", left);
  if (goes_through(left, right, operation)) return watch_.containers.iterate(right);
  if (watch_.views.combines_keys(left, right, operation)) return allow_made_result();
  if (joins(left, right, operation)) {
    for (PyObject* part : {left, right}) {
      if (!values_.open(part)) return abandon("a container that cannot be guarded", part);
      if (PyDict_Check(part)) values_.iterate_dict(part);
    }
    return allow_made_result();
  }
  const auto fits = [this](PyObject* one) {
    return one == Py_None || (leaves_or_to_type(one) && values_.is_known(one));
  };
  if (operation == NB_OR && (left != Py_None || right != Py_None) && fits(left) && fits(right))
    return (left == Py_None || watch_.classes.keep_special(left, {"__or__"})) &&
           (right == Py_None || watch_.classes.keep_special(right, {"__ror__"})) && allow_made_result();
  if (abandoned()) return false;
  if (operation == NB_OR && watch_.generic_types.unites_types(left, right)) return true;
  if (user_operator(left, right, operation)) return allow(Entry::known);
  return !abandoned() && operands({left, right}, own_operators);
}

bool Operators::comparison(PyObject* left, PyObject* right, int operation) {
  if (is_traced_array(left) || is_traced_array(right))
    return watch_.traced_arrays.decides(left, right, false) &&
           (user_comparison(left, right, operation) ? allow(Entry::known) : !abandoned() && abandon(Break::numpy));
  const bool are_addresses =
      PyLong_CheckExact(left) && PyLong_CheckExact(right) && values_.is_address(left) && values_.is_address(right);
  if (are_addresses && (operation == Py_EQ || operation == Py_NE)) return true;
  if (compare(left, right, operation)) return true;
  const auto is_constant = [this](PyObject* one) {
    return guards::is_scalar(one) || (is_a(one, "re.Pattern") && values_.pin(one));
  };
  const bool by_pattern = is_a(left, "re.Pattern") || is_a(right, "re.Pattern");
  if (by_pattern && is_constant(left) && is_constant(right)) return allow_made_result();
  if (!abandoned() && compares_items(left, right, operation)) return compare_items(left, right, operation);
  if (!abandoned() && user_comparison(left, right, operation)) return allow(Entry::known);
  return !abandoned() && operands({left, right}, "a comparison with an object of unknown origin");
}

namespace {

/// An object with a class of its own, a class or a pattern, or a tuple or list that holds one.
bool holds_object(PyObject* item, const TensorWorld& tensors, int levels = 20) {
  if (PyTuple_CheckExact(item) || PyList_CheckExact(item)) {
    PyObject** const items = PySequence_Fast_ITEMS(item);
    return levels > 0 && std::any_of(items, items + PySequence_Fast_GET_SIZE(item),
                                     [&](PyObject* one) { return holds_object(one, tensors, levels - 1); });
  }
  return PyType_Check(item) || is_a(item, "re.Pattern") ||
         (has_own_class(item, tensors) && !is_derived_scalar(item) && !storage_type(item));
}

}  // namespace

/// Two tuples or two lists some items of which are objects with comparisons of their own.
bool Operators::compares_items(PyObject* left, PyObject* right, int operation) {
  const bool are_tuples = PyTuple_CheckExact(left) && PyTuple_CheckExact(right);
  const bool are_lists = PyList_CheckExact(left) && PyList_CheckExact(right);
  const bool by_length = operation == Py_EQ || operation == Py_NE;  // Of different ones no item is looked at.
  if (!(are_tuples || are_lists) ||
      (by_length && PySequence_Fast_GET_SIZE(left) != PySequence_Fast_GET_SIZE(right)))
    return false;
  return holds_object(left, values_.tensors()) || holds_object(right, values_.tensors());
}

/// Items are asked whether they are equal until two are not, and those two by the operation.
bool Operators::compare_items(PyObject* left, PyObject* right, int operation) {
  if (!values_.is_known(left) || !values_.is_known(right) || !values_.open(left) || !values_.open(right))
    return abandon("a comparison with an object of unknown origin", left);
  const bool is_ordered = operation != Py_EQ && operation != Py_NE;
  for (PyObject* sequence : {left, right}) values_.numbers().settle_sizes_within(sequence);  // C code reads them.
  Entry entry = Entry::none;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(left) && i < PySequence_Fast_GET_SIZE(right); ++i) {
    PyObject *const one = PySequence_Fast_GET_ITEM(left, i), *const other = PySequence_Fast_GET_ITEM(right, i);
    if (!comparison(one, other, Py_EQ)) return false;
    entry = std::max(entry, activity().entry);
    const bool are_scalars = guards::is_scalar(one) && guards::is_scalar(other);
    if (!is_ordered || one == other || (are_scalars && PyObject_RichCompareBool(one, other, Py_EQ) == 1)) continue;
    if (!comparison(one, other, operation)) return false;
    entry = std::max(entry, activity().entry);
    if (are_scalars) break;  // The first that differ.
  }
  return allow(entry);
}

/// == and != of objects that leave them to `object`: whether they are one object. False, and no abandonment, for
/// anything else.
bool Operators::compare(PyObject* left, PyObject* right, int operation) {
  if (operation != Py_EQ && operation != Py_NE) return false;
  bool any_object = false;
  for (PyObject* value : {left, right}) {
    if (guards::is_scalar(value)) continue;
    any_object = true;
    // A union of types is equal to others of its kind, and to no text or number.
    const bool is_union = is_a(value, "types.UnionType") && guards::is_scalar(value == left ? right : left);
    const bool is_plain = Py_TYPE(value)->tp_richcompare == PyBaseObject_Type.tp_richcompare || is_union;
    if (!values_.is_known(value) || !is_plain) return false;
  }
  if (!any_object || !watch_.classes.keep_special(left, {"__eq__", "__ne__"}) ||
      !watch_.classes.keep_special(right, {"__eq__", "__ne__"}))
    return false;
  return compare_identity(left, right);
}

bool Operators::compare_identity(PyObject* left, PyObject* right) {
  // What stands for an array is another object.
  if (is_traced_array(left) != is_traced_array(right) &&
      (guards::is_number_array(left) || guards::is_number_array(right)))
    return abandon(Break::numpy);
  const bool is_one = guards::is_unique(left) && !values_.numbers().stands_for_number(left) &&
                      !values_.numbers().stands_for_number(right);
  if (guards::is_scalar(left) && guards::same_scalar(left, right) && !is_one) {
    // What copy.deepcopy() is asked to copy, and has given back as it is.
    if (left == right && runs_module_copy()) return true;
    return abandon("`is` with equal numbers or texts, which may be one object or two", left);
  }
  const guards::Source* a = values_.source_of(left);
  const guards::Source* b = values_.source_of(right);
  if (a && b && a != b) {
    PyObject* values[] = {left, right};
    values_.guards().objects({a, b}, values);
  }
  return (values_.is_known(left) && values_.is_known(right)) || abandon("`is` with an object of unknown origin");
}

}  // namespace braze::interpreter
