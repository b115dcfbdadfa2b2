// python/interpreter/watch/watcher_calls.cpp: which calls are understood.
//
//   Python functions     watched themselves
//   classes              __new__ and __init__ written in Python are watched; builtin classes by table
//   builtin functions    by table: they read nothing but their arguments, which are guarded deeply
//   methods              of what the run made, or those that only read
//   torch's C functions  as TensorWorld says
#include <array>
#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

using Names = std::unordered_set<std::string_view>;

/// Functions of module builtins that compute on their arguments alone. Python code that they enter (keys,
/// iterators) must be known.
const Names& pure_builtins() {
  static const Names names = {"abs", "all", "any",  "callable", "chr", "divmod", "iter",   "len",
                              "max", "min", "next", "ord",      "pow", "round",  "sorted", "sum"};
  return names;
}

/// Likewise, of other modules: every function.
const Names& pure_modules() {
  static const Names names = {"math", "_operator"};
  return names;
}

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
                              "itertools.chain",
                              "itertools.islice",
                              "itertools.repeat",
                              "itertools.product",
                              "itertools.accumulate",
                              "itertools.zip_longest",
                              "torch.Size"};
  return names;
}

/// Builtin classes whose instances keep the arguments, and do not look into them.
const Names& holding_classes() {
  static const Names names = {"functools.partial", "method"};
  return names;
}

/// Methods of builtin containers that only read.
const Names& reading_methods() {
  static const Names names = {"copy",         "count",      "get",       "index",    "items",
                              "keys",         "values",     "union",     "issubset", "issuperset",
                              "intersection", "difference", "isdisjoint"};
  return names;
}

std::string_view text_of(PyObject* string) {
  const char* text = string && PyUnicode_Check(string) ? PyUnicode_AsUTF8(string) : nullptr;
  return text ? text : "";
}

std::string_view module_of(PyObject* function) {
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(function)->m_module;
  return text_of(module);
}

/// No class statement made it, and none can change it.
bool is_exact_builtin(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE;
}

/// Builtin classes whose `__new__` makes an instance of any subclass out of its arguments alone.
bool has_plain_new(PyTypeObject* type) {
  return type == &PyBaseObject_Type || type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type ||
         type == &PyODict_Type;
}

/// Scalars and builtin containers of them: what has the same text and hash in every run.
bool is_data(PyObject* value, int depth = 0) {
  if (guards::is_scalar(value)) return true;
  if (depth > 8 || !is_builtin_container(value)) return false;
  const Ref items = Ref::steal(PyDict_Check(value) ? PyDict_Items(value) : PySequence_List(value));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i)
    if (!is_data(PyList_GET_ITEM(items.get(), i), depth + 1)) return false;
  return static_cast<bool>(items);
}

bool all_data(PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!is_data(arguments[i])) return false;
  return true;
}

PyObject* class_entry(PyObject* type, const char* name) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return key ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), key.get()) : nullptr;
}

}  // namespace

bool Watcher::absorb_all(PyObject* const* arguments, Py_ssize_t count, PyObject* callable) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!values_.absorb(arguments[i]))
      return abandon("a C function is given an object whose parts are not guarded", arguments[i]);
  return true;
}

bool Watcher::call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  TensorWorld& tensors = values_.tensors();
  if (Py_IS_TYPE(callable, &PyMethod_Type)) {
    std::vector<PyObject*> all{PyMethod_GET_SELF(callable)};
    all.insert(all.end(), arguments, arguments + count);
    return call(PyMethod_GET_FUNCTION(callable), all.data(), count + 1);
  }
  if (PyFunction_Check(callable)) {
    if (!values_.is_known(callable)) return abandon("a function of unknown origin", callable);
    const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable));
    return code->co_flags & CO_GENERATOR ? allow_made_result(Entry::known) : allow(Entry::known);
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) && count > 0)
    return call_method(PyDescr_NAME(callable), arguments[0], arguments + 1, count - 1);
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type) && PyWrapperDescr_Type.tp_name && count > 0) {
    const bool is_init =
        text_of(PyDescr_NAME(callable)) == "__init__" && PyDescr_TYPE(callable) == &PyBaseObject_Type;
    return is_init || abandon("a slot that is not understood", callable);
  }
  if (PyCFunction_Check(callable)) return call_builtin(callable, arguments, count);
  if (!values_.is_known(callable)) return abandon("an object of unknown origin is called", callable);
  if (PyType_Check(callable)) return call_class(callable, arguments, count);
  if (tensors.may_call(callable)) return absorb_all(arguments, count, callable) && allow_made_result(Entry::tensor);
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
    // A slot found through super().
    const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    const Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    if (!name || !self || !values_.is_known(self.get())) return abandon("a slot that is not understood", callable);
    if (text_of(name.get()) == "__init__") return allow_made_result();
    const bool reads =
        text_of(name.get()) == "__getattribute__" && count == 1 && PyUnicode_CheckExact(arguments[0]);
    return reads ? plain_attribute(self.get(), arguments[0]) : abandon("a slot that is not understood", callable);
  }
  if (std::string_view(Py_TYPE(callable)->tp_name) == "functools.partial" && is_exact_builtin(Py_TYPE(callable)))
    return call_partial(callable, arguments, count);
  if (special_function(callable, "__call__")) return allow(Entry::known);
  return abandon("a call that is not understood", callable);
}

