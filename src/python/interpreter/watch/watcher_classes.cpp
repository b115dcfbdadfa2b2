// python/interpreter/watch/watcher_classes.cpp: what classes decide without an instruction that names it.
//
// C code asks objects for special methods (containers for __eq__ and __hash__, all() for __bool__), and
// isinstance(), `except` and `match` ask for base classes. Both can change at any time, also for objects that a run
// makes.
#include <string>

#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

/// What C code may ask a class for.
const std::vector<PyObject*>& protocol_names() {
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> all;
    const auto add = [&](const std::string& text) {
      all.push_back(PyUnicode_InternFromString(("__" + text + "__").c_str()));  // For good, as the table is.
    };
    for (const std::string name : {"add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow",
                                   "lshift", "rshift", "and", "or", "xor"})
      for (const char* form : {"", "r", "i"}) add(form + name);
    for (const char* name :
         {"neg",         "pos",     "abs",      "invert",       "lt",    "le",       "eq",
          "ne",          "gt",      "ge",       "hash",         "bool",  "len",      "getitem",
          "setitem",     "delitem", "contains", "iter",         "next",  "reversed", "index",
          "int",         "float",   "complex",  "round",        "trunc", "floor",    "ceil",
          "length_hint", "str",     "repr",     "format",       "call",  "get",      "missing",
          "fspath",      "bytes",   "getattr",  "getattribute", "class", "array",    "torch_function"})
      add(name);
    return all;
  }();
  return names;
}

bool is_changeable(PyTypeObject* type) {
  return type->tp_flags & Py_TPFLAGS_HEAPTYPE && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}

}  // namespace

void Values::keep_protocols(PyObject* value) {
  if (PyTuple_CheckExact(value))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) keep_protocols(PyTuple_GET_ITEM(value, i));
  PyTypeObject* type = Py_TYPE(value);
  if (!is_changeable(type) || !protocols_kept_.insert(type).second) return;
  auto* object = reinterpret_cast<PyObject*>(type);
  guards_.class_entries(sources().object(object, type->tp_name), type, protocol_names());
}

/// The class has the bases that it has. Builtin classes keep theirs.
void Watcher::keep_bases(PyTypeObject* type, const guards::Source* source) {
  if (!is_changeable(type)) return;
  values_.guards().identity(values_.sources().member(source, guards::Member::type_mro), type->tp_mro);
}

/// Of an object that is asked what it is an instance of: its class, and that it does not give another `__class__`
/// than that in a way that nobody watches.
bool Watcher::keep_class_of(PyObject* object) {
  if (guards::is_scalar(object)) return true;
  if (PyType_Check(object)) keep_bases(reinterpret_cast<PyTypeObject*>(object), class_source(object));
  keep_bases(Py_TYPE(object), type_source(object));
  if (!is_changeable(Py_TYPE(object)) || !values_.is_known(object)) return true;
  return values_.tensors().is_tensor(object) ||
         keep_special(object, {"__class__", "__getattribute__", "__getattr__"});
}

/// Whether `match` takes the object for a sequence or mapping is a flag of its class, which registering it, or a
/// class that it derives from, with an abstract base class sets.
bool Watcher::keep_pattern_flags(PyObject* object) {
  if (is_changeable(Py_TYPE(object))) values_.guards().abc_registrations();
  return true;
}

}  // namespace braze::interpreter
