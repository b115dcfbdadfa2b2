// python/interpreter/watch/fields.cpp: what functions and classes keep beside their dicts.
#include <algorithm>
#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/attributes.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

using guards::Member;

/// What a function keeps beside its dict.
constexpr std::pair<std::string_view, Member> fields[] = {
    {"__type_params__", Member::function_type_params}, {"__name__", Member::function_name},
    {"__qualname__", Member::function_qualname},       {"__doc__", Member::function_doc},
    {"__module__", Member::function_module},           {"__defaults__", Member::function_defaults},
    {"__kwdefaults__", Member::function_kwdefaults},   {"__annotations__", Member::function_annotations}};

}  // namespace

bool is_function_field(PyObject* name) {
  return std::ranges::any_of(fields, [name](const auto& row) { return row.first == text_of(name); });
}

bool Attributes::function_attribute(PyObject* function, PyObject* name) {
  // A method's function was learnt when the method was found.
  if (PyMethod_Check(function) && (PyUnicode_CompareWithASCIIString(name, "__func__") == 0 ||
                                   PyUnicode_CompareWithASCIIString(name, "__self__") == 0))
    return true;
  if (Py_IS_TYPE(function, &PyMethod_Type)) {
    // A method has the attributes of its function.
    if (!watch_.calls.learn_method(function)) return false;
    return function_attribute(PyMethod_GET_FUNCTION(function), name);
  }
  if (PyCFunction_Check(function) && !_PyType_Lookup(&PyCFunction_Type, name)) return true;  // It has no others.
  if (PyCFunction_Check(function) && values_.is_known(function)) {
    const std::string_view text = text_of(name);
    if (text == "__name__" || text == "__qualname__" || text == "__doc__") return allow_made_result();
  }
  if (!PyFunction_Check(function) || !values_.is_known(function))
    return abandon("an attribute of a function", name);
  const guards::Source* source = values_.source_of(function);
  if (PyUnicode_CompareWithASCIIString(name, "__code__") == 0) {
    values_.make(PyFunction_GET_CODE(function));  // The guard on the function holds its code.
    return true;
  }
  // A function is given its dict when it is first asked for it.
  if (text_of(name) == "__dict__") Py_XDECREF(PyObject_GetAttr(function, name));
  PyObject* dict = guards::instance_dict(function);
  const std::string_view text = text_of(name);
  if (text == "__call__" || text == "__get__") return allow_made_result();
  if (text == "__globals__") {
    values_.learn_as(PyFunction_GET_GLOBALS(function),
                     values_.sources().object(PyFunction_GET_GLOBALS(function), "G"));
    return true;
  }
  if (text == "__dict__" && dict) {
    if (source)
      values_.learn_as(dict, values_.sources().dict_of(source));
    else
      values_.make(dict);
    return true;
  }
  if (_PyType_Lookup(&PyFunction_Type, name)) return function_field(function, source, name);
  if (!source || (dict && values_.effects().wrote(dict, name))) return true;
  const guards::Source* entry = values_.sources().attribute(source, name);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (!value) values_.guards().absent(entry);
  return !value || values_.numbers().learn_read(value, entry) ||
         abandon("an attribute of a function that cannot be guarded", name);
}

/// What a function keeps beside its dict.
bool Attributes::function_field(PyObject* function, const guards::Source* source, PyObject* name) {
  for (const auto& [text, member] : fields) {
    if (text_of(name) != text) continue;
    const Ref value = Ref::steal(PyObject_GetAttr(function, name));
    if (!value) return abandon("an attribute of a function", name);
    if (!source) {
      values_.make(value.get());
      return true;
    }
    const guards::Source* field = values_.sources().member(source, member);
    const bool is_missing = (value.get() == Py_None &&
                             (member == Member::function_defaults || member == Member::function_kwdefaults)) ||
                            (member == Member::function_type_params && PyTuple_Check(value.get()) &&
                             PyTuple_GET_SIZE(value.get()) == 0);
    if (is_missing) values_.guards().absent(field);
    return is_missing || values_.learn(value.get(), field) || abandon("an attribute of a function", name);
  }
  return abandon("an attribute of a function", name);
}

/// `__class__` as object has it.
bool Attributes::class_of(PyObject* object, PyObject* name) {
  if (is_traced_array(object)) return abandon(Break::numpy);
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (class_entry(type, "__class__") != class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__class__"))
    return instance_attribute(object, name);
  return (watch_.classes.keep_special(object, {"__class__", "__getattribute__"}) &&
          values_.learn(type, type_source(values_, object))) ||
         abandon("a class that cannot be guarded", object);
}

/// What a class keeps beside its dict, or reads there in a way of its own.
bool Attributes::class_field(PyObject* type, PyObject* meta, PyObject* name) {
  const bool is_plain = meta == _PyType_Lookup(&PyType_Type, name) &&
                        class_entry(reinterpret_cast<PyObject*>(Py_TYPE(type)), "__getattribute__") ==
                            class_entry(reinterpret_cast<PyObject*>(&PyType_Type), "__getattribute__") &&
                        watch_.classes.keep_special(type, {"__getattribute__"});
  const std::string_view text = text_of(name);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = watch_.classes.class_source(type);
  const bool is_heap = guards::is_changeable(reinterpret_cast<PyTypeObject*>(type));
  if (is_plain && (text == "__name__" || text == "__qualname__")) return watch_.classes.class_name(type, name);
  if (is_plain && text == "__mro__")
    return values_.learn(reinterpret_cast<PyTypeObject*>(type)->tp_mro,
                         sources.member(source, guards::Member::type_mro)) ||
           abandon("classes that cannot be guarded", type);
  if (is_plain && text == "__dict__" && !values_.effects().changed(Storage::class_)) {
    values_.learn_as(guards::class_dict(reinterpret_cast<PyTypeObject*>(type)), sources.dict_of(source));
    return allow_made_result();
  }
  if (is_plain && !is_heap && (text == "__module__" || text == "__doc__")) return allow_made_result();
  if (is_plain && is_heap && (text == "__module__" || text == "__doc__")) {
    PyObject* value = PyDict_GetItemWithError(guards::class_dict(reinterpret_cast<PyTypeObject*>(type)), name);
    return (value && guards::is_scalar(value) && values_.learn(value, sources.attribute(source, name))) ||
           abandon("a class without a module or text", type);
  }
  if (is_plain && is_heap && text == "__annotations__") {
    // A class without any is given an empty dict when it is asked.
    const Ref annotations = Ref::steal(PyObject_GetAttr(type, name));
    const guards::Source* entry = sources.dict_item(sources.dict_of(source), name);
    return (annotations && PyDict_CheckExact(annotations.get()) && !values_.effects().wrote(type, name) &&
            values_.learn(annotations.get(), entry)) ||
           abandon("annotations that cannot be guarded", type);
  }
  return abandon("an attribute of a metaclass", name);
}

}  // namespace braze::interpreter
