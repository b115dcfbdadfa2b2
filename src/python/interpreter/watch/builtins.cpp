// python/interpreter/watch/builtins.cpp
#include "python/interpreter/watch/builtins.h"

#include <algorithm>
#include <string>

#include "python/guards/deque.h"
#include "python/guards/random_state.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/computing.h"
#include "python/interpreter/watch/dispatch_handlers.h"
#include "python/interpreter/watch/late_calls.h"
#include "python/interpreter/watch/least_tensors.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/tensor_hooks.h"
#include "python/interpreter/watch/warnings.h"
#include "python/interpreter/watch/watch.h"
#include "python/interpreter/watch/wrapper_world.h"

namespace braze::interpreter {

namespace {

constexpr Py_ssize_t any = PY_SSIZE_T_MAX;

/// Combinations of flags are made when they are first asked for, and kept.
bool is_code_of_enums(const Frame* frame) {
  PyObject* enums = PyDict_GetItemString(PyImport_GetModuleDict(), "enum");
  return enums && PyModule_Check(enums) && PyModule_GetDict(enums) == frame->f_globals;
}

/// Class methods of builtin classes that compute on their arguments alone.
const Names& pure_class_methods() {
  static const Names names = {"from_bytes", "from_iterable", "fromhex", "fromkeys"};
  return names;
}

/// Builtin classes whose `__new__` makes an instance of any subclass out of its arguments alone.
bool has_plain_new(PyTypeObject* type) {
  return type == &PyBaseObject_Type || type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type ||
         type == &PyODict_Type || type == &PyProperty_Type;
}

/// As the table of those that go through their arguments has it.
std::string goer_name(std::string_view module, std::string_view name) {
  return module.empty() || module == "builtins" ? std::string(name) : std::string(module) + "." + std::string(name);
}

/// A method that `type` itself has under this name, bound to a class.
bool is_method_of_type(const PyCFunctionObject* function, const char* name) {
  PyObject* own = PyDict_GetItemString(guards::class_dict(&PyType_Type), name);
  return own && Py_IS_TYPE(own, &PyMethodDescr_Type) &&
         reinterpret_cast<PyMethodDescrObject*>(own)->d_method == function->m_ml;
}

/// locals(), and vars() without an argument, read all cells of the frame. False, and no abandonment: the frame, and
/// with it the dict, was there before the run.
bool shows_variables(Watch& watch) {
  const Frame* frame = PyThreadState_Get()->cframe->current_frame;
  if (watch.run.root && watch.run.root->frame() == frame) return false;
  const PyCodeObject* code = frame->f_code;
  for (int i = 0; i < code->co_nlocalsplus; ++i) {
    const bool is_cell = PyBytes_AS_STRING(code->co_localspluskinds)[i] & (CO_FAST_CELL | CO_FAST_FREE);
    PyObject* cell = frame->localsplus[i];
    if (is_cell && cell && PyCell_Check(cell) && PyCell_GET(cell) && !watch.variables.load_cell(cell)) return false;
  }
  return true;
}

bool is_check_of_type(const PyCFunctionObject* function) {
  return is_method_of_type(function, "__instancecheck__") || is_method_of_type(function, "__subclasscheck__");
}

}  // namespace

std::span<const Builtins::Row> Builtins::rows() {
  using B = Builtins;
  static constexpr Row rows[] = {
      {"builtins", "isinstance", 0, any, &B::is_instance},
      {"builtins", "issubclass", 0, any, &B::is_instance},
      {"builtins", "getattr", 2, any, &B::get_attribute},
      {"builtins", "hasattr", 2, any, &B::get_attribute},
      {"builtins", "setattr", 3, 3, &B::set_attribute},
      {"builtins", "delattr", 2, 2, &B::delete_attribute},
      {"builtins", "len", 1, 1, &B::length},
      {"builtins", "callable", 1, 1, &B::is_callable},
      {"builtins", "iter", 1, 1, &B::iterate},
      {"builtins", "next", 1, any, &B::advance},
      {"builtins", "super", 0, any, &B::make},
      {"builtins", "locals", 0, 0, &B::make},
      {"builtins", "vars", 0, 0, &B::make},
      {"builtins", "id", 1, 1, &B::address},
      {"builtins", "vars", 1, 1, &B::instance_dict},
      {"builtins", "globals", 0, 0, &B::global_dict},
      {"builtins", "divmod", 2, 2, &B::divide},
      {"builtins", "hash", 1, 1, &B::hash, true},
      {"builtins", "repr", 1, any, &B::make_text, true},
      {"builtins", "ascii", 1, any, &B::make_text, true},
      {"builtins", "format", 1, any, &B::make_text, true},
      {"builtins", "sum", 1, 1, &B::go_through, true},
      {"builtins", "sum", 2, 2, &B::fold_sizes, true},
      {"builtins", "any", 1, 1, &B::go_through, true},
      {"builtins", "all", 1, 1, &B::go_through, true},
      {"builtins", "max", 1, 1, &B::go_through, true},
      {"builtins", "min", 1, 1, &B::go_through, true},
      {"builtins", "sorted", 1, 1, &B::go_through, true},
      {"builtins", "max", 2, any, &B::fold_sizes, true},
      {"builtins", "min", 2, any, &B::fold_sizes, true},
      {"builtins", "sorted", 2, 3, &B::fold_sizes, true},
      {"sys", "exc_info", 0, any, &B::make},
      {"sys", "intern", 0, any, &B::take_text},
      {"posix", "fspath", 0, any, &B::take_text},
      {"_warnings", "warn", 0, any, &B::warn},
      {"_warnings", "_filters_mutated", 0, 0, &B::warn},
      {"_weakref", "proxy", 0, any, &B::refer_weakly},
      {"_functools", "reduce", 0, any, &B::reduce},
      {"_abc", "_abc_instancecheck", 2, 2, &B::check_abstract},
      {"_abc", "_abc_subclasscheck", 2, 2, &B::check_abstract},
      {"_operator", "", 0, any, &B::operate},
      {"_collections", "_count_elements", 2, 2, &B::count_elements},
      {"math", "", 0, any, &B::compute},
      {"_struct", "pack", 0, any, &B::compute},
      {"_struct", "unpack", 0, any, &B::compute},
      {"_struct", "calcsize", 0, any, &B::compute},
  };
  return rows;
}

/// Of Python's data.
bool Builtins::makes_tensor(PyObject* function) {
  static const Names making = {"tensor", "as_tensor", "asarray"};
  return making.contains(reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name);
}

static bool counts_up(PyObject* function) {
  return std::string_view(reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name) == "arange";
}

const Builtins::Row* Builtins::find_row(const Call& call) {
  const auto found = std::ranges::find_if(rows(), [&](const Row& row) {
    return row.module == call.module && (row.name.empty() || row.name == call.name) && call.count >= row.fewest &&
           call.count <= row.most;
  });
  return found == rows().end() ? nullptr : &*found;
}

bool Builtins::call(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  auto* builtin = reinterpret_cast<PyCFunctionObject*>(function);
  PyObject* self = PyCFunction_GET_SELF(function);
  TensorWorld& tensors = values_.tensors();
  if (watch_.arrays.is_shared_by(function, arguments, count)) {
    if (!watch_.arrays.share(arguments[0])) return false;
    PyObject* stand_in = stand_in_for(function);
    if (!stand_in) return abandon(Break::tensor_over_array, arguments[0]);
    return watch_.stand_ins.put_stand_in(function, stand_in) && watch_.calls.call(stand_in, arguments, count);
  }
  if (tensors.may_call(function)) {
    // The one of torch.tensor() is for what is given tensors in lists.
    bool wants_stand_in =
        !makes_tensor(function) || (count > 0 && (holds_tensors(arguments[0]) || is_traced_array(arguments[0]) ||
                                                  watch_.arrays.is_given(arguments[0])));
    if (counts_up(function))  // Its own is for floats that are computed of sizes.
      wants_stand_in = std::any_of(arguments, arguments + count,
                                   [&](PyObject* one) { return values_.numbers().derived_of(one) != nullptr; });
    if (PyObject* stand_in = wants_stand_in ? stand_in_for(function) : nullptr)
      return watch_.stand_ins.put_stand_in(function, stand_in) && watch_.calls.call(stand_in, arguments, count);
    return call_of_torch(function, arguments, count);
  }
  const TensorWorld::Own own = tensors.own_function(function);
  if (own == TensorWorld::Own::ends_graph) return end_graph(count > 0 ? arguments[0] : nullptr);
  if (own == TensorWorld::Own::shares_array && count == 1) {
    PyObject* tensor = watch_.arrays.tensor_over(arguments[0]);
    activity().answer = tensor ? tensor : Py_None;
    return !abandoned() && (tensor || allow_made_result());
  }
  if (own == TensorWorld::Own::counts_effects) {
    counted_ = Ref::steal(PyLong_FromSize_t(values_.effects().count()));
    activity().answer = counted_.get();
    return allow_made_result();
  }
  if (TensorHooks::is_asked(function)) return TensorHooks(watch_, run_).ask(arguments, count);
  if (LateCalls::is_asked(function)) return LateCalls(watch_, run_).ask(arguments, count);
  if (watch_.autograd_functions.is_function_apply(function)) {
    if (tensors.wants_history(arguments, count) || tensors.is_within_gradient()) {
      PyObject* form = tensors.python_gradient_of(self).form;
      if (!form) return abandon(Break::autograd_function_with_gradients, self);
      return watch_.stand_ins.call_with_callable(self, form, arguments, count);
    }
    return watch_.autograd_functions.apply_function(self);
  }
  if (tensors.gives_other_class(function) && give_other_class(arguments, count)) return true;
  const WrapperWorld* const wrappers = tensors.wrappers();
  if (wrappers && wrappers->makes_wrapper(function) &&
      DispatchHandlers(watch_, run_).make_wrapper(arguments, count))
    return true;
  if (abandoned()) return false;
  const Call call{function, arguments, count, module_of(function), builtin->m_ml->ml_name};
  if (!watch_.iterables.put_items(goer_name(call.module, call.name), arguments, count)) return false;
  if (call.name == "__new__" && self && PyType_Check(self) && count > 0)
    return make_instance(self, arguments, count);
  if (self && PyType_Check(self) && is_exact_builtin(reinterpret_cast<PyTypeObject*>(self)) &&
      pure_class_methods().contains(call.name)) {
    if (call.name == "fromkeys" && count > 0 &&
        (PyList_CheckExact(arguments[0]) || PyTuple_CheckExact(arguments[0])))
      return watch_.instances.collect(arguments[0]);  // The value is handed on as it is.
    run_.looks_lazily |= call.name == "from_iterable";
    const Entry entry = call.name == "fromkeys" ? Entry::tensor : Entry::known;  // Tensors may be keys.
    return watch_.given.absorb_given(arguments, count) && allow_made_result(entry) && looks();
  }
  if (call.name == "__subclasses__" && self && PyType_Check(self) && count == 0 &&
      is_method_of_type(builtin, "__subclasses__"))
    return watch_.classes.call_subclasses(self);
  if (is_check_of_type(builtin))
    return (count == 1 && values_.is_known(arguments[0]) && values_.is_known(self) &&
            watch_.classes.keep_class_of(arguments[0]))
               ? allow(Entry::known)
               : abandon("isinstance with an object of unknown origin", count ? arguments[0] : nullptr);
  if (self && !PyModule_Check(self) && !PyType_Check(self)) return call_bound(function, self, arguments, count);
  if (!values_.is_known(function)) return abandon("a function of unknown origin", function);

  const Row* row = find_row(call);
  if (row && !row->after_conversions)
    if (const Understood understood = (this->*row->how)(call)) return *understood;
  if (call.module == "builtins") {
    if (count >= 1 && watch_.conversions.converts(call.name, arguments[0])) return true;
    if (abandoned()) return false;
    if (row && row->after_conversions)
      if (const Understood understood = (this->*row->how)(call)) return *understood;
    return call_by_what_it_does(call);
  }
  if (PyObject* stand_in = stand_in_for(function))
    return watch_.stand_ins.put_stand_in(function, stand_in) && watch_.calls.call(stand_in, arguments, count);
  return abandon("a C function that is not understood", function);
}

/// `_make_subclass(cls, tensor, require_grad=False)`, which no handler sees: the tensor, detached, of the class.
bool Builtins::give_other_class(PyObject* const* arguments, Py_ssize_t count) {
  TensorWorld& tensors = values_.tensors();
  const bool is_short = count == 2 && !run_.keyword_names;
  const bool has_no_grad =
      count == 3 && arguments[2] == Py_False &&
      (!run_.keyword_names || text_of(PyTuple_GET_ITEM(run_.keyword_names, 0)) == "require_grad");
  if (!is_short && !has_no_grad) return false;
  return PyType_Check(arguments[0]) && values_.is_known(arguments[0]) &&
         tensors.keep_tensor_class(as_type(arguments[0])) && tensors.is_tensor(arguments[1]) &&
         values_.is_known(arguments[1]) && values_.pin(arguments[0]) && allow_made_result();
}

/// \param why  the text of a row, or what is told beside that of all others.
bool Builtins::end_graph(PyObject* why) {
  const std::string_view text = why ? text_of(why) : std::string_view();
  const auto row = std::ranges::find(break_rows, text, &BreakRow::text);
  if (text.empty() || row == break_rows.end()) return abandon(Break::stand_in, why);
  return abandon(static_cast<Break>(row - break_rows.begin()));
}

/// Tensors in lists: PyTorch reads each for its number.
bool Builtins::holds_tensors(PyObject* value, int depth) const {
  constexpr int deepest = 3;
  if (depth > deepest || (!PyList_CheckExact(value) && !PyTuple_CheckExact(value))) return false;
  PyObject** const items = PySequence_Fast_ITEMS(value);
  return std::any_of(items, items + PySequence_Fast_GET_SIZE(value), [&](PyObject* item) {
    return values_.tensors().is_tensor(item) || holds_tensors(item, depth + 1);
  });
}

/// The stack holds modes of the run's, and older ones, which are known by where they are.
bool Builtins::use_mode_stack(ModeWorld::Use use, PyObject* const* arguments, Py_ssize_t count) {
  if (use == ModeWorld::Use::counts) return allow_made_result();
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!values_.is_known(arguments[i])) return abandon("an argument of unknown origin", arguments[i]);
  if (use == ModeWorld::Use::gives) {
    const ModeWorld::OlderMode older = values_.tensors().modes().given_by(arguments, count);
    if (older.mode && !values_.learn(older.mode, values_.sources().function_mode(older.place)))
      return abandon("a value that cannot be guarded", older.mode);
  }
  if (use == ModeWorld::Use::pushes && values_.tensors().modes().has_default_device())
    return abandon(Break::default_device_aside);
  return allow(Entry::none);
}

