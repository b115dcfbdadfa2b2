// python/interpreter/watch/looks.cpp
#include "python/interpreter/watch/looks.h"

#include <opcode.h>

#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "python/guards/scalar.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/raising_branches.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/history_tests.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace looks {

namespace {

constexpr BreakReason older_iterator = "an iterator that existed before the call";

/// A class that leaves all that it is given to an `__init__` in Python.
bool hands_on_to_init(PyObject* callable) {
  if (!PyType_Check(callable) || Py_TYPE(callable) != &PyType_Type) return false;
  PyObject* init = find_in_type(as_type(callable), "__init__");
  return init && PyFunction_Check(init) &&
         find_in_type(as_type(callable), "__new__") == find_in_type(&PyBaseObject_Type, "__new__");
}

}  // namespace

bool unknown(Watch& watch, Activation&, int) {
  return watch.run.abandon("an instruction that is not understood");
}

// `except*` makes new groups of what is left of the one that was raised, with its traceback and notes.
bool splits_group(Watch& watch, Activation&, int) {
  return watch.run.abandon(Break::exception_group);
}

// ---- the stack, locals and constants
bool nothing(Watch&, Activation&, int) {
  return true;
}

/// Builtin, and no name that could mean another.
bool assertion_error(Watch& watch, Activation&, int) {
  Values& values = watch.run.values;
  return values.learn(PyExc_AssertionError, values.sources().object(PyExc_AssertionError, "AssertionError"));
}

bool makes(Watch& watch, Activation&, int) {
  return watch.run.allow_made_result();
}

/// The list of `f(x, *a)`, which a call of another segment may have filled.
bool tuple_of_list(Watch& watch, Activation& a, int) {
  return watch.containers.iterate(a.peek(1)) && watch.run.allow_made_result();
}

/// Defaults, annotations and cells below the code, which an earlier segment may have put together.
bool makes_function(Watch& watch, Activation& a, int arg) {
  const int parts = std::popcount(static_cast<unsigned>(arg));
  for (int depth = 2; depth < 2 + parts; ++depth)
    if (!watch.run.values.open(a.peek(depth)))
      return watch.run.abandon("a container that cannot be guarded", a.peek(depth));
  return watch.run.allow_made_result();
}

// ---- operators
bool operand(Watch& watch, Activation& a, int) {
  const int opcode = opcode_at(a.current);
  return watch.operators.unary(a.peek(1), opcode == UNARY_NEGATIVE ? "__neg__"
                                          : opcode == UNARY_INVERT ? "__invert__"
                                                                   : "__pos__");
}

/// Where the other way only raises, the program checks that a tensor is what the way that goes on takes it for. A
/// run whose check fails is done over natively, and raises what is raised there.
bool truth(Watch& watch, Activation& a, int) {
  PyObject*& value = a.peek(1);
  const TensorWorld& tensors = watch.run.values.tensors();
  if (tensors.is_tensor(value) && watch.run.values.is_known(value))
    if (const std::optional<bool> truth = truth_that_goes_on(a.code(), a.offset_of(a.start));
        truth && watch.run.values.tensors().expect(value, *truth)) {
      Ref::steal(std::exchange(value, Ref::borrow(*truth ? Py_True : Py_False).release()));
      return true;
    }
  return watch.operators.truth(value);
}

bool binary(Watch& watch, Activation& a, int arg) {
  if (arg == NB_INPLACE_ADD && watch.iterables.is_extended_by(a.peek(2), a.peek(1)))
    return watch.iterables.put_items(a.peek(1), true) && watch.run.allow(Entry::known);
  return watch.operators.binary(a.peek(2), a.peek(1), arg);
}

bool compares(Watch& watch, Activation& a, int arg) {
  return watch.operators.comparison(a.peek(2), a.peek(1), arg);
}

