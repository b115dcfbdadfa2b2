// python/interpreter/watch/traced_arrays.cpp
#include "python/interpreter/watch/traced_arrays.h"

#include <opcode.h>

#include <algorithm>
#include <utility>

#include "python/guards/array.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// For good, as the module that has them stays loaded.
PyTypeObject *class_of_arrays = nullptr, *class_of_numbers = nullptr;

/// It leaves isinstance() to `type`, which goes by the order of bases.
bool is_plain_class(PyObject* type) {
  return class_entry(reinterpret_cast<PyObject*>(Py_TYPE(type)), "__instancecheck__") ==
         class_entry(reinterpret_cast<PyObject*>(&PyType_Type), "__instancecheck__");
}

}  // namespace

bool is_traced_array(PyObject* value) noexcept {
  return value && class_of_arrays && (Py_IS_TYPE(value, class_of_arrays) || Py_IS_TYPE(value, class_of_numbers));
}

bool is_traced_number(PyObject* value) noexcept {
  return is_traced_array(value) && Py_IS_TYPE(value, class_of_numbers);
}

PyObject* method_of_numpy(PyObject* function) noexcept {
  if (!class_of_arrays || !PyFunction_Check(function)) return nullptr;
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  return object->func_dict ? PyDict_GetItemString(object->func_dict, "of_numpy") : nullptr;
}

void set_traced_arrays(PyTypeObject* arrays, PyTypeObject* numbers) {
  class_of_arrays = arrays;
  class_of_numbers = numbers;
  has_lasting_error_state(nullptr);
}

bool TracedArrays::keep_errors() {
  if (!has_lasting_error_state(&values_)) {
    run_.is_for_later = true;
    return abandon(Break::numpy);
  }
  keep_error_state(values_);
  return true;
}

void TracedArrays::put_operands(PyObject*& container, PyObject*& key) {
  if (values_.tensors().is_tensor(container) && is_traced_number(key)) {
    PyObject* type = class_of(key);
    if (!type || as_type(type)->tp_name != std::string_view("numpy.int64")) return;
    Ref index = Ref::steal(PyObject_GetAttrString(key, "_tensor"));
    if (!index) return PyErr_Clear();
    Ref::steal(std::exchange(key, index.release()));
    return;
  }
  const bool picks = guards::is_number_array(container) && PyLong_CheckExact(key) && is_varying(values_, key) &&
                     guards::parts_of_array(container).sizes.size() == 1;
  PyObject* module = picks ? PyDict_GetItemString(PyImport_GetModuleDict(), "braze._arrays") : nullptr;
  if (!module || !values_.arrays().read(container)) return;
  keep_error_state(values_);
  const Pause unwatched;
  Ref traced = Ref::steal(PyObject_CallMethod(module, "constant", "O", container));
  if (!traced || !is_traced_array(traced.get())) return PyErr_Clear();
  values_.make(traced.get());
  Ref::steal(std::exchange(container, traced.release()));
}

bool TracedArrays::are_among(PyObject* const* arguments, Py_ssize_t count, int depth) const {
  constexpr int deepest = 3;
  return std::any_of(arguments, arguments + count, [&](PyObject* one) {
    if (is_traced_array(one) || values_.tensors().is_tensor(one)) return true;
    if (depth > 0 && guards::is_number_array(one)) return watch_.arrays.is_given(one);
    if (depth > deepest || (!PyList_CheckExact(one) && !PyTuple_CheckExact(one))) return false;
    return are_among(PySequence_Fast_ITEMS(one), PySequence_Fast_GET_SIZE(one), depth + 1);
  });
}

bool TracedArrays::call(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* stand_in = run_.callee && *run_.callee == function ? values_.tensors().stand_in_for(function) : nullptr;
  if (!stand_in || !PyFunction_Check(stand_in)) return abandon(Break::numpy);
  if (!keep_errors()) return false;
  return watch_.stand_ins.put_stand_in(function, stand_in) && watch_.calls.call(stand_in, arguments, count);
}

bool TracedArrays::call_numpy(PyObject* tensor, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* method = class_entry(values_.tensors().tensor_type(), "numpy");
  PyObject* stand_in = method && Py_IS_TYPE(method, &PyMethodDescr_Type) && run_.callee
                           ? values_.tensors().stand_in_for(method)
                           : nullptr;
  if (!stand_in || !PyFunction_Check(stand_in)) return abandon(Break::numpy);
  if (!values_.is_known(tensor)) return abandon("a tensor of unknown origin");
  if (!keep_errors()) return false;
  std::vector<PyObject*> all(arguments, arguments + count);
  if (*run_.callee == method) {
    all.insert(all.begin(), tensor);
    return watch_.stand_ins.put_stand_in(method, stand_in) &&
           watch_.calls.call(stand_in, all.data(), static_cast<Py_ssize_t>(all.size()));
  }
  const bool is_bound = PyCFunction_Check(*run_.callee) && PyCFunction_GET_SELF(*run_.callee) == tensor;
  if (!is_bound) return abandon(Break::numpy);
  const Ref bound = Ref::steal(PyMethod_New(stand_in, tensor));
  if (!bound || !watch_.stand_ins.put_stand_in(method, stand_in)) return abandon(Break::no_memory);
  values_.make(bound.get());
  Py_SETREF(*run_.callee, Py_NewRef(bound.get()));
  return watch_.calls.call(bound.get(), all.data(), count);
}

