// python/interpreter/watch/watcher_calls.cpp: which calls are understood.
//
//   Python functions     watched themselves
//   classes              __new__ and __init__ written in Python are watched; builtin classes by table
//   builtin functions    by table: they read nothing but their arguments, which are guarded deeply
//   methods              of what the run made, or those that only read
//   torch's C functions  as TensorWorld says
#include <array>
#include <string_view>

#include "python/guards/deque.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

/// Builtin classes whose construction computes on the arguments alone.
const Names& pure_classes() {
  static const Names names = {"bool",
                              "bytes",
                              "complex",
                              "dict",
                              "enumerate",
                              "filter",
                              "float",
                              "frozenset",
                              "int",
                              "list",
                              "map",
                              "object",
                              "range",
                              "reversed",
                              "set",
                              "slice",
                              "str",
                              "tuple",
                              "zip",
                              "collections.OrderedDict",
                              "itertools.accumulate",
                              "itertools.chain",
                              "itertools.combinations",
                              "itertools.combinations_with_replacement",
                              "itertools.compress",
                              "itertools.count",
                              "itertools.cycle",
                              "itertools.dropwhile",
                              "itertools.filterfalse",
                              "itertools.groupby",
                              "itertools.islice",
                              "itertools.pairwise",
                              "itertools.permutations",
                              "itertools.product",
                              "itertools.repeat",
                              "itertools.starmap",
                              "itertools.takewhile",
                              "itertools.zip_longest",
                              "operator.attrgetter",
                              "operator.itemgetter",
                              "operator.methodcaller",
                              "torch.Size",
                              "torch.device",
                              "torch.finfo",
                              "torch.iinfo"};
  return names;
}

/// Those that take the items of what they are given, and do nothing with them.
const Names& iterating_classes() {
  static const Names names = {"collections.deque", "enumerate",       "list", "tuple", "zip",
                              "itertools.chain",   "itertools.islice"};
  return names;
}

/// Iterators that look into what they are given, or into what a function gives them, whenever they go on.
const Names& looking_iterators() {
  static const Names names = {"filter",
                              "itertools.accumulate",
                              "itertools.compress",
                              "itertools.dropwhile",
                              "itertools.filterfalse",
                              "itertools.groupby",
                              "itertools.starmap",
                              "itertools.takewhile"};
  return names;
}

/// Classes and functions that do nothing with items but give them to a function, and order them by what it says.
const Names& names_of_those_handing_on() {
  static const Names names = {"filter",
                              "map",
                              "max",
                              "min",
                              "sorted",
                              "itertools.dropwhile",
                              "itertools.filterfalse",
                              "itertools.takewhile"};
  return names;
}

/// Functions that take the items of one argument, and do nothing else with it.
bool goes_through(std::string_view name) {
  return name == "sum" || name == "any" || name == "all" || name == "max" || name == "min" || name == "sorted";
}

/// Class methods of builtin classes that compute on their arguments alone.
const Names& pure_class_methods() {
  static const Names names = {"from_bytes", "from_iterable", "fromhex", "fromkeys"};
  return names;
}

/// What a builtin does with an object whose class says how in Python. One row a function or class.
struct Conversion {
  std::string_view builtin;
  const char *method, *fallback;  ///< The fallback where the class has only object's own method.
};
constexpr Conversion conversions[] = {{"str", "__str__", "__repr__"},        {"repr", "__repr__", nullptr},
                                      {"int", "__int__", nullptr},           {"float", "__float__", nullptr},
                                      {"bool", "__bool__", "__len__"},       {"hash", "__hash__", nullptr},
                                      {"abs", "__abs__", nullptr},           {"round", "__round__", nullptr},
                                      {"reversed", "__reversed__", nullptr}, {"complex", "__complex__", nullptr}};

/// Builtin classes whose instances keep the arguments, and do not look into them.
const Names& holding_classes() {
  static const Names names = {"functools.partial", "method", "mappingproxy"};
  return names;
}

std::string_view module_of(PyObject* function) {
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(function)->m_module;
  return text_of(module);
}