bool identity(Watch& watch, Activation& a, int) {
  if (watch.sizes.put_one_number(a.peek(2), a.peek(1))) return true;
  if ((PyLong_CheckExact(a.peek(1)) && PyLong_CheckExact(a.peek(2))) ||
      (PyFloat_CheckExact(a.peek(1)) && PyFloat_CheckExact(a.peek(2))))
    for (const int depth : {1, 2}) watch.sizes.put_number(a.peek(depth));
  for (const int depth : {1, 2}) watch.sizes.put_tensor(a.peek(depth));
  return watch.operators.compare_identity(a.peek(2), a.peek(1));
}

bool contains(Watch& watch, Activation& a, int) {
  if (watch.iterables.is_searched(a.peek(1), a.peek(2)))
    return watch.iterables.put_items(a.peek(1)) && watch.run.allow_made_result(Entry::known) && watch.run.looks();
  return watch.containers.contains(a.peek(1), a.peek(2));
}

bool subscript(Watch& watch, Activation& a, int) {
  watch.traced_arrays.put_operands(a.peek(2), a.peek(1));
  if (!watch.containers.subscript(a.peek(2), a.peek(1))) return false;
  RowWorld* const picked = watch.run.values.tensors().rows();
  const bool is_seen = watch.run.values.tensors().modes().are_calls_handled();
  if (Ref rows = picked && !is_seen ? picked->first_row_at(a.peek(2), a.peek(1)) : Ref()) {
    Py_SETREF(a.top[-2], rows.release());
    Py_SETREF(a.top[-1], PyLong_FromLong(0));
  }
  return true;
}

bool stores_item(Watch& watch, Activation& a, int) {
  if (!watch.containers.store_item(a.peek(2), a.peek(1), a.peek(3))) return false;
  TensorWorld& tensors = watch.run.values.tensors();
  RowWorld* const picked = tensors.rows();
  const bool may_pick = picked && !tensors.modes().are_calls_handled();
  Ref index = may_pick && tensors.is_tensor(a.peek(2)) ? picked->index_of_one(a.peek(1)) : Ref();
  if (index) Py_SETREF(a.top[-1], index.release());
  return true;
}

bool deletes_item(Watch& watch, Activation& a, int) {
  return watch.containers.delete_item(a.peek(2), a.peek(1));
}

bool formats(Watch& watch, Activation& a, int arg) {
  const bool has_spec = arg & 4;
  PyObject* value = a.peek(has_spec ? 2 : 1);
  if (has_spec && !guards::is_scalar(a.peek(1))) return watch.run.abandon("text is made of an object", value);
  if (is_data(value))
    return absorb(watch.run.values, value) || watch.run.abandon("text is made of an object", value);
  if (watch.conversions.is_plain_exception(value) || absorb_text(watch.run.values, value)) return true;
  const int conversion = arg & 3;  // str, repr, ascii.
  if (PyType_Check(value) && !has_spec && conversion < 3)
    return watch.classes.keep_special(value, {"__format__"}) && watch.conversions.text_of_class(value);
  const bool is_own = conversion ? watch.conversions.converts(conversion == 1 ? "str" : "repr", value)
                                 : watch.classes.special_function(value, "__format__") ||
                                       (!has_spec && watch.conversions.formats_as_text(value));
  if (!is_own && watch.conversions.writes_itself(value)) return watch.run.allow(Entry::known) && watch.run.looks();
  return (is_own && watch.run.allow(Entry::known)) || watch.run.abandon("text is made of an object", value);
}

// ---- variables and attributes
bool global_variable(Watch& watch, Activation& a, int arg) {
  return watch.variables.load_global(a, arg);
}

bool class_builder(Watch& watch, Activation& a, int) {
  return watch.variables.load_class_builder(a);
}

bool cell(Watch& watch, Activation& a, int arg) {
  return watch.variables.load_cell(a.local(arg));
}

bool stores_cell(Watch& watch, Activation& a, int arg) {
  return watch.variables.store_cell(a.local(arg), a.peek(1));
}

