// python/guards/scalar.cpp
#include "python/guards/scalar.h"

#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "python/guards/class_kind.h"
#include "python/guards/ref.h"
#include "python/guards/torch_values.h"
#include "support/error.h"

namespace braze::guards {

namespace {

constexpr size_t kLongestText = 80;  // of a value in a message, in bytes

bool is_singleton(PyObject* value) noexcept {
  return value == Py_None || value == Py_Ellipsis || value == Py_NotImplemented || PyBool_Check(value);
}

/// One row a type whose values are compared by content; each is called with two objects of exactly that type.
struct ScalarRow {
  PyTypeObject* type;
  bool (*same)(PyObject* a, PyObject* b) noexcept;
};

bool same_int(PyObject* a, PyObject* b) noexcept {
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}
bool same_float(PyObject* a, PyObject* b) noexcept {
  return std::memcmp(&reinterpret_cast<PyFloatObject*>(a)->ob_fval, &reinterpret_cast<PyFloatObject*>(b)->ob_fval,
                     sizeof(double)) == 0;
}
bool same_complex(PyObject* a, PyObject* b) noexcept {
  return std::memcmp(&reinterpret_cast<PyComplexObject*>(a)->cval, &reinterpret_cast<PyComplexObject*>(b)->cval,
                     sizeof(Py_complex)) == 0;
}
bool same_str(PyObject* a, PyObject* b) noexcept {
  return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_KIND(a) == PyUnicode_KIND(b) &&
         std::memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), PyUnicode_GET_LENGTH(a) * PyUnicode_KIND(a)) == 0;
}
bool same_bytes(PyObject* a, PyObject* b) noexcept {
  return PyBytes_GET_SIZE(a) == PyBytes_GET_SIZE(b) &&
         std::memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), PyBytes_GET_SIZE(a)) == 0;
}

const ScalarRow* find_row(PyTypeObject* type) noexcept {
  static const ScalarRow rows[] = {{&PyLong_Type, same_int},
                                   {&PyFloat_Type, same_float},
                                   {&PyUnicode_Type, same_str},
                                   {&PyBytes_Type, same_bytes},
                                   {&PyComplex_Type, same_complex}};
  for (const ScalarRow& row : rows)
    if (row.type == type) return &row;
  return nullptr;
}

/// How many bytes a number of NumPy takes, which lie behind the head of its object; 0 for anything else.
size_t array_scalar_bytes(PyTypeObject* type) noexcept {
  constexpr std::string_view prefix = "numpy.";
  const std::string_view name = type->tp_name;
  if (!name.starts_with(prefix) || !is_exact_builtin(type)) return 0;
  static constexpr std::pair<std::string_view, size_t> rows[] = {
      {"float64", 8}, {"float32", 4}, {"float16", 2}, {"int64", 8}, {"int32", 4}, {"int16", 2}, {"int8", 1},
      {"uint64", 8},  {"uint32", 4},  {"uint16", 2},  {"uint8", 1}, {"bool", 1},  {"bool_", 1}};
  for (const auto& [text, bytes] : rows)
    if (name.substr(prefix.size()) == text) return bytes;
  return 0;
}

std::string shorten(const char* text) {
  std::string out = text;
  if (out.size() > kLongestText) out = out.substr(0, kLongestText) + "...";
  return out;
}

std::string name_of(PyObject* name) {
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

}  // namespace

bool is_scalar(PyObject* value) noexcept {
  return is_singleton(value) || find_row(Py_TYPE(value)) || is_torch_device(value);
}

bool is_array_scalar(PyObject* value) noexcept {
  return array_scalar_bytes(Py_TYPE(value)) > 0;
}

Ref array_number(PyObject* value) noexcept {
  if (!is_array_scalar(value)) return {};
  // "float32", "int64", "uint8"; "uint16", "bool".
  const std::string_view kind = std::string_view(Py_TYPE(value)->tp_name).substr(std::string_view("numpy.").size());
  Ref number;
  if (kind.starts_with("float")) number = Ref::steal(PyNumber_Float(value));
  if (kind.starts_with("int") || kind == "uint8") number = Ref::steal(PyNumber_Long(value));
  if (!number) PyErr_Clear();
  return number;
}