bool Builtins::call_of_torch(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  TensorWorld& tensors = values_.tensors();
  if (const auto use = tensors.modes().use_of_stack(function); use != ModeWorld::Use::nothing)
    return use_mode_stack(use, arguments, count);
  if (makes_tensor(function) && count > 0 && holds_tensors(arguments[0])) return abandon(Break::tensor_of_values);
  activity().answer = tensors.answer(function, arguments, count);
  if (!activity().answer && tensors.modes().has_default_device() && !put_default_device(function)) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!absorb_by_torch(values_, arguments[i]) && !absorb_all(arguments + i, 1, function)) return false;
  return allow_made_result(Entry::tensor);
}

bool Builtins::put_default_device(PyObject* function) {
  if (values_.tensors().modes().asks_for_torch_function(function)) {
    // Natively it would be entered again, without the mode; what follows a break in it would not know.
    if (run_.root && run_.activities.size() == 1) return abandon(Break::default_device_aside);
    if (!run_.without_default_device) run_.without_default_device = run_.activities.size();
  } else if (!run_.without_default_device) {
    activity().on_default_device = values_.tensors().modes().enter_default_device(function);
  }
  return true;
}

bool Builtins::make_instance(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  auto* base = reinterpret_cast<PyTypeObject*>(self);
  auto* cls = PyType_Check(arguments[0]) ? reinterpret_cast<PyTypeObject*>(arguments[0]) : nullptr;
  const bool is_given = values_.source_of(arguments[0]) || values_.is_own_class(arguments[0]);
  const bool is_ordinary = cls && has_plain_new(base) && is_given && PyType_IsSubtype(cls, base) &&
                           (cls->tp_new != base->tp_new || count == 1) && !class_entry(arguments[0], "__del__");
  if (!is_ordinary) {
    run_.is_for_later |= is_code_of_enums(PyThreadState_Get()->cframe->current_frame);
    return abandon("__new__ of such a class", arguments[0]);
  }
  if (base != &PyTuple_Type || count < 2) return allow_made_result();
  if (!watch_.containers.iterate(arguments[1])) return false;
  if (PyGen_CheckExact(arguments[1])) activity().collects = arguments[1];
  return allow_made_result(Entry::known);
}

