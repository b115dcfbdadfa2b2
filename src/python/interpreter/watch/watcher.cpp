// python/interpreter/watch/watcher.cpp: frames, variables, containers, operators.
#include "python/interpreter/watch/watcher.h"

#include "python/guards/deque.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/raised.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/looks.h"

namespace braze::interpreter {

namespace {

/// Kernels that PyTorch has in Python, which the dispatcher enters: shapes, decompositions.
bool is_torchs_own(Frame* frame) {
  if (!PyDict_Check(frame->f_globals)) return false;
  PyObject* name = PyDict_GetItemString(frame->f_globals, "__name__");
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) return false;
  for (const char* prefix :
       {"torch._meta_registrations", "torch._refs", "torch._prims", "torch._decomp", "torch._ops"})
    if (std::string_view(text).starts_with(prefix)) return true;
  return false;
}

/// torch.SymInt, which operators make of sizes.
bool is_code_of_sizes(const Frame* frame) {
  PyObject* torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  return torch && PyModule_Check(torch) && PyModule_GetDict(torch) == frame->f_globals &&
         text_of(frame->f_code->co_qualname).starts_with("SymInt.");
}

PyTypeObject* default_dict_type() {
  PyObject* collections = PyDict_GetItemString(PyImport_GetModuleDict(), "collections");
  PyObject* type = collections && PyModule_Check(collections)
                       ? PyDict_GetItemString(PyModule_GetDict(collections), "defaultdict")
                       : nullptr;
  return type && PyType_Check(type) && is_exact_builtin(reinterpret_cast<PyTypeObject*>(type))
             ? reinterpret_cast<PyTypeObject*>(type)
             : nullptr;
}

/// A heap class, or not, that leaves an operation to `object` itself.
bool has_default_truth(PyTypeObject* type) {
  const bool number = type->tp_as_number && type->tp_as_number->nb_bool;
  const bool sequence = type->tp_as_sequence && type->tp_as_sequence->sq_length;
  const bool mapping = type->tp_as_mapping && type->tp_as_mapping->mp_length;
  return !number && !sequence && !mapping;
}

}  // namespace

bool Watcher::abandon(BreakReason why, PyObject* subject) {
  if (abandoned_) return false;
  abandoned_ = true;
  const RaisedAside aside;
  place_ = why;
  if (subject) place_.reason += std::string(" (") + guards::describe(subject) + ")";
  if (PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get())) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    place_.file = file ? file : "?";
    place_.line = PyFrame_GetLineNumber(frame);
    Py_DECREF(code);
    Py_DECREF(frame);
  }
  return false;
}

bool Watcher::entered(Frame* frame) {
  auto* function = reinterpret_cast<PyObject*>(function_of(frame));
  const Entry entry = activities_.back().entry;
  const bool is_size = values_.tensors().has_sizes() && is_code_of_sizes(frame);
  if (entry == Entry::trusted || activities_.back().is_trusted || is_size) {
    activities_.push_back({.is_trusted = true});
    return true;
  }
  const bool from_around = activities_.back().is_around;
  const Way way = from_around || entry == Entry::around ? way_from_trusted(frame) : Way::watched;
  if (way == Way::unwatched) {
    activities_.push_back({.is_around = true, .shares = activities_.back().shares});
    return true;
  }
  // A generator that is dropped where it stands, without a handler, only ends.
  const bool closes = frame->owner == FRAME_OWNED_BY_GENERATOR && PyErr_Occurred() &&
                      PyErr_ExceptionMatches(PyExc_GeneratorExit) && !has_handlers(frame->f_code);
  if (closes) {
    activities_.push_back({.is_trusted = true});
    return true;
  }
  bool expected = !from_around && entry != Entry::none && values_.is_known(function);
  if (entry == Entry::tensor && !expected) expected = learn_tensor_method(function);
  if (entry == Entry::tensor && expected && hashes_tensor(function)) {
    activities_.push_back({.is_trusted = true});
    return true;
  }
  if (!expected && entry == Entry::tensor && is_torchs_own(frame)) {
    activities_.push_back({.is_trusted = true});
    return true;
  }
  if (!show_effects()) {
    activities_.push_back({});
    return false;
  }
  PyTypeObject* constructs = activities_.back().constructs;
  PyObject* first = frame->f_code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  if (constructs && first && Py_IS_TYPE(first, constructs)) values_.make(first);
  if (activities_.back().packs_arguments)
    for (int i = 0; i < frame->f_code->co_argcount; ++i)
      if (PyTuple_CheckExact(frame->localsplus[i])) values_.make(frame->localsplus[i]);
  const bool given_slice = activities_.back().passes_slice && frame->f_code->co_argcount > 1;
  if (given_slice && PySlice_Check(frame->localsplus[1])) values_.make(frame->localsplus[1]);
  activities_.push_back({});
  deepest_ = std::max(deepest_, activities_.size());
  try {
    if (from_around && way == Way::watched) return entered_from_trusted(frame);
    if (expected) return learn_parameters(frame);
  } catch (const std::exception& error) {
    return abandon(BreakReason::told(error.what()));
  }
  return abandon("Python code is entered from C where that is not understood", function);
}

