// python/interpreter/watch/derived.cpp: instances of classes that derive from numbers, text and tuples.
//
// Enum members that are text or integers, named tuples, `class Index(int)`: where such a class leaves all that C
// code asks of its instances to the builtin class, C code sees a number, a text, a tuple.
#include <algorithm>
#include <array>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

namespace {

/// What C code may ask of a number, a text or a tuple, but for its text.
constexpr const char* asked[] = {"__index__",
                                 "__int__",
                                 "__float__",
                                 "__complex__",
                                 "__hash__",
                                 "__eq__",
                                 "__ne__",
                                 "__lt__",
                                 "__le__",
                                 "__gt__",
                                 "__ge__",
                                 "__add__",
                                 "__radd__",
                                 "__sub__",
                                 "__rsub__",
                                 "__mul__",
                                 "__rmul__",
                                 "__truediv__",
                                 "__rtruediv__",
                                 "__floordiv__",
                                 "__mod__",
                                 "__rmod__",
                                 "__pow__",
                                 "__rpow__",
                                 "__rfloordiv__",
                                 "__lshift__",
                                 "__rlshift__",
                                 "__rshift__",
                                 "__rrshift__",
                                 "__neg__",
                                 "__pos__",
                                 "__abs__",
                                 "__round__",
                                 "__trunc__",
                                 "__floor__",
                                 "__ceil__",
                                 "__divmod__",
                                 "__rdivmod__",
                                 "__getitem__",
                                 "__iadd__",
                                 "__isub__",
                                 "__imul__",
                                 "__torch_function__"};

/// What a class may have in Python, as flags do: where it is asked for it is watched.
constexpr const char* asked_in_python[] = {"__and__", "__rand__", "__or__",      "__ror__",
                                           "__xor__", "__rxor__", "__invert__",  "__bool__",
                                           "__len__", "__iter__", "__contains__"};

constexpr const char* asked_of_tuples[] = {
    "__len__", "__iter__", "__getitem__", "__contains__", "__eq__",   "__ne__",   "__lt__",   "__le__",
    "__gt__",  "__ge__",   "__add__",     "__mul__",      "__hash__", "__bool__", "__radd__", "__rmul__"};

/// What of a text is asked by C code that goes through its characters.
constexpr const char* asked_for_characters[] = {"__iter__", "__len__", "__getitem__"};

constexpr const char* asked_for_text[] = {"__str__", "__repr__", "__format__"};

constexpr std::array bases = {&PyLong_Type, &PyUnicode_Type, &PyFloat_Type, &PyComplex_Type, &PyBytes_Type};

/// The builtin class whose number or text `value` holds, as an instance of a class made by Python code.
PyTypeObject* base_of(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
  const auto found =
      std::ranges::find_if(bases, [type](PyTypeObject* base) { return PyType_IsSubtype(type, base); });
  return found == bases.end() ? nullptr : *found;
}

}  // namespace

bool is_derived_scalar(PyObject* value) {
  return base_of(value) != nullptr;
}

PyObject* derived_method(PyObject* value, const char* name) {
  PyTypeObject* base = base_of(value);
  PyObject* found = base ? class_entry(reinterpret_cast<PyObject*>(Py_TYPE(value)), name) : nullptr;
  return found && found == class_entry(reinterpret_cast<PyObject*>(base), name) ? found : nullptr;
}

guards::Ref exact_key(PyObject* key) {
  PyTypeObject* base = base_of(key);
  if (base == &PyUnicode_Type) return guards::Ref::steal(PyUnicode_FromObject(key));
  if (base == &PyLong_Type) return guards::Ref::steal(_PyLong_Copy(reinterpret_cast<PyLongObject*>(key)));
  return {};
}

const guards::Source* type_source(Values& values, PyObject* object) {
  const guards::Source* source = values.source_of(object);
  const bool says_type = values.guards().says_type(source, Py_TYPE(object)) || values.tensors().is_tensor(object);
  if (source && !says_type) return values.sources().type_of(source);
  // The class itself: a guard says that the object is of it, or the run made the object, and the class is guarded
  // where it was called. So what a class has and lacks is guarded once, and not once an instance.
  return values.sources().object(reinterpret_cast<PyObject*>(Py_TYPE(object)), Py_TYPE(object)->tp_name);
}

