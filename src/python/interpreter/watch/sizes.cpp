// python/interpreter/watch/sizes.cpp
#include "python/interpreter/watch/sizes.h"

#include <opcode.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "python/guards/scalar.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/scalar_world.h"
#include "python/interpreter/watch/size_methods.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr int deepest_given = 8;  // Levels of containers that are given to operators.

/// An int; True is one.
std::optional<ir::Size> plain_number(PyObject* value) {
  if (!PyLong_CheckExact(value) && !PyBool_Check(value)) return std::nullopt;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  constexpr int64_t most = int64_t{1} << 40;
  if (overflow || number > most || number < -most) return std::nullopt;
  return ir::Size(number);
}

/// Operands that an instruction hands on as they are, besides those of flow.h.
bool passes_on(int opcode, int arg, int depth) {
  switch (opcode) {
    case RETURN_VALUE:
    case YIELD_VALUE:
    case BUILD_SLICE:
    case LIST_EXTEND:
    case UNPACK_SEQUENCE:
    case UNPACK_EX:
    case GET_ITER:
    case FOR_ITER:
    case GET_LEN:
    case MATCH_SEQUENCE:
    case MATCH_MAPPING:
    case DICT_UPDATE:
    case DICT_MERGE: return true;
    case BUILD_MAP: return depth % 2 == 1;  // Values: whether keys are equal is looked at.
    case STORE_GLOBAL: return true;
    case STORE_ATTR: return depth <= 2;  // The value, and what it becomes an attribute of.
    case DELETE_ATTR: return true;
    case MATCH_CLASS: return depth == 3;  // Asked for its class; attributes are read one by one.
    case BINARY_SUBSCR: return depth == 2;
    default:
      return jumps_if_none(opcode) || makes_tuple_of_list(opcode, arg) || moves_operand(opcode, arg, depth) ||
             leaves_shut(opcode, arg, depth);
  }
}

/// Asks whether its operand is 0.
bool is_truth(int opcode) {
  switch (opcode) {
    case UNARY_NOT:
#ifdef POP_JUMP_FORWARD_IF_FALSE
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP: return true;
#else
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_TRUE: return true;
#endif
    default: return false;
  }
}

bool is_singleton(PyObject* object) {
  return object == Py_None || object == Py_True || object == Py_False || object == Py_Ellipsis ||
         object == Py_NotImplemented;
}

/// Worlds of sizes whose operators take such numbers as plain arguments; null: this is none.
ScalarWorld* scalars_of(SizeWorld& sizes) {
  return dynamic_cast<ScalarWorld*>(&sizes);
}

}  // namespace

bool is_sequence(PyObject* value) {
  return PyTuple_CheckExact(value) || PyList_CheckExact(value) ||
         (PyTuple_Check(value) && guards::is_torch_size(Py_TYPE(value)));
}

// ---- instructions

/// As an expression, if it is one or a number beside one.
std::optional<ir::Size> Sizes::as_size(PyObject* value) const {
  if (const ir::Size* size = values_.numbers().size_of(value)) return *size;
  return plain_number(value);
}

/// What an operator of tensors is given in the place of `value`: null, if that is as it should be.
Ref Sizes::for_tensors(PyObject* value, int depth) {
  if (const ir::Size* size = values_.numbers().size_of(value)) return values_.tensors().sizes().to_symbolic(*size);
  if (PyObject* tracer = values_.tensors().sizes().tracer_of(value)) return Ref::borrow(tracer);
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    Ref parts[] = {for_tensors(slice->start), for_tensors(slice->stop), for_tensors(slice->step)};
    if (!parts[0] && !parts[1] && !parts[2]) return {};
    return Ref::steal(PySlice_New(parts[0] ? parts[0].get() : slice->start, parts[1] ? parts[1].get() : slice->stop,
                                  parts[2] ? parts[2].get() : slice->step));
  }
  if (!is_sequence(value) || depth > deepest_given) return {};
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  Ref made;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(value, i);
    if (values_.tensors().is_tensor(item)) continue;
    const Ref other = for_tensors(item, depth + 1);
    if (!other) continue;
    if (!made) {
      made = Ref::steal(PyList_CheckExact(value) ? PyList_GetSlice(value, 0, count) : PyTuple_New(count));
      if (!made) throw std::bad_alloc();
      for (Py_ssize_t k = 0; PyTuple_CheckExact(made.get()) && k < count; ++k)
        PyTuple_SET_ITEM(made.get(), k, Py_NewRef(PyTuple_GET_ITEM(value, k)));
    }
    PyObject** place = PySequence_Fast_ITEMS(made.get()) + i;
    Ref::steal(std::exchange(*place, Py_NewRef(other.get())));
  }
  return made;
}