/// What a call put into the frame itself: the tuple of *args, the dict of **kwargs, defaults.
bool Watcher::learn_parameters(Frame* frame) {
  const PyCodeObject* code = frame->f_code;
  if (frame->owner == FRAME_OWNED_BY_GENERATOR) return true;
  const int named = code->co_argcount + code->co_kwonlyargcount;
  const int packed = named + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
  for (int i = named; i < packed; ++i) values_.make(frame->localsplus[i]);
  const guards::Source* source = values_.source_of(reinterpret_cast<PyObject*>(function_of(frame)));
  if (!source) return true;  // Made here, and so are its defaults.
  guards::SourceTable& sources = values_.sources();
  PyObject *defaults = function_of(frame)->func_defaults, *keyword_defaults = function_of(frame)->func_kwdefaults;
  const Py_ssize_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* value = PyTuple_GET_ITEM(defaults, k);
    if (frame->localsplus[code->co_argcount - count + k] != value || values_.is_known(value)) continue;
    const guards::Source* tuple = sources.member(source, guards::Member::function_defaults);
    if (!values_.learn(value, sources.sequence_item(tuple, static_cast<uint32_t>(k))))
      return abandon("a default that cannot be guarded", value);
  }
  for (int i = code->co_argcount; keyword_defaults && i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    PyObject* value = PyDict_GetItemWithError(keyword_defaults, name);
    if (!value || frame->localsplus[i] != value) continue;
    const guards::Source* dict = sources.member(source, guards::Member::function_kwdefaults);
    if (!values_.learn(value, sources.dict_item(dict, name)))
      return abandon("a default that cannot be guarded", value);
  }
  return true;
}

bool Watcher::begin(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  activities_.assign(1, {});
  return call(callable, arguments, count);
}

void Watcher::begin(RootFrame& root) {
  activities_.assign(1, {});
  root_ = &root;
}

void Watcher::left(Frame*) {
  activities_.pop_back();
  // C code goes on: nothing may be left for others to see.
  if (!abandoned_ && activities_.back().shares && !hide_effects()) values_.effects().undo();
}

bool Watcher::handing_over(Handover reason) {
  if (activities_.back().is_around) return true;  // Effects stay hidden until it has returned.
  if (activities_.back().shares && !show_effects()) return false;
  if (reason == Handover::generator_creation || activities_.back().is_trusted) return true;
  return abandon(BreakReason::told(handover_texts[static_cast<size_t>(reason)]));
}

bool Watcher::operand(PyObject* value, BreakReason why) {
  return values_.absorb(value) || abandon(why, value);
}

bool Watcher::operands(std::initializer_list<PyObject*> values, BreakReason why) {
  bool any_tensor = false;
  for (PyObject* value : values) {
    if (!operand(value, why)) return false;
    any_tensor |= values_.tensors().is_tensor(value);
  }
  return allow_made_result(any_tensor ? Entry::tensor : Entry::none);
}

bool Watcher::truth(PyObject* value) {
  if (guards::is_scalar(value)) return true;
  if (values_.tensors().is_tensor(value)) return abandon("a branch on the value of a tensor");
  if (is_derived_scalar(value) && values_.absorb(value)) return true;
  if (guards::is_deque(value)) return values_.open(value) || abandon("a deque of unknown origin", value);
  if (acts_as_builtin(value, "__len__") && keep_special(value, {"__bool__"})) {
    const guards::Source* source = values_.source_of(value);
    if (source && values_.effects().changed(value))
      return values_.open(value) || abandon("a container that cannot be guarded", value);
    if (source) values_.guards().length(source, static_cast<size_t>(guards::length_of(value)));
    return source || values_.is_made(value) || abandon("a branch on a value of unknown origin", value);
  }
  if (values_.is_known(value) && (special_function(value, "__bool__") || special_function(value, "__len__")))
    return keep_special(value, {"__bool__"}) && allow(Entry::known);
  if (values_.is_known(value) && has_default_truth(Py_TYPE(value)))
    return keep_special(value, {"__bool__", "__len__"});
  return abandon("a branch on an object that decides its truth itself", value);
}