bool stores_global(Watch& watch, Activation& a, int arg) {
  return watch.variables.store_global(a, arg);
}

bool deletes_cell(Watch& watch, Activation& a, int arg) {
  return watch.run.values.is_made(a.local(arg)) ||
         watch.run.abandon("a variable of an enclosing function is changed");
}

bool free_variables(Watch& watch, Activation& a, int) {
  return watch.variables.copy_free_variables(a);
}

bool attribute(Watch& watch, Activation& a, int arg) {
  if (tests_history(watch, a, a.peek(1), a.name(arg))) return true;
  if (!watch.attributes.attribute(a.peek(1), a.name(arg))) return false;
  // What a property or a __getattr__ gives is for the code that reads the attribute.
  Activity& activity = watch.run.activity();
  activity.is_direct |= activity.entry == Entry::known;
  return true;
}

bool stores_attribute(Watch& watch, Activation& a, int arg) {
  const bool is_data = PyUnicode_CompareWithASCIIString(a.name(arg), "data") == 0;
  if (is_data && watch.run.values.tensors().is_tensor(a.peek(1)))
    return watch.tensor_attributes.store_data(a.peek(1), a.name(arg), a.peek(2));
  return watch.attributes.store_attribute(a.peek(1), a.name(arg), a.peek(2));
}

bool deletes_attribute(Watch& watch, Activation& a, int arg) {
  return watch.attributes.delete_attribute(a.peek(1), a.name(arg));
}

bool module(Watch& watch, Activation& a, int arg) {
  return watch.imports.import_module(a, arg);
}

// ---- containers
bool set_display(Watch& watch, Activation& a, int arg) {
  watch.run.activity().makes_result = true;
  for (int depth = 1; depth <= arg; ++depth)
    if (!watch.containers.hashes(a.peek(depth))) return false;
  return true;
}

bool map_display(Watch& watch, Activation& a, int arg) {
  watch.run.activity().makes_result = true;
  for (int i = 1; i <= arg; ++i)
    if (!watch.containers.hashes(a.peek(2 * i))) return false;
  return true;
}

/// What displays and comprehensions are built in: it may have been begun before the run, and is the frame's alone.
bool grows(Watch& watch, PyObject* container) {
  return watch.run.values.is_made(container) ||
         watch.run.abandon("a container that is being built grows", container);
}

bool adds_to_list(Watch& watch, Activation& a, int arg) {
  return watch.containers.append(a.peek(arg + 1), a.peek(1));
}

bool adds_to_set(Watch& watch, Activation& a, int arg) {
  return grows(watch, a.peek(arg + 1)) && watch.containers.hashes(a.peek(1));
}

bool adds_to_map(Watch& watch, Activation& a, int arg) {
  return grows(watch, a.peek(arg + 2)) && watch.containers.hashes(a.peek(2));
}

/// `{**mapping}` and the keywords of a call.
bool merges(Watch& watch, Activation& a, int arg) {
  return grows(watch, a.peek(arg + 1)) && watch.iterables.merge(a.peek(1));
}

bool extends(Watch& watch, Activation& a, int arg) {
  PyObject *container = a.peek(arg + 1), *source = a.peek(1);
  if (PyList_CheckExact(container) && watch.run.values.source_of(container))
    return watch.containers.extend(container, source);
  if (!grows(watch, container)) return false;
  if (!is_builtin_container(source) || PyAnySet_CheckExact(source)) return watch.containers.iterate(source);
  return (watch.run.values.is_known(source) && watch.run.values.open(source)) ||
         watch.run.abandon("a container that cannot be guarded", source);
}

// ---- calls

// PRECALL puts the function and the object of a bound method onto the stack.
bool takes_method_apart(Watch& watch, Activation& a, int arg) {
  return a.peek(arg + 2) || watch.calls.learn_method(a.peek(arg + 1));
}