/// Builtin classes whose `__new__` makes an instance of any subclass out of its arguments alone.
bool has_plain_new(PyTypeObject* type) {
  return type == &PyBaseObject_Type || type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type ||
         type == &PyODict_Type || type == &PyProperty_Type;
}

/// The `__new__` or `__init__` of list, dict or OrderedDict: fills the instance from what it is given. Of `__new__`
/// nothing is read.
bool is_plain_constructor(PyObject* found) {
  for (PyTypeObject* type : {&PyList_Type, &PyDict_Type, &PyODict_Type, &PyProperty_Type})
    for (const char* name : {"__new__", "__init__"})
      if (found == PyDict_GetItemString(guards::class_dict(type), name)) return true;
  return false;
}

/// type.__instancecheck__ or type.__subclasscheck__, bound to a class.
bool is_check_of_type(const PyCFunctionObject* function) {
  for (const char* name : {"__instancecheck__", "__subclasscheck__"}) {
    PyObject* own = PyDict_GetItemString(guards::class_dict(&PyType_Type), name);
    if (own && Py_IS_TYPE(own, &PyMethodDescr_Type) &&
        reinterpret_cast<PyMethodDescrObject*>(own)->d_method == function->m_ml)
      return true;
  }
  return false;
}

}  // namespace

Watcher::Items Watcher::items_given_to(std::string_view name) {
  return names_of_those_handing_on().contains(name) ? Items::handed_on : Items::looked_into;
}

bool Watcher::absorb_all(PyObject* const* arguments, Py_ssize_t count, PyObject* callable) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!values_.absorb(arguments[i]))
      return abandon("a C function is given an object whose parts are not guarded", arguments[i]);
  return true;
}

bool Watcher::call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  TensorWorld& tensors = values_.tensors();
  if (Py_IS_TYPE(callable, &PyMethod_Type)) {
    if (!learn_method(callable)) return false;
    std::vector<PyObject*> all{PyMethod_GET_SELF(callable)};
    all.insert(all.end(), arguments, arguments + count);
    return call(PyMethod_GET_FUNCTION(callable), all.data(), count + 1);
  }
  if (const Promise promise = tensors.promise_about(callable); promise != Promise::none)
    return call_promised(promise, callable, arguments, count);
  if (PyFunction_Check(callable)) {
    if (!values_.is_known(callable)) return abandon("a function of unknown origin", callable);
    if (calls_signature(callable, count)) return call_signature(arguments[0]);
    if (PyObject* stand_in = callee_ ? tensors.stand_in_for(callable) : nullptr)
      if (PyThreadState_Get()->cframe->current_frame->f_globals != PyFunction_GET_GLOBALS(stand_in))
        return call_stand_in(callable, stand_in);
    if (call_trusted(callable, arguments, count)) return true;
    if (abandoned_) return false;
    const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable));
    activities_.back().is_direct = true;
    return code->co_flags & CO_GENERATOR ? allow_made_result(Entry::known) : allow(Entry::known);
  }
  if (is_a(callable, "functools._lru_cache_wrapper")) return call_cached(callable, arguments, count);
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) && count > 0)
    return call_method(PyDescr_NAME(callable), arguments[0], arguments + 1, count - 1);
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type) && count > 0)
    return call_slot(PyDescr_TYPE(callable), text_of(PyDescr_NAME(callable)), arguments[0], arguments + 1,
                     count - 1);
  if (PyCFunction_Check(callable)) return call_builtin(callable, arguments, count);
  if (!values_.is_known(callable)) return abandon("an object of unknown origin is called", callable);
  if (PyObject* function = tensors.compiled_from(callable)) {
    values_.pin(callable);
    return (values_.learn(function, values_.sources().object(function, "compiled")) &&
            call(function, arguments, count)) ||
           abandon("a compiled function that cannot be guarded", function);
  }
  if (PyType_Check(callable)) {
    PyObject* stand_in = callee_ && *callee_ == callable ? tensors.stand_in_for(callable) : nullptr;
    if (stand_in && !put_stand_in(callable, stand_in)) return false;
    return call_class(stand_in ? stand_in : callable, arguments, count);
  }
  if (tensors.may_call(callable)) return absorb_all(arguments, count, callable) && allow_made_result(Entry::tensor);
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) return call_bound_slot(callable, arguments, count);
  if (PyWeakref_CheckRefExact(callable)) return call_weak_reference(callable);
  if (std::string_view(Py_TYPE(callable)->tp_name) == "functools.partial" && is_exact_builtin(Py_TYPE(callable)))
    return call_partial(callable, arguments, count);
  if (tensors.is_plain_script(callable))
    return values_.pin(callable) && absorb_all(arguments, count, callable) && allow_made_result(Entry::tensor);
  if (tensors.is_operator(callable))
    return values_.pin(callable) && absorb_all(arguments, count, callable) && allow_made_result(Entry::trusted);
  if (is_a(callable, "operator.itemgetter") || is_a(callable, "operator.attrgetter"))
    return call_getter(callable, arguments, count);
  if (is_a(callable, "operator.methodcaller")) return call_method_caller(callable, arguments, count);
  if (special_function(callable, "__call__")) {
    activities_.back().is_direct = true;
    return allow(Entry::known);
  }
  return abandon("a call that is not understood", callable);
}

