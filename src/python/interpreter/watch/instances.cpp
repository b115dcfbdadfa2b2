// python/interpreter/watch/instances.cpp
#include "python/interpreter/watch/instances.h"

#include <algorithm>
#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/calling_back.h"
#include "python/interpreter/watch/computing.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/pairs_of_sizes.h"
#include "python/interpreter/watch/typed_dicts.h"
#include "python/interpreter/watch/watch.h"
#include "python/interpreter/watch/wrapper_world.h"

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
                              "numpy.bool",
                              "numpy.bool_",
                              "numpy.complex128",
                              "numpy.complex64",
                              "numpy.dtype",
                              "numpy.float16",
                              "numpy.float32",
                              "numpy.float64",
                              "numpy.int32",
                              "numpy.int64",
                              "numpy.int16",
                              "numpy.int8",
                              "numpy.uint16",
                              "numpy.uint32",
                              "numpy.uint64",
                              "numpy.uint8",
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
  static const Names names = {"collections.deque", "enumerate",         "list", "tuple", "zip", "itertools.chain",
                              "itertools.islice",  "itertools.pairwise"};
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

/// Builtin classes whose instances keep the arguments, and do not look into them.
const Names& holding_classes() {
  static const Names names = {"functools.partial", "method", "mappingproxy", "types.SimpleNamespace"};
  return names;
}

/// The `__new__` or `__init__` of list, dict or OrderedDict: fills the instance from what it is given. Of `__new__`
/// nothing is read.
bool is_plain_constructor(PyObject* found) {
  for (PyTypeObject* type : {&PyList_Type, &PyDict_Type, &PyODict_Type, &PyProperty_Type})
    for (const char* name : {"__new__", "__init__"})
      if (found == PyDict_GetItemString(guards::class_dict(type), name)) return true;
  return false;
}

}  // namespace

/// A dict made of a list or tuple of pairs: the values are handed on as they are.
bool Instances::fill_from_pairs(PyObject* pairs) {
  if (!values_.is_known(pairs) || !values_.open(pairs)) return abandon("a dict of what are no pairs", pairs);
  Entry entry = Entry::none;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(pairs); ++i) {
    PyObject* pair = PySequence_Fast_GET_ITEM(pairs, i);
    // C code put it there, as in list(d.items()).
    if (PyTuple_CheckExact(pair) && values_.is_made(pairs)) values_.make(pair);
    const bool is_pair = (PyTuple_CheckExact(pair) || PyList_CheckExact(pair)) && values_.is_known(pair) &&
                         values_.open(pair) && PySequence_Fast_GET_SIZE(pair) == 2;
    if (!is_pair) return abandon("a dict of what are no pairs", pair);
    if (!watch_.containers.hashes(PySequence_Fast_GET_ITEM(pair, 0))) return false;
    entry = std::max(entry, activity().entry);
  }
  return allow_made_result(entry);
}

/// Where numbers vary, C code that goes through them would have them as they are in this call: the form in Python
/// that is called with the class. Null: there is none, or it does not matter.
const char* Instances::form_of_sizes(PyTypeObject* cls, PyObject* const* arguments, Py_ssize_t count,
                                     Py_ssize_t by_name) {
  if (count <= by_name) return nullptr;
  PyObject* first = arguments[0];
  const bool accumulates = std::string_view(cls->tp_name) == "itertools.accumulate" && is_exact_builtin(cls);
  if (accumulates && is_sequence(first) && values_.is_known(first))
    values_.open(first);  // Perhaps the first sizes.
  if (!values_.tensors().sizes().has_sizes()) return nullptr;
  if ((cls == &PyDict_Type || cls == &PyODict_Type) && count - by_name == 1)
    return gives_pairs_of_sizes(values_, first) ? "dict of pairs" : nullptr;
  if (!accumulates) return nullptr;
  const bool is_by_python = count == 2 && by_name == 0 && calls_back(arguments[1]);
  return is_by_python ? nullptr : "itertools.accumulate";
}