bool Builtins::call_bound(PyObject* function, PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  // A method that existed before is bound to the same object on later calls, which never changes here.
  const bool is_older = PyFrozenSet_CheckExact(self) && values_.source_of(function) && !values_.is_known(self);
  if (is_older) values_.learn(self, values_.sources().object(self, "the set of a method"));
  if (guards::is_random_generator(self)) watch_.random_numbers.learn_bound(function, self);
  const Ref text = Ref::steal(PyUnicode_FromString(reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name));
  return text && watch_.methods.call_method(text.get(), self, arguments, count);
}

bool Builtins::call_by_what_it_does(const Call& call) {
  if (call.name == "__build_class__") return abandon("a class made by the function");
  const bool calls = call.name == "iter" || call.name == "next";
  if (!calls && what_function_does(call.module, call.name) != Does::computes)
    return abandon("a builtin function that is not understood", call.function);
  return watch_.given.absorb_given(call.arguments, call.count, Given::items_given_to(call.name)) &&
         allow_made_result(entry_of_computing(call.arguments, call.count)) && looks();
}

PyObject* Builtins::stand_in_for(PyObject* function) {
  PyObject* stand_in = run_.callee && *run_.callee == function ? values_.tensors().stand_in_for(function) : nullptr;
  // The code of a stand-in means what it stands in for where it calls that.
  const bool is_own =
      stand_in && PyThreadState_Get()->cframe->current_frame->f_globals == PyFunction_GET_GLOBALS(stand_in);
  return is_own ? nullptr : stand_in;
}

