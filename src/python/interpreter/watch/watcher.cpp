// python/interpreter/watch/watcher.cpp
#include "python/interpreter/watch/watcher.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "python/guards/array.h"
#include "python/guards/referents.h"
#include "python/guards/warning_filters.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/dispatch_handlers.h"
#include "python/interpreter/watch/generators.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/looks.h"
#include "python/interpreter/watch/sized_arguments.h"
#include "python/interpreter/watch/tree_nodes.h"

namespace braze::interpreter {

namespace {

/// Kernels that PyTorch has in Python, which the dispatcher enters: shapes, decompositions. Where it looks for
/// rules that classes of tensors have for an operator. And what a call of a TorchScript function asks first, which
/// is ours where we stand for torch.compile.
bool is_torchs_own(Frame* frame) {
  if (!PyDict_Check(frame->f_globals)) return false;
  PyObject* name = PyDict_GetItemString(frame->f_globals, "__name__");
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) return false;
  if (std::string_view(text) == "torch.compiler" || std::string_view(text) == "braze.compiler")
    return text_of(frame->f_code->co_name) == "is_exporting";
  for (const char* prefix : {"torch._meta_registrations", "torch._refs", "torch._prims", "torch._decomp",
                             "torch._ops", "torch._library.simple_registry"})
    if (std::string_view(text).starts_with(prefix)) return true;
  return false;
}

/// torch.SymInt, which operators make of sizes.
bool is_code_of_sizes(const Frame* frame) {
  PyObject* torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  return torch && PyModule_Check(torch) && PyModule_GetDict(torch) == frame->f_globals &&
         text_of(frame->f_code->co_qualname).starts_with("SymInt.");
}

/// A warning is to be shown, as its filters say.
bool is_code_of_warnings(const Frame* frame) {
  return guards::globals_of_warnings() == frame->f_globals;
}

/// The one that is about to be shown has been noted down as shown, which is for the native run to do.
void forget_shown_warnings() {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_warnings");
  const Ref done = Ref::steal(module ? PyObject_CallMethod(module, "_filters_mutated", nullptr) : nullptr);
  if (!done) PyErr_Clear();
}

/// Each item that it gives is made by it. By indices, an array of NumPy's alone does so: others are asked for
/// theirs.
bool is_fresh_iterator(PyObject* object) {
  if (Py_IS_TYPE(object, &PySeqIter_Type)) {
    PyObject* sequence = guards::first_referent(object);
    return sequence && guards::is_number_array(sequence);
  }
  return Py_TYPE(object)->tp_iternext && !PyGen_CheckExact(object) && is_exact_builtin(Py_TYPE(object));
}

/// What a special method written as a generator gives: nobody else holds it, and nothing of it has run.
bool is_fresh_generator(PyObject* object) {
  return object && PyGen_CheckExact(object) && Py_REFCNT(object) == 1 &&
         reinterpret_cast<PyGenObject*>(object)->gi_frame_state == FRAME_CREATED;
}

/// A special method of which C code takes a number and hands on no object.
bool converts_result(PyCodeObject* code) {
  static const Names names = {"__bool__", "__contains__", "__hash__", "__index__", "__len__", "__length_hint__"};
  return names.contains(text_of(code->co_name));
}

/// Whose frame it is; null: a function's. Only compared.
PyObject* generator_of(Frame* frame) {
  if (frame->owner != FRAME_OWNED_BY_GENERATOR) return nullptr;
  return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(frame) - offsetof(PyGenObject, gi_iframe));
}

/// Leaves on top what it has found under a name.
bool reads(int opcode) {
  return opcode == LOAD_ATTR || opcode == LOAD_GLOBAL || opcode == LOAD_DEREF || opcode == BINARY_SUBSCR;
}

}  // namespace

/// The handler of a mode, or of a class of tensors: each call of it is given another function.
static bool is_torch_handler(PyObject* function) {
  return PyFunction_Check(function) &&
         text_of(reinterpret_cast<PyFunctionObject*>(function)->func_name) == "__torch_function__";
}