/// A set of a list or tuple, or a dict with these keys: the items hash.
bool Instances::collect(PyObject* items) {
  if (!values_.is_known(items) || !values_.open(items)) return abandon("a container that cannot be guarded", items);
  Entry entry = Entry::none;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    if (!watch_.containers.hashes(PySequence_Fast_GET_ITEM(items, i))) return false;
    entry = std::max(entry, activity().entry);
  }
  return allow_made_result(entry);
}

PyObject* Instances::keys_of(PyObject* value) const {
  if (is_exact_dict(value)) return value;
  if (PyDict_Check(value) && values_.is_known(value) && watch_.iterables.is_read_as_dict(value)) return value;
  return PyDictKeys_Check(value) || Py_IS_TYPE(value, &PyDictProxy_Type) ? watch_.views.dict_behind(value)
                                                                         : nullptr;
}

bool Instances::call_class(PyObject* type, PyObject* const* arguments, Py_ssize_t count) {
  if (Py_TYPE(type)->tp_call == PyType_Type.tp_call)
    return watch_.classes.keep_special(type, {"__call__"}) && instantiate(type, arguments, count);
  if (watch_.classes.special_function(type, "__call__")) return allow(Entry::known);
  if (makes_plain_dict(type)) {
    auto* dict = reinterpret_cast<PyObject*>(&PyDict_Type);
    if (!watch_.classes.keep_special(type, {"__call__"})) return false;
    if (run_.callee && *run_.callee == type) {  // As dict is called itself, for which Python code may stand.
      values_.learn(dict, values_.sources().object(dict, "dict"));
      Py_SETREF(*run_.callee, Py_NewRef(dict));
    }
    return instantiate(dict, arguments, count);
  }
  return abandon("a class whose metaclass makes the instances", type);
}