// ---- rows of module builtins

Builtins::Understood Builtins::is_instance(const Call& call) {
  PyObject* const* arguments = call.arguments;
  if (call.count != 2 || !values_.is_known(arguments[0]))
    return abandon("isinstance with an object of unknown origin", call.count ? arguments[0] : nullptr);
  if (call.name == "isinstance" && is_traced_array(arguments[0])) {
    const std::optional<bool> answer = watch_.traced_arrays.is_instance(arguments[0], arguments[1]);
    if (!answer) return abandon(Break::numpy);
    if (!watch_.classes.open_classes(arguments[1])) return false;
    activity().answer = *answer ? Py_True : Py_False;
    return allow(Entry::none);
  }
  if (!watch_.classes.keep_class_of(arguments[0]) || !watch_.classes.open_classes(arguments[1])) return false;
  if (call.name == "isinstance" && values_.tensors().is_of_legacy_type(arguments[0], arguments[1]))
    activity().answer = Py_True;
  return allow(Entry::known);
}

/// A missing attribute is an answer here: where the lookup is an ordinary one, its guards say that it is missing.
Builtins::Understood Builtins::get_attribute(const Call& call) {
  if (!PyUnicode_CheckExact(call.arguments[1])) return std::nullopt;
  if (!watch_.attributes.attribute(call.arguments[0], call.arguments[1])) return false;
  call.name == "hasattr" ? values_.numbers().forget_read() : values_.numbers().hand_on_read();
  return true;
}

