// python/interpreter/watch/watcher_methods.cpp: methods of builtin containers, and slots called by name.
//
//   what the run made          may be changed
//   what existed before        may be read, guarded; its changes are effects
#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

/// Methods of builtin containers that only read.
const Names& reading_methods() {
  static const Names names = {"copy",         "count",      "get",       "index",    "items",
                              "keys",         "values",     "union",     "issubset", "issuperset",
                              "intersection", "difference", "isdisjoint"};
  return names;
}

/// Loggers keep under a lock at which levels they are enabled; a replay does without.
bool is_logging_code(const Frame* frame) {
  PyObject* logging = PyDict_GetItemString(PyImport_GetModuleDict(), "logging");
  return logging && PyModule_Check(logging) && PyModule_GetDict(logging) == frame->f_globals;
}

}  // namespace

/// Names of codecs and of ways to handle errors that no registry is asked for.
bool names_builtin_codec(PyObject* const* names, Py_ssize_t count) {
  static const Names builtin = {"utf-8",        "utf8",   "utf_8",  "UTF-8",  "ascii",   "ASCII",
                                "latin-1",      "latin1", "strict", "ignore", "replace", "surrogateescape",
                                "surrogatepass"};
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!builtin.contains(text_of(names[i]))) return false;
  return true;
}

