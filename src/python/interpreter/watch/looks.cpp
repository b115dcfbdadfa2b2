// python/interpreter/watch/looks.cpp
#include "python/interpreter/watch/looks.h"

#include <algorithm>
#include <array>

#include "python/guards/scalar.h"
#include "python/interpreter/exception_table.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

namespace {

bool is_fresh_iterator(PyObject* object) {
  return Py_TYPE(object)->tp_iternext && !PyGen_CheckExact(object) &&
         !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

}  // namespace

/// The handlers of `try` and `with` begin with PUSH_EXC_INFO; those that the compiler adds (for StopIteration,
/// `yield from` and the variables of comprehensions) run no code of the user's.
bool has_handlers(PyCodeObject* code) {
  bool runs_code = false;
  for_each_region(code, [&](const Region& region) {
    runs_code = instruction_at(code, region.handler).opcode == PUSH_EXC_INFO;
    return !runs_code;
  });
  return runs_code;
}

namespace {

constexpr BreakReason older_iterator = "an iterator that existed before the call";

}  // namespace

bool Watcher::Looks::unknown(Watcher& w, Activation&, int) {
  return w.abandon("an instruction that is not understood");
}

// `except*` makes new groups of what is left of the one that was raised, with its traceback and notes.
bool Watcher::Looks::splits_group(Watcher& w, Activation&, int) {
  return w.abandon(Break::exception_group);
}

// ---- the stack, locals and constants

bool Watcher::Looks::nothing(Watcher&, Activation&, int) {
  return true;
}

bool Watcher::Looks::makes(Watcher& w, Activation&, int) {
  return w.allow_made_result();
}

// ---- operators

bool Watcher::Looks::operand(Watcher& w, Activation& a, int) {
  const int opcode = opcode_at(a.current);
  return w.unary(a.peek(1), opcode == UNARY_NEGATIVE ? "__neg__"
                            : opcode == UNARY_INVERT ? "__invert__"
                                                     : "__pos__");
}

bool Watcher::Looks::truth(Watcher& w, Activation& a, int) {
  return w.truth(a.peek(1));
}

bool Watcher::Looks::binary(Watcher& w, Activation& a, int arg) {
  return w.binary(a.peek(2), a.peek(1), arg);
}

bool Watcher::Looks::compares(Watcher& w, Activation& a, int arg) {
  return w.comparison(a.peek(2), a.peek(1), arg);
}

bool Watcher::Looks::identity(Watcher& w, Activation& a, int) {
  return w.compare_identity(a.peek(2), a.peek(1));
}

bool Watcher::Looks::contains(Watcher& w, Activation& a, int) {
  return w.contains(a.peek(1), a.peek(2));
}

bool Watcher::Looks::subscript(Watcher& w, Activation& a, int) {
  return w.subscript(a.peek(2), a.peek(1));
}

bool Watcher::Looks::stores_item(Watcher& w, Activation& a, int) {
  return w.store_item(a.peek(2), a.peek(1), a.peek(3));
}

bool Watcher::Looks::deletes_item(Watcher& w, Activation& a, int) {
  return w.delete_item(a.peek(2), a.peek(1));
}

bool Watcher::Looks::formats(Watcher& w, Activation& a, int arg) {
  const bool has_spec = arg & 4;
  PyObject* value = a.peek(has_spec ? 2 : 1);
  if (has_spec && !guards::is_scalar(a.peek(1))) return w.abandon("text is made of an object", value);
  if (is_data(value)) return w.values_.absorb(value) || w.abandon("text is made of an object", value);
  if (w.is_plain_exception(value) || w.values_.absorb_text(value)) return true;
  const int conversion = arg & 3;  // str, repr, ascii.
  if (PyType_Check(value) && !has_spec && conversion < 3)
    return w.keep_special(value, {"__format__"}) && w.text_of_class(value);
  const bool is_own = conversion
                          ? w.converts(conversion == 1 ? "str" : "repr", value)
                          : w.special_function(value, "__format__") || (!has_spec && w.formats_as_text(value));
  return (is_own && w.allow(Entry::known)) || w.abandon("text is made of an object", value);
}

// ---- variables and attributes

bool Watcher::Looks::global_variable(Watcher& w, Activation& a, int arg) {
  return w.load_global(a, arg);
}

bool Watcher::Looks::cell(Watcher& w, Activation& a, int arg) {
  return w.load_cell(a.local(arg));
}

bool Watcher::Looks::stores_cell(Watcher& w, Activation& a, int arg) {
  return w.store_cell(a.local(arg), a.peek(1));
}

bool Watcher::Looks::stores_global(Watcher& w, Activation& a, int arg) {
  return w.store_global(a, arg);
}

bool Watcher::Looks::deletes_cell(Watcher& w, Activation& a, int arg) {
  return w.values_.is_made(a.local(arg)) || w.abandon("a variable of an enclosing function is changed");
}

bool Watcher::Looks::free_variables(Watcher& w, Activation& a, int) {
  return w.copy_free_variables(a);
}

bool Watcher::Looks::attribute(Watcher& w, Activation& a, int arg) {
  return w.attribute(a.peek(1), a.name(arg));
}

bool Watcher::Looks::stores_attribute(Watcher& w, Activation& a, int arg) {
  return w.store_attribute(a.peek(1), a.name(arg), a.peek(2));
}

bool Watcher::Looks::deletes_attribute(Watcher& w, Activation& a, int arg) {
  return w.delete_attribute(a.peek(1), a.name(arg));
}

bool Watcher::Looks::module(Watcher& w, Activation& a, int arg) {
  return w.import_module(a, arg);
}

// ---- containers

bool Watcher::Looks::set_display(Watcher& w, Activation& a, int arg) {
  w.activities_.back().makes_result = true;
  for (int depth = 1; depth <= arg; ++depth)
    if (!w.hashes(a.peek(depth))) return false;
  return true;
}

bool Watcher::Looks::map_display(Watcher& w, Activation& a, int arg) {
  w.activities_.back().makes_result = true;
  for (int i = 1; i <= arg; ++i)
    if (!w.hashes(a.peek(2 * i))) return false;
  return true;
}

/// What displays and comprehensions are built in: it may have been begun before the run.
bool Watcher::Looks::grows(Watcher& w, PyObject* container) {
  return w.values_.is_made(container) || w.abandon("a container that is being built grows", container);
}

bool Watcher::Looks::adds_to_list(Watcher& w, Activation& a, int arg) {
  return grows(w, a.peek(arg + 1));
}

bool Watcher::Looks::adds_to_set(Watcher& w, Activation& a, int arg) {
  return grows(w, a.peek(arg + 1)) && w.hashes(a.peek(1));
}

bool Watcher::Looks::adds_to_map(Watcher& w, Activation& a, int arg) {
  return grows(w, a.peek(arg + 2)) && w.hashes(a.peek(2));
}

bool Watcher::Looks::extends(Watcher& w, Activation& a, int arg) {
  if (!grows(w, a.peek(arg + 1))) return false;
  PyObject* source = a.peek(1);
  if (!is_builtin_container(source) || PyAnySet_CheckExact(source)) return w.iterate(source);
  return (w.values_.is_known(source) && w.values_.open(source)) ||
         w.abandon("a container that cannot be guarded", source);
}

// ---- calls

// PRECALL puts the function and the object of a bound method onto the stack.
bool Watcher::Looks::takes_method_apart(Watcher& w, Activation& a, int arg) {
  return a.peek(arg + 2) || w.learn_method(a.peek(arg + 1));
}

bool Watcher::Looks::call(Watcher& w, Activation& a, int arg) {
  const bool has_self = a.peek(arg + 2) != nullptr;
  const Py_ssize_t count = arg + has_self;
  w.keyword_names_ = a.keyword_names;
  w.callee_ = &a.peek(static_cast<int>(count) + 1);
  return w.call(a.peek(static_cast<int>(count) + 1), a.top - count, count);
}

bool Watcher::Looks::call_unpacked(Watcher& w, Activation& a, int arg) {
  const bool keywords = arg & 1;
  PyObject *given = a.peek(1 + keywords), *named = keywords ? a.peek(1) : nullptr;
  const Ref names = Ref::steal(named ? PySequence_Tuple(named) : nullptr);
  w.keyword_names_ = names && PyTuple_GET_SIZE(names.get()) > 0 ? names.get() : nullptr;
  w.callee_ = &a.peek(2 + keywords);
  if (!PyTuple_Check(given) && !PyList_CheckExact(given)) {
    // Its items are not known yet: only Python code, which is watched, may be given them.
    PyObject* callable = a.peek(2 + keywords);
    // A builtin class looks into what a generator gives: that is guarded when it is given.
    const bool computes = PyType_Check(callable) && PyGen_CheckExact(given) && !named &&
                          w.values_.is_known(callable) &&
                          is_exact_builtin(reinterpret_cast<PyTypeObject*>(callable)) &&
                          what_class_does(reinterpret_cast<PyTypeObject*>(callable)->tp_name) == Does::computes;
    if (computes) return w.iterate(given) && w.looks() && w.allow_made_result(Entry::known);
    const bool enters =
        PyFunction_Check(callable) || (!PyType_Check(callable) && w.special_function(callable, "__call__"));
    if (!enters || (named && !w.values_.is_made(named))) return w.abandon("* with what is no tuple or list");
    if (!w.iterate(given) || !w.call(callable, nullptr, 0)) return false;
    if (w.values_.tensors().is_tensor(given)) w.activities_.back().entry = Entry::tensor;
    return true;
  }
  if (!w.values_.open(given) || (named && !w.values_.is_made(named)))
    return w.abandon("arguments of unknown origin");
  std::vector<PyObject*> arguments(PySequence_Fast_ITEMS(given),
                                   PySequence_Fast_ITEMS(given) + PySequence_Fast_GET_SIZE(given));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (named && PyDict_Next(named, &at, &key, &value)) arguments.push_back(value);
  return w.call(a.peek(2 + keywords), arguments.data(), static_cast<Py_ssize_t>(arguments.size()));
}

// ---- iteration and generators

bool Watcher::Looks::iterates(Watcher& w, Activation& a, int) {
  // An iterator is its own.
  if (opcode_at(a.current) == GET_ITER && w.is_older_iterator(a.peek(1))) return true;
  return w.iterate(a.peek(1));
}

bool Watcher::Looks::iterates_or_generator(Watcher& w, Activation& a, int) {
  return PyGen_CheckExact(a.peek(1)) || w.iterate(a.peek(1));
}

bool Watcher::Looks::next_item(Watcher& w, Activation& a, int) {
  w.activities_.back().iterator = a.peek(1);
  w.activities_.back().is_direct = PyGen_CheckExact(a.peek(1));
  PyObject* iterator = a.peek(1);
  if (w.values_.is_made(iterator)) return w.allow(Entry::known);
  if (!w.ask_next(iterator)) return false;
  const bool ends = w.is_older_iterator(iterator) && !w.next_item_;
  return !ends || w.lets_go(iterator, w.values_.source_of(iterator));  // The stack holds it no longer.
}

bool Watcher::Looks::sends(Watcher& w, Activation& a, int) {
  w.activities_.back().is_direct = PyGen_CheckExact(a.peek(2));
  return w.values_.is_made(a.peek(2)) ? w.allow(Entry::known) : w.abandon(older_iterator);
}

// ---- exceptions and with

bool Watcher::Looks::exception_class(Watcher& w, Activation& a, int) {
  return w.keep_class_of(a.peek(2)) && w.open_classes(a.peek(1));
}

bool Watcher::Looks::enters_with(Watcher& w, Activation& a, int) {
  return w.enter_with(a.peek(1));
}

/// Raising an exception changes its traceback and its context.
bool Watcher::Looks::raises(Watcher& w, Activation& a, int arg) {
  PyObject* exception = arg > 0 ? a.peek(arg) : nullptr;
  if (exception && PyExceptionInstance_Check(exception) && !w.values_.is_made(exception))
    return w.abandon("an exception that existed before is raised", exception);
  return w.allow(Entry::known);
}

bool Watcher::Looks::reraises(Watcher& w, Activation& a, int) {
  return !w.values_.source_of(a.peek(1)) || w.abandon("an exception that existed before is raised", a.peek(1));
}

bool Watcher::Looks::exits_with(Watcher& w, Activation& a, int) {
  PyObject* exit = a.peek(4);
  if (PyCFunction_Check(exit) && PyCFunction_GET_SELF(exit))
    w.values_.effects().release_lock(PyCFunction_GET_SELF(exit));
  return w.allow(Entry::known);
}

bool Watcher::Looks::known_code(Watcher& w, Activation&, int) {
  return w.allow(Entry::known);
}

// ---- match

/// Whether it is a sequence or mapping is for its type to say.
bool Watcher::Looks::known_object(Watcher& w, Activation& a, int) {
  return w.values_.is_known(a.peek(1)) ? w.keep_pattern_flags(a.peek(1))
                                       : w.abandon("a match of an object of unknown origin", a.peek(1));
}

bool Watcher::Looks::length(Watcher& w, Activation& a, int) {
  PyObject* subject = a.peek(1);
  if (guards::is_scalar(subject)) return true;
  if (w.acts_as_builtin(subject, "__len__"))
    return w.values_.open(subject) || w.abandon("a container that cannot be guarded", subject);
  return (w.values_.is_known(subject) && w.special_function(subject, "__len__") && w.allow(Entry::known)) ||
         w.abandon("a match of an object that is not understood", subject);
}

// The stack: subject, keys.
bool Watcher::Looks::match_keys(Watcher& w, Activation& a, int) {
  PyObject *subject = a.peek(2), *keys = a.peek(1);
  if (!is_exact_dict(subject)) return w.abandon("a match of a mapping that is not understood", subject);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    const bool made = w.values_.is_made(subject) && guards::is_scalar(key);
    if (!made && !w.values_.look_up(subject, key))
      return w.abandon("an entry of a dict that cannot be guarded", key);
  }
  return w.allow_made_result();
}