bool Watcher::entered(Frame* frame) {
  auto* function = reinterpret_cast<PyObject*>(function_of(frame));
  const Entry entry = activity().entry;
  if (DispatchHandlers(watch_, watch_.run).is_one(frame)) return enter_handler(frame);
  const bool is_size = values().tensors().sizes().has_sizes() && is_code_of_sizes(frame);
  if (entry == Entry::trusted || activity().is_trusted || is_size) {
    const bool is_quiet = activity().is_quiet;
    watch_.run.activities.push_back({.is_trusted = true, .is_quiet = is_quiet});
    if (is_torch_handler(function) && !values().tensors().is_library(frame->f_code))
      return watch_.run.abandon("Python code is entered from C where that is not understood", function);
    if (!is_quiet || !is_code_of_warnings(frame)) return true;
    forget_shown_warnings();
    return watch_.run.abandon(Break::warns);
  }
  const bool from_around = activity().is_around;
  TrustedCode::Way way = from_around || entry == Entry::around ? watch_.trusted_code.way_from_trusted(frame)
                                                               : TrustedCode::Way::watched;
  // An operator of that code, under a mode that handles it.
  if (from_around && way != TrustedCode::Way::unwatched && is_torch_handler(function)) {
    watch_.trusted_code.keep_arguments(frame);
    if (learn_torch_function(frame)) way = TrustedCode::Way::watched;
  }
  if (way == TrustedCode::Way::unwatched) {
    if (!from_around && values().tensors().sizes().has_sizes()) give_tracers(watch_, frame);
    watch_.run.activities.push_back({.is_around = true, .shares = activity().shares});
    return true;
  }
  // A generator that is dropped where it stands, without a handler, only ends.
  const bool closes = frame->owner == FRAME_OWNED_BY_GENERATOR && PyErr_Occurred() &&
                      PyErr_ExceptionMatches(PyExc_GeneratorExit) && !has_handlers(frame->f_code);
  if (closes) {
    watch_.run.activities.push_back({.is_trusted = true});
    return true;
  }
  if (!from_around && entry == Entry::tensor && watch_.tensor_attributes.gives_class(frame)) {
    watch_.run.activities.push_back({.is_trusted = true});
    return true;
  }
  bool expected = !from_around && entry != Entry::none && values().is_known(function);
  if (entry == Entry::tensor && !expected) expected = watch_.tensor_attributes.learn_tensor_method(function);
  if (entry == Entry::tensor && expected && watch_.tensor_attributes.hashes_tensor(function)) {
    watch_.run.activities.push_back({.is_trusted = true});
    return true;
  }
  const bool is_special = expected && entry == Entry::tensor && is_torch_handler(function);
  if ((!expected || is_special) && !from_around && entry != Entry::none) expected = learn_special_method(frame);
  if (!expected && entry == Entry::tensor && is_torchs_own(frame)) {
    watch_.run.activities.push_back({.is_trusted = true});
    return true;
  }
  if (!watch_.other_threads.show_effects()) {
    watch_.run.activities.push_back({});
    return false;
  }
  PyTypeObject* constructs = activity().constructs;
  PyObject* first = frame->f_code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  // Another one of the class may be what is unpacked for the new one.
  if (constructs && first && Py_IS_TYPE(first, constructs) && !values().is_known(first)) values().make(first);
  // The forward of an autograd.Function may be a class method.
  if (constructs && activity().packs_arguments && first && PyType_Check(first) && frame->f_code->co_argcount > 1) {
    PyObject* context = frame->localsplus[1];
    if (Py_IS_TYPE(context, constructs) && !values().is_known(context)) values().make(context);
  }
  const bool hands_on = !activity().is_direct && (activity().looks || watch_.run.looks_lazily);
  if (activity().packs_arguments || hands_on)  // Tuples that were there before are known by now.
    for (int i = 0; i < frame->f_code->co_argcount; ++i)
      if (PyTuple_CheckExact(frame->localsplus[i])) values().make(frame->localsplus[i]);
  const bool given_slice = activity().passes_slice && frame->f_code->co_argcount > 1;
  if (given_slice && PySlice_Check(frame->localsplus[1])) values().make(frame->localsplus[1]);
  watch_.run.activities.push_back({});
  deepest_ = std::max(deepest_, watch_.run.activities.size());
  try {
    if (from_around && way == TrustedCode::Way::watched) return watch_.trusted_code.entered_from_trusted(frame);
    if (expected) return watch_.variables.learn_parameters(frame);
  } catch (const std::exception& error) {
    return watch_.run.abandon(BreakReason::told(error.what()));
  }
  if (is_code_of_warnings(frame)) forget_shown_warnings();
  return watch_.run.abandon("Python code is entered from C where that is not understood", function);
}

