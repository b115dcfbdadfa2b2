// python/interpreter/watch/traced_arrays.cpp
#include "python/interpreter/watch/traced_arrays.h"

#include <opcode.h>

#include <algorithm>
#include <utility>

#include "python/guards/array.h"
#include "python/guards/scalar.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// For good, as the module that has them stays loaded.
PyTypeObject *class_of_arrays = nullptr, *class_of_numbers = nullptr, *class_of_given = nullptr;

/// It is that class, or derives from it: nobody else derives from these, and they are few.
bool is_of(const PyTypeObject* type, const PyTypeObject* which) {
  for (int depth = 0; type && depth < 3; ++depth, type = type->tp_base)
    if (type == which) return true;
  return false;
}

/// Of which a place may be told as a number of NumPy's, or as the one of Python's that is equal.
bool takes_plain_keys(PyObject* container) {
  return PyList_CheckExact(container) || PyTuple_CheckExact(container) || PyRange_Check(container) ||
         guards::is_number_array(container) || guards::is_tensor(container) || is_a(container, "torch.Size");
}

/// No class of its own has a say in what is done with it.
bool is_plain_tensor(const TensorWorld& tensors, PyObject* value) {
  return value && tensors.is_tensor(value) &&
         (Py_IS_TYPE(value, as_type(tensors.tensor_type())) || is_a(value, "Parameter"));
}

bool is_arithmetic(int operation) {
  switch (operation % NB_INPLACE_ADD) {
    case NB_ADD:
    case NB_SUBTRACT:
    case NB_MULTIPLY:
    case NB_TRUE_DIVIDE: return true;
    default: return false;
  }
}

/// A tensor without dimensions has no more say in the type of a result than a number of Python's would have, and
/// fits that type.
bool is_like_number_beside(PyObject* number, PyObject* tensor) {
  const Ref own = Ref::steal(PyObject_GetAttrString(number, "dtype")),
            other = Ref::steal(PyObject_GetAttrString(tensor, "dtype"));
  const Ref is_real = Ref::steal(other ? PyObject_GetAttrString(other.get(), "is_floating_point") : nullptr);
  const Ref is_own_real = Ref::steal(own ? PyObject_GetAttrString(own.get(), "is_floating_point") : nullptr);
  const Ref is_own_complex = Ref::steal(own ? PyObject_GetAttrString(own.get(), "is_complex") : nullptr);
  const Ref name = Ref::steal(other ? PyObject_Str(other.get()) : nullptr);
  if (!is_real || !is_own_real || !is_own_complex || !name) return PyErr_Clear(), false;
  const Ref is_near = Ref::steal(PyObject_GetAttrString(tensor, "is_cpu"));
  if (!is_near) PyErr_Clear();
  if (is_own_complex.get() == Py_True || is_near.get() != Py_True) return false;
  return is_real.get() == Py_True || (text_of(name.get()) == "torch.int64" && is_own_real.get() == Py_False);
}

/// It leaves isinstance() to `type`, which goes by the order of bases.
bool is_plain_class(PyObject* type) {
  return class_entry(reinterpret_cast<PyObject*>(Py_TYPE(type)), "__instancecheck__") ==
         class_entry(reinterpret_cast<PyObject*>(&PyType_Type), "__instancecheck__");
}

}  // namespace

/// What stands for arrays is there: it is imported for the first of them.
static bool has_classes() {
  static bool is_asked = false;
  if (class_of_arrays || is_asked) return class_of_arrays;
  is_asked = true;
  const Pause unwatched;
  const Ref module = Ref::steal(PyImport_ImportModule("braze._array_functions"));
  const Ref done = Ref::steal(module ? PyObject_CallMethod(module.get(), "install", nullptr) : nullptr);
  if (!done) PyErr_Clear();  // Without NumPy.
  return class_of_arrays;
}

bool is_traced_array(PyObject* value) noexcept {
  return value && class_of_arrays && is_of(Py_TYPE(value), class_of_arrays);
}

bool is_traced_number(PyObject* value) noexcept {
  return value && class_of_arrays && is_of(Py_TYPE(value), class_of_numbers);
}

Ref number_behind(PyObject* value) {
  if (!value || !class_of_given || !Py_IS_TYPE(value, class_of_given)) return {};
  Ref number = Ref::steal(PyObject_GetAttrString(value, "_number"));  // A slot.
  if (!number) PyErr_Clear();
  return number;
}