bool Watcher::load_global(Activation& a, int arg) {
  PyObject *name = a.name(arg >> 1), *globals = a.frame->f_globals, *builtins = a.frame->f_builtins;
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return abandon("globals that are no dict");
  if (std::pair(globals, name) == values_.tensors().compiling_flag()) {
    activities_.back().asks_whether_compiling = true;
    return true;
  }
  guards::SourceTable& sources = values_.sources();
  if (values_.effects().wrote(globals, name))
    return PyDict_GetItemWithError(globals, name) || abandon("a global that the function deletes", name);
  const guards::Source* entry = sources.dict_item(sources.object(globals, "G"), name);
  if (PyObject* value = PyDict_GetItemWithError(globals, name))
    return values_.learn(value, entry) || abandon("a global that cannot be guarded", value);
  PyObject* value = PyDict_GetItemWithError(builtins, name);
  if (!value) return abandon("a global that is not there", name);
  values_.guards().absent(entry);
  return values_.learn(value, sources.dict_item(sources.object(builtins, "builtins"), name)) ||
         abandon("a builtin that cannot be guarded", value);
}

bool Watcher::store_global(Activation& a, int arg) {
  PyObject* globals = a.frame->f_globals;
  if (!PyDict_CheckExact(globals)) return abandon("globals that are no dict");
  values_.learn_as(globals, values_.sources().object(globals, "G"));
  if (!lets_go_of_entry(globals, a.name(arg))) return false;
  values_.effects().store_entry(globals, a.name(arg), a.peek(1));
  return true;
}

bool Watcher::load_cell(PyObject* cell) {
  if (values_.is_made(cell) || values_.effects().wrote(cell, nullptr)) return true;
  const guards::Source* source = values_.source_of(cell);
  if (!source) return abandon("a closure cell of unknown origin");
  PyObject* value = PyCell_GET(cell);
  if (!value) return abandon("a closure cell that is empty");
  return values_.learn(value, source) || abandon("a closed-over value that cannot be guarded", value);
}

bool Watcher::copy_free_variables(Activation& a) {
  const auto* function = reinterpret_cast<PyObject*>(function_of(a.frame));
  const guards::Source* source = values_.source_of(const_cast<PyObject*>(function));
  if (!source) return true;  // Made here: its cells are those of frames that were watched.
  PyObject* closure = function_of(a.frame)->func_closure;
  guards::SourceTable& sources = values_.sources();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const char* name = PyUnicode_AsUTF8(
        PyTuple_GET_ITEM(a.code()->co_localsplusnames, a.code()->co_nlocalsplus - PyTuple_GET_SIZE(closure) + i));
    values_.learn_cell(PyTuple_GET_ITEM(closure, i), sources.closure_variable(source, index, name ? name : "?"));
  }
  return true;
}

bool Watcher::store_cell(PyObject* cell, PyObject* value) {
  if (values_.is_made(cell)) return true;
  const guards::Source* source = values_.source_of(cell);
  if (!source) return abandon("a variable of an enclosing function is changed");
  if (!values_.effects().wrote(cell, nullptr) && !lets_go(PyCell_GET(cell), source)) return false;
  values_.effects().store_cell(cell, value);
  return true;
}