// The stack: subject, class, names of keyword sub-patterns.
bool Watcher::Looks::match_class(Watcher& w, Activation& a, int positional) {
  PyObject *subject = a.peek(3), *type = a.peek(2), *names = a.peek(1);
  if (!w.values_.is_known(subject)) return w.abandon("a match of an object of unknown origin", subject);
  if (!PyType_Check(type) || Py_TYPE(type)->tp_getattro != PyType_Type.tp_getattro || !w.open_classes(type) ||
      !w.keep_class_of(subject))
    return w.abandon("a match of a class that is not understood", type);
  PyObject* check = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(type)), "__instancecheck__");
  if (check != class_entry(reinterpret_cast<PyObject*>(&PyType_Type), "__instancecheck__"))
    return w.abandon("a match of a class that is not understood", type);
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (!PyType_IsSubtype(Py_TYPE(subject), cls)) return true;
  std::vector<Ref> asked;
  const Ref match_args = Ref::steal(PyUnicode_InternFromString("__match_args__"));
  if (positional && match_args && (cls->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    PyObject* own = _PyType_Lookup(cls, match_args.get());
    if (!own || !PyTuple_CheckExact(own)) return w.abandon("a match of a class that is not understood", type);
    if (!w.class_attribute(type, match_args.get()) || !w.values_.open(own)) return false;
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(positional, PyTuple_GET_SIZE(own)); ++i)
      asked.push_back(Ref::borrow(PyTuple_GET_ITEM(own, i)));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) asked.push_back(Ref::borrow(PyTuple_GET_ITEM(names, i)));
  Entry entry = Entry::none;
  for (const Ref& name : asked) {
    if (!PyUnicode_CheckExact(name.get()) || !w.attribute(subject, name.get()))
      return w.abandon("a match of an attribute that is not understood", name.get());
    if (w.activities_.back().entry != Entry::none) entry = w.activities_.back().entry;
  }
  return w.allow_made_result(entry);
}