void Sizes::give_to_tensors(PyObject*& operand) {
  if (!operand) return;
  if (Ref other = for_tensors(operand)) Ref::steal(std::exchange(operand, other.release()));
}

/// A size beside a tensor in arithmetic. Not as torch.SymInt: PyTorch's parser has another number in its place
/// where a tensor could stand.
bool Sizes::give_number(PyObject*& operand, PyObject* beside) {
  if (watch_.derived_numbers.give(operand, beside)) return true;
  const ir::Size* size = values_.numbers().size_of(operand);
  if (!size || !values_.tensors().is_tensor(beside)) return false;
  Ref number = values_.tensors().sizes().to_number(*size, beside);
  if (!number) return false;
  values_.make(number.get());
  Ref::steal(std::exchange(operand, number.release()));
  return true;
}

void Sizes::look_at_slice(Activation& a, int sliced, bool stores) {
  const bool is_of_tensor = values_.tensors().is_tensor(a.peek(sliced));
  for (int depth : {1, 2})
    is_of_tensor ? give_to_tensors(a.peek(depth)) : values_.numbers().settle_sizes_within(a.peek(depth));
  if (!is_of_tensor || !stores) return;
  PyObject*& stored = a.peek(sliced + 1);
  if (values_.tensors().sizes().holds_sizes(a.peek(sliced))) give_number(stored, a.peek(sliced));
  values_.numbers().settle_sizes_within(stored);
}

void Sizes::put_number(PyObject*& operand) {
  if (operand && PyFloat_CheckExact(operand)) return values_.numbers().settle_sizes_within(operand);
  if (!operand || !values_.numbers().stands_for_number(operand)) return;
  values_.numbers().settle_sizes_within(operand);
  if (!guards::is_unique(operand)) return;  // Each number is an object of its own.
  Ref number = Ref::steal(PyLong_FromLongLong(PyLong_AsLongLong(operand)));
  if (!number) throw std::bad_alloc();
  Ref::steal(std::exchange(operand, number.release()));
}

bool Sizes::put_one_number(PyObject* first, PyObject*& second) {
  const Numbers& numbers = values_.numbers();
  const auto stands = [&](PyObject* value) {
    return numbers.stands_for_number(value) || numbers.derived_of(value);
  };
  if (!stands(first) || !stands(second)) return false;
  if (first != second) {
    const std::vector<const guards::Source*> one = values_.scalar_sources(first);
    if (one.size() != 1 || one != values_.scalar_sources(second)) return false;
  }
  Ref::steal(std::exchange(second, Py_NewRef(first)));
  return true;
}