bool Watcher::subscript(PyObject* container, PyObject* key) {
  if (values_.tensors().is_tensor(container))
    return operand(container, "a tensor of unknown origin") && operand(key, "an index of unknown origin") &&
           allow_made_result(Entry::tensor);
  if (guards::is_scalar(container)) return operand(key, "an index of unknown origin") && allow_made_result();
  if (PyObject* dict = dict_behind(container)) return subscript(dict, key);
  if (!values_.is_known(container)) return abandon("a subscript of an object of unknown origin", container);
  if (PyType_Check(container) && !(reinterpret_cast<PyTypeObject*>(container)->tp_flags & Py_TPFLAGS_HEAPTYPE))
    return is_part_of_type(key) ? subscript_type(container, key) : allow_made_result();  // list[int]
  if (is_generic(container)) return subscript_type(container, key);
  if (PyRange_Check(container)) return operand(key, "an index of unknown origin") && allow_made_result();
  if (guards::is_deque(container))
    return (values_.open(container) && operand(key, "an index of unknown origin")) ||
           abandon("a deque that cannot be guarded", container);
  const bool is_builtin = acts_as_builtin(container, "__getitem__");
  if (PyDict_Check(container) && is_builtin) {
    if (!is_exact_dict(container) && PyDict_Contains(container, key) != 1) return missing_entry(container, key);
    if (values_.is_made(container)) return hashes(key);
    return values_.look_up(container, key) || abandon("an entry of a dict that cannot be guarded", key);
  }
  if (is_builtin && !PyAnySet_Check(container))
    return (values_.open(container) && operand(key, "an index of unknown origin") && allow_made_result()) ||
           abandon("a container that cannot be guarded", container);
  if (values_.is_made(container) && PyTuple_Check(container))
    return allow_made_result();  // torch.Size, named tuples
  if (is_a(container, "torch.Size"))
    return operand(container, "a container that cannot be guarded") && operand(key, "an index of unknown origin") &&
           allow_made_result();
  if (special_function(container, "__getitem__")) return allow(Entry::known);
  return abandon("a subscript that is not understood", container);
}

/// An entry that a subclass of dict may make when it is asked for one that is not there.
bool Watcher::missing_entry(PyObject* dict, PyObject* key) {
  const bool is_made = values_.is_made(dict);
  if (is_made ? !guards::is_scalar(key) : !values_.look_up(dict, key))
    return abandon("an entry of a dict that cannot be guarded", key);
  if (special_function(dict, "__missing__")) return allow(Entry::known);
  if (!Py_IS_TYPE(dict, default_dict_type())) return abandon("a key that a subclass of dict does not have", key);
  PyObject* descriptor = PyDict_GetItemString(guards::class_dict(Py_TYPE(dict)), "default_factory");
  const Ref factory = Ref::steal(PyObject_GetAttrString(dict, "default_factory"));
  if (!factory || !descriptor) return abandon("a dict without a factory", dict);
  const guards::Source* source = values_.source_of(dict);
  if (source && !values_.learn(factory.get(), values_.sources().slot(source, descriptor)))
    return abandon("a factory that cannot be guarded", factory.get());
  if (factory.get() == Py_None) return true;  // A KeyError.
  if (!call(factory.get(), nullptr, 0)) return false;
  if (source) {
    values_.effects().will_fill(dict);
    activities_.back().fills = dict;
    activities_.back().key = key;
  }
  return true;
}

bool Watcher::contains(PyObject* container, PyObject* item) {
  if (guards::is_scalar(container) && guards::is_scalar(item)) return true;
  if (PyRange_Check(container) && values_.is_known(container) && guards::is_scalar(item)) return true;
  if (!values_.is_known(container)) return abandon("`in` an object of unknown origin", container);
  if (PyObject* dict = dict_behind(container)) return view_contains(container, dict, item);
  if (guards::is_deque(container))
    return operand(container, "a deque of objects") && operand(item, "an item of unknown origin");
  const bool is_builtin = acts_as_builtin(container, "__contains__");
  if (!is_builtin && special_function(container, "__contains__"))
    return keep_special(container, {"__bool__"}) && allow_made_result(Entry::known);
  if (PyDict_Check(container) && is_builtin) {
    if (values_.is_made(container)) return hashes(item);
    return values_.look_up(container, item) || abandon("a dict that cannot be guarded", container);
  }
  if (!is_builtin) return abandon("`in` that is not understood", container);
  if (PyAnySet_CheckExact(container) && values_.is_made(container)) return hashes(item);
  if (values_.look_up_member(container, item)) return true;
  if (has_same_object(container, item)) return true;
  if (abandoned_) return false;
  const bool is_derived =
      is_derived_scalar(item) ? values_.absorb(item) : PyTuple_Check(item) && formats_as_data(item);
  if (!guards::is_scalar(item) && !values_.tensors().is_plain(item) && !is_derived)
    return abandon("`in` with an item that is no scalar", item);
  if (PyAnySet_CheckExact(container))
    return values_.open(container) || abandon("a set that cannot be guarded", container);
  return operand(container, "a container that cannot be guarded");
}