bool call(Watch& watch, Activation& a, int arg) {
  const bool has_self = a.peek(arg + 2) != nullptr;
  const Py_ssize_t count = arg + has_self;
  watch.run.keyword_names = a.keyword_names;
  watch.run.callee = &a.peek(static_cast<int>(count) + 1);
  if (!watch.calls.call(a.peek(static_cast<int>(count) + 1), a.top - count, count)) return false;
  if (a.keyword_names && watch.run.activity().entry == Entry::tensor)
    watch.calls.give_factors(a.peek(static_cast<int>(count) + 1), a.top, a.keyword_names);
  return true;
}

/// Of a view of a dict or a range, as the call would unpack it. Null for all else.
Ref items_of_view(Watch& watch, PyObject* given) {
  const bool is_view = PyDictViewSet_Check(given) || PyDictValues_Check(given) || PyRange_Check(given);
  if (!is_view || !watch.containers.iterate(given)) return {};
  Ref items = Ref::steal(PySequence_Tuple(given));
  if (!items) PyErr_Clear();
  for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i)
    if (PyDictItems_Check(given)) watch.run.values.make(PyTuple_GET_ITEM(items.get(), i));
  if (items) watch.run.values.make(items.get());
  return items;
}

bool call_unpacked(Watch& watch, Activation& a, int arg) {
  const bool keywords = arg & 1;
  PyObject *given = a.peek(1 + keywords), *named = keywords ? a.peek(1) : nullptr;
  const Ref names = Ref::steal(named ? PySequence_Tuple(named) : nullptr);
  watch.run.keyword_names = names && PyTuple_GET_SIZE(names.get()) > 0 ? names.get() : nullptr;
  watch.run.callee = &a.peek(2 + keywords);
  if (const Ref items = items_of_view(watch, given)) {
    Py_SETREF(a.peek(1 + keywords), Py_NewRef(items.get()));
    given = items.get();
  }
  if (watch.run.abandoned) return false;
  if (!PyTuple_Check(given) && !PyList_CheckExact(given)) {
    // Its items are not known yet: only Python code, which is watched, may be given them. It calls C code with
    // them.
    PyObject* callable = a.peek(2 + keywords);
    bool enters = PyFunction_Check(callable) || hands_on_to_init(callable) ||
                  (!PyType_Check(callable) && watch.classes.special_function(callable, "__call__"));
    if (watch.run.abandoned) return false;
    if (!enters && watch.run.values.is_known(callable)) {
      enters = watch.stand_ins.put_caller(a.peek(2 + keywords));
      callable = a.peek(2 + keywords);
    }
    if (!enters || (named && !watch.run.values.is_made(named)))
      return watch.run.abandon("arguments that cannot be guarded");
    if (!watch.containers.iterate(given)) return false;
    if (!watch.calls.call(callable, nullptr, 0)) return false;
    if (watch.run.values.tensors().is_tensor(given)) watch.run.activity().entry = Entry::tensor;
    return true;
  }
  if (!watch.run.values.open(given) || (named && !watch.run.values.is_made(named)))
    return watch.run.abandon("arguments that cannot be guarded");
  std::vector<PyObject*> arguments(PySequence_Fast_ITEMS(given),
                                   PySequence_Fast_ITEMS(given) + PySequence_Fast_GET_SIZE(given));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (named && PyDict_Next(named, &at, &key, &value)) arguments.push_back(value);
  return watch.calls.call(a.peek(2 + keywords), arguments.data(), static_cast<Py_ssize_t>(arguments.size()));
}

// ---- iteration and generators
bool iterates(Watch& watch, Activation& a, int) {
  const bool gets = opcode_at(a.current) == GET_ITER;
  // An iterator is its own.
  if (gets && watch.iterators.is_older_iterator(a.peek(1))) return true;
  if (!watch.containers.iterate(a.peek(1))) return false;
  // What an `__iter__` gives is handed on as it is.
  if (gets) watch.run.activity().is_direct |= watch.run.activity().entry == Entry::known;
  return true;
}