PyObject* method_of_numpy(PyObject* function) noexcept {
  if (!class_of_arrays || !PyFunction_Check(function)) return nullptr;
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  return object->func_dict ? PyDict_GetItemString(object->func_dict, "of_numpy") : nullptr;
}

void set_traced_arrays(PyTypeObject* arrays, PyTypeObject* numbers, PyTypeObject* given) {
  class_of_arrays = arrays;
  class_of_numbers = numbers;
  class_of_given = given;
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

/// Whole numbers in an array of one dimension, or in a tuple of the run's: as a subscript of a tensor they are the
/// places that a tensor of them would be.
static void put_places(Values& values, PyObject* container, PyObject*& key) {
  if (!is_plain_tensor(values.tensors(), container) || values.tensors().modes().are_calls_handled()) return;
  if (PyTuple_CheckExact(key) && Py_REFCNT(key) == 1 && values.is_made(key)) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(key); ++k)
      put_places(values, container, reinterpret_cast<PyTupleObject*>(key)->ob_item[k]);
    return;
  }
  if (!class_of_arrays || !Py_IS_TYPE(key, class_of_arrays)) return;
  Ref tensor = Ref::steal(PyObject_GetAttrString(key, "_tensor"));  // A slot.
  const Ref kind = Ref::steal(tensor ? PyObject_GetAttrString(tensor.get(), "dtype") : nullptr);
  const Ref dims = Ref::steal(tensor ? PyObject_GetAttrString(tensor.get(), "ndim") : nullptr);
  const Ref name = Ref::steal(kind ? PyObject_Str(kind.get()) : nullptr);
  if (!name || !dims) return PyErr_Clear();
  if (text_of(name.get()) == "torch.int64" && PyLong_AsLong(dims.get()) == 1)
    Ref::steal(std::exchange(key, tensor.release()));
}

void TracedArrays::put_operands(PyObject*& container, PyObject*& key) {
  if (takes_plain_keys(container)) put_plain(key);
  put_places(values_, container, key);
  if (values_.tensors().is_tensor(container) && is_traced_number(key)) {
    PyObject* type = class_of(key);
    if (!type || as_type(type)->tp_name != std::string_view("numpy.int64")) return;
    Ref index = Ref::steal(PyObject_GetAttrString(key, "_tensor"));
    if (!index) return PyErr_Clear();
    Ref::steal(std::exchange(key, index.release()));
    return;
  }
  if (!guards::is_number_array(container)) return;
  const bool picks =
      (PyLong_CheckExact(key) && is_varying(values_, key) && guards::parts_of_array(container).sizes.size() == 1) ||
      is_traced_array(key) || (PyTuple_CheckExact(key) && are_among(&key, 1));
  PyObject* module =
      picks && has_classes() ? PyDict_GetItemString(PyImport_GetModuleDict(), "braze._arrays") : nullptr;
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
  PyObject* stand_in =
      has_classes() && run_.callee && *run_.callee == function ? values_.tensors().stand_in_for(function) : nullptr;
  if (!stand_in || !PyFunction_Check(stand_in)) return abandon(Break::numpy);
  if (!keep_errors()) return false;
  return watch_.stand_ins.put_stand_in(function, stand_in) && watch_.calls.call(stand_in, arguments, count);
}