/// Of a class that carries out an operator, which the instruction has called, or what it runs unwatched.
bool Watcher::enter_handler(Frame* frame) {
  const bool is_called = (activity().entry != Entry::none || activity().is_trusted) && !activity().is_around;
  const bool is_shown = watch_.other_threads.show_effects();
  watch_.run.activities.push_back({});
  deepest_ = std::max(deepest_, watch_.run.activities.size());
  if (!is_shown) return false;
  try {
    if (is_called && DispatchHandlers(watch_, watch_.run).learn(frame))
      return watch_.variables.learn_parameters(frame);
  } catch (const std::exception& error) {
    return watch_.run.abandon(BreakReason::told(error.what()));
  }
  return watch_.run.abandon(Break::class_dispatches);
}

/// A special method that C code calls on what it is given: of items that it orders, of an iterator that it goes
/// through.
bool Watcher::learn_special_method(Frame* frame) {
  PyObject* function = reinterpret_cast<PyObject*>(function_of(frame));
  PyObject* first = frame->f_code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  PyObject* name = PyFunction_Check(function) ? reinterpret_cast<PyFunctionObject*>(function)->func_name : nullptr;
  if (!first || !name || !text_of(name).starts_with("__")) return false;
  if (text_of(name) == "__torch_function__") return learn_torch_function(frame);
  if (!values().is_known(first)) return false;
  const bool is_asked = activity().looks || text_of(name) == "__next__";
  if (!is_asked || values().tensors().is_tensor(first) || find_in_type(Py_TYPE(first), name) != function)
    return false;
  return values().learn(function, values().sources().type_attribute(type_source(values(), first), name));
}

/// An instance of torch.overrides.TorchFunctionMode. PyTorch takes it off the stack while its handler runs.
static bool is_function_mode(PyObject* object) {
  PyObject* mro = Py_TYPE(object)->tp_mro;
  PyObject** const bases = PySequence_Fast_ITEMS(mro);
  return std::any_of(bases, bases + PyTuple_GET_SIZE(mro), [](PyObject* base) {
    return std::string_view(as_type(base)->tp_name) == "TorchFunctionMode";
  });
}