/// `in` a list or tuple of objects that are equal to themselves alone: members of enums, classes, modules. False,
/// and no abandonment, if it is none.
bool Watcher::has_same_object(PyObject* container, PyObject* item) {
  const auto is_by_identity = [](PyObject* object) {
    return Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
  };
  const bool is_sequence = PyList_CheckExact(container) || PyTuple_CheckExact(container);
  if (!is_sequence || !is_by_identity(item) || !values_.is_known(item) || !values_.open(container)) return false;
  PyObject** const items = PySequence_Fast_ITEMS(container);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i)
    if (!guards::is_scalar(items[i]) && !(is_by_identity(items[i]) && values_.is_known(items[i]))) return false;
  if (!keep_special(item, {"__eq__"})) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) {
    if (guards::is_scalar(items[i])) continue;
    if (!keep_special(items[i], {"__eq__"}) || !compare_identity(item, items[i])) return false;
  }
  return true;
}

bool Watcher::store_item(PyObject* container, PyObject* key, PyObject* value) {
  if (values_.tensors().is_tensor(container))
    return operand(container, "a tensor of unknown origin") && operand(key, "an index of unknown origin") &&
           operand(value, "a value of unknown origin") && allow(Entry::tensor);
  if (!values_.is_known(container)) return abandon("an item is stored into an object of unknown origin", container);
  const bool is_builtin = acts_as_builtin(container, "__setitem__");
  if (PyDict_Check(container) && is_builtin) return store_entry(container, key, value);
  if (PyList_Check(container) && is_builtin) {
    if (!operand(key, "an index of unknown origin")) return false;
    if (PySlice_Check(key) && !iterate(value)) return false;
    return change_list(container);
  }
  if (guards::is_deque(container)) return store_in_deque(container, key, value);
  if (special_function(container, "__setitem__")) return allow(Entry::known);
  return abandon("an item is stored into an object that is not understood", container);
}

bool Watcher::store_entry(PyObject* dict, PyObject* key, PyObject* value) {
  if (values_.is_made(dict)) return hashes(key);
  const bool is_plain = guards::is_plain_key(key) && (PyUnicode_CheckExact(key) || guards::has_plain_keys(dict));
  if (!is_plain || !values_.is_known(key) || (!guards::is_scalar(key) && !values_.pin(key)))
    return abandon("a key that hashes itself", key);
  if (!lets_go_of_entry(dict, key)) return false;
  values_.effects().store_entry(dict, key, value);
  return true;
}

/// The entry is there, and at later calls too.
bool Watcher::delete_entry(PyObject* dict, PyObject* key) {
  if (values_.is_made(dict)) return operand(key, "a key of unknown origin");
  if (!values_.look_up(dict, key)) return abandon("an entry of a dict that cannot be guarded", key);
  if (PyDict_Contains(dict, key) != 1) return true;  // A KeyError, or the default of pop().
  if (!lets_go_of_entry(dict, key)) return false;
  values_.effects().delete_entry(dict, key);
  return true;
}

bool Watcher::delete_item(PyObject* container, PyObject* key) {
  if (!values_.is_known(container)) return abandon("an item of an object of unknown origin is deleted", container);
  const bool is_builtin = acts_as_builtin(container, "__delitem__");
  if (PyDict_Check(container) && is_builtin) return delete_entry(container, key);
  if (PyList_Check(container) && is_builtin)
    return operand(key, "an index of unknown origin") && change_list(container);
  if (special_function(container, "__delitem__")) return allow(Entry::known);
  return abandon("an item is deleted from an object that is not understood", container);
}

/// In any way but an append. What the list holds in the end depends on what it held before; each of its items may
/// be dropped.
bool Watcher::change_list(PyObject* list) {
  if (values_.is_made(list)) return true;
  if (!values_.open(list)) return abandon("a container that cannot be guarded", list);
  if (!lets_go(list, values_.source_of(list), true)) return false;
  values_.effects().change_list(list);
  return true;
}

