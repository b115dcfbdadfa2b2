// python/interpreter/watch/size_methods.cpp
#include "python/interpreter/watch/size_methods.h"

#include <opcode.h>

#include <algorithm>
#include <string>

#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/special_names.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::interpreter {

namespace {

/// Class statements made it and all its bases: what C code does with it is to call its methods.
bool is_of_statements(PyTypeObject* type) {
  PyObject* bases = type->tp_mro;
  if (!bases || !PyTuple_Check(bases)) return false;
  PyObject** const all = PySequence_Fast_ITEMS(bases);
  return std::all_of(all, all + PyTuple_GET_SIZE(bases), [](PyObject* one) {
    return one == reinterpret_cast<PyObject*>(&PyBaseObject_Type) ||
           (PyType_Check(one) && is_changeable(as_type(one)));
  });
}

/// It answers by a method written in Python, which is handed what stands beside it as it is.
bool answers(PyObject* object, const std::string& method) {
  PyTypeObject* type = Py_TYPE(object);
  if (!is_changeable(type) || !is_of_statements(type)) return false;
  PyObject* found = class_entry(reinterpret_cast<PyObject*>(type), method.c_str());
  return found && PyFunction_Check(found);
}

}  // namespace

bool is_call_of_method(const Values& values, Activation& a, int opcode, int arg) {
  const auto asks = [&](int depth, const std::string& method) {
    return !values.tensors().is_tensor(a.peek(depth)) && answers(a.peek(depth), method);
  };
  const auto is_beside = [&](int depth) {  // Nothing else has a say.
    return PyLong_CheckExact(a.peek(depth)) || PyFloat_CheckExact(a.peek(depth));
  };
  if (const int sliced = sliced_operand(opcode))
    return asks(sliced, values_looked_into(opcode) > sliced ? "__setitem__" : "__getitem__");
  switch (opcode) {
    case BINARY_OP: {
      const std::string name = name_of_operator(arg);
      const bool in_place = arg >= NB_INPLACE_ADD && asks(2, "__i" + name + "__");
      return (is_beside(1) && (in_place || asks(2, "__" + name + "__"))) ||
             (is_beside(2) && asks(1, "__r" + name + "__"));
    }
    case COMPARE_OP: {
      const int comparison = comparison_of(arg);
      return (is_beside(1) && asks(2, name_of_comparison(comparison))) ||
             (is_beside(2) && asks(1, name_of_comparison(reflected_comparison(comparison))));
    }
    case CONTAINS_OP: return asks(1, "__contains__");
    case BINARY_SUBSCR: return asks(2, "__getitem__");
    case STORE_SUBSCR: return asks(2, "__setitem__");
    case DELETE_SUBSCR: return asks(2, "__delitem__");
    default: return false;
  }
}

}  // namespace braze::interpreter