/// What PyTorch calls in the place of a function: a class method of tensors' classes, or a mode's method. With the
/// function, the classes that have such a method, and the arguments.
bool Watcher::learn_torch_function(Frame* frame) {
  PyObject* function = reinterpret_cast<PyObject*>(function_of(frame));
  PyObject *first = frame->localsplus[0], *called = frame->f_code->co_argcount > 1 ? frame->localsplus[1] : nullptr;
  guards::SourceTable& sources = values().sources();
  const Ref name = Ref::steal(PyUnicode_InternFromString("__torch_function__"));
  if (!name || !called || frame->f_code->co_argcount != 5) return false;
  if (PyType_Check(first)) {
    PyObject* tensor = values().tensors().tensor_type();
    const bool is_of_tensors = PyType_IsSubtype(as_type(first), as_type(tensor));
    if ((is_of_tensors || !values().is_known(first)) && !values().learn(first, watch_.classes.class_source(first)))
      return false;
    PyObject* found = class_entry(first, "__torch_function__");
    if (!found || !Py_IS_TYPE(found, &PyClassMethod_Type) ||
        !watch_.classes.learn_class_entry(found,
                                          sources.type_attribute(watch_.classes.class_source(first), name.get())) ||
        !values().is_known(function))
      return false;
  } else {
    if (!is_function_mode(first) || find_in_type(Py_TYPE(first), name.get()) != function) return false;
    if (const auto older = values().tensors().modes().handling();
        older.mode == first && !values().learn(first, sources.function_mode(older.place)))
      return false;
    if (!values().is_known(first)) return false;
    if (const guards::Source* source = values().source_of(first)) values().guards().lacks(source, name.get());
    if (!watch_.classes.keep_special(first, {"__getattribute__"}) ||
        !values().learn(function, sources.type_attribute(type_source(values(), first), name.get())))
      return false;
  }
  if (!watch_.tensor_attributes.is_operator_in_c(called)) return false;
  if (Py_IS_TYPE(called, &_PyMethodWrapper_Type))
    values().make(called);  // Each call has one of its own.
  else
    values().learn(called, sources.object(called, "a function of PyTorch's"));
  PyObject *types = frame->localsplus[2], *keywords = frame->localsplus[4];
  for (Py_ssize_t i = 0; PyTuple_CheckExact(types) && i < PyTuple_GET_SIZE(types); ++i)
    values().learn(PyTuple_GET_ITEM(types, i), watch_.classes.class_source(PyTuple_GET_ITEM(types, i)));
  for (int i = 2; i < 4; ++i)
    if (PyTuple_CheckExact(frame->localsplus[i])) values().make(frame->localsplus[i]);
  PyObject* given = frame->localsplus[3];
  for (Py_ssize_t i = 0; activity().passes_slice && PyTuple_CheckExact(given) && i < PyTuple_GET_SIZE(given); ++i)
    if (PySlice_Check(PyTuple_GET_ITEM(given, i))) values().make(PyTuple_GET_ITEM(given, i));
  if (keywords && PyDict_CheckExact(keywords)) values().make(keywords);
  return true;
}

bool Watcher::begin(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  watch_.run.activities.assign(1, {});
  return watch_.calls.call(callable, arguments, count);
}

void Watcher::begin(RootFrame& root) {
  watch_.run.activities.assign(1, {});
  watch_.run.root = &root;
}

void Watcher::left(Frame*) {
  watch_.run.activities.pop_back();
  if (watch_.run.activities.size() < watch_.run.without_default_device) watch_.run.without_default_device = 0;
  // C code goes on: nothing may be left for others to see.
  if (!abandoned_ && activity().shares && !watch_.other_threads.hide_effects()) values().effects().undo();
}

bool Watcher::handing_over(Handover reason) {
  if (activity().is_around) return true;  // Effects stay hidden until it has returned.
  if (activity().shares && !watch_.other_threads.show_effects()) return false;
  if (reason == Handover::generator_creation || activity().is_trusted) return true;
  watch_.run.abandon(Break::left_to_cpython);
  watch_.run.place.reason.append(": ").append(handover_texts[static_cast<size_t>(reason)]);
  return false;
}

bool Watcher::before(Activation& a, int opcode, int arg) {
  if (abandoned_) return false;
  if (activity().is_around && opcode == BEFORE_WITH) {
    // A run that is given up leaves no `with`: what it holds would stay locked.
    const bool is_lock = is_a(a.peek(1), "_thread.lock") || is_a(a.peek(1), "_thread.RLock");
    return !is_lock || watch_.run.abandon("a lock", a.peek(1));
  }
  if (activity().is_trusted || activity().is_around) return true;
  values().numbers().settle_read();
  activity() = {.is_trusted = false};
  watch_.run.callee = nullptr;
  watch_.iterators.next_item() = {};
  const bool at_root = watch_.run.root && a.frame == watch_.run.root->frame();
  try {
    if (at_root && watch_.run.root->arrives(a)) {
      watch_.run.abandon("the run was to end here");
      watch_.run.root->end(a);
      return false;
    }
    if (at_root && is_return(opcode)) {
      if (PyObject* constant = returned_constant(a.code(), opcode, arg)) values().make_constant(constant);
      watch_.run.root->end(a);
      return watch_.run.abandon("the end of the function");
    }
    // Items that are only passed on are not looked at.
    if (at_root && opcode == UNPACK_SEQUENCE &&
        watch_.run.root->unpack(static_cast<int>(a.top - a.frame->localsplus) - 1, arg))
      return true;
    const bool is_learnt = !at_root || watch_.root_slots.consume(a, opcode, arg);
    if (is_learnt && values().numbers().has_deferred()) watch_.root_slots.settle_operands(a, opcode, arg);
    const SizeWorld& sizes = values().tensors().sizes();
    if (is_learnt) watch_.traced_arrays.put_given(a, opcode, arg);
    if (is_learnt && sizes.has_sizes()) watch_.sizes.put_tracers(a, opcode, arg);
    if (abandoned_) return false;
    if (is_learnt && gives(a, opcode) && looks::look(watch_, a, opcode, arg)) {
      if (sizes.has_sizes()) watch_.sizes.look_at_sizes(a, opcode, arg);  // Perhaps the first, in what it opens.
      return watch_.other_threads.hide_effects(a, opcode, arg);
    }
    // What was used only by this instruction must not be guarded: then the run is repeated up to here.
    if (at_root && !watch_.run.root->has_used()) watch_.run.root->end(a);
    return false;
  } catch (const std::exception& error) {
    // CPython's frames lie between this one and whoever could handle it.
    return watch_.run.abandon(BreakReason::told(error.what()));
  }
}