bool Watcher::look(Activation& a, int opcode, int arg) {
  static constexpr auto looks = [] {
    std::array<Looks::Look, 256> table{};
    for (Looks::Look& look : table) look = Looks::unknown;
#define OPCODE(name, handler, look) table[name] = Looks::look;
#include BRAZE_OPCODES
#undef OPCODE
    return table;
  }();
  return looks[opcode](*this, a, arg);
}

namespace {

/// What a special method written as a generator gives: nobody else holds it, and nothing of it has run.
bool is_fresh_generator(PyObject* object) {
  return object && PyGen_CheckExact(object) && Py_REFCNT(object) == 1 &&
         reinterpret_cast<PyGenObject*>(object)->gi_frame_state == FRAME_CREATED;
}

}  // namespace

bool Watcher::after(Activation& a, int opcode, int arg, Step step) {
  if (abandoned_) return false;
  const bool is_error = step == Step::error || step == Step::reraise;
  if (activities_.back().is_around) {
    PyObject* made = !is_error && a.top > a.stack_base() ? a.peek(1) : nullptr;
    if (made && PyGen_CheckExact(made)) keep_generator(made);
    return true;
  }
  if (activities_.back().shares && !show_effects()) return false;
  if (is_error && root_ && a.frame == root_->frame()) root_->raises();
  if (activities_.back().is_trusted) return true;
  if (activities_.back().answer) values_.tensors().answered();
  if (is_error) {
    const Entry entry = activities_.back().entry;
    const bool is_operation = entry == Entry::tensor || entry == Entry::trusted || entry == Entry::around;
    if (!is_operation) return true;
    const std::optional<Break> why = values_.tensors().why_raised();
    return abandon(why ? BreakReason(*why) : "an operation on tensors raises an error");
  }
  PyObject* top = a.top > a.stack_base() ? a.peek(1) : nullptr;
  if (activities_.back().fills && top)
    values_.effects().fill_entry(activities_.back().fills, activities_.back().key, top);
  switch (opcode) {
    case LOAD_CONST: values_.make_constant(top); return true;
    case LOAD_GLOBAL:
      // As torch.compile has it: models choose a way without branches on values of tensors. Only this run is told,
      // not the other threads that read the flag meanwhile.
      if (activities_.back().asks_whether_compiling) a.pop(), a.push_bool(true);
      return true;
    case MAKE_CELL: values_.make(a.local(arg)); return true;
    case BEFORE_WITH: values_.make(a.peek(2)); return true;  // The bound __exit__.
    case FOR_ITER: {  // At its end the iterator is gone, and anything may lie on top.
      PyObject* iterator = activities_.back().iterator;
      const bool has_item = top && a.top - 1 > a.stack_base() && a.peek(2) == iterator;
      if (has_item && next_item_) return receive(a);
      if (has_item && is_fresh_iterator(iterator)) values_.make(top);
      return true;
    }
    case UNPACK_SEQUENCE:
    case UNPACK_EX:
      if (activities_.back().makes_result)
        for (int depth = 1; depth <= (opcode == UNPACK_SEQUENCE ? arg : (arg & 0xFF) + 1 + (arg >> 8)); ++depth)
          values_.make(a.peek(depth));
      return true;
    default:
      if (top && values_.tensors().has_sizes()) {
        take_sizes(a);
        top = a.peek(1);
      }
      if (activities_.back().answer) {
        a.pop(), a.push_borrowed(activities_.back().answer);
        top = a.peek(1);
      }
      if (activities_.back().sets_variable) values_.effects().set_variable(activities_.back().sets_variable, top);
      if (activities_.back().makes_constant && !values_.is_known(top))
        values_.make_constant(top);
      else if (activities_.back().entry == Entry::around)
        keep_fresh(top);
      else if (activities_.back().makes_result)
        values_.make(top);
      if (next_item_) return receive(a);
      if (activities_.back().makes_address) values_.note_address(top);
      if (activities_.back().makes_signature) make_signature(top);
      if (activities_.back().reduces) learn_reduced(activities_.back().reduces, top);
      if (activities_.back().entry == Entry::known && is_fresh_generator(top)) values_.make(top);
      if (top && PyGen_CheckExact(top) && values_.is_made(top)) keep_generator(top);
      learn_unbound(a);
      return true;
  }
}

