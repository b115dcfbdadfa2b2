// python/interpreter/watch/arrays.cpp
#include "python/interpreter/watch/arrays.h"

#include <opcode.h>

#include <algorithm>
#include <vector>

#include "python/guards/array.h"
#include "python/guards/scalar.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/array_rows.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr int deepest_list = 8;

/// A function written in Python, as the module that it stands in has it.
bool is_python_of_numpy(PyObject* callable) {
  if (!PyFunction_Check(callable)) return false;
  const auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  PyObject* name = PyDict_CheckExact(function->func_globals)
                       ? PyDict_GetItemString(function->func_globals, "__name__")
                       : nullptr;
  return text_of(name).starts_with("numpy.") && !function->func_closure &&
         PyDict_GetItemWithError(function->func_globals, function->func_name) == callable &&
         operands_of_array_function(text_of(function->func_name));
}

bool is_ufunc(PyObject* callable) {
  return is_a(callable, "numpy.ufunc");
}

bool is_of_number_kind(PyObject* type) {
  return PyType_Check(type) && is_exact_builtin(as_type(type));
}

/// What makes arrays of numbers, and has a form for those that vary from call to call (_array_made.py).
bool makes_of_any_number(std::string_view name) {
  static const Names names = {"arange", "empty", "eye", "full", "identity", "linspace", "ones", "zeros"};
  return names.contains(name);
}

bool hold_varying(const Values& values, PyObject* const* items, Py_ssize_t count, int depth = 0) {
  return std::any_of(items, items + count, [&](PyObject* one) {
    if (is_varying(values, one)) return true;
    if (depth > deepest_list || (!PyList_CheckExact(one) && !PyTuple_CheckExact(one) && !is_a(one, "torch.Size")))
      return false;
    return hold_varying(values, PySequence_Fast_ITEMS(one), PySequence_Fast_GET_SIZE(one), depth + 1);
  });
}

/// What an iterator goes through item by item, itself or by those within it (zip, enumerate, map).
void find_arrays(PyObject* object, std::vector<PyObject*>& found, int depth = 0) {
  constexpr int deepest = 4;
  if (guards::is_number_array(object)) return found.push_back(object);
  PyTypeObject* type = Py_TYPE(object);
  const bool is_iterator = type->tp_iternext && is_exact_builtin(type) && !PyGen_CheckExact(object);
  if (depth > deepest || !type->tp_traverse || (!is_iterator && !PyTuple_CheckExact(object))) return;
  std::vector<PyObject*> held;
  const visitproc take = [](PyObject* referent, void* list) {
    static_cast<std::vector<PyObject*>*>(list)->push_back(referent);
    return 0;
  };
  type->tp_traverse(object, take, &held);
  for (PyObject* one : held) find_arrays(one, found, depth + 1);
}

}  // namespace

bool Arrays::is_function(PyObject* callable) {
  if (is_ufunc(callable) || is_a(callable, "numpy._ArrayFunctionDispatcher")) return true;
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    const bool makes_error_state = module_of(callable) == "numpy._core._multiarray_umath" &&
                                   function_of_module(callable).value_or(ModuleFunction{}).name == "_make_extobj";
    return (module_of(callable) == "numpy" || makes_error_state) && (!self || PyModule_Check(self));
  }
  return is_python_of_numpy(callable);
}

bool Arrays::is_object(PyObject* value) {
  return guards::is_array_scalar(value) || guards::is_number_array(value) || guards::is_array_dtype(value);
}

/// Numbers and arrays of such, in sequences or not: nothing that code of other classes has a say in. Numbers that
/// vary are none: what NumPy makes of them would hold for one of them only.
bool Arrays::is_data(PyObject* value, int depth) const {
  if (is_varying(values_, value)) return false;
  if (guards::is_scalar(value) || is_object(value) || is_of_number_kind(value) || PyRange_Check(value)) return true;
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    return is_data(slice->start, depth + 1) && is_data(slice->stop, depth + 1) && is_data(slice->step, depth + 1);
  }
  if (depth > deepest_list ||
      (!PyList_CheckExact(value) && !PyTuple_CheckExact(value) && !is_a(value, "torch.Size")))
    return false;
  PyObject** const items = PySequence_Fast_ITEMS(value);
  return std::all_of(items, items + PySequence_Fast_GET_SIZE(value),
                     [&](PyObject* item) { return is_data(item, depth + 1); });
}