/// What len() makes of a size that a `__len__` returns: an equal number, or an error where that is below 0.
std::optional<ir::Size> Watcher::length_given(PyObject* returned) {
  const ir::Size* size = values().numbers().size_of(returned);
  if (!size || !values().tensors().sizes().decide(ir::at_least(*size, 0))) return std::nullopt;
  return *size;
}

/// What tree_map() calls: a tree is built of what it returns, and nothing else is done with that.
static bool becomes_leaf(Frame* frame) {
  const Frame* const caller = frame->previous;
  auto* const function = caller ? reinterpret_cast<PyObject*>(function_of(caller)) : nullptr;
  return function && is_of_trees(function) && text_of(caller->f_code->co_name) == "unflatten";
}

/// What a function or generator gives to C code that looks into it is guarded all through.
bool Watcher::gives(Activation& a, int opcode) {
  const bool leaves = opcode == YIELD_VALUE || opcode == RETURN_VALUE;
  if (!leaves || watch_.run.activities.size() < 2) return true;
  Activity& caller = watch_.run.activities[watch_.run.activities.size() - 2];
  const bool returns = opcode == RETURN_VALUE && a.frame->owner != FRAME_OWNED_BY_GENERATOR;
  if (returns && caller.asks_length && text_of(a.code()->co_name) == "__len__")
    caller.size = length_given(a.peek(1));
  if (returns && caller.asks_keys && caller.asks_keys == reinterpret_cast<PyObject*>(function_of(a.frame)) &&
      !watch_.iterables.gives_keys(a.peek(1)))
    return false;
  // C code makes another number of it, unless it is known what that is.
  const bool is_converted = !caller.is_direct && !caller.size && converts_result(a.code());
  if (opcode == RETURN_VALUE && is_converted) values().numbers().settle_sizes_within(a.peek(1));
  const bool is_collected = caller.collects && generator_of(a.frame) == caller.collects;
  if (!caller.is_around && (caller.is_direct || is_collected || !(caller.looks || watch_.run.looks_lazily)))
    return true;
  if (returns && text_of(a.code()->co_name) == "__iter__" && watch_.iterables.advances_by_python(a.peek(1)))
    return true;
  if (!absorb(values(), a.peek(1)))
    return watch_.run.abandon("C code is given an object whose parts are not guarded", a.peek(1));
  if (watch_.run.hands_to_c) watch_.sizes.settle_tensors_within(a.peek(1));
  if (!(returns && caller.is_around && becomes_leaf(a.frame))) values().numbers().settle_sizes_within(a.peek(1));
  return true;
}