/// A method lies unbound below its object, until it is called. A builtin class's is the same in every run.
void Watcher::learn_unbound(Activation& a) {
  PyObject* method = a.top - a.stack_base() > 1 ? a.peek(2) : nullptr;
  if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type)) return;
  const PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(method)->d_type;
  const bool may_change = owner->tp_flags & Py_TPFLAGS_HEAPTYPE && !(owner->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
  if (!may_change && !values_.is_known(method)) values_.make_constant(method);
}

/// A generator that is dropped before its end runs its `finally` blocks, which a capture must not.
void Watcher::keep_generator(PyObject* generator) {
  const auto* object = reinterpret_cast<PyGenObject*>(generator);
  const auto* frame = reinterpret_cast<const Frame*>(object->gi_iframe);
  if (object->gi_frame_state < FRAME_COMPLETED && has_handlers(frame->f_code))
    generators_.push_back(guards::Ref::borrow(generator));
}

bool Watcher::leaves_generator() const {
  return std::ranges::any_of(generators_, [](const guards::Ref& generator) {
    const auto* object = reinterpret_cast<PyGenObject*>(generator.get());
    return object->gi_frame_state != FRAME_CREATED && object->gi_frame_state < FRAME_COMPLETED;
  });
}

Watcher::~Watcher() {
  for (const guards::Ref& generator : generators_) {
    auto* object = reinterpret_cast<PyGenObject*>(generator.get());
    if (object->gi_frame_state < FRAME_EXECUTING) object->gi_frame_state = FRAME_COMPLETED;
  }
}

}  // namespace braze::interpreter