bool Instances::instantiate(PyObject* type, PyObject* const* arguments, Py_ssize_t count) {
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (cls == &_PyWeakref_RefType) return watch_.library.make_weak_reference(arguments, count);
  if (cls == &PySuper_Type) return (count > 0 || watch_.variables.load_class_cell()) && allow_made_result();
  if (cls == &PyType_Type) {
    if (count != 1 || !values_.is_known(arguments[0])) return abandon("type() with more than one argument");
    if (is_traced_array(arguments[0])) {
      activity().answer = watch_.traced_arrays.class_of(arguments[0]);
      if (!activity().answer) return abandon(Break::numpy);
      values_.learn(activity().answer, values_.sources().object(activity().answer, "numpy"));
      return allow(Entry::none);
    }
    const guards::Source* source = type_source(values_, arguments[0]);
    return values_.learn(reinterpret_cast<PyObject*>(Py_TYPE(arguments[0])), source) ||
           abandon("a class that cannot be guarded", arguments[0]);
  }
  if (cls == &PyUnicode_Type && count == 1 && PyType_Check(arguments[0]))
    return watch_.conversions.text_of_class(arguments[0]);
  if (cls == &PyUnicode_Type && count == 1 && watch_.conversions.is_plain_exception(arguments[0]))
    return allow_made_result();
  if (is_exact_builtin(cls) && count >= 1 && watch_.conversions.converts(cls->tp_name, arguments[0])) return true;
  if (abandoned()) return false;
  if (cls == &PyUnicode_Type && count == 1 && absorb_text(values_, arguments[0])) return allow_made_result();
  if (cls == &PyReversed_Type && count == 1 && watch_.conversions.reverses_by_index(arguments[0]))
    return allow_made_result(Entry::known);
  const bool reverses = cls == &PyReversed_Type && count == 1 &&
                        (PyTuple_CheckExact(arguments[0]) || PyList_CheckExact(arguments[0]));
  if (reverses && values_.open(arguments[0])) return allow_made_result();  // Its items are handed on as they are.
  if (cls == &PyDict_Type && count == 1 && is_exact_dict(arguments[0]) && values_.open(arguments[0])) {
    values_.iterate_dict(arguments[0]);  // Its entries are handed on as they are.
    return allow_made_result();
  }
  const Py_ssize_t by_name = run_.keyword_names ? PyTuple_GET_SIZE(run_.keyword_names) : 0;
  const bool is_dict = cls == &PyDict_Type || cls == &PyODict_Type;
  if (is_dict && count > 0 && count == by_name) return allow_made_result();  // Values are handed on as they are.
  if (const char* form = form_of_sizes(cls, arguments, count, by_name);
      form && run_.callee && *run_.callee == type && watch_.stand_ins.put_form(*run_.callee, form))
    return watch_.calls.call(*run_.callee, arguments, count);
  const bool makes_dict = is_dict && count == 1;
  if (cls == &PyDict_Type && count - by_name == 1 && !is_builtin_container(arguments[0]) &&
      watch_.iterables.is_read_as_dict(arguments[0]) && values_.open(arguments[0])) {
    values_.iterate_dict(arguments[0]);
    return allow_made_result();
  }
  if (makes_dict && PyDictItems_Check(arguments[0])) {
    PyObject* dict = watch_.views.dict_behind(arguments[0]);
    if (dict && has_scalar_keys(dict) && values_.open(dict)) {
      values_.iterate_dict(dict);  // Views read the storage, whatever class the dict has.
      return allow_made_result();
    }
  }
  if (makes_dict && (PyList_CheckExact(arguments[0]) || PyTuple_CheckExact(arguments[0])))
    return fill_from_pairs(arguments[0]);
  // What has keys of its own, in Python, is asked for them and for each item, as a dict's __init__ does.
  const bool is_mapping = is_dict && count - by_name == 1 && values_.is_known(arguments[0]) &&
                          !values_.tensors().is_tensor(arguments[0]) &&
                          Iterables::is_asked_for_keys(arguments[0], cls == &PyODict_Type);
  if (is_mapping && run_.callee && *run_.callee == type && watch_.stand_ins.put_collector(*run_.callee))
    return watch_.calls.call(*run_.callee, arguments, count);
  if (abandoned()) return false;
  const bool makes_set = cls == &PySet_Type || cls == &PyFrozenSet_Type;
  if (PyObject* dict = makes_set && count == 1 ? keys_of(arguments[0]) : nullptr; dict && has_scalar_keys(dict))
    return watch_.containers.iterate(arguments[0]) && allow_made_result();
  if (makes_set && count == 1 && (PyList_CheckExact(arguments[0]) || PyTuple_CheckExact(arguments[0])))
    return collect(arguments[0]);
  if (makes_set && count == 1 && !all_data(arguments, count) && run_.callee && *run_.callee == type &&
      watch_.stand_ins.put_collector(*run_.callee))
    return watch_.calls.call(*run_.callee, arguments, count);
  if (cls == &PyUnicode_Type && count == 1 && watch_.conversions.writes_itself(arguments[0]))
    return allow_made_result(Entry::known) && looks();
  if (abandoned()) return false;
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
      if (!guards::is_scalar(arguments[i]) && !watch_.containers.iterate(arguments[i])) return false;
      any_tensor |= values_.tensors().is_tensor(arguments[i]);
    }
    const bool keeps_all = cls == &PyList_Type || cls == &PyTuple_Type;
    if (keeps_all && count == 1 && PyGen_CheckExact(arguments[0])) activity().collects = arguments[0];
    return allow_made_result(any_tensor ? Entry::tensor : Entry::known);
  }
  const bool is_of_results = std::string_view(cls->tp_name).starts_with("torch.return_types.");
  if (is_of_results && is_exact_builtin(cls) && count == 1 && by_name == 0 && is_sequence(arguments[0]))
    return watch_.containers.iterate(arguments[0]);
  if (is_exact_builtin(cls) && !watch_.iterables.put_items(cls->tp_name, arguments, count)) return false;
  if (is_exact_builtin(cls) && !watch_.given.put_caller(cls->tp_name, arguments, count)) return false;
  const bool only_hands_on = std::string_view(cls->tp_name) == "itertools.accumulate" && count == 2 &&
                             by_name == 0 && values_.is_known(arguments[1]) && calls_back(arguments[1]);
  run_.looks_lazily |= is_exact_builtin(cls) && looking_iterators().contains(cls->tp_name) && !only_hands_on;
  if (is_exact_builtin(cls) && (is_exception || pure_classes().contains(cls->tp_name)))
    return (is_exception || watch_.given.absorb_given(arguments, count, Given::items_given_to(cls->tp_name))) &&
           allow_made_result(entry_of_computing(arguments, count)) && looks();
  if (std::string_view(cls->tp_name) == "collections.defaultdict" && is_exact_builtin(cls)) {
    if (count > 0 && !values_.is_known(arguments[0])) return abandon("a factory of unknown origin", arguments[0]);
    for (Py_ssize_t i = 1; i < count - by_name; ++i)
      if (!watch_.containers.iterate(arguments[i])) return false;
    return allow_made_result(Entry::known);
  }
  if (is_exact_builtin(cls) && holding_classes().contains(cls->tp_name)) {
    // A partial of a partial takes the other apart.
    const bool flattens = count > 0 && Py_IS_TYPE(arguments[0], cls) && !values_.is_made(arguments[0]);
    return flattens ? abandon("a partial of a partial", arguments[0]) : allow_made_result();
  }
  if (is_exact_builtin(cls)) return abandon("a builtin class that is not understood", type);
  const bool is_named_tuple = PyType_IsSubtype(cls, &PyTuple_Type);
  const bool is_of_tensors =
      PyType_IsSubtype(cls, reinterpret_cast<PyTypeObject*>(values_.tensors().tensor_type()));
  WrapperWorld* const wrappers = values_.tensors().wrappers();
  const bool is_made_in_python =
      is_of_tensors && Py_IS_TYPE(class_entry(type, "__new__"), &PyStaticMethod_Type) &&
      (values_.tensors().keep_tensor_class(cls) || (wrappers && wrappers->keep_class(cls)));
  if ((cls->tp_itemsize && !is_named_tuple) || values_.tensors().is_tensor(type) ||
      (is_of_tensors && !is_made_in_python))
    return abandon("a class that is not understood", type);
  if (class_entry(type, "__del__")) return abandon("a class with __del__", type);
  guards::SourceTable& sources = values_.sources();
  if (!values_.source_of(type) && !values_.is_own_class(type)) return abandon("a class made by the function", type);
  const guards::Source* source = watch_.classes.class_source(type);
  if (!watch_.classes.keep_in_class(type, source, {"__del__"})) return false;
  // Of an abstract class C code makes no instances: these say whether it is one.
  const Ref abstract = Ref::steal(PyUnicode_InternFromString("__abstractmethods__"));
  const guards::Source* methods = abstract ? sources.type_attribute(source, abstract.get()) : nullptr;
  if (!methods) return abandon("no memory");
  if (PyObject* found = find_in_type(cls, abstract.get()))
    values_.guards().identity(methods, found);
  else if (is_changeable(cls))
    values_.guards().absent(methods);
  PyObject* objects_new = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__");
  bool makes_in_c = false;
  for (const char* name : {"__new__", "__init__"}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    PyObject* found = class_entry(type, name);
    if (!key || !found) return abandon(Break::no_memory);
    if (!watch_.classes.learn_class_entry(found, sources.type_attribute(source, key.get()))) return false;
    const bool is_python = PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type);
    if (is_plain_constructor(found)) {
      makes_in_c = true;
      // What a dict is given by names it keeps as it is.
      const Py_ssize_t iterated = PyType_IsSubtype(cls, &PyDict_Type) ? count - by_name : count;
      for (Py_ssize_t i = 0; name == std::string_view("__init__") && i < iterated; ++i)
        if (!guards::is_scalar(arguments[i]) && !watch_.containers.iterate(arguments[i])) return false;
      continue;
    }
    const bool is_objects = found == class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
    if (!is_python && !is_objects && !(is_exception && !PyFunction_Check(found)))
      return abandon("a class whose instances are made in C", type);
  }
  // A __new__ written in Python may give an object that existed before; what it makes is known where it makes it.
  if (class_entry(type, "__new__") != objects_new && !is_exception && !makes_in_c) return allow(Entry::known);
  activity().constructs = cls;
  return allow_made_result(Entry::known);
}

}  // namespace braze::interpreter