bool iterates_or_generator(Watch& watch, Activation& a, int) {
  return PyGen_CheckExact(a.peek(1)) || watch.containers.iterate(a.peek(1));
}

bool next_item(Watch& watch, Activation& a, int) {
  watch.run.activity().iterator = a.peek(1);
  watch.run.activity().is_direct = PyGen_CheckExact(a.peek(1));
  PyObject* iterator = a.peek(1);
  if (watch.run.values.is_made(iterator)) return watch.arrays.ask_next(iterator) && watch.run.allow(Entry::known);
  if (!watch.iterators.ask_next(iterator)) return false;
  const bool ends = watch.iterators.is_older_iterator(iterator) && !watch.iterators.next_item();
  return !ends ||
         watch.run.lets_go(iterator, watch.run.values.source_of(iterator));  // The stack holds it no longer.
}

bool sends(Watch& watch, Activation& a, int) {
  watch.run.activity().is_direct = PyGen_CheckExact(a.peek(2));
  return watch.run.values.is_made(a.peek(2)) ? watch.run.allow(Entry::known) : watch.run.abandon(older_iterator);
}

// ---- exceptions and with

/// What C code, or `raise` with a class, has raised in this run: older exceptions are not raised by it. Messages of
/// CPython's about types and attributes have names in them that no guard is about.
bool handles(Watch& watch, Activation& a, int) {
  PyObject* raised = a.peek(1);
  const bool has_names = (Py_IS_TYPE(raised, reinterpret_cast<PyTypeObject*>(PyExc_TypeError)) ||
                          Py_IS_TYPE(raised, reinterpret_cast<PyTypeObject*>(PyExc_AttributeError))) &&
                         guards::length_of(reinterpret_cast<PyBaseExceptionObject*>(raised)->args) > 0;
  if (!watch.run.values.is_known(raised) && !has_names) watch.run.values.make(raised);
  return true;
}

bool exception_class(Watch& watch, Activation& a, int) {
  return watch.classes.keep_class_of(a.peek(2)) && watch.classes.open_classes(a.peek(1));
}

bool enters_with(Watch& watch, Activation& a, int) {
  watch.run.callee = &a.peek(1);
  return watch.calls.enter_with(a.peek(1));
}

/// Raising an exception changes its traceback and its context.
bool raises(Watch& watch, Activation& a, int arg) {
  PyObject* exception = arg > 0 ? a.peek(arg) : nullptr;
  if (exception && PyExceptionInstance_Check(exception) && !watch.run.values.is_made(exception))
    return watch.run.abandon("an exception that existed before is raised", exception);
  for (int depth = 1; depth <= arg; ++depth) {  // And its cause: the instruction calls what is a class.
    PyObject* type = a.peek(depth);
    if (!PyExceptionClass_Check(type) || is_exact_builtin(reinterpret_cast<PyTypeObject*>(type))) continue;
    watch.run.keyword_names = nullptr;
    watch.run.callee = nullptr;
    if (!watch.instances.call_class(type, nullptr, 0)) return false;
  }
  watch.run.activity().makes_result = false;
  return watch.run.allow(Entry::known);
}

bool reraises(Watch& watch, Activation& a, int) {
  return !watch.run.values.source_of(a.peek(1)) ||
         watch.run.abandon("an exception that existed before is raised", a.peek(1));
}

bool exits_with(Watch& watch, Activation& a, int) {
  PyObject* exit = a.peek(4);
  if (PyCFunction_Check(exit) && PyCFunction_GET_SELF(exit))
    watch.run.values.effects().locks().release(PyCFunction_GET_SELF(exit));
  return watch.run.allow(Entry::known);
}

bool known_code(Watch& watch, Activation&, int) {
  return watch.run.allow(Entry::known);
}

// ---- match

