// python/interpreter/watch/sizes_in_calls.cpp: what operators of tensors are given in the place of sizes and
// numbers that vary, however they are called: with operands one by one, unpacked, or held by a partial.
#include <opcode.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "python/guards/torch_values.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/scalar_world.h"
#include "python/interpreter/watch/sizes.h"
#include "python/interpreter/watch/tree_nodes.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

/// Of a call of `function`: so many operands below `top`, of which the last have these keywords.
struct GivenOperands {
  PyObject* function;
  PyObject** top;
  int count;
  PyObject* keywords;  ///< Null: none has.

  PyObject*& peek(int depth) const { return top[-depth]; }
};

namespace {

/// A class whose __new__ is Python code, which is given what the class is given.
bool is_made_in_python(PyObject* callable) {
  PyObject* make = PyType_Check(callable) ? class_entry(callable, "__new__") : nullptr;
  return make && (Py_IS_TYPE(make, &PyStaticMethod_Type) || PyFunction_Check(make));
}

bool enters_watched(const Activity& activity) {
  return activity.entry == Entry::known && (activity.is_direct || activity.constructs);
}

/// Operators of which a plain argument is a size or a place, and no number to compute with: what of others may be a
/// tensor as well is told them as a number.
const Names& size_operators() {
  static const Names names = {"arange",
                              "as_strided",
                              "chunk",
                              "diagonal",
                              "empty",
                              "expand",
                              "eye",
                              "flatten",
                              "full",
                              "full_like",
                              "kthvalue",
                              "topk",
                              "narrow",
                              "new_empty",
                              "new_full",
                              "new_ones",
                              "new_zeros",
                              "ones",
                              "rand",
                              "randn",
                              "repeat",
                              "repeat_interleave",
                              "reshape",
                              "roll",
                              "select",
                              "size",
                              "slice_scatter",
                              "split",
                              "split_with_sizes",
                              "stride",
                              "tile",
                              "tril",
                              "triu",
                              "unflatten",
                              "unfold",
                              "unsafe_chunk",
                              "unsafe_split",
                              "view",
                              "zeros",
                              "adaptive_avg_pool2d",
                              "view_copy",
                              "broadcast_to",
                              "numel",
                              "tensor_split",
                              "hsplit",
                              "vsplit"};
  return names;
}

/// Operators of which a number may be any argument, also of lists of tensors.
const Names& number_operators() {
  static const Names names = {"add",
                              "add_",
                              "sub",
                              "sub_",
                              "mul",
                              "mul_",
                              "div",
                              "div_",
                              "addcmul",
                              "addcmul_",
                              "addcdiv",
                              "addcdiv_",
                              "_foreach_add",
                              "_foreach_add_",
                              "_foreach_sub",
                              "_foreach_sub_",
                              "_foreach_mul",
                              "_foreach_mul_",
                              "_foreach_div",
                              "_foreach_div_",
                              "_foreach_addcmul",
                              "_foreach_addcmul_",
                              "_foreach_addcdiv",
                              "_foreach_addcdiv_",
                              "_fused_adam_",
                              "_fused_adamw_",
                              "_fused_sgd_",
                              "_fused_adagrad_"};
  return names;
}

/// What a tensor says of how large it is without an operator that the dispatcher sees.
bool reads_form(std::string_view name) {
  static const Names names = {"__len__", "is_contiguous", "nelement", "numel", "size", "storage_offset", "stride"};
  return names.contains(name);
}

/// Worlds of sizes whose operators take such numbers as plain arguments; null: this is none.
ScalarWorld* scalars_of(SizeWorld& sizes) {
  return dynamic_cast<ScalarWorld*>(&sizes);
}

/// The first tensor among the operands, or in a sequence there; null: there is none.
PyObject* tensor_among(const TensorWorld& world, const GivenOperands& given) {
  for (int depth = given.count; depth > 0; --depth) {
    PyObject* one = given.peek(depth);
    if (one && is_sequence(one) && PySequence_Fast_GET_SIZE(one) > 0) one = PySequence_Fast_GET_ITEM(one, 0);
    if (one && world.is_tensor(one)) return one;
  }
  return nullptr;
}

/// `float(size)`
DerivedNumber as_float(ir::Size size) {
  std::vector<guards::Derived::Operand> operands;
  operands.push_back({.size = size});
  return std::make_shared<const guards::Derived>(guards::Derived::Operation::call, 0,
                                                 Ref::borrow(reinterpret_cast<PyObject*>(&PyFloat_Type)),
                                                 std::move(operands));
}

/// Numbers that vary are in none of its keys: lists, tuples and dicts of text.
bool has_keys_of_text(PyObject* value, int depth = 0) {
  if (!storage_type(value)) return true;
  if (depth > 8 || PyAnySet_Check(value)) return false;
  if (is_sequence(value)) {
    PyObject** const items = PySequence_Fast_ITEMS(value);
    return std::all_of(items, items + PySequence_Fast_GET_SIZE(value),
                       [&](PyObject* item) { return has_keys_of_text(item, depth + 1); });
  }
  Py_ssize_t at = 0;
  PyObject *key, *item;
  while (is_plain_dict(value) && PyDict_Next(value, &at, &key, &item))
    if (!PyUnicode_CheckExact(key) || !has_keys_of_text(item, depth + 1)) return false;
  return is_plain_dict(value);
}

/// A function of torch.utils._pytree, which asks leaves for their classes and nothing else. What it looks at
/// besides, the keys of dicts, does not vary.
bool moves_leaves(PyObject* callable, std::span<PyObject* const> arguments) {
  PyObject* const function = Py_IS_TYPE(callable, &PyMethod_Type) ? PyMethod_GET_FUNCTION(callable) : callable;
  return is_of_trees(function) &&
         std::ranges::all_of(arguments, [](PyObject* one) { return has_keys_of_text(one); });
}

/// Empty: of one of torch.ops.
std::string_view name_of(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) && !Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return {};
  return text_of(PyDescr_NAME(callable));
}

}  // namespace