/// Where a mode of torch functions is entered its handler looks at the operands: numbers are what they are in
/// eager.
void Sizes::look_at_sizes(Activation& a, int opcode, int arg) {
  if (values_.tensors().modes().are_calls_handled() && !activity().on_default_device)
    return settle_operands(a, opcode, arg);
  if (const UnaryOperation operation = unary_of(opcode, arg); operation != UnaryOperation::none)
    return compute_unary(a.peek(1), operation);
  if (is_call_of_method(values_, a, opcode, arg)) return;
  if (const int sliced = sliced_operand(opcode))
    return look_at_slice(a, sliced, values_looked_into(opcode) > sliced);
  switch (opcode) {
    case BINARY_OP: return compute_size(a.peek(2), a.peek(1), arg);
    case COMPARE_OP: return compare_sizes(a.peek(2), a.peek(1), comparison_of(arg));
    case CONTAINS_OP:
      if (contains_size(a.peek(1), a.peek(2))) return;
      values_.numbers().settle_sizes_within(a.peek(2));
      if (!is_plain_dict(a.peek(1)) || size_keyed_.contains(a.peek(1)))
        values_.numbers().settle_sizes_within(a.peek(1));
      return;
    case BINARY_SUBSCR:
      if (values_.tensors().is_tensor(a.peek(2))) {
        select_by_sizes(a.peek(2), a.peek(1));
        return give_to_tensors(a.peek(1));
      }
      return look_at_key(a.peek(2), a.peek(1));
    case DELETE_SUBSCR: return look_at_key(a.peek(2), a.peek(1));
    case GET_ITER:  // The numbers decide the order of a set.
      if (PyAnySet_CheckExact(a.peek(1)) && size_keyed_.contains(a.peek(1)))
        values_.numbers().settle_sizes_within(a.peek(1));
      break;
    case MATCH_KEYS:  // The values are handed on as they are.
      if (is_plain_dict(a.peek(2)) && !size_keyed_.contains(a.peek(2))) return;
      break;
    case DICT_UPDATE:
    case DICT_MERGE:
      if (size_keyed_.contains(a.peek(1))) values_.numbers().settle_sizes_within(a.peek(1));
      return;
    case STORE_SUBSCR:
      if (values_.tensors().is_tensor(a.peek(2))) {
        select_by_sizes(a.peek(2), a.peek(1));
        give_to_tensors(a.peek(1));
        if (values_.tensors().sizes().holds_sizes(a.peek(2))) give_number(a.peek(3), a.peek(2));
        return values_.numbers().settle_sizes_within(a.peek(3));
      }
      return finds_key(a.peek(2), a.peek(1), true) ? void() : look_at_key(a.peek(2), a.peek(1));
    case IS_OP:  // No number is one of these, and each is itself.
      if (is_singleton(a.peek(1)) || is_singleton(a.peek(2)) || a.peek(1) == a.peek(2)) return;
      break;
    case CALL: return give_sizes(a, arg);
    case CALL_FUNCTION_EX: return give_unpacked_sizes(a, arg);
    default: break;
  }
  settle_operands(a, opcode, arg);
}

/// Whatever looks at a size, and is not one of those: it is specialised.
void Sizes::settle_operands(Activation& a, int opcode, int arg) {
  const int all = static_cast<int>(a.top - a.stack_base()), used = operands_used(opcode, arg);
  for (int depth = 1; depth <= (used < 0 ? all : std::min(used, all)); ++depth) {
    PyObject* operand = a.peek(depth);
    if (!operand) continue;
    if (const ir::Size* size = values_.numbers().size_of(operand); size && is_truth(opcode)) {
      values_.tensors().sizes().decide(ir::differs(*size, 0));
      continue;
    }
    if (is_truth(opcode) && watch_.derived_numbers.truth(operand)) continue;
    if (passes_on(opcode, arg, depth)) continue;
    values_.numbers().settle_sizes_within(operand);
  }
}

namespace {

/// How many dimensions an item of an index of a tensor is about. Nothing where that depends on what it holds.
std::optional<int64_t> dimensions_of(PyObject* item, bool is_size) {
  if (is_size || PySlice_Check(item) || PyLong_CheckExact(item)) return 1;
  if (item == Py_None || PyBool_Check(item)) return 0;
  return std::nullopt;
}

/// The dimension that item `at` is about, counted from the last one behind an ellipsis. Nothing where the items on
/// that side do not tell.
std::optional<int64_t> dimension_of(std::span<const std::optional<int64_t>> items, size_t at,
                                    std::optional<size_t> ellipsis) {
  const bool from_end = ellipsis && *ellipsis < at;
  int64_t count = 0;
  for (const std::optional<int64_t> one : from_end ? items.subspan(at) : items.first(at)) {
    if (!one) return std::nullopt;
    count += *one;
  }
  return from_end ? -count : count;
}

}  // namespace