/// Whether it is a sequence or mapping is for its type to say.
bool known_object(Watch& watch, Activation& a, int) {
  return watch.run.values.is_known(a.peek(1))
             ? watch.classes.keep_pattern_flags(a.peek(1))
             : watch.run.abandon("a match of an object of unknown origin", a.peek(1));
}

bool length(Watch& watch, Activation& a, int) {
  PyObject* subject = a.peek(1);
  if (guards::is_scalar(subject)) return true;
  if (watch.classes.acts_as_builtin(subject, "__len__"))
    return watch.run.values.open(subject) || watch.run.abandon("a container that cannot be guarded", subject);
  return (watch.run.values.is_known(subject) && watch.classes.special_function(subject, "__len__") &&
          watch.run.allow(Entry::known)) ||
         watch.run.abandon("a match of an object that is not understood", subject);
}

// The stack: subject, keys.
bool match_keys(Watch& watch, Activation& a, int) {
  PyObject *subject = a.peek(2), *keys = a.peek(1);
  if (!is_exact_dict(subject)) return watch.run.abandon("a match of a mapping that is not understood", subject);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    const bool made = watch.run.values.is_made(subject) && guards::is_scalar(key);
    if (!made && !watch.run.values.look_up(subject, key))
      return watch.run.abandon("an entry of a dict that cannot be guarded", key);
  }
  return watch.run.allow_made_result();
}

// The stack: subject, class, names of keyword sub-patterns.
bool match_class(Watch& watch, Activation& a, int positional) {
  PyObject *subject = a.peek(3), *type = a.peek(2), *names = a.peek(1);
  if (!watch.run.values.is_known(subject))
    return watch.run.abandon("a match of an object of unknown origin", subject);
  if (!PyType_Check(type) || Py_TYPE(type)->tp_getattro != PyType_Type.tp_getattro ||
      !watch.classes.open_classes(type) || !watch.classes.keep_class_of(subject))
    return watch.run.abandon("a match of a class that is not understood", type);
  PyObject* check = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(type)), "__instancecheck__");
  if (check != class_entry(reinterpret_cast<PyObject*>(&PyType_Type), "__instancecheck__"))
    return watch.run.abandon("a match of a class that is not understood", type);
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (!PyType_IsSubtype(Py_TYPE(subject), cls)) return true;
  std::vector<Ref> asked;
  const Ref match_args = Ref::steal(PyUnicode_InternFromString("__match_args__"));
  if (positional && match_args && (cls->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    PyObject* own = _PyType_Lookup(cls, match_args.get());
    if (!own || !PyTuple_CheckExact(own))
      return watch.run.abandon("a match of a class that is not understood", type);
    if (!watch.attributes.class_attribute(type, match_args.get()) || !watch.run.values.open(own)) return false;
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(positional, PyTuple_GET_SIZE(own)); ++i)
      asked.push_back(Ref::borrow(PyTuple_GET_ITEM(own, i)));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) asked.push_back(Ref::borrow(PyTuple_GET_ITEM(names, i)));
  Entry entry = Entry::none;
  for (const Ref& name : asked) {
    if (!PyUnicode_CheckExact(name.get()) || !watch.attributes.attribute(subject, name.get()))
      return watch.run.abandon("a match of an attribute that is not understood", name.get());
    if (watch.run.activity().entry != Entry::none) entry = watch.run.activity().entry;
  }
  return watch.run.allow_made_result(entry);
}

bool look(Watch& watch, Activation& a, int opcode, int arg) {
  using Look = bool (*)(Watch&, Activation&, int);
  static constexpr auto looks = [] {
    std::array<Look, 256> table{};
    for (Look& look : table) look = looks::unknown;
#define OPCODE(name, handler, look) table[name] = looks::look;
#include BRAZE_OPCODES
#undef OPCODE
    return table;
  }();
  return looks[opcode](watch, a, arg);
}

}  // namespace looks

}  // namespace braze::interpreter