namespace {

/// The class leaves these methods to `base`, and goes on doing so.
bool inherits(Values& values, PyObject* value, PyTypeObject* base, std::span<const char* const> names) {
  PyTypeObject* type = Py_TYPE(value);
  const guards::Source* source = type_source(values, value);
  for (const char* name : names) {
    const guards::Ref key = guards::Ref::steal(PyUnicode_InternFromString(name));
    if (!key || _PyType_Lookup(type, key.get()) != _PyType_Lookup(base, key.get())) return false;
  }
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true;
  for (const char* name : names) {
    const guards::Ref key = guards::Ref::steal(PyUnicode_InternFromString(name));
    const guards::Source* entry = values.sources().type_attribute(source, key.get());
    if (PyObject* found = _PyType_Lookup(type, key.get()))
      values.guards().identity(entry, found);
    else
      values.guards().absent(entry);
  }
  return true;
}

/// The class leaves these to `base`, or has them in Python.
bool keeps_watched(Values& values, PyObject* value, PyTypeObject* base) {
  PyTypeObject* type = Py_TYPE(value);
  for (const char* name : asked_in_python) {
    PyObject* found = class_entry(reinterpret_cast<PyObject*>(type), name);
    if (!found || !PyFunction_Check(found)) {
      if (!inherits(values, value, base, {&name, 1})) return false;
      continue;
    }
    const guards::Ref key = guards::Ref::steal(PyUnicode_InternFromString(name));
    if (!key || !values.learn(found, values.sources().type_attribute(type_source(values, value), key.get())))
      return false;
  }
  return true;
}

}  // namespace

/// The number or text is part of the object and never changes.
bool absorb_derived(Values& values, PyObject* value) {
  PyTypeObject* base = base_of(value);
  return base && values.source_of(value) && inherits(values, value, base, asked) &&
         keeps_watched(values, value, base) && values.pin(value);
}

namespace {

/// Nothing but the number or text: it holds nobody, and nobody can tell when it dies.
bool is_inert(PyObject* value, const PyTypeObject* base) {
  const PyTypeObject* type = Py_TYPE(value);
  return type->tp_basicsize == base->tp_basicsize && type->tp_dictoffset == 0 &&
         !PyType_SUPPORTS_WEAKREFS(Py_TYPE(value)) && !type->tp_finalize && !type->tp_del;
}

}  // namespace

/// How it compares is never asked.
bool absorb_content(Values& values, PyObject* value) {
  PyTypeObject* base = base_of(value);
  const guards::Source* source = values.source_of(value);
  if (!base || !source || !inherits(values, value, base, asked_for_characters)) return false;
  if (!is_inert(value, base)) return values.pin(value);
  values.guards().identity(source, value);  // Which keeps it.
  return true;
}

/// The name of a function and its address. Guards keep both.
bool absorb_text_of_function(Values& values, PyObject* function) {
  const guards::Source* source = values.source_of(function);
  if (!source) return false;
  if (!PyFunction_Check(function)) return PyCFunction_Check(function) && values.pin(function);
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_qualname;
  return values.learn(name, values.sources().member(source, guards::Member::function_qualname)) &&
         values.pin(function);
}

bool absorb_text(Values& values, PyObject* value) {
  if (PyFunction_Check(value) || PyCFunction_Check(value)) return absorb_text_of_function(values, value);
  return absorb_derived(values, value) && inherits(values, value, base_of(value), asked_for_text);
}

/// A named tuple, torch.Size or torch.return_types.max: C code reads the items where they lie.
bool acts_as_tuple(Values& values, PyObject* value) {
  if (is_a(value, "torch.Size")) return true;  // It adds and multiplies by itself, to sizes again.
  return PyTuple_Check(value) && !PyTuple_CheckExact(value) &&
         inherits(values, value, &PyTuple_Type, asked_of_tuples);
}

}  // namespace braze::interpreter