/// The function and the arguments that a partial holds; guarded if it existed before the call.
bool Watcher::call_partial(PyObject* partial, PyObject* const* arguments, Py_ssize_t count) {
  const guards::Source* source = values_.source_of(partial);
  Ref parts[3];
  const char* names[] = {"func", "args", "keywords"};
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = Ref::steal(PyObject_GetAttrString(partial, names[i]));
    PyObject* descriptor = PyDict_GetItemString(guards::class_dict(Py_TYPE(partial)), names[i]);
    if (!parts[i] || !descriptor) return abandon("a partial", partial);
    if (source && !values_.learn(parts[i].get(), values_.sources().slot(source, descriptor)))
      return abandon("a partial that cannot be guarded", partial);
    if (source && i > 0 && !values_.open(parts[i].get()))
      return abandon("a partial that cannot be guarded", partial);
  }
  if (!PyTuple_CheckExact(parts[1].get()) || !PyDict_CheckExact(parts[2].get()))
    return abandon("a partial", partial);
  std::vector<PyObject*> all(PySequence_Fast_ITEMS(parts[1].get()),
                             PySequence_Fast_ITEMS(parts[1].get()) + PyTuple_GET_SIZE(parts[1].get()));
  all.insert(all.end(), arguments, arguments + count);
  Py_ssize_t at = 0;
  PyObject *name, *value;
  while (PyDict_Next(parts[2].get(), &at, &name, &value)) all.push_back(value);
  return call(parts[0].get(), all.data(), static_cast<Py_ssize_t>(all.size()));
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

bool Watcher::call_class(PyObject* type, PyObject* const* arguments, Py_ssize_t count) {
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (Py_TYPE(cls)->tp_call != PyType_Type.tp_call)
    return abandon("a class whose metaclass makes the instances", type);
  if (cls == &PySuper_Type) return (count > 0 || load_class_cell()) && allow_made_result();
  if (cls == &PyType_Type) {
    if (count != 1 || !values_.is_known(arguments[0])) return abandon("type() with more than one argument");
    const guards::Source* source = type_source(arguments[0]);
    return values_.learn(reinterpret_cast<PyObject*>(Py_TYPE(arguments[0])), source) ||
           abandon("a class that cannot be guarded", arguments[0]);
  }
  const bool depends_on_hash_or_text = cls == &PyUnicode_Type || cls == &PySet_Type || cls == &PyFrozenSet_Type;
  if (depends_on_hash_or_text && !all_data(arguments, count)) return abandon("text or a set of objects", type);
  const bool is_exception = PyExceptionClass_Check(type);
  if (is_exact_builtin(cls) && (is_exception || pure_classes().contains(cls->tp_name)))
    return (is_exception || absorb_all(arguments, count, type)) && allow_made_result(Entry::known);
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
  if (!keep_in_class(type, source, {"__del__"}) || !keep_special(type, {"__call__"})) return false;
  PyObject* objects_new = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__");
  for (const char* name : {"__new__", "__init__"}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    PyObject* found = class_entry(type, name);
    if (!key || !found) return abandon("a class without a constructor", type);
    if (!learn_class_entry(found, sources.type_attribute(source, key.get()))) return false;
    const bool is_python = PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type);
    const bool is_objects = found == class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
    if (!is_python && !is_objects && !(is_exception && !PyFunction_Check(found)))
      return abandon("a class whose instances are made in C", type);
  }
  // A __new__ written in Python may give an object that existed before; what it makes is known where it makes it.
  if (class_entry(type, "__new__") != objects_new && !is_exception) return allow(Entry::known);
  activities_.back().constructs = cls;
  return allow_made_result(Entry::known);
}