/// Arguments that may be tensors as well as numbers, of operators that compute alike with both.
void Sizes::give_numbers(const GivenOperands& given, std::string_view name) {
  static const Names binary = {"add", "add_", "sub",         "sub_",   "subtract", "mul", "mul_",   "multiply",
                               "div", "div_", "true_divide", "divide", "eq",       "ne",  "lt",     "le",
                               "gt",  "ge",   "remainder",   "fmod",   "maximum",  "pow", "minimum"};
  const int named = given.keywords ? static_cast<int>(PyTuple_GET_SIZE(given.keywords)) : 0,
            placed = given.count - named;
  // Where an argument lies that has this place, or this keyword. 0: it is not given.
  const auto depth_of = [&](int place, std::string_view keyword) {
    if (place < placed) return given.count - place;
    for (int k = 0; k < named; ++k)
      if (text_of(PyTuple_GET_ITEM(given.keywords, k)) == keyword) return named - k;
    return 0;
  };
  if (binary.contains(name)) {
    const int one = depth_of(0, "input"), other = depth_of(1, name == "pow" ? "exponent" : "other");
    if (one == 0 || other == 0) return;
    give_number(given.peek(other), given.peek(one));
    if (name == "pow") give_number(given.peek(one), given.peek(other));
    return;
  }
  if (named > 0 || given.count != 3) return;
  if (name == "masked_fill" && values_.tensors().is_tensor(given.peek(3)) &&
      values_.tensors().sizes().holds_sizes(given.peek(3)))
    give_number(given.peek(1), given.peek(3));
  if (name != "where") return;
  const auto either = [&](const auto& is) { return is(given.peek(1)) || is(given.peek(2)); };
  // Two floats give a tensor of the default type, which numbers of the graph would not.
  if (!either([&](PyObject* one) { return values_.tensors().is_tensor(one); }) &&
      either([&](PyObject* one) { return values_.numbers().derived_of(one) != nullptr; }))
    return;
  for (const int depth : {1, 2}) give_number(given.peek(depth), given.peek(3));
}

/// Floats in the place of numbers, with keywords or without.
void Sizes::give_floats(const GivenOperands& given) {
  PyObject* const beside = tensor_among(values_.tensors(), given);
  for (int depth = 1; beside && depth <= given.count; ++depth)
    watch_.derived_numbers.give(given.peek(depth), beside);
}