bool TracedArrays::call_numpy(PyObject* tensor, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* method = class_entry(values_.tensors().tensor_type(), "numpy");
  PyObject* stand_in = has_classes() && method && Py_IS_TYPE(method, &PyMethodDescr_Type) && run_.callee
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
void TracedArrays::put(PyObject*& operand, bool is_written) {
  if (!operand) return;
  if (guards::is_array_scalar(operand)) return put_number(operand);
  if (!guards::is_number_array(operand)) return;
  const auto [at, is_new] = given_.try_emplace(operand);
  if ((is_new || (is_written && !at->second)) && !values_.tensors().modes().are_calls_handled() &&
      watch_.arrays.is_given(operand, is_written)) {
    PyObject* module = has_classes() ? PyDict_GetItemString(PyImport_GetModuleDict(), "braze._arrays") : nullptr;
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

/// A number of NumPy's that was another one at an earlier call.
void TracedArrays::put_number(PyObject*& operand) {
  if (!operand || !guards::is_array_scalar(operand)) return;
  const guards::Source* source = values_.source_of(operand);
  if (!source) return;
  const auto [at, is_new] = given_.try_emplace(operand);
  if (is_new && has_classes() && has_lasting_error_state(&values_)) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "braze._array_numbers");
    const Ref item = guards::array_number(operand);
    PyObject* number =
        module && item
            ? values_.numbers().vary(item.get(), values_.sources().member(source, guards::Member::array_number))
            : nullptr;
    if (abandoned()) return;
    if (number) keep_error_state(values_);
    const Pause unwatched;
    Ref traced = Ref::steal(number ? PyObject_CallMethod(module, "given_number", "OO", number, operand) : nullptr);
    if (!traced) PyErr_Clear();
    if (traced) {
      values_.make(traced.get());
      values_.make_constant(reinterpret_cast<PyObject*>(Py_TYPE(operand)));  // Its type is guarded.
    }
    at->second = std::move(traced);
  }
  if (at->second) Ref::steal(std::exchange(operand, Py_NewRef(at->second.get())));
}

/// What is made of a number of Python's is that one, also in a tuple or slice that the run has made. Null: there is
/// none.
Ref TracedArrays::plain_of(PyObject* operand) {
  if (!operand) return {};
  if (Ref number = number_behind(operand)) return number;
  if (guards::is_array_scalar(operand)) {
    PyObject* number = Py_NewRef(operand);
    put_number(number);
    return number_behind(Ref::steal(number).get());
  }
  if (!values_.is_made(operand)) return {};
  const bool is_tuple = PyTuple_CheckExact(operand);
  if (!is_tuple && !PySlice_Check(operand)) return {};
  std::vector<PyObject*> parts;
  if (is_tuple) {
    parts.assign(PySequence_Fast_ITEMS(operand), PySequence_Fast_ITEMS(operand) + PyTuple_GET_SIZE(operand));
  } else {
    const auto* slice = reinterpret_cast<PySliceObject*>(operand);
    parts = {slice->start, slice->stop, slice->step};
  }
  std::vector<Ref> plain;
  bool is_other = false;
  for (PyObject* part : parts) {
    Ref one = plain_of(part);
    is_other |= static_cast<bool>(one);
    plain.push_back(one ? std::move(one) : Ref::borrow(part));
  }
  if (!is_other) return {};
  Ref made = Ref::steal(is_tuple ? PyTuple_New(static_cast<Py_ssize_t>(plain.size()))
                                 : PySlice_New(plain[0].get(), plain[1].get(), plain[2].get()));
  if (!made) throw std::bad_alloc();
  for (size_t k = 0; is_tuple && k < plain.size(); ++k)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(k), plain[k].release());
  values_.make(made.get());
  return made;
}

void TracedArrays::put_plain(PyObject*& operand) {
  if (Ref plain = plain_of(operand)) Ref::steal(std::exchange(operand, plain.release()));
}

/// Where a call has it. Null: nothing is passed by that name.
static PyObject** operand_named(Activation& a, std::string_view name, int count) {
  const Py_ssize_t named = a.keyword_names ? PyTuple_GET_SIZE(a.keyword_names) : 0;
  for (Py_ssize_t k = 0; k < named && named <= count; ++k)
    if (text_of(PyTuple_GET_ITEM(a.keyword_names, k)) == name) return &a.peek(static_cast<int>(named - k));
  return nullptr;
}

/// What the graph computes is about to be put into an array that the run has made.
void TracedArrays::put_computed(PyObject*& operand, PyObject* value) {
  if (!is_traced_array(value) || !guards::is_number_array(operand) || !values_.arrays().may_write(operand) ||
      ArrayMemory::root_of(operand) != operand || !guards::parts_of_array(operand).is_contiguous() ||
      !has_lasting_error_state(&values_))
    return;
  keep_error_state(values_);
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "braze._arrays");
  const Pause unwatched;
  Ref traced = Ref::steal(module ? PyObject_CallMethod(module, "computed", "O", operand) : nullptr);
  if (!traced) return PyErr_Clear();
  values_.make(traced.get());
  values_.arrays().compute(operand, traced);
  given_[operand] = traced;
  Ref::steal(std::exchange(operand, traced.release()));
}