bool TracedArrays::decides(PyObject* left, PyObject* right, bool in_place) {
  const bool beside_tensor = values_.tensors().is_tensor(left) || values_.tensors().is_tensor(right);
  // An array of the run's that is written would have the memory of the other one's tensor.
  if (beside_tensor || (in_place && !is_traced_array(left) && !guards::is_scalar(left)))
    return abandon(Break::numpy);
  return keep_errors();
}

/// Of an array that the run may write, as any other: who else has it sees that.
void TracedArrays::put(PyObject*& operand) {
  if (!operand || !guards::is_number_array(operand)) return;
  const auto [at, is_new] = given_.try_emplace(operand);
  if (is_new && !values_.tensors().modes().are_calls_handled() && watch_.arrays.is_given(operand)) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "braze._arrays");
    PyObject* tensor = module ? watch_.arrays.tensor_of_given(operand) : nullptr;
    const Ref name = Ref::steal(PyUnicode_InternFromString("data"));
    PyObject* data = tensor && name ? values_.tensors().answer_attribute(tensor, name.get()) : nullptr;
    if (abandoned()) return;
    const Pause unwatched;
    Ref traced = Ref::steal(data ? PyObject_CallMethod(module, "of_given", "OO", data, operand) : nullptr);
    if (!traced) PyErr_Clear();
    if (traced && is_traced_array(traced.get())) {
      values_.make(data);
      values_.make(traced.get());
      at->second = std::move(traced);
    }
  }
  if (at->second) Ref::steal(std::exchange(operand, Py_NewRef(at->second.get())));
}

namespace {

/// How many operands an instruction looks into. What only moves an array leaves it as it is.
int operands_looked_into(int opcode) {
  switch (opcode) {
    case BINARY_OP:
    case BINARY_SUBSCR:
    case COMPARE_OP: return 2;
    case STORE_SUBSCR: return 3;
    case UNARY_NEGATIVE:
#ifdef UNARY_POSITIVE  // An intrinsic function from 3.12 on.
    case UNARY_POSITIVE:
#endif
    case UNARY_INVERT:
    case GET_ITER: return 1;
    default: return reads_attribute(opcode) ? 1 : 0;
  }
}

/// C code that an array itself is not handed on by.
bool looks_into_arrays(PyObject* callable) {
  if (Arrays::is_function(callable)) return true;
  const auto function = function_of_module(callable);
  return function && function->module == "builtins" &&
         (function->name == "len" || function->name == "abs" || function->name == "getattr");
}

/// Over its memory, or of it.
bool makes_tensor_of_array(PyObject* callable) {
  static const Names names = {"from_numpy", "as_tensor", "asarray", "tensor"};
  return PyCFunction_Check(callable) &&
         names.contains(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name);
}

}  // namespace

void TracedArrays::put_given(Activation& a, int opcode, int arg) {
  if (!class_of_arrays) return;
  if (opcode == CALL) {
    const int count = arg + (a.peek(arg + 2) != nullptr);
    PyObject* callable = a.peek(count + 1);
    const bool looks = looks_into_arrays(callable);
    const bool makes_tensor = !looks && makes_tensor_of_array(callable);
    for (int depth = 1; depth <= count; ++depth)
      if (looks || (makes_tensor && given_.contains(a.peek(depth)))) put(a.peek(depth));
    return;
  }
  for (int depth = 1; depth <= operands_looked_into(opcode); ++depth) put(a.peek(depth));
}

std::optional<bool> TracedArrays::is_instance(PyObject* array, PyObject* classes) const {
  if (PyTuple_CheckExact(classes)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i) {
      const std::optional<bool> one = is_instance(array, PyTuple_GET_ITEM(classes, i));
      if (!one || *one) return one;
    }
    return false;
  }
  if (!PyType_Check(classes)) return std::nullopt;
  PyTypeObject* type = as_type(classes);
  // Asked by braze's own code, which alone knows these classes.
  if (type == class_of_arrays || type == class_of_numbers) return PyType_IsSubtype(Py_TYPE(array), type) == 1;
  if (PyType_IsSubtype(type, as_type(values_.tensors().tensor_type()))) return false;
  PyObject* own = class_of(array);
  if (!own || !is_plain_class(classes)) return std::nullopt;
  return PyType_IsSubtype(as_type(own), type) == 1;
}

PyObject* TracedArrays::class_of(PyObject* array) const {
  const Ref own = Ref::steal(PyObject_GetAttrString(array, "_type"));  // A slot, which holds it.
  if (!own) PyErr_Clear();
  return own && PyType_Check(own.get()) ? own.get() : nullptr;
}

}  // namespace braze::interpreter