/// Plain numbers, by place or by keyword: where an operator takes no tensor, it is given numbers of the trace.
void Sizes::give_scalars(const GivenOperands& given, std::string_view name) {
  ScalarWorld* const world = scalars_of(values_.tensors().sizes());
  PyObject* keywords = given.keywords;
  const int count = given.count;
  const int named = keywords ? static_cast<int>(PyTuple_GET_SIZE(keywords)) : 0;
  PyObject* self = PyCFunction_Check(given.function) ? PyCFunction_GET_SELF(given.function) : nullptr;
  const bool is_bound = self && values_.tensors().is_tensor(self);
  const auto is_plain = [this](PyObject* item) { return PyLong_CheckExact(item) && !is_varying(values_, item); };
  bool in_lists = false;  // An item is more than a plain int, and may be a size.
  for (int depth = 1; world && depth <= count; ++depth)
    if (PyObject* list = given.peek(depth); list && is_sequence(list))
      in_lists |= !std::ranges::all_of(
          std::span(PySequence_Fast_ITEMS(list), static_cast<size_t>(PySequence_Fast_GET_SIZE(list))), is_plain);
  for (int depth = 1; world && depth <= count; ++depth) {
    PyObject*& operand = given.peek(depth);
    if (operand && (is_varying(values_, operand) || is_sequence(operand))) world->expect_integers(name, in_lists);
    if (!operand || !is_varying(values_, operand)) continue;
    const std::string_view keyword =
        depth <= named ? text_of(PyTuple_GET_ITEM(keywords, named - depth)) : std::string_view();
    const Parameter parameter = world->parameter(name, static_cast<size_t>(count - depth + is_bound), keyword);
    if (parameter == Parameter::dimension) values_.numbers().settle_sizes_within(operand);
    const ir::Size* size = values_.numbers().size_of(operand);
    if (parameter == Parameter::other || parameter == Parameter::dimension ||
        (parameter == Parameter::integer && !size))
      continue;
    if (size && parameter != Parameter::real) {
      Ref::steal(std::exchange(operand, values_.tensors().sizes().to_symbolic(*size).release()));
      continue;
    }
    const DerivedNumber derived = size ? as_float(*size) : values_.numbers().derived_of(operand);
    const Ref value = values_.tensors().sizes().value_of(*derived);
    Ref scalar;
    if (value)
      scalar =
          world->to_scalar(derived, value.get(), is_bound ? self : tensor_among(values_.tensors(), given), name);
    if (scalar) Ref::steal(std::exchange(operand, scalar.release()));
  }
}

namespace {

/// Its code in Python is not watched, and hands on what it is given.
bool is_operator_object(TensorWorld& world, PyObject* callable) {
  const ScalarWorld* scalars = scalars_of(world.sizes());
  return scalars && scalars->is_operator_object(callable);
}

/// Operators of tensors are entered as such, those of torch.ops as code that is trusted.
bool is_entered(Entry entry, TensorWorld& world, PyObject* callable) {
  return entry == Entry::tensor || (entry == Entry::trusted && is_operator_object(world, callable));
}

/// An operator of tensors, or a method of theirs, written in C; or one of torch.ops.
bool is_of_tensors(TensorWorld& world, PyObject* callable) {
  if (ScalarWorld* scalars = scalars_of(world.sizes()); scalars && scalars->is_operator_object(callable))
    return true;
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    return world.may_call(callable) || (self && world.is_tensor(self));
  }
  if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) && !Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return false;
  PyTypeObject* owner = PyDescr_TYPE(callable);
  return owner != &PyBaseObject_Type &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(world.tensor_type()), owner);
}

}  // namespace

/// Functions of `operator`: what the instructions do that they stand for.
bool Sizes::operator_of_sizes(Activation& a, PyObject* callable, int count) {
  const auto function = function_of_module(callable);
  if (!function || function->module != "_operator" || count != 2 || run_.keyword_names) return false;
  const OperatorRow* row = operator_row(function->name);
  if (!row) return false;
  switch (row->as) {
    case OperatorRow::As::binary: compute_size(a.peek(2), a.peek(1), row->operation); return true;
    case OperatorRow::As::comparison: compare_sizes(a.peek(2), a.peek(1), row->operation); return true;
    case OperatorRow::As::subscript: look_at_sizes(a, BINARY_SUBSCR, 0); return true;
    default: return false;
  }
}