bool Watcher::call_promised(Promise promise, PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (promise == Promise::disabled) {
    PyObject* dict = guards::instance_dict(callable);
    PyObject* reason = dict ? PyDict_GetItemString(dict, "reason") : nullptr;
    if (!reason && dict) reason = PyDict_GetItemString(dict, "__qualname__");
    return abandon("a function marked braze.compiler.disable", reason);
  }
  if (!values_.pin(callable)) return abandon("a function of unknown origin", callable);
  activities_.back().entry = Entry::trusted;
  activities_.back().makes_result = true;
  if (promise == Promise::in_graph) return absorb_all(arguments, count, callable);
  activities_.back().makes_constant = true;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!values_.is_known(arguments[i])) return abandon("an argument of unknown origin", arguments[i]);
  return true;
}

/// The function and the object of a bound method that existed before the call. True for anything else.
bool Watcher::learn_method(PyObject* callable) {
  const guards::Source* source = Py_IS_TYPE(callable, &PyMethod_Type) ? values_.source_of(callable) : nullptr;
  if (!source) return true;
  guards::SourceTable& sources = values_.sources();
  return (values_.learn(PyMethod_GET_FUNCTION(callable), sources.member(source, guards::Member::method_function)) &&
          values_.learn(PyMethod_GET_SELF(callable), sources.member(source, guards::Member::method_self))) ||
         abandon("a method that cannot be guarded", callable);
}

/// super() without arguments reads the cell `__class__` of the frame that calls it.
bool Watcher::load_class_cell() {
  const Frame* frame = PyThreadState_Get()->cframe->current_frame;
  const PyCodeObject* code = frame->f_code;
  for (int i = code->co_nlocalsplus - code->co_nfreevars; i < code->co_nlocalsplus; ++i)
    if (text_of(PyTuple_GET_ITEM(code->co_localsplusnames, i)) == "__class__")
      return load_cell(frame->localsplus[i]);
  return abandon("super() outside of a method");
}

/// Whether a class says in Python what a builtin does with its instance. If so, that code is entered.
bool Watcher::converts(std::string_view builtin, PyObject* object) {
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) || values_.tensors().is_tensor(object)) return false;
  if (!values_.is_known(object) || guards::is_scalar(object)) return false;
  for (const Conversion& row : conversions) {
    if (row.builtin != builtin) continue;
    if (special_function(object, row.method)) return allow(Entry::known);
    PyObject* found = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), row.method);
    PyObject* own = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), row.method);
    return row.fallback && found == own && special_function(object, row.fallback) &&
           keep_special(object, {row.method}) && allow(Entry::known);
  }
  return false;
}

/// reversed() of an object whose class has __len__ and __getitem__ in Python, and nothing more apt.
bool Watcher::reverses_by_index(PyObject* object) {
  if (storage_type(object) || !values_.is_known(object) || values_.tensors().is_tensor(object)) return false;
  return special_function(object, "__getitem__") && special_function(object, "__len__") &&
         keep_special(object, {"__reversed__"});
}