bool Arrays::are_data(PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (values_.tensors().is_tensor(arguments[i])) return abandon(Break::numpy);
    if (!is_data(arguments[i]))
      return abandon("a C function is given an object whose parts are not guarded", arguments[i]);
  }
  return true;
}

/// \param in_python  NumPy does it by Python code of its own, which runs unwatched. Where it warns, the run ends.
bool Arrays::compute(PyObject* const* arguments, Py_ssize_t count, bool in_python) {
  activity().is_quiet = in_python;
  return absorb_all(arguments, count, nullptr) && allow_made_result(in_python ? Entry::trusted : Entry::none);
}

bool Arrays::call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (watch_.traced_arrays.are_among(arguments, count))
    return watch_.traced_arrays.call(callable, arguments, count);
  Ref name;
  if (PyFunction_Check(callable))
    name = Ref::borrow(reinterpret_cast<PyFunctionObject*>(callable)->func_name);
  else
    name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  if (!name) PyErr_Clear();
  const std::optional<int> operands = name ? operands_of_array_function(text_of(name.get())) : std::nullopt;
  if (!operands) return abandon("a call that is not understood", callable);
  if (makes_of_any_number(text_of(name.get())) && hold_varying(values_, arguments, count))
    return watch_.traced_arrays.call(callable, arguments, count);
  PyObject* const names = run_.keyword_names;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    const std::string_view keyword = text_of(PyTuple_GET_ITEM(names, i));
    if (keyword == "out" || keyword == "like") return abandon("a call that is not understood", callable);
  }
  for (Py_ssize_t i = *operands; i < count - named; ++i)
    if (guards::is_number_array(arguments[i])) return abandon("a call that is not understood", callable);
  if (is_ufunc(callable)) {
    // The numbers of its operands: what stands behind is written to.
    const Ref most = Ref::steal(PyObject_GetAttrString(callable, "nin"));
    if (!most || PyLong_AsSsize_t(most.get()) < count - named)
      return PyErr_Clear(), abandon("a call that is not understood", callable);
  }
  if (hold_varying(values_, arguments, count)) return abandon(Break::array_of_number, callable);
  if (!are_data(arguments, count) || !values_.pin(callable)) return false;
  // Sizes among what led here are others at the next call.
  if (values_.tensors().sizes().stay_numbers()) return abandon(Break::array_of_number, callable);
  // A ufunc enters Python to warn, and so does a function written in C; no other code.
  return compute(arguments, count, !is_ufunc(callable) && !PyCFunction_Check(callable));
}

bool Arrays::call_method(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  const std::optional<ArrayMethod> method = array_method(name);
  if (!method) {
    const Ref text = Ref::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    return abandon("a method that is not understood", text.get());
  }
  PyObject* const names = run_.keyword_names;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i)
    if (text_of(PyTuple_GET_ITEM(names, i)) == "out") return abandon("a method that is not understood", self);
  for (Py_ssize_t i = method->operands; i < count - named; ++i)
    if (guards::is_number_array(arguments[i])) return abandon("a method that is not understood", self);
  if (method->writes && (!guards::is_number_array(self) || !values_.arrays().may_write(self)))
    return abandon(Break::array_written, self);
  if (!are_data(arguments, count)) return false;
  return absorb_all(&self, 1, nullptr) && compute(arguments, count, true);
}

bool Arrays::attribute(PyObject* object, PyObject* name) {
  PyObject* found = find_in_type(Py_TYPE(object), name);
  if (found && Py_IS_TYPE(found, &PyMethodDescr_Type)) return allow_made_result();  // For the call to say.
  if (!found || !is_array_attribute(text_of(name))) return abandon("a descriptor that is not understood", found);
  return absorb_all(&object, 1, nullptr) && compute(nullptr, 0, true);
}