Builtins::Understood Builtins::set_attribute(const Call& call) {
  if (!PyUnicode_CheckExact(call.arguments[1])) return std::nullopt;
  return watch_.attributes.store_attribute(call.arguments[0], call.arguments[1], call.arguments[2]);
}

Builtins::Understood Builtins::delete_attribute(const Call& call) {
  if (!PyUnicode_CheckExact(call.arguments[1])) return std::nullopt;
  return watch_.attributes.delete_attribute(call.arguments[0], call.arguments[1]);
}

Builtins::Understood Builtins::length(const Call& call) {
  PyObject* of = call.arguments[0];
  if (!values_.is_known(of)) return std::nullopt;
  if (Py_IS_TYPE(of, &PyDictProxy_Type))
    if (PyObject* dict = watch_.views.dict_behind(of)) of = dict;
  if (!guards::is_scalar(of) && watch_.classes.special_function(of, "__len__")) {
    activity().asks_length = true;
    return allow(Entry::known);
  }
  if (!watch_.classes.acts_as_builtin(of, "__len__") && !guards::is_deque(of)) return std::nullopt;
  if (PyList_CheckExact(of) || PyTuple_CheckExact(of))
    if (const guards::Source* source = values_.source_of(of)) return length_of_older(of, source);
  return values_.open(of) || abandon("a container that cannot be guarded", of);
}