bool Watcher::iterate(PyObject* iterable) {
  if (guards::is_scalar(iterable)) return allow_made_result();
  if (values_.tensors().is_tensor(iterable))
    return operand(iterable, "a tensor of unknown origin") && allow_made_result(Entry::tensor);
  if (!values_.is_known(iterable)) return abandon("iteration over an object of unknown origin", iterable);
  if (PyObject* dict = PyDict_Check(iterable) ? iterable : dict_behind(iterable)) values_.iterate_dict(dict);
  if (PyRange_Check(iterable)) return allow_made_result();  // Immutable, and held by identity.
  if (Py_IS_TYPE(iterable, &PyDictProxy_Type))
    return dict_behind(iterable) ? iterate(dict_behind(iterable)) : abandon("a proxy of unknown origin", iterable);
  if (PyAnySet_Check(iterable) && !values_.has_known_order(iterable))
    return abandon("iteration over a set whose order may differ", iterable);
  if (acts_as_builtin(iterable, "__iter__") || guards::is_deque(iterable))
    return (values_.open(iterable) && allow_made_result()) ||
           abandon("a container that cannot be guarded", iterable);
  if (special_function(iterable, "__iter__") || values_.is_made(iterable)) return allow_made_result(Entry::known);
  return abandon("iteration that is not understood", iterable);
}

namespace {

/// functools.cached_property computes under a lock, which 3.12 no longer has: a replay does without. Anywhere else
/// a lock keeps others away from what a replay would do without it.
bool is_cached_property_code(const Frame* frame) {
  PyObject* functools = PyDict_GetItemString(PyImport_GetModuleDict(), "functools");
  return functools && PyModule_Check(functools) && PyModule_GetDict(functools) == frame->f_globals &&
         text_of(frame->f_code->co_qualname) == "cached_property.__get__";
}

}  // namespace

bool Watcher::enter_with(PyObject* manager) {
  if (!values_.is_known(manager)) return abandon("`with` an object of unknown origin", manager);
  if (is_a(manager, "_thread.RLock") && is_cached_property_code(PyThreadState_Get()->cframe->current_frame)) {
    values_.effects().take_lock(manager);
    return true;
  }
  if (!special_function(manager, "__enter__") || !special_function(manager, "__exit__"))
    return abandon("a context manager that is not written in Python", manager);
  return allow(Entry::known);
}

bool Watcher::before(Activation& a, int opcode, int arg) {
  if (abandoned_) return false;
  if (activities_.back().is_around && opcode == BEFORE_WITH) {
    // A run that is given up leaves no `with`: what it holds would stay locked.
    const bool is_lock = is_a(a.peek(1), "_thread.lock") || is_a(a.peek(1), "_thread.RLock");
    return !is_lock || abandon("a lock", a.peek(1));
  }
  if (activities_.back().is_trusted || activities_.back().is_around) return true;
  activities_.back() = {.is_trusted = false};
  callee_ = nullptr;
  next_item_ = {};
  const bool at_root = root_ && a.frame == root_->frame();
  try {
    if (at_root && root_->arrives(a)) {
      abandon("the run was to end here");
      root_->end(a);
      return false;
    }
    if (at_root && is_return(opcode)) {
      if (PyObject* constant = returned_constant(a.code(), opcode, arg)) values_.make_constant(constant);
      root_->end(a);
      return abandon("the end of the function");
    }
    // Items that are only passed on are not looked at.
    if (at_root && opcode == UNPACK_SEQUENCE &&
        root_->unpack(static_cast<int>(a.top - a.frame->localsplus) - 1, arg))
      return true;
    const bool is_learnt = !at_root || consume(a, opcode, arg);
    if (is_learnt && values_.has_deferred()) settle_operands(a, opcode, arg);
    const bool has_sizes = is_learnt && values_.tensors().has_sizes();
    if (has_sizes) put_tracers(a, opcode, arg);
    if (is_learnt && gives(a, opcode) && look(a, opcode, arg)) {
      if (has_sizes) look_at_sizes(a, opcode, arg);
      return hide_effects(a, opcode, arg);
    }
    // What was used only by this instruction must not be guarded: then the run is repeated up to here.
    if (at_root && !root_->has_used()) root_->end(a);
    return false;
  } catch (const std::exception& error) {
    // CPython's frames lie between this one and whoever could handle it.
    return abandon(BreakReason::told(error.what()));
  }
}

/// What a function or generator gives to C code that looks into it is guarded all through.
bool Watcher::gives(Activation& a, int opcode) {
  const bool leaves = opcode == YIELD_VALUE || opcode == RETURN_VALUE;
  if (!leaves || activities_.size() < 2) return true;
  const Activity& caller = activities_[activities_.size() - 2];
  if (!caller.is_around && (caller.is_direct || !(caller.looks || looks_lazily_))) return true;
  return values_.absorb(a.peek(1)) || abandon("C code is given an object whose parts are not guarded", a.peek(1));
}

}  // namespace braze::interpreter