bool Watcher::call_method(PyObject* name, PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (values_.tensors().is_tensor(self)) {
    TensorWorld& tensors = values_.tensors();
    const bool may_call = values_.is_known(self) && (tensors.may_call_method(name) ||
                                                     tensors.changes_only_itself(self, name, arguments, count));
    if (!may_call) {
      const std::optional<Break> why = tensors.why_not(name);
      return why ? abandon(*why) : abandon("a method of tensors that is not understood", name);
    }
    return absorb_all(arguments, count, nullptr) && allow_made_result(Entry::tensor);
  }
  if (is_a(self, "torch.device") && (text_of(name) == "__enter__" || text_of(name) == "__exit__"))
    return abandon("a device as a context", self);
  if (PyUnicode_CheckExact(self) && text_of(name) == "join" && count == 1 && !is_data(arguments[0]))
    return iterate(arguments[0]) && allow_made_result(Entry::known) && looks();
  if (guards::is_scalar(self)) {
    if (!all_data(arguments, count)) return abandon("text is made of an object", name);
    const bool converts = text_of(name) == "encode" || text_of(name) == "decode";
    if (converts && !names_builtin_codec(arguments, count)) return abandon("a codec that others may replace", name);
    return absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (!values_.is_known(self)) return abandon("a method of an object of unknown origin", self);
  const std::string_view text = text_of(name);
  if (is_derived_scalar(self) && derived_method(self, std::string(text).c_str()) && all_data(arguments, count))
    return (values_.absorb(self) && absorb_all(arguments, count, nullptr) && allow_made_result()) ||
           abandon("a method of a class that is not understood", self);
  if (PyObject* dict = dict_behind(self)) {
    if (Py_IS_TYPE(self, &PyDictProxy_Type)) return call_method(name, dict, arguments, count);
    return absorb_all(&self, 1, nullptr) && absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (is_a(self, "torch.Size") && text == "numel") return absorb_all(&self, 1, nullptr);
  if (PyContextVar_CheckExact(self)) return call_context_variable(text, self, arguments, count);
  if (PyGen_CheckExact(self)) {
    if (text == "send" || text == "throw" || text == "close") return resume_generator(self, arguments, count);
    return abandon("a method that is not understood", name);
  }
  if (text == "__reduce_ex__") return reduce(self, arguments, count);
  if (is_a(self, "_thread.RLock") && (text == "acquire" || text == "release") && count == 0) {
    if (!is_logging_code(PyThreadState_Get()->cframe->current_frame)) return abandon("a lock", self);
    text == "acquire" ? values_.effects().take_lock(self) : values_.effects().release_lock(self);
    return true;
  }
  if (is_a(self, "_thread.RLock") && text == "__exit__") {
    values_.effects().release_lock(self);
    return true;
  }
  if (is_a(self, "re.Pattern") || is_a(self, "re.Match")) return call_pattern(self, arguments, count);
  if (PyRange_Check(self)) return absorb_all(arguments, count, nullptr) && allow_made_result();
  if (is_a(self, "collections.deque")) return call_deque(text, self, arguments, count);
  // Of a subclass of a container: the method that it inherits.
  PyTypeObject* storage = storage_type(self);
  PyObject* method =
      storage ? class_entry(reinterpret_cast<PyObject*>(storage), std::string(text).c_str()) : nullptr;
  if (!method || (!Py_IS_TYPE(method, &PyMethodDescr_Type) && !Py_IS_TYPE(method, &PyWrapperDescr_Type)))
    return abandon("a method that is not understood", name);
  if (text.starts_with("__")) return call_container_slot(text, self, arguments, count);
  const bool asks_set = text == "add" || text == "discard" || text == "remove";
  if (asks_set && PySet_CheckExact(self) && values_.is_made(self) && count == 1) return hashes(arguments[0]);
  if (values_.is_made(self) && text == "sort") return sort(self, arguments, count);
  if (values_.is_made(self)) {
    const bool keeps = text == "append" || text == "extend" || text == "insert" || text == "pop" || text == "clear";
    if (keeps && PyList_Check(self)) return (text != "extend" || iterate(arguments[0])) && allow(Entry::known);
    if (PyDict_Check(self) && text == "update" && count > 0 && is_exact_dict(arguments[0])) {
      // The entries are handed on as they are.
      for (Py_ssize_t i = 1; i < count; ++i)
        if (!values_.is_known(arguments[i])) return abandon("a value of unknown origin", arguments[i]);
      values_.iterate_dict(arguments[0]);
      return values_.open(arguments[0]) || abandon("a dict that cannot be guarded", arguments[0]);
    }
    const bool stores = PyDict_Check(self) && (text == "pop" || text == "setdefault" || text == "get");
    if (stores && count >= 1) return hashes(arguments[0]);
    return absorb_all(arguments, count, nullptr) && allow_made_result(Entry::known);
  }
  if (!reading_methods().contains(text)) return change_by_method(text, self, arguments, count);
  if (text == "get" && PyDict_Check(self) && count >= 1)
    return values_.look_up(self, arguments[0]) || abandon("an entry of a dict that cannot be guarded", self);
  return (values_.open(self) && absorb_all(arguments, count, nullptr) && allow_made_result()) ||
         abandon("a container that cannot be guarded", self);
}

/// A generator that the run made goes on. What is thrown into it was made by the run too.
bool Watcher::resume_generator(PyObject* generator, PyObject* const* arguments, Py_ssize_t count) {
  if (!values_.is_made(generator)) return abandon("a generator that existed before the call", generator);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyExceptionInstance_Check(arguments[i]) && values_.source_of(arguments[i]))
      return abandon("an exception that existed before is raised", arguments[i]);
  return allow(Entry::known);
}

/// A compiled pattern, or what it has found, never changes. What is put in place of a match may be for a function
/// to say.
bool Watcher::call_pattern(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!guards::is_scalar(arguments[i]) && !(PyFunction_Check(arguments[i]) && values_.is_known(arguments[i])))
      return abandon("a pattern is given an object", arguments[i]);
  // Such a function is given a new match.
  PyObject* re = PyDict_GetItemString(PyImport_GetModuleDict(), "re");
  PyObject* match = re && PyModule_Check(re) ? PyDict_GetItemString(PyModule_GetDict(re), "Match") : nullptr;
  if (match && PyType_Check(match)) activities_.back().constructs = reinterpret_cast<PyTypeObject*>(match);
  return (values_.pin(self) && allow_made_result(Entry::known)) || abandon("a pattern of unknown origin", self);
}

/// list.sort() compares the items, or what the key function says of them.
bool Watcher::sort(PyObject* list, PyObject* const* arguments, Py_ssize_t count) {
  return absorb_given(&list, 1) && absorb_given(arguments, count) && change_list(list) && looks() &&
         allow(Entry::known);
}

