// python/interpreter/watch/size_arithmetic.cpp: what instructions and functions of the interpreter's own compute of
// sizes.
#include <opcode.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <vector>

#include "python/guards/deque.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/calling_back.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/sizes.h"
#include "python/interpreter/watch/typed_dicts.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

ir::SizeTest test_of(int comparison, ir::Size a, ir::Size b) {
  switch (comparison) {
    case Py_EQ: return ir::equal(a, b);
    case Py_NE: return ir::differs(a, b);
    case Py_LT: return ir::less(a, b);
    case Py_LE: return ir::at_most(a, b);
    case Py_GT: return ir::greater(a, b);
    default: return ir::at_least(a, b);
  }
}

/// torch.Tensor.__len__, which nobody has replaced.
bool has_own_length(PyObject* tensor) {
  PyObject* method = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(tensor)), "__len__");
  PyObject* globals = method && PyFunction_Check(method) ? PyFunction_GET_GLOBALS(method) : nullptr;
  PyObject* module = globals ? PyDict_GetItemString(globals, "__name__") : nullptr;
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "torch._tensor") == 0;
}

}  // namespace

bool is_varying(const Values& values, PyObject* value) {
  return values.numbers().size_of(value) || values.numbers().derived_of(value);
}

/// Such an operation on sizes and numbers as an expression; nothing where there is none.
std::optional<ir::Size> Sizes::as_expression(ir::Size a, ir::Size b, int operation) {
  TensorWorld& world = values_.tensors();
  constexpr int64_t largest_shift = 40, largest_exponent = 8;
  switch (operation) {
    case NB_ADD: return a + b;
    case NB_SUBTRACT: return a - b;
    case NB_MULTIPLY: return a * b;
    case NB_FLOOR_DIVIDE:
    case NB_REMAINDER:
      // A divisor of 0 raises, and one below 0 rounds the other way: neither is an expression.
      if (b.is_constant() ? b.constant() < 1 : !world.sizes().decide(ir::at_least(b, 1))) return std::nullopt;
      return operation == NB_REMAINDER ? ir::mod(a, b) : ir::floor_div(a, b);
    default: break;
  }
  if (!b.is_constant() || b.constant() < 0) return std::nullopt;
  const int64_t number = b.constant();
  switch (operation) {
    case NB_LSHIFT:
    case NB_RSHIFT: {
      if (number > largest_shift) return std::nullopt;
      const int64_t factor = int64_t{1} << number;
      return operation == NB_LSHIFT ? a * factor : ir::floor_div(a, factor);
    }
    case NB_AND:  // The lowest bits.
      return std::has_single_bit(static_cast<uint64_t>(number) + 1) ? std::optional(ir::mod(a, number + 1))
                                                                    : std::nullopt;
    case NB_POWER: {
      if (number > largest_exponent) return std::nullopt;
      ir::Size product = 1;
      for (int64_t left = number; left > 0; --left) product = product * a;
      return product;
    }
    default: return std::nullopt;
  }
}