/// PyTorch's indexing takes an int as a number. What it does with one first of all is select(), which knows sizes:
/// that is done here, and the rest is left for the instruction.
void Sizes::select_by_sizes(PyObject*& tensor, PyObject*& index) {
  const bool is_tuple = PyTuple_CheckExact(index);
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(index) : 1;
  const std::span<PyObject* const> items(is_tuple ? PySequence_Fast_ITEMS(index) : &index,
                                         static_cast<size_t>(count));
  std::vector<std::optional<int64_t>> dims;
  std::optional<size_t> ellipsis;
  for (PyObject* item : items) {
    if (item == Py_Ellipsis && !ellipsis) ellipsis = dims.size();
    dims.push_back(dimensions_of(item, values_.numbers().size_of(item)));
  }
  Ref part = Ref::borrow(tensor);
  std::vector<PyObject*> rest;
  for (size_t i = 0; i < items.size(); ++i) {
    const ir::Size* size = values_.numbers().size_of(items[i]);
    const std::optional<int64_t> dim = size ? dimension_of(dims, i, ellipsis) : std::nullopt;
    if (!dim) {
      rest.push_back(items[i]);
      continue;
    }
    part = values_.tensors().sizes().select(part.get(), *dim, *size);
    if (!part) return;
    dims[i] = 0;  // What is left of the tensor has one dimension less.
  }
  if (rest.size() == items.size()) return;
  Ref others = Ref::steal(is_tuple ? PyTuple_New(std::ssize(rest)) : Py_NewRef(Py_Ellipsis));
  if (!others) throw std::bad_alloc();
  for (size_t i = 0; is_tuple && i < rest.size(); ++i)
    PyTuple_SET_ITEM(others.get(), static_cast<Py_ssize_t>(i), Py_NewRef(rest[i]));
  values_.make(part.get());
  Ref::steal(std::exchange(tensor, part.release()));
  Ref::steal(std::exchange(index, others.release()));
}

void Sizes::take_sizes(Activation& a) {
  PyObject*& top = a.peek(1);
  if (!top) return;
  if (ScalarWorld* world = scalars_of(values_.tensors().sizes())) world->settle_scalars();
  put_tensor(top);
  if (const std::optional<ir::Size> size = std::exchange(activity().size, std::nullopt)) {
    if (PyLong_CheckExact(top) && !size->is_constant()) {
      PyObject* one = values_.numbers().make_size(PyLong_AsLongLong(top), *size);
      Ref::steal(std::exchange(top, Py_NewRef(one)));
    }
    return;
  }
  if (watch_.derived_numbers.take(top)) return;
  if (const std::optional<ir::Size> size = values_.tensors().sizes().from_symbolic(top)) {
    PyObject* one = values_.numbers().make_size(values_.tensors().sizes().value_of(*size), *size);
    Ref::steal(std::exchange(top, Py_NewRef(one)));
    return;
  }
  if (!PyTuple_Check(top) || Py_REFCNT(top) != 1 || !is_sequence(top)) return;
  // The tuple is new, and nobody else has it.
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(top); ++i) {
    PyObject*& item = reinterpret_cast<PyTupleObject*>(top)->ob_item[i];
    const std::optional<ir::Size> size = values_.tensors().sizes().from_symbolic(item);
    if (!size) continue;
    PyObject* one = values_.numbers().make_size(values_.tensors().sizes().value_of(*size), *size);
    Ref::steal(std::exchange(item, Py_NewRef(one)));
  }
}

}  // namespace braze::interpreter