bool is_array(const PyTypeObject* type) noexcept {
  for (; type; type = type->tp_base)
    if (is_exact_builtin(type) && std::string_view(type->tp_name) == "numpy.ndarray") return true;
  return false;
}

bool is_nan(PyObject* value) noexcept {
  if (PyFloat_CheckExact(value)) return std::isnan(PyFloat_AS_DOUBLE(value));
  if (!PyComplex_CheckExact(value)) return false;
  const Py_complex number = reinterpret_cast<PyComplexObject*>(value)->cval;
  return std::isnan(number.real) || std::isnan(number.imag);
}

bool is_unique(PyObject* value) noexcept {
  if (!PyLong_CheckExact(value)) return is_singleton(value);
  int overflow = 0;
  const long number = PyLong_AsLongAndOverflow(value, &overflow);
  return overflow == 0 && number >= -5 && number <= 256;
}

bool same_scalar(PyObject* expected, PyObject* value) noexcept {
  if (expected == value) return true;
  if (Py_TYPE(expected) != Py_TYPE(value)) return false;
  if (const ScalarRow* row = find_row(Py_TYPE(expected))) return row->same(expected, value);
  if (const size_t bytes = array_scalar_bytes(Py_TYPE(expected)))
    return std::memcmp(expected + 1, value + 1, bytes) == 0;
  return is_torch_device(expected) && same_torch_device(expected, value);
}

bool same_constant(PyObject* expected, PyObject* value) noexcept {
  if (expected == value) return true;
  if (!PyTuple_CheckExact(expected) || !PyTuple_CheckExact(value)) return same_scalar(expected, value);
  const Py_ssize_t size = PyTuple_GET_SIZE(expected);
  if (PyTuple_GET_SIZE(value) != size) return false;
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!same_constant(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(value, i))) return false;
  return true;
}

Py_hash_t constant_hash(PyObject* value) noexcept {
  if (PyTuple_CheckExact(value)) {
    auto hash = static_cast<size_t>(PyTuple_GET_SIZE(value));  // wraps around
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      hash = hash * 1000003 ^ static_cast<size_t>(constant_hash(PyTuple_GET_ITEM(value, i)));
    return static_cast<Py_hash_t>(hash);
  }
  // A float NaN hashes by address, so equal bits would hash differently.
  if (PyFloat_CheckExact(value)) return _Py_HashDouble(nullptr, PyFloat_AS_DOUBLE(value));
  if (PyComplex_CheckExact(value))
    return _Py_HashDouble(nullptr, reinterpret_cast<PyComplexObject*>(value)->cval.real);
  if (is_torch_device(value)) return 1;
  return is_scalar(value) ? PyObject_Hash(value) : _Py_HashPointer(value);
}

std::string describe(PyObject* value) {
  if (!value) return "nothing";
  if (is_scalar(value)) {
    const Ref text = Ref::steal(PyObject_Repr(value));
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (utf8) return shorten(utf8);
    PyErr_Clear();  // a str with lone surrogates
  }
  if (PyType_Check(value)) return concat("class ", reinterpret_cast<PyTypeObject*>(value)->tp_name);
  if (PyFunction_Check(value))
    return "function " + name_of(reinterpret_cast<PyFunctionObject*>(value)->func_qualname);
  if (PyCFunction_Check(value))
    return concat("function ", reinterpret_cast<PyCFunctionObject*>(value)->m_ml->ml_name);
  if (PyModule_Check(value)) {
    const char* name = PyModule_GetName(value);
    if (!name) PyErr_Clear();
    return concat("module ", name ? name : "?");
  }
  if (is_tensor(value)) return concat("a ", Py_TYPE(value)->tp_name, " ", describe_tensor(value));
  return concat("an object of type ", Py_TYPE(value)->tp_name);
}

}  // namespace braze::guards
