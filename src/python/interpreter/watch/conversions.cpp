// python/interpreter/watch/conversions.cpp
#include "python/interpreter/watch/conversions.h"

#include <string_view>

#include "python/guards/scalar.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

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

}  // namespace

bool Conversions::converts(std::string_view builtin, PyObject* object) {
  if (is_exact_builtin(Py_TYPE(object)) || values_.tensors().is_tensor(object)) return false;
  if (!values_.is_known(object) || guards::is_scalar(object)) return false;
  for (const Conversion& row : conversions) {
    if (row.builtin != builtin) continue;
    if (watch_.classes.special_function(object, row.method)) return allow(Entry::known);
    PyObject* found = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), row.method);
    PyObject* own = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), row.method);
    return row.fallback && found == own && watch_.classes.special_function(object, row.fallback) &&
           watch_.classes.keep_special(object, {row.method}) && allow(Entry::known);
  }
  return false;
}

bool Conversions::reverses_by_index(PyObject* object) {
  if (storage_type(object) || !values_.is_known(object) || values_.tensors().is_tensor(object)) return false;
  return watch_.classes.special_function(object, "__getitem__") &&
         watch_.classes.special_function(object, "__len__") &&
         watch_.classes.keep_special(object, {"__reversed__"});
}

bool Conversions::formats_as_data(PyObject* object) {
  if (is_data(object)) return true;
  if (absorb_text(values_, object)) return true;
  if (!PyTuple_Check(object) || !absorb(values_, object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_data(PyTuple_GET_ITEM(object, i)) && !absorb_text(values_, PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

bool Conversions::formats_as_text(PyObject* object) {
  PyObject* own = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__format__");
  return class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__format__") == own &&
         converts("str", object) && watch_.classes.keep_special(object, {"__format__"});
}

bool Conversions::writes_itself(PyObject* object) {
  if (is_exact_builtin(Py_TYPE(object)) || PyType_Check(object) || values_.tensors().is_tensor(object))
    return false;
  if (!values_.is_known(object)) return false;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  auto* root = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
  for (const char* name : {"__str__", "__repr__", "__format__"}) {
    if (watch_.classes.special_function(object, name)) continue;
    PyObject* found = class_entry(type, name);
    // object's own ask for another one of these, but for the last, which tells the address.
    const bool asks_on = found == class_entry(root, name) && std::string_view(name) != "__repr__";
    const bool is_descriptor =
        found && (Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyMethodDescr_Type));
    const bool is_of_scalar = is_descriptor && is_derived_scalar(object) &&
                              PyDescr_TYPE(found) != &PyBaseObject_Type && is_exact_builtin(PyDescr_TYPE(found)) &&
                              absorb(values_, object);
    if (!(asks_on || is_of_scalar) || !watch_.classes.keep_special(object, {name})) return false;
  }
  // What `%d` and its like ask for.
  return watch_.classes.keep_special(object, {"__int__", "__index__", "__float__", "__getitem__", "__rmod__"});
}

bool Conversions::formats_by_methods(PyObject* object) {
  if (!PyTuple_CheckExact(object)) {
    PyObject* other = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__rmod__");
    const bool has_say =
        other && !(Py_IS_TYPE(other, &PyWrapperDescr_Type) && is_exact_builtin(PyDescr_TYPE(other)));
    return !has_say && writes_itself(object);
  }
  if (!values_.open(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (PyObject* item = PyTuple_GET_ITEM(object, i);
        !(is_data(item) ? absorb(values_, item) : absorb_text(values_, item) || writes_itself(item)))
      return false;
  return true;
}

bool Conversions::fills_in(PyObject* text, PyObject* const* arguments, Py_ssize_t count) {
  bool in_field = false;
  for (const char letter : text_of(text)) {
    if (letter == '{' || letter == '}' || letter == ':') in_field = letter == '{';
    if (in_field && (letter == '.' || letter == '[')) return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!(is_data(arguments[i]) ? absorb(values_, arguments[i])
                                : absorb_text(values_, arguments[i]) || writes_itself(arguments[i])))
      return false;
  return true;
}

bool Conversions::is_plain_exception(PyObject* object) {
  if (!PyExceptionInstance_Check(object) || !values_.is_made(object)) return false;
  for (const char* name : {"__str__", "__repr__"})
    if (PyObject* found = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), name);
        !found || !Py_IS_TYPE(found, &PyWrapperDescr_Type))
      return false;
  return is_data(reinterpret_cast<PyBaseExceptionObject*>(object)->args) &&
         watch_.classes.keep_special(object, {"__str__", "__repr__"});
}

bool Conversions::text_of_class(PyObject* type) {
  PyTypeObject* meta = Py_TYPE(type);
  if (!values_.is_known(type) || meta->tp_repr != PyType_Type.tp_repr || meta->tp_str != PyBaseObject_Type.tp_str)
    return abandon("the text of a class that makes it itself", type);
  const Ref module = Ref::steal(PyUnicode_InternFromString("__module__"));
  const Ref name = Ref::steal(PyUnicode_InternFromString("__qualname__"));
  return module && name && watch_.classes.keep_special(type, {"__repr__", "__str__"}) &&
         watch_.attributes.class_attribute(type, module.get()) &&
         watch_.attributes.class_attribute(type, name.get()) && allow_made_result();
}

}  // namespace braze::interpreter