bool Arrays::binary(PyObject* left, PyObject* right, int operation) {
  if (values_.tensors().is_tensor(left) || values_.tensors().is_tensor(right)) return abandon(Break::numpy);
  if (operation >= NB_INPLACE_ADD && guards::is_number_array(left) && !values_.arrays().may_write(left))
    return abandon(Break::array_written, left);
  PyObject* const operands[] = {left, right};
  return are_data(operands, 2) && compute(operands, 2, false);
}

bool Arrays::subscript(PyObject* array, PyObject* key) {
  PyObject* const operands[] = {array, key};
  return are_data(operands, 2) && compute(operands, 2, false);
}

bool Arrays::store_item(PyObject* array, PyObject* key, PyObject* value) {
  if (!values_.arrays().may_write(array)) return abandon(Break::array_written, array);
  PyObject* const operands[] = {array, key, value};
  return are_data(operands, 3) && absorb_all(operands, 3, nullptr);
}

bool Arrays::iterate(PyObject* array) {
  return compute(&array, 1, false);
}

bool Arrays::ask_next(PyObject* iterator) {
  std::vector<PyObject*> arrays;
  find_arrays(iterator, arrays);
  for (PyObject* array : arrays) values_.make(array);  // A row that C code has put into a tuple of its own.
  return absorb_all(arrays.data(), static_cast<Py_ssize_t>(arrays.size()), nullptr);
}

bool Arrays::is_shared_by(PyObject* function, PyObject* const* arguments, Py_ssize_t count) const {
  static const Names names = {"from_numpy", "as_tensor", "asarray"};
  return count > 0 && guards::is_number_array(arguments[0]) && PyCFunction_Check(function) &&
         names.contains(reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name);
}

bool Arrays::is_given(PyObject* array, bool is_written) {
  if (!guards::is_number_array(array) || !values_.source_of(array)) return false;
  return is_written ? !values_.arrays().is_constant(array) : !values_.arrays().read(array);
}

PyObject* Arrays::tensor_over(PyObject* array) {
  const guards::Source* source = values_.source_of(array);
  if (!source || !guards::is_number_array(array)) return nullptr;
  // Each call of torch.from_numpy() makes a tensor of its own, and a replay one.
  const auto [at, is_new] = over_.try_emplace(array);
  if (is_new) at->second = guards::tensor_over(array);
  if (!is_new || !at->second || values_.tensors().modes().has_default_device())
    return abandon(Break::tensor_over_array, array), nullptr;
  if (!learn_tensor(array, at->second.get())) return abandon(Break::tensor_over_array, array), nullptr;
  return at->second.get();
}

bool Arrays::learn_tensor(PyObject* array, PyObject* tensor) {
  const guards::Source* source = values_.source_of(array);
  values_.guards().type(source, Py_TYPE(array));
  return values_.learn(tensor, values_.sources().member(source, guards::Member::tensor_over));
}

PyObject* Arrays::tensor_of_given(PyObject* array) {
  if (values_.tensors().modes().has_default_device()) return nullptr;
  const auto [at, is_new] = over_.try_emplace(array);
  if (is_new) at->second = guards::tensor_over(array);
  if (is_new && at->second && !learn_tensor(array, at->second.get())) at->second = {};
  return at->second.get();
}

bool Arrays::share(PyObject* array) {
  if (values_.source_of(array)) return true;  // Its stand-in asks for tensor_over().
  const guards::ArrayParts parts = guards::parts_of_array(array);
  if (!parts.is_contiguous() || !parts.is_writeable()) return abandon(Break::array_of_form, array);
  if (!absorb_all(&array, 1, nullptr)) return false;
  return values_.arrays().share(array) || abandon(Break::tensor_over_array, array);
}

}  // namespace braze::interpreter