/// set.add() and its like. All that they read is guarded, so that a replay that does the same changes the order of
/// iteration in the same way.
bool Watcher::change_set(std::string_view name, PyObject* set, PyObject* const* arguments, Py_ssize_t count) {
  static const Names names = {"add",
                              "discard",
                              "remove",
                              "clear",
                              "update",
                              "difference_update",
                              "intersection_update",
                              "symmetric_difference_update"};
  if (!names.contains(name) || count != (name == "clear" ? 0 : 1) || keyword_names_)
    return abandon("a set that existed before is changed", set);
  if (!values_.open(set)) return abandon("a set that cannot be guarded", set);
  PyObject* argument = count ? arguments[0] : nullptr;
  const bool is_item = name == "add" || name == "discard" || name == "remove";
  if (is_item && (!guards::is_scalar(argument) || guards::is_nan(argument)))
    return abandon("a set of objects is changed", set);
  if (argument && !is_item) {
    const bool is_known = values_.is_known(argument) && is_data(argument) && values_.open(argument);
    if (!is_known || PyDict_Check(argument)) return abandon("a set of objects is changed", set);
  }
  if (name == "remove" && PySet_Contains(set, argument) != 1) return true;  // A KeyError.
  values_.effects().change_set(set, std::string(name).c_str(), argument);
  return true;
}

/// dict.popitem() of what existed before, whose keys and their order are guarded.
bool Watcher::pop_item(PyObject* dict, PyObject* const* arguments, Py_ssize_t count) {
  if (!values_.open(dict)) return abandon("a dict that cannot be guarded", dict);
  const bool from_front = count == 1 && PyObject_Not(arguments[0]) == 1;
  if (count > 1 || (count == 1 && !PyBool_Check(arguments[0]))) return abandon("a dict is changed", dict);
  Ref key;
  guards::for_each_key(dict, [&](PyObject* each) {
    key = Ref::borrow(each);
    return !from_front;
  });
  if (!key) return true;  // A KeyError.
  if (!lets_go_of_entry(dict, key.get())) return false;
  values_.effects().delete_entry(dict, key.get());
  return allow_made_result();
}

/// dict.update() with a dict, pairs, or keywords.
bool Watcher::update_dict(PyObject* dict, PyObject* const* arguments, Py_ssize_t count) {
  const Py_ssize_t named = keyword_names_ ? PyTuple_GET_SIZE(keyword_names_) : 0, given = count - named;
  if (given > 1) return true;  // A TypeError.
  PyObject* entries = given ? arguments[0] : nullptr;
  if (entries && (!values_.is_known(entries) || !is_builtin_container(entries) || !values_.open(entries)))
    return abandon("a dict that cannot be guarded", entries);
  if (entries && is_exact_dict(entries)) {
    const bool all = guards::for_each_key(
        entries, [&](PyObject* key) { return store_entry(dict, key, PyDict_GetItemWithError(entries, key)); });
    if (!all) return false;
  } else if (entries) {
    if (PyAnySet_Check(entries)) return abandon("a dict of the items of a set", entries);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(entries); ++i) {
      PyObject* pair = PySequence_Fast_GET_ITEM(entries, i);
      const bool is_pair = (PyTuple_CheckExact(pair) || PyList_CheckExact(pair)) && values_.open(pair) &&
                           PySequence_Fast_GET_SIZE(pair) == 2;
      if (!is_pair) return abandon("a dict of what are no pairs", pair);
      if (!store_entry(dict, PySequence_Fast_GET_ITEM(pair, 0), PySequence_Fast_GET_ITEM(pair, 1))) return false;
    }
  }
  for (Py_ssize_t i = 0; i < named; ++i)
    if (!store_entry(dict, PyTuple_GET_ITEM(keyword_names_, i), arguments[given + i])) return false;
  return true;
}