/// Beside a tensor, an operator takes a number of NumPy's for one of Python's.
void TracedArrays::put_beside_tensor(PyObject*& left, PyObject*& right, int opcode, int arg) {
  const bool is_left = is_plain_tensor(values_.tensors(), left);
  if (is_left == is_plain_tensor(values_.tensors(), right)) return;
  PyObject*& number = is_left ? right : left;
  if (!is_traced_number(number) || values_.tensors().modes().are_calls_handled()) return;
  if (Ref plain = number_behind(number)) {
    Ref::steal(std::exchange(number, plain.release()));
    return;
  }
  const bool is_in_place = opcode == BINARY_OP && arg >= NB_INPLACE_ADD;
  if ((is_in_place && !is_left) || (opcode == BINARY_OP && !is_arithmetic(arg))) return;
  const Pause unwatched;
  Ref tensor = Ref::steal(PyObject_GetAttrString(number, "_tensor"));
  if (!tensor) return PyErr_Clear();
  if (is_like_number_beside(tensor.get(), is_left ? left : right))
    Ref::steal(std::exchange(number, tensor.release()));
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

/// Of which C code asks for more than their being equal to others.
int operands_settled(int opcode, int arg) {
  if (opcode == CONTAINS_OP) return 2;
#ifdef FORMAT_VALUE  // Others from 3.13 on.
  if (opcode == FORMAT_VALUE) return 1 + ((arg & 4) != 0);
#endif
  return 0;
}

bool is_number_behind(PyObject* value) {
  return value && class_of_given && Py_IS_TYPE(value, class_of_given);
}

/// What stands for a number is a constant of NumPy's from here on.
void settle(Values& values, PyObject*& operand) {
  const Ref number = number_behind(operand);
  if (!number) return;
  values.numbers().settle_size(number.get());
  const Pause unwatched;
  Ref own = Ref::steal(PyObject_GetAttrString(operand, "_given"));
  if (own && own.get() == Py_None) {
    const Ref type = Ref::steal(PyObject_GetAttrString(operand, "_type"));
    own = Ref::steal(type ? PyObject_CallOneArg(type.get(), number.get()) : nullptr);
    if (own) values.make_constant(own.get());
  }
  if (!own) return PyErr_Clear();
  Ref::steal(std::exchange(operand, own.release()));
}

/// Which operand an instruction writes to, as put_given() counts them; 0: none.
int written(int opcode, int arg) {
  if (opcode == STORE_SUBSCR) return 2;
  return opcode == BINARY_OP && arg >= NB_INPLACE_ADD ? 2 : 0;
}

/// `float(number)`
bool reads_numbers(PyObject* callable, int count) {
  const auto function = function_of_module(callable);
  if (function && function->module == "math") return true;
  if (count != 1) return false;
  return callable == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
         callable == reinterpret_cast<PyObject*>(&PyLong_Type) ||
         callable == reinterpret_cast<PyObject*>(&PyRange_Type);
}

/// A function of torch's, or a method of tensors, that is written in C; empty for all else.
/// \param first  its first operand.
std::string_view name_of_torch(const TensorWorld& tensors, PyObject* callable, PyObject* first) {
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    const bool is_torch = tensors.may_call(callable) || (self && is_plain_tensor(tensors, self));
    return is_torch ? reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name : std::string_view();
  }
  const bool is_method = Py_IS_TYPE(callable, &PyMethodDescr_Type) && is_plain_tensor(tensors, first);
  return is_method ? text_of(PyDescr_NAME(callable)) : std::string_view();
}

/// C code that does something else with a number than with the equal one of Python's, or gives it back.
bool settles(PyObject* callable) {
  static const Names names = {"divmod", "format", "hash", "max", "min", "pow", "repr", "round", "sorted", "sum"};
  const auto function = function_of_module(callable);
  return callable == reinterpret_cast<PyObject*>(&PyUnicode_Type) ||
         (function && function->module == "builtins" && names.contains(function->name));
}

/// A numpy.float64, which is a float.
bool is_double(PyObject* operand) {
  if (guards::is_array_scalar(operand)) return PyFloat_Check(operand);
  const Ref number = number_behind(operand);
  const Ref type = Ref::steal(number ? PyObject_GetAttrString(operand, "_type") : nullptr);
  if (!type) PyErr_Clear();
  return type && PyType_Check(type.get()) && as_type(type.get())->tp_name == std::string_view("numpy.float64");
}

bool takes_numbers(std::string_view name) {
  static const Names names = {"add",       "add_",      "sub",         "sub_",      "mul",       "mul_",
                              "div",       "div_",      "true_divide", "pow",       "eq",        "ne",
                              "lt",        "le",        "gt",          "ge",        "clamp",     "clamp_",
                              "clamp_min", "clamp_max", "full",        "full_like", "fill_",     "masked_fill",
                              "arange",    "zeros",     "ones",        "empty",     "reshape",   "view",
                              "expand",    "repeat",    "narrow",      "select",    "unsqueeze", "squeeze",
                              "roll",      "topk",      "new_zeros",   "new_ones",  "new_full",  "masked_fill_"};
  return names.contains(name);
}