void Sizes::give_sizes(Activation& a, int arg) {
  const bool has_self = a.peek(arg + 2) != nullptr;
  const int count = arg + has_self;
  PyObject* callable = a.peek(count + 1);
  if (enters_watched(activity()) || (activity().entry == Entry::known && is_made_in_python(callable))) return;
  if (activity().entry == Entry::around && moves_leaves(callable, {a.top - count, static_cast<size_t>(count)}))
    return;
  if (operator_of_sizes(a, callable, count)) return;
  if (builtin_of_sizes(callable, a.top - count, count)) return;
  if (watch_.derived_numbers.call(callable, a.top - count, count)) return;
  PyObject* const function = behind_partials(callable);
  const bool is_held = function != callable,
             of_tensors = is_entered(activity().entry, values_.tensors(), function) &&
                          is_of_tensors(values_.tensors(), function);
  if (of_tensors && !is_held) {
    give_data(a, name_of(function), count);
    return give_operands({a.peek(count + 1), a.top, count, run_.keyword_names});
  }
  if (of_tensors && give_held(a, arg, function)) return;
  // What a partial holds is handed on to a Python function, which is watched.
  if (is_held && activity().entry == Entry::known && PyFunction_Check(function)) return;
  if (is_held && (!of_tensors || reads_form(name_of(function)))) settle_tensors_within(callable);
  if (is_held) values_.numbers().settle_sizes_within(callable);
  for (int depth = 1; depth <= count; ++depth) {
    if (is_held && !of_tensors) settle_tensors_within(a.peek(depth));
    if (of_tensors && !says_of_itself(name_of(function)) && !values_.numbers().size_of(a.peek(depth)))
      give_to_tensors(a.peek(depth));
    values_.numbers().settle_sizes_within(a.peek(depth));
  }
}

/// What an operator of tensors is given.
void Sizes::give_operands(const GivenOperands& given) {
  const std::string_view name = name_of(given.function);
  const bool takes_sizes = name.empty() || size_operators().contains(name), takes_tensors = !says_of_itself(name);
  give_numbers(given,
               name.empty() ? scalars_of(values_.tensors().sizes())->operator_of_tensors(given.function) : name);
  if (number_operators().contains(name)) give_floats(given);
  if (takes_tensors && !name.empty()) give_scalars(given, name);
  for (int depth = 1; depth <= given.count; ++depth) {
    PyObject*& operand = given.peek(depth);
    if (takes_tensors && (takes_sizes || !values_.numbers().size_of(operand))) give_to_tensors(operand);
    values_.numbers().settle_sizes_within(operand);
  }
}

namespace {

/// Operands that lie in a tuple and a dict, as `f(*items, **named)` and a partial have them, one behind the other.
struct Flat {
  std::vector<Ref> items, values;
  std::vector<PyObject*> names;

  void add(PyObject* tuple, PyObject* dict) {
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); ++i)
      items.push_back(Ref::borrow(PyTuple_GET_ITEM(tuple, i)));
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (dict && PyDict_Next(dict, &at, &name, &value)) {
      names.push_back(name);
      values.push_back(Ref::borrow(value));
    }
  }
};

}  // namespace

/// Gives what lies in a flat list of operands, and takes it back.
void Sizes::give_flat(PyObject* function, std::vector<Ref>& items, std::vector<Ref>& values,
                      const std::vector<PyObject*>& names) {
  std::vector<PyObject*> all;
  for (Ref& one : items) all.push_back(one.release());
  for (Ref& one : values) all.push_back(one.release());
  const Ref keywords = Ref::steal(PyTuple_New(std::ssize(names)));
  if (!keywords) throw std::bad_alloc();
  for (size_t k = 0; k < names.size(); ++k)
    PyTuple_SET_ITEM(keywords.get(), static_cast<Py_ssize_t>(k), Py_NewRef(names[k]));
  give_operands(
      {function, all.data() + all.size(), static_cast<int>(all.size()), names.empty() ? nullptr : keywords.get()});
  for (size_t k = 0; k < all.size(); ++k)
    (k < items.size() ? items[k] : values[k - items.size()]) = Ref::steal(all[k]);
}

namespace {

Ref tuple_of(std::vector<Ref>& items) {
  Ref made = Ref::steal(PyTuple_New(std::ssize(items)));
  if (!made) throw std::bad_alloc();
  for (size_t k = 0; k < items.size(); ++k)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(k), items[k].release());
  return made;
}

Ref dict_of(std::vector<Ref>& values, const std::vector<PyObject*>& names, size_t count) {
  Ref made = Ref::steal(PyDict_New());
  for (size_t k = 0; made && k < count; ++k)
    if (PyDict_SetItem(made.get(), names[k], values[k].get()) < 0) made = {};
  if (!made) throw std::bad_alloc();
  return made;
}

}  // namespace