/// What `%` makes text of: data, or a named tuple of it, whose items it takes.
bool Watcher::formats_as_data(PyObject* object) {
  if (is_data(object)) return true;
  if (values_.absorb_text(object)) return true;
  if (!PyTuple_Check(object) || !values_.absorb(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_data(PyTuple_GET_ITEM(object, i)) && !values_.absorb_text(PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

/// object.__format__ without a specification is str().
bool Watcher::formats_as_text(PyObject* object) {
  PyObject* own = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__format__");
  return class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__format__") == own &&
         converts("str", object) && keep_special(object, {"__format__"});
}

/// Text of an exception that the run made: that of its arguments.
bool Watcher::is_plain_exception(PyObject* object) {
  if (!PyExceptionInstance_Check(object) || !values_.is_made(object)) return false;
  for (const char* name : {"__str__", "__repr__"})
    if (PyObject* found = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), name);
        !found || !Py_IS_TYPE(found, &PyWrapperDescr_Type))
      return false;
  return is_data(reinterpret_cast<PyBaseExceptionObject*>(object)->args) &&
         keep_special(object, {"__str__", "__repr__"});
}

bool Watcher::call_class(PyObject* type, PyObject* const* arguments, Py_ssize_t count) {
  if (Py_TYPE(type)->tp_call == PyType_Type.tp_call)
    return keep_special(type, {"__call__"}) && instantiate(type, arguments, count);
  if (special_function(type, "__call__")) return allow(Entry::known);
  return abandon("a class whose metaclass makes the instances", type);
}

/// What type.__call__ does, whatever the metaclass has of its own.
bool Watcher::instantiate(PyObject* type, PyObject* const* arguments, Py_ssize_t count) {
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (cls == &_PyWeakref_RefType) return make_weak_reference(arguments, count);
  if (cls == &PySuper_Type) return (count > 0 || load_class_cell()) && allow_made_result();
  if (cls == &PyType_Type) {
    if (count != 1 || !values_.is_known(arguments[0])) return abandon("type() with more than one argument");
    const guards::Source* source = type_source(arguments[0]);
    return values_.learn(reinterpret_cast<PyObject*>(Py_TYPE(arguments[0])), source) ||
           abandon("a class that cannot be guarded", arguments[0]);
  }
  if (cls == &PyUnicode_Type && count == 1 && PyType_Check(arguments[0])) return text_of_class(arguments[0]);
  if (cls == &PyUnicode_Type && count == 1 && is_plain_exception(arguments[0])) return allow_made_result();
  if (is_exact_builtin(cls) && count >= 1 && converts(cls->tp_name, arguments[0])) return true;
  if (abandoned_) return false;
  if (cls == &PyUnicode_Type && count == 1 && values_.absorb_text(arguments[0])) return allow_made_result();
  if (cls == &PyReversed_Type && count == 1 && reverses_by_index(arguments[0]))
    return allow_made_result(Entry::known);
  if (cls == &PyDict_Type && count == 1 && is_exact_dict(arguments[0]) && values_.open(arguments[0])) {
    values_.iterate_dict(arguments[0]);  // Its entries are handed on as they are.
    return allow_made_result();
  }
  const bool makes_set = cls == &PySet_Type || cls == &PyFrozenSet_Type;
  if (makes_set && count == 1 && PyDictKeys_Check(arguments[0]) && dict_behind(arguments[0]) &&
      has_scalar_keys(dict_behind(arguments[0])))
    return iterate(arguments[0]) && allow_made_result();
  const bool depends_on_hash_or_text = cls == &PyUnicode_Type || makes_set;
  if (depends_on_hash_or_text && !all_data(arguments, count)) return abandon("text or a set of objects", type);
  const bool decodes = (cls == &PyUnicode_Type || cls == &PyBytes_Type) && count > 1;
  if (decodes && !names_builtin_codec(arguments + 1, count - 1)) return abandon("a codec that others may replace");
  const bool counts_digits = cls == &PyLong_Type && count > 0 && guards::length_of(arguments[0]) > 640;
  if (counts_digits) return abandon("an integer of so many digits that sys.set_int_max_str_digits() counts", type);
  const bool is_exception = PyExceptionClass_Check(type);
  if (is_exact_builtin(cls) && iterating_classes().contains(cls->tp_name)) {
    bool any_tensor = false;
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!guards::is_scalar(arguments[i]) && !iterate(arguments[i])) return false;
      any_tensor |= values_.tensors().is_tensor(arguments[i]);
    }
    return allow_made_result(any_tensor ? Entry::tensor : Entry::known);
  }
  looks_lazily_ |= is_exact_builtin(cls) && looking_iterators().contains(cls->tp_name);
  if (is_exact_builtin(cls) && (is_exception || pure_classes().contains(cls->tp_name)))
    return (is_exception || absorb_given(arguments, count, items_given_to(cls->tp_name))) &&
           allow_made_result(Entry::tensor) && looks();
  if (std::string_view(cls->tp_name) == "collections.defaultdict" && is_exact_builtin(cls)) {
    if (count > 0 && !values_.is_known(arguments[0])) return abandon("a factory of unknown origin", arguments[0]);
    for (Py_ssize_t i = 1; i < count - (keyword_names_ ? PyTuple_GET_SIZE(keyword_names_) : 0); ++i)
      if (!iterate(arguments[i])) return false;
    return allow_made_result(Entry::known);
  }
  if (is_exact_builtin(cls) && holding_classes().contains(cls->tp_name)) {
    // A partial of a partial takes the other apart.
    const bool flattens = count > 0 && Py_IS_TYPE(arguments[0], cls) && !values_.is_made(arguments[0]);
    return flattens ? abandon("a partial of a partial", arguments[0]) : allow_made_result();
  }
  if (is_exact_builtin(cls)) return abandon("a builtin class that is not understood", type);
  const bool is_named_tuple = PyType_IsSubtype(cls, &PyTuple_Type);
  if ((cls->tp_itemsize && !is_named_tuple) || values_.tensors().is_tensor(type) ||
      PyType_IsSubtype(cls, reinterpret_cast<PyTypeObject*>(values_.tensors().tensor_type())))
    return abandon("a class that is not understood", type);
  if (class_entry(type, "__del__")) return abandon("a class with __del__", type);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = values_.source_of(type);
  if (!source) return abandon("a class made by the function", type);
  if (!keep_in_class(type, source, {"__del__"})) return false;
  PyObject* objects_new = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__");
  bool makes_in_c = false;
  for (const char* name : {"__new__", "__init__"}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    PyObject* found = class_entry(type, name);
    if (!key || !found) return abandon("a class without a constructor", type);
    if (!learn_class_entry(found, sources.type_attribute(source, key.get()))) return false;
    const bool is_python = PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type);
    if (is_plain_constructor(found)) {
      makes_in_c = true;
      for (Py_ssize_t i = 0; name == std::string_view("__init__") && i < count; ++i)
        if (!guards::is_scalar(arguments[i]) && !iterate(arguments[i])) return false;
      continue;
    }
    const bool is_objects = found == class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
    if (!is_python && !is_objects && !(is_exception && !PyFunction_Check(found)))
      return abandon("a class whose instances are made in C", type);
  }
  // A __new__ written in Python may give an object that existed before; what it makes is known where it makes it.
  if (class_entry(type, "__new__") != objects_new && !is_exception && !makes_in_c) return allow(Entry::known);
  activities_.back().constructs = cls;
  return allow_made_result(Entry::known);
}