/// A method that changes a container that existed before the call.
bool Watcher::change_by_method(std::string_view name, PyObject* self, PyObject* const* arguments,
                               Py_ssize_t count) {
  Effects& effects = values_.effects();
  if (PyList_Check(self)) {
    if (name == "sort") return sort(self, arguments, count);
    if (name == "remove" && count == 1 && values_.open(self) && is_data(self) && is_data(arguments[0]))
      return absorb_all(arguments, count, self) && change_list(self);
    if (name == "append" && count == 1) {
      effects.append(self, arguments[0]);
      return true;
    }
    if (name == "extend" && count == 1) return change_list(self) && iterate(arguments[0]);
    const bool moves = name == "insert" || name == "pop" || name == "clear" || name == "reverse";
    if (moves) return change_list(self) && (name == "insert" || absorb_all(arguments, count, self));
  }
  if (PySet_CheckExact(self) && count == 1 && guards::is_scalar(arguments[0]) && values_.open(self)) {
    // What changes nothing; any change would be one of the order too.
    const bool is_in = PySet_Contains(self, arguments[0]) == 1;
    if (is_in ? name == "add" : name == "discard") return true;
  }
  if (PySet_CheckExact(self)) return change_set(name, self, arguments, count);
  if (PyDict_Check(self)) {
    if (name == "__setitem__" && count == 2) return store_entry(self, arguments[0], arguments[1]);
    if (name == "__delitem__" && count == 1) return delete_entry(self, arguments[0]);
    if (name == "pop" && count >= 1) return delete_entry(self, arguments[0]);
    if (name == "setdefault" && count >= 1) {
      if (!values_.look_up(self, arguments[0])) return abandon("an entry of a dict that cannot be guarded", self);
      if (PyDict_Contains(self, arguments[0]) == 1) return true;
      return store_entry(self, arguments[0], count > 1 ? arguments[1] : Py_None);
    }
    if (name == "clear") {
      const guards::Source* source = values_.source_of(self);
      if (source && !lets_go(self, source, true)) return false;
      effects.clear_dict(self);
      return true;
    }
    if (name == "update") return update_dict(self, arguments, count);
    if (name == "popitem") return pop_item(self, arguments, count);
    if (name == "move_to_end" && PyODict_CheckExact(self) && count >= 1 && count <= 2) {
      if (!values_.look_up(self, arguments[0])) return abandon("an entry of a dict that cannot be guarded", self);
      if (PyDict_Contains(self, arguments[0]) != 1) return true;  // A KeyError.
      effects.move_to_end(self, arguments[0], count > 1 ? arguments[1] : Py_True);
      return true;
    }
  }
  return abandon("a container that existed before is changed", self);
}

/// get, set and reset of a contextvars.ContextVar.
bool Watcher::call_context_variable(std::string_view name, PyObject* self, PyObject* const* arguments,
                                    Py_ssize_t count) {
  guards::SourceTable& sources = values_.sources();
  Effects& effects = values_.effects();
  const guards::Source* source = values_.source_of(self);
  if (!source) return abandon("a context variable that the function made", self);
  if (name == "get" && effects.is_set(self)) return true;
  if (name == "get") {
    PyObject* value = nullptr;
    if (PyContextVar_Get(self, nullptr, &value) < 0) PyErr_Clear();
    const Ref owned = Ref::steal(value);
    const guards::Source* contents = sources.context_value(source);
    if (!value) values_.guards().absent(contents);
    return !value || values_.learn(value, contents) || abandon("a context variable that cannot be guarded", value);
  }
  if (name == "set" && count == 1) {
    PyObject* before = nullptr;
    if (PyContextVar_Get(self, nullptr, &before) < 0) PyErr_Clear();
    const Ref held = Ref::steal(before);
    if (!effects.is_set(self) && !lets_go(before, sources.context_value(source))) return false;
    activities_.back().sets_variable = self;
    return allow_made_result();
  }
  if (name == "reset" && count == 1)
    return effects.reset_variable(self, arguments[0]) || abandon("a token that is not of the latest set()", self);
  return abandon("a method of a context variable", self);
}

}  // namespace braze::interpreter