bool Watcher::call_builtin(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  auto* builtin = reinterpret_cast<PyCFunctionObject*>(function);
  const std::string_view name = builtin->m_ml->ml_name, module = module_of(function);
  PyObject* self = PyCFunction_GET_SELF(function);
  if (values_.tensors().may_call(function))
    return absorb_all(arguments, count, function) && allow_made_result(Entry::tensor);
  if (name == "__new__" && self && PyType_Check(self) && count > 0) {
    auto* base = reinterpret_cast<PyTypeObject*>(self);
    auto* cls = PyType_Check(arguments[0]) ? reinterpret_cast<PyTypeObject*>(arguments[0]) : nullptr;
    const bool is_ordinary = cls && has_plain_new(base) && values_.source_of(arguments[0]) &&
                             PyType_IsSubtype(cls, base) && cls->tp_new != base->tp_new &&
                             !class_entry(arguments[0], "__del__");
    if (!is_ordinary) return abandon("__new__ of such a class", arguments[0]);
    if (base == &PyTuple_Type && count > 1 && !iterate(arguments[1])) return false;
    return allow_made_result();
  }
  const bool is_method = self && !PyModule_Check(self) && !PyType_Check(self);
  if (is_method) {
    const Ref text = Ref::steal(PyUnicode_FromString(builtin->m_ml->ml_name));
    return text && call_method(text.get(), self, arguments, count);
  }
  if (!values_.is_known(function)) return abandon("a function of unknown origin", function);
  if (module == "builtins") {
    if (name == "isinstance" || name == "issubclass") {
      if (count != 2 || !values_.is_known(arguments[0]))
        return abandon("isinstance with an object of unknown origin", count ? arguments[0] : nullptr);
      return open_classes(arguments[1]) && allow(Entry::known);
    }
    if ((name == "getattr" || name == "hasattr") && count >= 2 && PyUnicode_CheckExact(arguments[1])) {
      // A missing attribute is an answer here: where the lookup is an ordinary one, its guards say that it is
      // missing.
      return attribute(arguments[0], arguments[1]);
    }
    if (name == "len" && count == 1 && !is_builtin_container(arguments[0]) && values_.source_of(arguments[0]) &&
        special_function(arguments[0], "__len__"))
      return allow(Entry::known);
    if (name == "super") return allow_made_result();
    if (!pure_builtins().contains(name)) return abandon("a builtin function that is not understood", function);
    return absorb_all(arguments, count, function) && allow_made_result(Entry::tensor);
  }
  if (pure_modules().contains(module))
    return absorb_all(arguments, count, function) && allow_made_result(Entry::tensor);
  return abandon("a C function that is not understood", function);
}

bool Watcher::call_method(PyObject* name, PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (values_.tensors().is_tensor(self)) {
    if (!values_.is_known(self) || !values_.tensors().may_call_method(name))
      return abandon("a method of tensors that is not understood", name);
    return absorb_all(arguments, count, nullptr) && allow_made_result(Entry::tensor);
  }
  if (guards::is_scalar(self)) {
    if (!all_data(arguments, count)) return abandon("text is made of an object", name);
    return absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (!values_.is_known(self)) return abandon("a method of an object of unknown origin", self);
  if (!is_builtin_container(self)) {
    // The __new__ of object, called by a class's own.
    return abandon("a method that is not understood", name);
  }
  const std::string_view text = text_of(name);
  if (text == "add" && PySet_CheckExact(self) && values_.is_made(self) && count == 1 &&
      guards::is_plain_key(arguments[0]) && values_.pin(arguments[0]))
    return true;
  if (values_.is_made(self)) {
    const bool keeps = text == "append" || text == "extend" || text == "insert" || text == "pop" || text == "clear";
    if (keeps && PyList_CheckExact(self))
      return (text != "extend" || absorb_all(arguments, count, nullptr)) && allow(Entry::none);
    return absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (!reading_methods().contains(text)) return abandon("a container that existed before is changed", name);
  if (text == "get" && is_exact_dict(self) && count >= 1)
    return values_.look_up(self, arguments[0]) || abandon("an entry of a dict that cannot be guarded", self);
  return (values_.open(self) && absorb_all(arguments, count, nullptr) && allow_made_result()) ||
         abandon("a container that cannot be guarded", self);
}

}  // namespace braze::interpreter