/// Of a list or tuple that existed before. What it holds is not read, and how long it is may vary: a list of losses
/// may hold others at the next call, and more.
bool Builtins::length_of_older(PyObject* of, const guards::Source* source) {
  const Py_ssize_t now = Py_SIZE(of);
  PyObject* const before = values_.effects().changed(of) ? values_.effects().before(of) : of;
  const Ref first = Ref::steal(PyLong_FromSsize_t(Py_SIZE(before)));
  const guards::Source* length = values_.sources().member(source, guards::Member::sequence_length);
  if (PyObject* varies = values_.numbers().vary(first.get(), length))
    activity().size = *values_.numbers().size_of(varies) + (now - Py_SIZE(before));
  else
    values_.guards().length(source, static_cast<size_t>(Py_SIZE(before)));
  return true;
}

Builtins::Understood Builtins::is_callable(const Call& call) {
  if (!values_.is_known(call.arguments[0])) return std::nullopt;
  return watch_.classes.keep_special(call.arguments[0], {"__call__"});
}

Builtins::Understood Builtins::iterate(const Call& call) {
  PyObject* over = call.arguments[0];
  if (!values_.is_known(over)) return std::nullopt;
  if (PyList_CheckExact(over) || PyTuple_CheckExact(over) || is_exact_dict(over))
    return watch_.containers.iterate(over);
  if (is_builtin_container(over)) return std::nullopt;
  return watch_.iterators.is_older_iterator(over) || watch_.containers.iterate(over);
}

Builtins::Understood Builtins::advance(const Call& call) {
  PyObject* iterator = call.arguments[0];
  if (!values_.is_known(iterator) || is_builtin_container(iterator)) return std::nullopt;
  if (!values_.is_made(iterator)) return watch_.iterators.ask_next(iterator);
  return watch_.arrays.ask_next(iterator) && allow_made_result(Entry::known);
}

Builtins::Understood Builtins::make(const Call& call) {
  if ((call.name == "locals" || call.name == "vars") && !shows_variables(watch_))
    return abandoned() ? Understood(false) : std::nullopt;
  return allow_made_result();
}

Builtins::Understood Builtins::address(const Call& call) {
  if (watch_.partials.are_on_stack(call.arguments))
    watch_.sizes.put_tensor(const_cast<PyObject**>(call.arguments)[0]);
  return watch_.copies.address(call.arguments[0]);
}

Builtins::Understood Builtins::instance_dict(const Call& call) {
  if (!values_.is_known(call.arguments[0])) return std::nullopt;
  const Ref dict = Ref::steal(PyUnicode_InternFromString("__dict__"));
  return dict && watch_.attributes.attribute(call.arguments[0], dict.get());
}

Builtins::Understood Builtins::global_dict(const Call&) {
  PyObject* globals = PyThreadState_Get()->cframe->current_frame->f_globals;
  values_.learn_as(globals, values_.sources().object(globals, "G"));
  return true;
}

Builtins::Understood Builtins::hash(const Call& call) {
  if (!is_data(call.arguments[0])) return watch_.containers.hash_of(call.arguments[0]);
  return make_text(call);
}

Builtins::Understood Builtins::make_text(const Call& call) {
  PyObject* of = call.arguments[0];
  const bool is_exception = call.count == 1 && watch_.conversions.is_plain_exception(of);
  const bool is_function = call.count == 1 && (PyFunction_Check(of) || PyCFunction_Check(of));
  if (is_function && absorb_text(values_, of)) return allow_made_result();
  if (!all_data(call.arguments, call.count) && !is_exception) return std::nullopt;
  return (PyExceptionInstance_Check(of) || absorb_all(call.arguments, call.count, call.function)) &&
         allow(Entry::none);
}