/// Over its memory, or of it.
bool makes_tensor_of_array(PyObject* callable) {
  static const Names names = {"from_numpy", "as_tensor", "asarray", "tensor"};
  return PyCFunction_Check(callable) &&
         names.contains(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name);
}

}  // namespace

void TracedArrays::put_given(Activation& a, int opcode, int arg) {
  if (opcode == CALL) {
    const int count = arg + (a.peek(arg + 2) != nullptr);
    return put_in_call(a, a.peek(count + 1), count);
  }
  for (int depth = 1; depth <= operands_looked_into(opcode); ++depth)
    put(a.peek(depth), depth == written(opcode, arg));
  if (const int sliced = sliced_operand(opcode)) put_sliced(a, sliced, values_looked_into(opcode) > sliced);
  if (opcode == STORE_SUBSCR) put_computed(a.peek(2), a.peek(3));
  if (opcode == BINARY_OP && arg >= NB_INPLACE_ADD) put_computed(a.peek(2), a.peek(1));
  for (int depth = 1; opcode == BUILD_SLICE && depth <= arg; ++depth) put_number(a.peek(depth));
  if (opcode == BINARY_OP || opcode == COMPARE_OP) put_beside_tensor(a.peek(2), a.peek(1), opcode, arg);
  if (opcode == STORE_SUBSCR && takes_plain_keys(a.peek(2))) put_plain(a.peek(1));
  if (opcode == STORE_SUBSCR && values_.tensors().is_tensor(a.peek(2))) {
    put_places(values_, a.peek(2), a.peek(1));
    put_plain(a.peek(3));
  }
  for (int depth = 1; depth <= operands_settled(opcode, arg); ++depth) settle(values_, a.peek(depth));
}

/// Of `a[b:c]` and `a[b:c] = d` that make no slice: what BUILD_SLICE, BINARY_SUBSCR and STORE_SUBSCR do above.
void TracedArrays::put_sliced(Activation& a, int depth, bool is_stored) {
  PyObject*& container = a.peek(depth);
  put(container, is_stored);
  for (int bound = 1; bound < depth; ++bound) {
    put_number(a.peek(bound));
    if (takes_plain_keys(container)) put_plain(a.peek(bound));
  }
  if (!is_stored) return;
  PyObject*& value = a.peek(depth + 1);
  put(value);
  put_computed(container, value);
  if (values_.tensors().is_tensor(container)) put_plain(value);
}

void TracedArrays::put_in_call(Activation& a, PyObject* callable, int count) {
  const bool is_numpy = Arrays::is_function(callable), looks = is_numpy || looks_into_arrays(callable);
  const bool makes_tensor = !looks && makes_tensor_of_array(callable), reads = reads_numbers(callable, count);
  const std::string_view name = name_of_torch(values_.tensors(), callable, a.peek(count));
  if (PyObject** out = is_numpy || method_of_numpy(callable) ? operand_named(a, "out", count) : nullptr)
    for (int depth = 1; depth <= count; ++depth) put_computed(*out, a.peek(depth));
  const auto is_translated = [&] {
    return !is_numpy || (has_classes() && values_.tensors().stand_in_for(callable));
  };
  for (int depth = 1; depth <= count; ++depth) {
    PyObject*& operand = a.peek(depth);
    if (!operand) continue;
    const bool is_number = guards::is_array_scalar(operand);
    // PyTorch takes numpy.float64 for a float anywhere, and others where it asks for a number, or a size.
    const bool is_plain = reads || (!name.empty() && !makes_tensor && (takes_numbers(name) || is_double(operand)));
    const bool is_given = is_number || (makes_tensor && given_.contains(operand));
    if ((looks && (!is_number || is_translated())) || (is_given && (makes_tensor || is_plain))) put(operand);
    if (is_plain)
      put_plain(operand);
    else if (is_number_behind(operand) &&
             (settles(callable) || (!name.empty() && !makes_tensor) || (looks && !is_translated())))
      settle(values_, operand);
  }
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
  if (is_of(type, class_of_arrays)) return PyType_IsSubtype(Py_TYPE(array), type) == 1;
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