/// A partial of an operator of tensors: one of what the operator takes, in its place. False: it is none of that
/// kind.
bool Sizes::give_held(Activation& a, int arg, PyObject* function) {
  const int count = arg + (a.peek(arg + 2) != nullptr);
  PyObject*& callable = a.peek(count + 1);
  if (!is_a(callable, "functools.partial") || reads_form(name_of(function))) return false;
  const Ref held = Ref::steal(PyObject_GetAttrString(callable, "func")),
            items = Ref::steal(PyObject_GetAttrString(callable, "args")),
            kept = Ref::steal(PyObject_GetAttrString(callable, "keywords"));
  if (!held || !items || !kept || held.get() != function || !PyTuple_CheckExact(items.get()) ||
      !PyDict_CheckExact(kept.get())) {
    PyErr_Clear();
    return false;
  }
  Flat flat;
  flat.add(items.get(), kept.get());
  const size_t held_items = flat.items.size(), held_values = flat.values.size();
  const int named = run_.keyword_names ? static_cast<int>(PyTuple_GET_SIZE(run_.keyword_names)) : 0;
  for (int k = 0; k < named; ++k) {
    PyObject* name = PyTuple_GET_ITEM(run_.keyword_names, k);
    if (PyDict_Contains(kept.get(), name) != 0) return false;  // The call's is another one in its place.
    flat.names.push_back(name);
    flat.values.push_back(Ref::borrow(a.peek(named - k)));
  }
  for (int depth = count; depth > named; --depth) flat.items.push_back(Ref::borrow(a.peek(depth)));
  give_flat(function, flat.items, flat.values, flat.names);
  const auto take = [&](int depth, Ref& one) { Ref::steal(std::exchange(a.peek(depth), one.release())); };
  for (int depth = count; depth > named; --depth)
    take(depth, flat.items[held_items + static_cast<size_t>(count - depth)]);
  for (int k = 0; k < named; ++k) take(named - k, flat.values[held_values + static_cast<size_t>(k)]);
  std::vector<Ref> parts;
  parts.push_back(Ref::borrow(function));
  for (size_t k = 0; k < held_items; ++k) parts.push_back(std::move(flat.items[k]));
  const Ref all = tuple_of(parts);
  const Ref names = dict_of(flat.values, flat.names, held_values);
  Ref made = Ref::steal(PyObject_Call(reinterpret_cast<PyObject*>(Py_TYPE(callable)), all.get(), names.get()));
  if (!made) throw std::bad_alloc();
  Ref::steal(std::exchange(callable, made.release()));
  return true;
}

/// `f(*items, **named)` of an operator of tensors. False: they are no sequence and dict.
bool Sizes::give_unpacked(PyObject* function, PyObject*& items, PyObject** named) {
  const bool is_plain =
      PyTuple_CheckExact(items) || PyList_CheckExact(items) || guards::is_torch_size(Py_TYPE(items));
  if (!is_plain || (named && !PyDict_CheckExact(*named)) || reads_form(name_of(function))) return false;
  Flat flat;
  const Ref placed = Ref::steal(PySequence_Tuple(items));
  if (!placed) throw std::bad_alloc();
  flat.add(placed.get(), named ? *named : nullptr);
  give_flat(function, flat.items, flat.values, flat.names);
  Ref::steal(std::exchange(items, tuple_of(flat.items).release()));
  if (named) Ref::steal(std::exchange(*named, dict_of(flat.values, flat.names, flat.names.size()).release()));
  return true;
}

void Sizes::give_unpacked_sizes(Activation& a, int arg) {
  const bool keywords = arg & 1;
  PyObject* callable = a.peek(2 + keywords);
  if (enters_watched(activity()) || (activity().entry == Entry::known && is_made_in_python(callable))) return;
  PyObject*& given = a.peek(1 + keywords);
  if (!keywords && PyTuple_Check(given) && is_sequence(given)) {
    PyObject* const* items = PySequence_Fast_ITEMS(given);
    const Py_ssize_t count = PyTuple_GET_SIZE(given);
    if (builtin_of_sizes(callable, items, count) || watch_.derived_numbers.call(callable, items, count)) return;
  }
  PyObject* const function = behind_partials(callable);
  const bool of_tensors =
      is_entered(activity().entry, values_.tensors(), function) && is_of_tensors(values_.tensors(), function);
  if (of_tensors && function == callable && give_unpacked(function, given, keywords ? &a.peek(1) : nullptr)) return;
  values_.numbers().settle_sizes_within(given);
  if (keywords) values_.numbers().settle_sizes_within(a.peek(1));
  if (function != callable) values_.numbers().settle_sizes_within(callable);
  if (of_tensors && !reads_form(name_of(function))) return;
  if (activity().entry == Entry::around) return;  // Its frame gets tracers (sized_arguments.h).
  // No operand is a tensor itself.
  settle_tensors_within(callable);
  for (int depth = 1; depth <= 1 + keywords; ++depth) settle_tensors_within(a.peek(depth));
}

}  // namespace braze::interpreter