/// Functions that compute with items, or compare what a function says of them: by code in Python where those may be
/// sizes that vary, which C code would have as numbers.
Builtins::Understood Builtins::fold_sizes(const Call& call) {
  PyObject* const form = selects_tensor(run_, call.function, {call.arguments, static_cast<size_t>(call.count)});
  if (PyObject* selects = form ? values_.tensors().stand_in_for(form) : nullptr)
    return watch_.stand_ins.put_stand_in(call.function, selects) &&
           watch_.calls.call(selects, call.arguments, call.count);
  if (!values_.tensors().sizes().has_sizes()) return std::nullopt;
  PyObject* const names = run_.keyword_names;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  PyObject* over = call.arguments[0];
  const bool is_sum = call.name == "sum",
             is_iterator = (Py_TYPE(over)->tp_iternext && values_.is_made(over)) || PyDictValues_Check(over);
  const bool has_key = named > 0 && !is_sum && text_of(PyTuple_GET_ITEM(names, 0)) == "key";
  if (call.count - named != 1 && !(is_sum && named == 0)) return std::nullopt;
  if (!is_iterator && !(has_key && is_sequence(over))) return std::nullopt;
  PyObject* stand_in = stand_in_for(call.function);
  if (!stand_in) return std::nullopt;
  return watch_.stand_ins.put_stand_in(call.function, stand_in) &&
         watch_.calls.call(stand_in, call.arguments, call.count);
}

/// Functions that take the items of one argument, and do nothing else with it.
Builtins::Understood Builtins::go_through(const Call& call) {
  if (const Understood understood = fold_sizes(call)) return understood;
  PyObject* over = call.arguments[0];
  if (storage_type(over) || !values_.is_known(over) || values_.tensors().is_tensor(over)) return std::nullopt;
  if (!watch_.classes.special_function(over, "__iter__")) return std::nullopt;
  values_.keep_protocols(over);
  return allow_made_result(Entry::known) && looks();
}

/// By a size that varies: two operators, whose results are expressions.
Builtins::Understood Builtins::divide(const Call& call) {
  const Numbers& numbers = values_.numbers();
  if (!numbers.size_of(call.arguments[0]) && !numbers.size_of(call.arguments[1])) return std::nullopt;
  // Tensors know `//` and `%`, and no divmod; what other objects do in one need not be what they do in the other.
  for (PyObject* number : {call.arguments[0], call.arguments[1]})
    if (!PyLong_CheckExact(number) && !PyFloat_CheckExact(number)) return std::nullopt;
  PyObject* stand_in = stand_in_for(call.function);
  if (!stand_in) return std::nullopt;
  return watch_.stand_ins.put_stand_in(call.function, stand_in) &&
         watch_.calls.call(stand_in, call.arguments, call.count);
}

// ---- rows of other modules

Builtins::Understood Builtins::take_text(const Call& call) {
  return all_data(call.arguments, call.count) || abandon("text is made of an object", call.function);
}

Builtins::Understood Builtins::warn(const Call& call) {
  Warnings warnings(watch_, run_);
  if (call.name == "_filters_mutated") return warnings.change_filters(call.function);
  return warnings.warn(call.function, call.arguments, call.count);
}

Builtins::Understood Builtins::refer_weakly(const Call& call) {
  return watch_.library.make_weak_reference(call.arguments, call.count);
}

Builtins::Understood Builtins::reduce(const Call& call) {
  const bool by_python = values_.tensors().sizes().has_sizes() && call.count >= 2 && call.count <= 3 &&
                         !run_.keyword_names &&
                         function_of_module(call.arguments[0]).value_or(ModuleFunction{}).module != "_operator";
  if (PyObject* stand_in = by_python ? stand_in_for(call.function) : nullptr)
    return watch_.stand_ins.put_stand_in(call.function, stand_in) &&
           watch_.calls.call(stand_in, call.arguments, call.count);
  return watch_.given.call_reduce(call.arguments, call.count);
}

Builtins::Understood Builtins::check_abstract(const Call& call) {
  return watch_.library.check_abstract(call.arguments[0], call.arguments[1], call.name == "_abc_instancecheck");
}

Builtins::Understood Builtins::operate(const Call& call) {
  return watch_.operators.call_operator(call.name, call.arguments, call.count);
}

Builtins::Understood Builtins::count_elements(const Call& call) {
  PyObject* counted = call.arguments[1];
  if (values_.is_made(call.arguments[0]) && is_data(counted))
    return absorb_all(call.arguments + 1, 1, call.function);
  if (stand_in_for(call.function)) return std::nullopt;
  return abandon("what is counted is no data, or into what existed before", counted);
}

Builtins::Understood Builtins::compute(const Call& call) {
  return watch_.given.absorb_given(call.arguments, call.count) &&
         allow_made_result(entry_of_computing(call.arguments, call.count)) && looks();
}

}  // namespace braze::interpreter