bool Watcher::call_builtin(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  auto* builtin = reinterpret_cast<PyCFunctionObject*>(function);
  const std::string_view name = builtin->m_ml->ml_name, module = module_of(function);
  PyObject* self = PyCFunction_GET_SELF(function);
  if (values_.tensors().may_call(function)) {
    activities_.back().answer = values_.tensors().answer(function, arguments, count);
    return absorb_all(arguments, count, function) && allow_made_result(Entry::tensor);
  }
  if (values_.tensors().ends_graph(function)) return abandon(Break::stand_in, count > 0 ? arguments[0] : nullptr);
  if (is_function_apply(function)) {
    // Its backward is Python code, which runs when autograd comes to it.
    if (values_.tensors().wants_history(arguments, count))
      return abandon(Break::autograd_function_with_gradients, self);
    return apply_function(self);
  }
  if (name == "__new__" && self && PyType_Check(self) && count > 0) {
    auto* base = reinterpret_cast<PyTypeObject*>(self);
    auto* cls = PyType_Check(arguments[0]) ? reinterpret_cast<PyTypeObject*>(arguments[0]) : nullptr;
    const bool is_ordinary = cls && has_plain_new(base) && values_.source_of(arguments[0]) &&
                             PyType_IsSubtype(cls, base) && (cls->tp_new != base->tp_new || count == 1) &&
                             !class_entry(arguments[0], "__del__");
    if (!is_ordinary) return abandon("__new__ of such a class", arguments[0]);
    if (base == &PyTuple_Type && count > 1 && !iterate(arguments[1])) return false;
    return allow_made_result();
  }
  if (self && PyType_Check(self) && is_exact_builtin(reinterpret_cast<PyTypeObject*>(self)) &&
      pure_class_methods().contains(name)) {
    looks_lazily_ |= name == "from_iterable";
    return absorb_given(arguments, count) && allow_made_result(Entry::known) && looks();
  }
  if (is_check_of_type(builtin))
    return (count == 1 && values_.is_known(arguments[0]) && values_.is_known(self) && keep_class_of(arguments[0]))
               ? allow(Entry::known)
               : abandon("isinstance with an object of unknown origin", count ? arguments[0] : nullptr);
  const bool is_method = self && !PyModule_Check(self) && !PyType_Check(self);
  if (is_method) {
    // A method that existed before is bound to the same object on later calls, which never changes here.
    const bool is_older = PyFrozenSet_CheckExact(self) && values_.source_of(function) && !values_.is_known(self);
    if (is_older) values_.learn(self, values_.sources().object(self, "the set of a method"));
    const Ref text = Ref::steal(PyUnicode_FromString(builtin->m_ml->ml_name));
    return text && call_method(text.get(), self, arguments, count);
  }
  if (!values_.is_known(function)) return abandon("a function of unknown origin", function);
  if (module == "builtins") {
    if (name == "isinstance" || name == "issubclass") {
      if (count != 2 || !values_.is_known(arguments[0]))
        return abandon("isinstance with an object of unknown origin", count ? arguments[0] : nullptr);
      if (!keep_class_of(arguments[0]) || !open_classes(arguments[1])) return false;
      if (name == "isinstance" && values_.tensors().is_of_legacy_type(arguments[0], arguments[1]))
        activities_.back().answer = Py_True;
      return allow(Entry::known);
    }
    if ((name == "getattr" || name == "hasattr") && count >= 2 && PyUnicode_CheckExact(arguments[1])) {
      // A missing attribute is an answer here: where the lookup is an ordinary one, its guards say that it is
      // missing.
      return attribute(arguments[0], arguments[1]);
    }
    if (name == "setattr" && count == 3 && PyUnicode_CheckExact(arguments[1]))
      return store_attribute(arguments[0], arguments[1], arguments[2]);
    if (name == "delattr" && count == 2 && PyUnicode_CheckExact(arguments[1]))
      return delete_attribute(arguments[0], arguments[1]);
    if (name == "len" && count == 1 && !guards::is_scalar(arguments[0]) && values_.is_known(arguments[0]) &&
        special_function(arguments[0], "__len__"))
      return allow(Entry::known);
    const bool has_builtin_length = name == "len" && count == 1 && values_.is_known(arguments[0]) &&
                                    (acts_as_builtin(arguments[0], "__len__") || guards::is_deque(arguments[0]));
    if (has_builtin_length)
      return values_.open(arguments[0]) || abandon("a container that cannot be guarded", arguments[0]);
    if (name == "callable" && count == 1 && values_.is_known(arguments[0]))
      return keep_special(arguments[0], {"__call__"});
    if ((name == "next" || (name == "iter" && count == 1)) && count >= 1 && values_.is_known(arguments[0]) &&
        !is_builtin_container(arguments[0])) {
      if (name == "iter") return is_older_iterator(arguments[0]) || iterate(arguments[0]);
      return values_.is_made(arguments[0]) ? allow_made_result(Entry::known) : ask_next(arguments[0]);
    }
    if (name == "super") return allow_made_result();
    if (name == "id" && count == 1) return address(arguments[0]);
    if (name == "vars" && count == 1 && values_.is_known(arguments[0])) {
      const Ref dict = Ref::steal(PyUnicode_InternFromString("__dict__"));
      return dict && attribute(arguments[0], dict.get());
    }
    if (name == "globals" && count == 0) {
      PyObject* globals = PyThreadState_Get()->cframe->current_frame->f_globals;
      values_.learn_as(globals, values_.sources().object(globals, "G"));
      return true;
    }
    if (count >= 1 && converts(name, arguments[0])) return true;
    if (abandoned_) return false;
    const bool makes_text = name == "repr" || name == "ascii" || name == "format" || name == "hash";
    if (makes_text && (all_data(arguments, count) || (count == 1 && is_plain_exception(arguments[0]))))
      return (PyExceptionInstance_Check(arguments[0]) || absorb_all(arguments, count, function)) &&
             allow(Entry::none);
    if (goes_through(name) && count == 1 && !storage_type(arguments[0]) && values_.is_known(arguments[0]) &&
        !values_.tensors().is_tensor(arguments[0]) && special_function(arguments[0], "__iter__"))
      return allow_made_result(Entry::known) && looks();
    const bool calls = name == "iter" || name == "next";
    if (!calls && what_function_does(module, name) != Does::computes)
      return abandon("a builtin function that is not understood", function);
    return absorb_given(arguments, count, items_given_to(name)) && allow_made_result(Entry::tensor) && looks();
  }
  if (module == "sys" && name == "exc_info") return allow_made_result();
  if (module == "_warnings" && name == "warn") return abandon(Break::warns);
  if ((module == "posix" && name == "fspath") || (module == "sys" && name == "intern"))
    return all_data(arguments, count) || abandon("text is made of an object", function);
  if (module == "_functools" && name == "reduce") return call_reduce(arguments, count);
  if (module == "_abc" && (name == "_abc_instancecheck" || name == "_abc_subclasscheck") && count == 2)
    return check_abstract(arguments[0], arguments[1], name == "_abc_instancecheck");
  if (module == "_operator") return call_operator(name, arguments, count);
  if (module == "_collections" && name == "_count_elements" && count == 2) {
    if (values_.is_made(arguments[0]) && is_data(arguments[1])) return absorb_all(arguments + 1, 1, function);
    PyObject* stand_in = callee_ && *callee_ == function ? values_.tensors().stand_in_for(function) : nullptr;
    if (!stand_in) return abandon("what is counted is no data, or into what existed before", arguments[1]);
    return put_stand_in(function, stand_in) && call(stand_in, arguments, count);
  }
  if (module == "math") return absorb_given(arguments, count) && allow_made_result(Entry::tensor) && looks();
  return abandon("a C function that is not understood", function);
}

/// str() or repr() of a class: its module and qualified name.
bool Watcher::text_of_class(PyObject* type) {
  PyTypeObject* meta = Py_TYPE(type);
  if (!values_.is_known(type) || meta->tp_repr != PyType_Type.tp_repr || meta->tp_str != PyBaseObject_Type.tp_str)
    return abandon("the text of a class that makes it itself", type);
  const Ref module = Ref::steal(PyUnicode_InternFromString("__module__"));
  const Ref name = Ref::steal(PyUnicode_InternFromString("__qualname__"));
  return module && name && keep_special(type, {"__repr__", "__str__"}) && class_attribute(type, module.get()) &&
         class_attribute(type, name.get()) && allow_made_result();
}

}  // namespace braze::interpreter