bool Watcher::after(Activation& a, int opcode, int arg, Step step) {
  if (abandoned_) return false;
  const bool is_error = step == Step::error || step == Step::reraise;
  if (activity().is_around) {
    PyObject* made = !is_error && a.top > a.stack_base() ? a.peek(1) : nullptr;
    if (made && PyGen_CheckExact(made)) watch_.generators.keep_generator(made);
    return true;
  }
  if (activity().shares && !watch_.other_threads.show_effects()) return false;
  if (is_error && watch_.run.root && a.frame == watch_.run.root->frame()) watch_.run.root->raises();
  if (activity().is_trusted) return true;
  if (activity().answer) values().tensors().answered();
  if (activity().on_default_device) values().tensors().modes().leave_default_device();
  if (is_error) {
    const Entry entry = activity().entry;
    const bool is_operation = entry == Entry::tensor || entry == Entry::trusted || entry == Entry::around;
    if (!is_operation) return true;
    const std::optional<Break> why = values().tensors().why_raised();
    return watch_.run.abandon(why ? BreakReason(*why) : "an operation on tensors raises an error");
  }
  if ((reads(opcode) || values().numbers().hands_on_read()) && a.top > a.stack_base())
    if (PyObject* one = values().numbers().take_read(a.peek(1))) a.pop(), a.push_borrowed(one);
  PyObject* top = a.top > a.stack_base() ? a.peek(1) : nullptr;
  if (activity().fills && top) values().effects().store_entry(activity().fills, activity().key, top);
  switch (opcode) {
    case LOAD_CONST: values().make_constant(top); return true;
    case LOAD_GLOBAL:
      // As torch.compile has it: models choose a way without branches on values of tensors. Only this run is told,
      // not the other threads that read the flag meanwhile.
      if (activity().asks_whether_compiling) {
        a.pop(), a.push_bool(true);
        values().tensors().compiling_flag_was_read();
      }
      return true;
    case MAKE_CELL: values().make(a.local(arg)); return true;
    case BEFORE_WITH: values().make(a.peek(2)); return true;  // The bound __exit__.
    case FOR_ITER: {  // At its end the iterator is gone, and anything may lie on top.
      PyObject* iterator = activity().iterator;
      const bool has_item = top && a.top - 1 > a.stack_base() && a.peek(2) == iterator;
      if (has_item && watch_.iterators.next_item()) return watch_.iterators.receive(a);
      if (has_item && is_fresh_iterator(iterator)) values().make(top);
      return true;
    }
    case UNPACK_SEQUENCE:
    case UNPACK_EX:
      if (activity().makes_result)
        for (int depth = 1; depth <= (opcode == UNPACK_SEQUENCE ? arg : (arg & 0xFF) + 1 + (arg >> 8)); ++depth)
          values().make(a.peek(depth));
      return true;
    default:
      if (top && values().tensors().sizes().has_sizes()) {
        watch_.sizes.take_sizes(a);
        top = a.peek(1);
      }
      if (activity().answer) {
        a.pop(), a.push_borrowed(activity().answer);
        top = a.peek(1);
      }
      if (activity().sets_variable) values().effects().set_variable(activity().sets_variable, top);
      if (activity().makes_class)
        values().make_class(top);
      else if (activity().makes_constant && !values().is_known(top))
        values().make_constant(top);
      else if (activity().entry == Entry::around)
        watch_.trusted_code.keep_fresh(top);
      else if (activity().makes_result)
        values().make(top);
      if (watch_.iterators.next_item()) return watch_.iterators.receive(a);
      if (activity().makes_address) values().note_address(top);
      if (activity().makes_signature) watch_.library.make_signature(top);
      if (activity().reduces) watch_.copies.learn_reduced(activity().reduces, top);
      if (activity().entry == Entry::known && is_fresh_generator(top)) values().make(top);
      if (top && PyGen_CheckExact(top) && values().is_made(top)) watch_.generators.keep_generator(top);
      learn_unbound(a);
      return true;
  }
}

/// A method lies unbound below its object, until it is called. A builtin class's is the same in every run.
void Watcher::learn_unbound(Activation& a) {
  PyObject* method = a.top - a.stack_base() > 1 ? a.peek(2) : nullptr;
  if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type)) return;
  const PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(method)->d_type;
  if (is_exact_builtin(owner) && !values().is_known(method)) values().make_constant(method);
}

}  // namespace braze::interpreter