/// + - * and so on, of sizes and numbers.
void Sizes::compute_size(PyObject*& left, PyObject*& right, int operation) {
  if (values_.tensors().is_tensor(left) || values_.tensors().is_tensor(right)) {
    const int kind = operation % NB_INPLACE_ADD;
    // Integers are not raised to a number below 0.
    const bool by_natural =
        !values_.numbers().size_of(right) ||
        (kind == NB_POWER && values_.tensors().sizes().decide(ir::at_least(*values_.numbers().size_of(right), 0)));
    const bool divides = kind == NB_REMAINDER || kind == NB_FLOOR_DIVIDE || (kind == NB_POWER && by_natural);
    // A method of the tensor in Python would take the number to the operator, likewise.
    const bool of_bits =
        kind == NB_LSHIFT || kind == NB_RSHIFT || kind == NB_AND || kind == NB_OR || kind == NB_XOR;
    // Of a number by a tensor there is no derivative in eager.
    const bool is_underivable =
        kind == NB_REMAINDER && !values_.tensors().is_tensor(left) && values_.tensors().wants_history(&right, 1);
    const bool is_plain = kind == NB_ADD || kind == NB_SUBTRACT || kind == NB_MULTIPLY || kind == NB_TRUE_DIVIDE ||
                          (divides && !is_underivable) || of_bits;
    // A number of the graph divides as a float does.
    const bool by_tensor =
        kind == NB_TRUE_DIVIDE && values_.tensors().is_tensor(right) && !values_.tensors().sizes().is_number(right);
    // As of rates by counts of steps.
    if (kind == NB_POWER && values_.numbers().derived_of(left) && values_.tensors().sizes().is_number(right) &&
        give_number(left, right))
      return;
    if (is_plain && ((!by_tensor && give_number(left, right)) || give_number(right, left))) return;
    // A number by a tensor is computed by a method of the tensor in Python, which is watched.
    if (by_tensor && is_varying(values_, left)) return;
    values_.numbers().settle_sizes_within(left);
    return values_.numbers().settle_sizes_within(right);
  }
  if (!is_varying(values_, left) && !is_varying(values_, right)) {
    // Sequences are put together item by item.
    if (operation % NB_INPLACE_ADD == NB_ADD && is_sequence(left) && is_sequence(right)) return;
    if (operation % NB_INPLACE_ADD == NB_MULTIPLY && (is_sequence(left) || is_sequence(right))) return;
    // A dict of both has the values of both.
    const auto hands_on = [&](PyObject* dict) { return is_plain_dict(dict) && !size_keyed_.contains(dict); };
    if (operation % NB_INPLACE_ADD == NB_OR && hands_on(left) && hands_on(right)) return;
    values_.numbers().settle_sizes_within(left);
    return values_.numbers().settle_sizes_within(right);
  }
  const std::optional<ir::Size> a = as_size(left), b = as_size(right);
  const std::optional<ir::Size> result = a && b ? as_expression(*a, *b, operation % NB_INPLACE_ADD) : std::nullopt;
  if (result) {
    activity().size = *result;
    return;
  }
  if (watch_.derived_numbers.binary(left, right, operation)) return;
  values_.numbers().settle_sizes_within(left);
  values_.numbers().settle_sizes_within(right);
}

void Sizes::compute_unary(PyObject* operand, UnaryOperation operation) {
  if (const ir::Size* size = values_.numbers().size_of(operand)) {
    activity().size = operation == UnaryOperation::negative ? -*size
                      : operation == UnaryOperation::invert ? -*size - 1
                                                            : *size;
  } else if (!watch_.derived_numbers.unary(operand, operation)) {
    values_.numbers().settle_sizes_within(operand);
  }
}

/// The answer is that of this call, and a guard says that it is.
void Sizes::compare_sizes(PyObject*& left, PyObject*& right, int comparison) {
  if (values_.tensors().is_tensor(left) || values_.tensors().is_tensor(right)) {
    if (give_number(left, right) || give_number(right, left)) return;
    values_.numbers().settle_sizes_within(left);
    return values_.numbers().settle_sizes_within(right);
  }
  const bool is_equality = comparison == Py_EQ || comparison == Py_NE;
  if (compare_sequences(left, right, comparison)) return;
  if (is_varying(values_, left) || is_varying(values_, right)) {
    const std::optional<ir::Size> a = as_size(left), b = as_size(right);
    if (a && b) {
      values_.tensors().sizes().decide(test_of(comparison, *a, *b));
      return;
    }
    if (is_equality && (left == Py_None || right == Py_None)) return;
    if (watch_.derived_numbers.compare(left, right, comparison)) return;
  }
  values_.numbers().settle_sizes_within(left);
  values_.numbers().settle_sizes_within(right);
}

/// object.__setattr__ of an object and its value, as torch.nn.Module has it: `super().__setattr__(name, value)`.
static bool stores_attribute(PyObject* callable, Py_ssize_t count) {
  const bool is_bound = Py_IS_TYPE(callable, &_PyMethodWrapper_Type);
  if (!is_bound && !Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return false;
  const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  const Ref owner = Ref::steal(PyObject_GetAttrString(callable, "__objclass__"));
  PyErr_Clear();
  return owner.get() == reinterpret_cast<PyObject*>(&PyBaseObject_Type) && text_of(name.get()) == "__setattr__" &&
         count == (is_bound ? 2 : 3);
}

/// Views of dicts, and iterators of containers, which hand their items on as they are.
static bool hands_on_items(PyObject* object) {
  if (PyDictValues_Check(object) || PyDictItems_Check(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  return is_iterator_of_others(type) || type == &PyListIter_Type || type == &PyTupleIter_Type ||
         type == &PyListRevIter_Type || type == &PyDictIterValue_Type;
}

static bool is_exact_type(PyObject* callable, std::string_view name) {
  if (!PyType_Check(callable)) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  return is_exact_builtin(type) && type->tp_name == name;
}

/// A list or tuple of pairs, the first of each of which is text: what it says of the second is its name.
static bool are_named(PyObject* pairs) {
  if (!PyList_CheckExact(pairs) && !PyTuple_CheckExact(pairs)) return false;
  PyObject** const items = PySequence_Fast_ITEMS(pairs);
  return std::all_of(items, items + PySequence_Fast_GET_SIZE(pairs), [](PyObject* pair) {
    return is_sequence(pair) && PySequence_Fast_GET_SIZE(pair) == 2 &&
           PyUnicode_CheckExact(PySequence_Fast_GET_ITEM(pair, 0));
  });
}

/// C code that makes an object of what it is given, or puts it into one, and looks at none of it. \param named  so
/// many arguments have keywords.
static bool only_holds(PyObject* callable, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t named) {
  const bool is_dict = callable == reinterpret_cast<PyObject*>(&PyDict_Type) ||
                       callable == reinterpret_cast<PyObject*>(&PyODict_Type) || makes_plain_dict(callable);
  if (is_exact_type(callable, "types.SimpleNamespace")) return count == named;
  if (is_exact_type(callable, "functools.partial")) return true;
  if (is_dict)
    return count == named || (count == named + 1 && (PyDict_CheckExact(arguments[0]) || are_named(arguments[0])));
  if (!PyCFunction_Check(callable) || named > 0) return false;
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (PyCFunction_GET_SELF(callable) == reinterpret_cast<PyObject*>(&PyTuple_Type))  // Of named tuples.
    return name == "__new__" && count == 2 && (is_sequence(arguments[1]) || hands_on_items(arguments[1]));
  const auto function = function_of_module(callable);
  return function && function->module == "builtins" && name == "setattr" && count == 3;
}

/// What `list.append` is to `[].append`, borrowed. Null: it is no method of a list or dict.
static PyObject* method_behind(PyObject* self, PyObject* bound) {
  const PyMethodDef* called = reinterpret_cast<PyCFunctionObject*>(bound)->m_ml;
  PyTypeObject* storage = PyList_Check(self) || PyDict_Check(self) ? storage_type(self) : nullptr;
  for (PyTypeObject* type : {storage, storage ? storage->tp_base : nullptr}) {
    if (!type || type == &PyBaseObject_Type) continue;
    PyObject* method = class_entry(reinterpret_cast<PyObject*>(type), called->ml_name);
    const bool is_method = method && Py_IS_TYPE(method, &PyMethodDescr_Type);
    if (is_method && reinterpret_cast<PyMethodDescrObject*>(method)->d_method == called) return method;
  }
  return nullptr;
}

/// That function of the module builtins.
static bool is_builtin(PyObject* callable, std::string_view name) {
  const auto function = function_of_module(callable);
  return function && function->module == "builtins" && function->name == name;
}

/// hasattr(n, "x"), and getattr(n, "x", other) where numbers have no such attribute: of whichever value.
static bool tells_by_class(PyObject* const* arguments, Py_ssize_t count, bool asks_whether) {
  if (count != (asks_whether ? 2 : 3) || !PyUnicode_CheckExact(arguments[1])) return false;
  PyTypeObject* const type = Py_TYPE(arguments[0]);
  if (type != &PyLong_Type && type != &PyFloat_Type) return false;
  return asks_whether || !_PyType_Lookup(type, arguments[1]);
}

/// `sum` of a list or tuple of floats: C code adds one after the other, beginning with 0, in some versions. False:
/// they are not all floats, or none varies.
static bool adds_floats(Watch& watch, PyObject* sequence) {
  if (!sums_floats_one_by_one || !is_sequence(sequence)) return false;
  Numbers& numbers = watch.run.values.numbers();
  constexpr Py_ssize_t most = 16;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  PyObject** const items = PySequence_Fast_ITEMS(sequence);
  const auto varies = [&](PyObject* item) { return numbers.derived_of(item) != nullptr; };
  if (count > most || !std::all_of(items, items + count, [](PyObject* item) { return PyFloat_CheckExact(item); }) ||
      std::none_of(items, items + count, varies))
    return false;
  double sum = 0;
  Ref so_far = Ref::steal(PyLong_FromLong(0));
  for (Py_ssize_t i = 0; so_far && i < count; ++i) {
    const bool is_derived = varies(so_far.get()) || varies(items[i]);
    if (is_derived && !watch.derived_numbers.binary(so_far.get(), items[i], NB_ADD)) return false;
    sum += PyFloat_AS_DOUBLE(items[i]);
    if (is_derived && i + 1 == count) return true;
    auto derived = std::exchange(watch.run.activity().derived, nullptr);
    so_far =
        derived ? Ref::borrow(numbers.make_derived(sum, std::move(derived))) : Ref::steal(PyFloat_FromDouble(sum));
  }
  return false;
}

/// map(dict.pop, names, values), as _replace() of named tuples has it: what is under each name, or else the value.
static bool takes_named(PyObject* const* arguments, Py_ssize_t count) {
  PyObject* function = arguments[0];
  PyObject* self = PyCFunction_Check(function) ? PyCFunction_GET_SELF(function) : nullptr;
  if (count != 3 || !self || !PyDict_CheckExact(self) || !PyTuple_Check(arguments[1])) return false;
  if (method_behind(self, function) != class_entry(reinterpret_cast<PyObject*>(&PyDict_Type), "pop")) return false;
  PyObject** const names = PySequence_Fast_ITEMS(arguments[1]);
  return std::all_of(names, names + PyTuple_GET_SIZE(arguments[1]),
                     [](PyObject* name) { return PyUnicode_CheckExact(name); });
}

/// What a call of C code does with the sizes that it is given. True: it is said.
bool Sizes::builtin_of_sizes(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type) && count == 1 &&
      values_.numbers().size_of(arguments[0]))
    return true;  // It is what it gives.
  // Of a dict these are its keys.
  const bool gives_keys = count == 1 && is_plain_dict(arguments[0]) && !size_keyed_.contains(arguments[0]);
  if (count == 1 && PyType_Check(callable) &&
      (is_sequence(arguments[0]) || gives_keys || hands_on_items(arguments[0]))) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    if (type == &PyTuple_Type || type == &PyList_Type || guards::is_torch_size(type)) return true;
  }
  if (callable == reinterpret_cast<PyObject*>(&PySlice_Type)) return true;  // Who slices looks.
  if (is_a(callable, "operator.itemgetter") && count == 1 && is_sequence(arguments[0])) return true;
  if (callable == reinterpret_cast<PyObject*>(&PyType_Type) && count == 1) return true;
  // A copy of a dict would have its keys.
  if (!(count > 0 && size_keyed_.contains(arguments[0])) &&
      only_holds(callable, arguments, count, run_.keyword_names ? PyTuple_GET_SIZE(run_.keyword_names) : 0))
    return true;
  if (stores_attribute(callable, count)) return true;
  if (callable == reinterpret_cast<PyObject*>(&_PyWeakref_RefType) && count == 1) return true;
  if (count == 1 && is_sequence(arguments[0]) && is_builtin(callable, "iter")) {
    values_.numbers().hand_to_iterator(arguments[0]);
    return true;
  }
  if (count > 0 && hands_on_items(arguments[0]) && is_builtin(callable, "next")) return true;
  if (PyType_Check(callable) && is_iterator_of_others(reinterpret_cast<PyTypeObject*>(callable))) {
    // The items are handed on as they are, also to code in Python. Who is given them by C code looks.
    if (calls_for_items(reinterpret_cast<PyTypeObject*>(callable)) &&
        (count == 0 || (!calls_back(arguments[0]) && !takes_named(arguments, count))))
      return false;
    const bool accumulates = is_exact_type(callable, "itertools.accumulate");
    if (accumulates && (count != 2 || run_.keyword_names || !calls_back(arguments[1]))) return false;
    if (std::any_of(arguments, arguments + count, [&](PyObject* one) { return values_.numbers().size_of(one); }))
      return false;
    for (Py_ssize_t i = 0; i < count; ++i) values_.numbers().hand_to_iterator(arguments[i]);
    return true;
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    // Of an instance of a subclass too: it is the storage that these work on.
    const auto is_method = [&](PyTypeObject& type, const char* name) {
      return PyType_IsSubtype(Py_TYPE(arguments[0]), &type) &&
             callable == class_entry(reinterpret_cast<PyObject*>(&type), name);
    };
    const auto is_dict_method = [&](const char* method) {
      return is_method(PyODict_Check(arguments[0]) ? PyODict_Type : PyDict_Type, method);
    };
    if (count == 2 && is_method(PyList_Type, "append")) return true;
    if (count == 2 && guards::is_deque(arguments[0]) && Py_TYPE(arguments[0]) == PyDescr_TYPE(callable) &&
        text_of(PyDescr_NAME(callable)).starts_with("append"))
      return true;
    if (count == 1 && (is_method(PyList_Type, "clear") || is_dict_method("clear"))) return true;
    // Keys are looked at, and the values handed on.
    const Py_ssize_t unnamed = count - (run_.keyword_names ? PyTuple_GET_SIZE(run_.keyword_names) : 0);
    const bool is_updated =
        is_dict_method("update") && !size_keyed_.contains(arguments[0]) &&
        (unnamed == 1 || (unnamed == 2 && ((is_plain_dict(arguments[1]) && !size_keyed_.contains(arguments[1])) ||
                                           are_named(arguments[1]))));
    if (is_updated || (is_dict_method("popitem") && !size_keyed_.contains(arguments[0]))) return true;
    if (count == 1 &&
        (is_method(PyList_Type, "copy") || is_method(PyList_Type, "reverse") || is_method(PyList_Type, "pop") ||
         (is_method(PyDict_Type, "copy") && !size_keyed_.contains(arguments[0]))))
      return true;
    if (count == 2 && is_method(PyList_Type, "extend") && is_sequence(arguments[1])) return true;
    // Whether it is one of the set's is decided; who goes through the set looks at all of them.
    if (count == 2 && is_method(PySet_Type, "add") && values_.is_made(arguments[0]) &&
        finds_key(arguments[0], arguments[1])) {
      size_keyed_.insert(arguments[0]);
      return true;
    }
    const bool at_place = (count == 2 && is_method(PyList_Type, "pop")) ||
                          (count == 3 && is_method(PyList_Type, "insert")) ||
                          (count > 1 && is_dict_method("setdefault"));
    if (at_place) {
      values_.numbers().settle_sizes_within(arguments[1]);
      if (size_keyed_.contains(arguments[0])) values_.numbers().settle_sizes_within(arguments[0]);
      return true;
    }
    if (count > 1 && (is_dict_method("pop") || is_method(PyODict_Type, "move_to_end"))) {
      look_at_key(arguments[0], arguments[1]);
      return true;
    }
    if (count == 1 && is_plain_dict(arguments[0]) &&
        (is_dict_method("items") || is_dict_method("values") || is_dict_method("keys")))
      return true;  // Who looks into the view looks into the dict.
    if (count == 2 && is_sequence(arguments[0]) &&
        PyType_IsSubtype(Py_TYPE(arguments[0]), PyDescr_TYPE(callable))) {
      const std::string_view method = text_of(PyDescr_NAME(callable));
      if (method == "index" && contains_size(arguments[0], arguments[1])) return true;
      if (method == "count" && contains_size(arguments[0], arguments[1], true)) return true;
    }
    if (count == 1 && is_method(PyList_Type, "sort") && sorts_sizes(arguments[0], false)) return true;
    if (count == 1 && guards::is_torch_size(PyDescr_TYPE(callable)) && text_of(PyDescr_NAME(callable)) == "numel" &&
        is_sequence(arguments[0]))
      return combine_sizes(arguments[0], true, nullptr);
    if (count < 2 || !is_method(PyDict_Type, "get")) return false;
    // The values of a dict are handed on as they are.
    look_at_key(arguments[0], arguments[1]);
    return true;
  }
  if (!PyCFunction_Check(callable)) return false;
  PyObject* self = PyCFunction_GET_SELF(callable);
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (name.starts_with("_has_torch_function") && values_.tensors().may_call(callable)) return true;  // Of types.
  if (PyObject* method = self ? method_behind(self, callable) : nullptr) {
    std::vector<PyObject*> all{self};
    all.insert(all.end(), arguments, arguments + count);
    return builtin_of_sizes(method, all.data(), count + 1);
  }
  if (self && PyType_Check(self) && name == "__instancecheck__") return true;
  const auto function = function_of_module(callable);
  if (!function) return false;
  const std::string_view from = function->module;
  if (from == "builtins" && (name == "isinstance" || name == "callable")) return true;
  if (from == "builtins" && (name == "hasattr" || name == "getattr") &&
      tells_by_class(arguments, count, name == "hasattr"))
    return true;
  if (from == "_abc" && name == "_abc_instancecheck") return true;  // Of the type alone.
  if (from == "builtins" && name == "len") {
    if (count == 1 && values_.tensors().is_tensor(arguments[0]) && has_own_length(arguments[0]))
      activity().size = values_.tensors().sizes().length_of(arguments[0]);
    return count == 1 && !is_varying(values_, arguments[0]);
  }
  if (from == "builtins" && (name == "min" || name == "max") && !run_.keyword_names && count > 0) {
    std::vector<PyObject*> items(arguments, arguments + count);
    if (count == 1) {
      if (!is_sequence(arguments[0])) return false;
      items.assign(PySequence_Fast_ITEMS(arguments[0]),
                   PySequence_Fast_ITEMS(arguments[0]) + PySequence_Fast_GET_SIZE(arguments[0]));
    }
    for (PyObject* item : items)
      if (!as_size(item)) return false;
    ir::Size best = *as_size(items[0]);
    // Of two, the one of this call is decided for, and guarded. Of more there would be a program for each order.
    const bool is_decided = items.size() < 3;
    for (PyObject* item : items) {
      const ir::Size one = *as_size(item);
      const ir::SizeTest beats = name == "min" ? ir::less(one, best) : ir::greater(one, best);
      if (!is_decided)
        best = name == "min" ? ir::min(best, one) : ir::max(best, one);
      else if (values_.tensors().sizes().decide(beats))
        best = one;
    }
    if (!is_decided) activity().size = best;
    return true;
  }
  if (from == "builtins" && name == "sorted" && !run_.keyword_names && count == 1) {  // Keys alone.
    PyObject* dict = PyDictKeys_Check(arguments[0])
                         ? reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(arguments[0])->dv_dict)
                         : arguments[0];
    if (is_plain_dict(dict) && !size_keyed_.contains(dict)) return true;
  }
  if (from == "builtins" && name == "sorted" && count > 0 && is_sequence(arguments[0])) {
    if (!run_.keyword_names) return count == 1 && sorts_sizes(arguments[0], false);
    return count == 2 && text_of(PyTuple_GET_ITEM(run_.keyword_names, 0)) == "reverse" &&
           PyBool_Check(arguments[1]) && sorts_sizes(arguments[0], arguments[1] == Py_True);
  }
  if (from == "builtins" && (name == "any" || name == "all") && count == 1 && is_sequence(arguments[0]))
    return tells_truths(arguments[0], name == "any");
  if (from == "_functools" && name == "reduce" && count > 1 && count < 4) {
    const auto folded = function_of_module(arguments[0]);
    const bool multiplies = folded && folded->module == "_operator" && folded->name == "mul",
               adds = folded && folded->module == "_operator" && folded->name == "add";
    return (multiplies || adds) && combine_sizes(arguments[1], multiplies, count == 3 ? arguments[2] : nullptr);
  }
  if (from == "_operator" && name == "getitem" && count == 2 && is_sequence(arguments[0])) {
    values_.numbers().settle_sizes_within(arguments[1]);
    return true;
  }
  if (from == "builtins" && name == "sum" && count == 1 && adds_floats(watch_, arguments[0])) return true;
  const bool is_product = from == "math" && name == "prod";
  const bool is_sum = from == "builtins" && name == "sum";
  // The start is the last argument, whether it has a keyword or not.
  return (is_product || is_sum) && (count == 1 || count == 2) &&
         combine_sizes(arguments[0], is_product, count == 2 ? arguments[1] : nullptr);
}

/// The result is the product, or else the sum, of a sequence and what it begins with, if that is not null. False:
/// not all of it are sizes.
bool Sizes::combine_sizes(PyObject* sequence, bool is_product, PyObject* start) {
  const std::optional<ir::Size> first = start ? as_size(start) : ir::Size(is_product ? 1 : 0);
  if (!first || !is_sequence(sequence) || (!start && PySequence_Fast_GET_SIZE(sequence) == 0)) return false;
  ir::Size all = *first;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    const std::optional<ir::Size> one = as_size(PySequence_Fast_GET_ITEM(sequence, i));
    if (!one) return false;
    all = is_product ? all * *one : all + *one;
  }
  activity().size = all;
  return true;
}

}  // namespace braze::interpreter
