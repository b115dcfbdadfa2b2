// python/interpreter/watch/sizes.cpp
#include "python/interpreter/watch/sizes.h"

#include <opcode.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "python/guards/scalar.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr int deepest_given = 8;  // Levels of containers that are given to operators.

/// An int, and no bool.
std::optional<ir::Size> plain_number(PyObject* value) {
  if (!PyLong_CheckExact(value)) return std::nullopt;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  constexpr int64_t most = int64_t{1} << 40;
  if (overflow || number > most || number < -most) return std::nullopt;
  return ir::Size(number);
}

bool is_sequence(PyObject* value) {
  return PyTuple_CheckExact(value) || PyList_CheckExact(value) ||
         (PyTuple_Check(value) && guards::is_torch_size(Py_TYPE(value)));
}

/// Operands that an instruction hands on as they are, besides those of flow.h.
bool passes_on(int opcode, int arg, int depth) {
  switch (opcode) {
    case RETURN_VALUE:
    case YIELD_VALUE:
#ifdef LIST_TO_TUPLE
    case LIST_TO_TUPLE:
#endif
#ifdef POP_JUMP_FORWARD_IF_NONE
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
#else
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
#endif
    case BUILD_SLICE:
    case LIST_EXTEND:
    case UNPACK_SEQUENCE:
    case UNPACK_EX:
    case GET_ITER:
    case FOR_ITER:
    case DICT_MERGE: return true;
    case BUILD_MAP: return depth % 2 == 1;  // Values: whether keys are equal is looked at.
    case STORE_ATTR: return depth == 2;
    case BINARY_SUBSCR: return depth == 2;
    default: return moves_operand(opcode, arg, depth) || leaves_shut(opcode, arg, depth);
  }
}

/// Operators of which a plain argument is a size or a place, and no number to compute with: what of others may be a
/// tensor as well is told them as a number.
const Names& size_operators() {
  static const Names names = {"arange",
                              "as_strided",
                              "chunk",
                              "diagonal",
                              "empty",
                              "expand",
                              "eye",
                              "flatten",
                              "full",
                              "narrow",
                              "new_empty",
                              "new_full",
                              "new_ones",
                              "new_zeros",
                              "ones",
                              "rand",
                              "randn",
                              "repeat",
                              "reshape",
                              "roll",
                              "select",
                              "size",
                              "slice_scatter",
                              "split",
                              "split_with_sizes",
                              "stride",
                              "tile",
                              "tril",
                              "triu",
                              "unflatten",
                              "unfold",
                              "unsafe_chunk",
                              "unsafe_split",
                              "view",
                              "zeros",
                              "adaptive_avg_pool2d",
                              "view_copy",
                              "broadcast_to",
                              "numel",
                              "tensor_split",
                              "hsplit",
                              "vsplit"};
  return names;
}

std::string_view name_of(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  return text_of(PyDescr_NAME(callable));
}

bool is_iterator_of_others(PyTypeObject* type) {
  return type == &PyZip_Type || type == &PyEnum_Type || type == &PyReversed_Type;
}

ir::SizeTest test_of(int comparison, ir::Size a, ir::Size b) {
  switch (comparison) {
    case Py_EQ: return ir::equal(a, b);
    case Py_NE: return ir::differs(a, b);
    case Py_LT: return ir::less(a, b);
    case Py_LE: return ir::at_most(a, b);
    case Py_GT: return ir::greater(a, b);
    default: return ir::at_least(a, b);
  }
}

}  // namespace

// ---- what the values know of them
PyObject* Values::make_size(int64_t number, ir::Size size) {
  const guards::Ref plain = guards::Ref::steal(PyLong_FromLongLong(number));
  guards::Ref one = guards::Ref::steal(plain ? fresh_int(plain.get()) : nullptr);
  if (!one) throw std::bad_alloc();
  if (!size.is_constant()) sizes_.emplace(one.get(), size);
  held_.push_back(one);
  return one.get();
}

std::optional<ir::Size> Values::symbol_of(PyObject* number, const guards::Source* source) {
  if (!PyLong_CheckExact(number)) return std::nullopt;
  if (const auto found = varied_.find(source); found != varied_.end()) return found->second;
  const std::optional<ir::Size> size = tensors_.vary_number(number, source);
  if (!size) return std::nullopt;
  guards_.type(source, &PyLong_Type);
  varied_.emplace(source, *size);
  return size;
}

PyObject* Values::vary(PyObject* number, const guards::Source* source) {
  if (PyFloat_CheckExact(number)) return vary_float(number, source);
  const std::optional<ir::Size> size = symbol_of(number, source);
  if (!size) return nullptr;
  PyObject* one = make_size(PyLong_AsLongLong(number), *size);
  scalars_[one] = {source};
  return one;
}

bool Values::learn_read(PyObject* value, const guards::Source* source) {
  settle_read();
  if (!(PyFloat_CheckExact(value) ? vary_float(value, source) != nullptr : symbol_of(value, source).has_value()))
    return learn(value, source);
  read_ = {guards::Ref::borrow(value), source};
  return true;
}

PyObject* Values::take_read(PyObject* top) {
  if (!read_ || read_->number.get() != top) return nullptr;
  const Read read = *std::exchange(read_, std::nullopt);
  return vary(top, read.source);
}

void Values::settle_read() {
  if (!read_) return;
  const Read read = *std::exchange(read_, std::nullopt);
  learn(read.number.get(), read.source);
}

const ir::Size* Values::size_of(PyObject* value) const {
  const auto found = sizes_.find(value);
  return found == sizes_.end() ? nullptr : &found->second;
}

void Values::settle_size(PyObject* value) {
  settle_number(value);
  const auto found = sizes_.find(value);
  if (found == sizes_.end()) return;
  tensors_.decide(ir::equal(found->second, PyLong_AsLongLong(value)));
  sizes_.erase(found);
  settled_sizes_.insert(value);
}

void Values::settle_sizes_within(PyObject* container) {
  std::unordered_set<PyObject*> seen;
  settle_sizes_within(container, seen);
}

void Values::settle_sizes_within(PyObject* value, std::unordered_set<PyObject*>& seen) {
  if (sizes_.empty() && numbers_.empty()) return;
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) settle_size(part);
    return;
  }
  if (is_iterator_of_others(Py_TYPE(value))) {
    for (const guards::Ref& one : std::exchange(handed_, {})) settle_sizes_within(one.get(), seen);
    return;
  }
  if (!storage_type(value)) return settle_size(value);
  if (!seen.insert(value).second) return;
  if (PyDict_Check(value)) {
    Py_ssize_t at = 0;
    PyObject *key, *item;
    while (PyDict_Next(value, &at, &key, &item)) settle_sizes_within(key, seen), settle_sizes_within(item, seen);
  } else if (PyAnySet_Check(value)) {
    return;  // What is put there is looked at.
  } else {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      settle_sizes_within(PySequence_Fast_GET_ITEM(value, i), seen);
  }
}

// ---- instructions

/// As an expression, if it is one or a number beside one.
std::optional<ir::Size> Sizes::as_size(PyObject* value) const {
  if (const ir::Size* size = values_.size_of(value)) return *size;
  return plain_number(value);
}

/// What an operator of tensors is given in the place of `value`: null, if that is as it should be.
Ref Sizes::for_tensors(PyObject* value, int depth) {
  if (const auto number = values_.number_of(value); number && depth == 0) return watch_.numbers.tensor_of(*number);
  if (const ir::Size* size = values_.size_of(value)) return values_.tensors().to_symbolic(*size);
  if (PyObject* tracer = values_.tensors().tracer_of(value)) return Ref::borrow(tracer);
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
  const ir::Size* size = values_.size_of(operand);
  if (!size || !values_.tensors().is_tensor(beside)) return false;
  Ref number = values_.tensors().to_number(*size, beside);
  if (!number) return false;
  values_.make(number.get());
  Ref::steal(std::exchange(operand, number.release()));
  return true;
}

void Sizes::put_tracers(Activation& a, int opcode, int arg) {
  int count = 0;
  switch (opcode) {
    case BINARY_OP:
    case BINARY_SUBSCR:
    case COMPARE_OP: count = 2; break;
    case STORE_SUBSCR: count = 3; break;
    case LOAD_ATTR:
    case UNARY_NEGATIVE:
    case UNARY_INVERT:
    case GET_ITER:
    case UNPACK_SEQUENCE:
    case UNPACK_EX: count = 1; break;
    default: count = values_looked_into(opcode);
  }
  for (int depth = 1; depth <= count; ++depth) put_tracer(a.peek(depth));
}

void Sizes::put_tracer(PyObject*& operand) {
  PyObject* tracer =
      operand && values_.tensors().is_tensor(operand) ? values_.tensors().tracer_of(operand) : nullptr;
  if (!tracer) return;
  const guards::Source* source = values_.source_of(operand);
  if (!source) return;
  values_.learn_as(tracer, source);
  Ref::steal(std::exchange(operand, Py_NewRef(tracer)));
}

void Sizes::put_number(PyObject*& operand) {
  if (!operand || !values_.stands_for_number(operand)) return;
  values_.settle_sizes_within(operand);
  Ref number = Ref::steal(PyLong_FromLongLong(PyLong_AsLongLong(operand)));
  if (!number) throw std::bad_alloc();
  Ref::steal(std::exchange(operand, number.release()));
}

void Sizes::look_at_sizes(Activation& a, int opcode, int arg) {
  switch (opcode) {
    case BINARY_OP: return compute_size(a.peek(2), a.peek(1), arg);
    case CONTAINS_OP:
      values_.settle_sizes_within(a.peek(2));
      if (!PyDict_CheckExact(a.peek(1))) values_.settle_sizes_within(a.peek(1));  // Of a dict: keys, not values.
      return;
    case UNARY_NEGATIVE:
      if (const ir::Size* size = values_.size_of(a.peek(1))) activity().size = -*size;
      return watch_.numbers.negate(a.peek(1));
    case COMPARE_OP: return compare_sizes(a.peek(2), a.peek(1), comparison_of(arg));
    case BINARY_SUBSCR:
      if (values_.tensors().is_tensor(a.peek(2))) return give_to_tensors(a.peek(1));
      return values_.settle_sizes_within(a.peek(1));
#ifdef BINARY_SLICE
    case BINARY_SLICE:
      if (!values_.tensors().is_tensor(a.peek(3))) break;
      give_to_tensors(a.peek(1));
      return give_to_tensors(a.peek(2));
#endif
    case STORE_SUBSCR:
      if (values_.tensors().is_tensor(a.peek(2))) {
        give_to_tensors(a.peek(1));
        return values_.settle_sizes_within(a.peek(3));
      }
      return values_.settle_sizes_within(a.peek(1));
    case CALL: return give_sizes(a, arg);
    case CALL_FUNCTION_EX: return give_unpacked_sizes(a, arg);
    default: break;
  }
  const int all = static_cast<int>(a.top - a.stack_base()), used = operands_used(opcode, arg);
  for (int depth = 1; depth <= (used < 0 ? all : std::min(used, all)); ++depth) {
    PyObject* operand = a.peek(depth);
    if (!operand) continue;
    if (const ir::Size* size = values_.size_of(operand); size && is_truth(opcode)) {
      values_.tensors().decide(ir::differs(*size, 0));
      continue;
    }
    if (passes_on(opcode, arg, depth)) continue;
    values_.settle_sizes_within(operand);
  }
}

bool Sizes::is_truth(int opcode) {
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

/// + - * // % of sizes and numbers.
void Sizes::compute_size(PyObject*& left, PyObject*& right, int operation) {
  if (watch_.numbers.compute(left, right, operation % NB_INPLACE_ADD)) return;
  if (values_.tensors().is_tensor(left) || values_.tensors().is_tensor(right)) {
    const int kind = operation % NB_INPLACE_ADD;
    const bool is_plain = kind == NB_ADD || kind == NB_SUBTRACT || kind == NB_MULTIPLY || kind == NB_TRUE_DIVIDE;
    if (is_plain && (give_number(left, right) || give_number(right, left))) return;
    values_.settle_sizes_within(left);
    return values_.settle_sizes_within(right);
  }
  if (!values_.size_of(left) && !values_.size_of(right)) {
    // Sequences are put together item by item.
    if (operation % NB_INPLACE_ADD == NB_ADD && is_sequence(left) && is_sequence(right)) return;
    if (operation % NB_INPLACE_ADD == NB_MULTIPLY && (is_sequence(left) || is_sequence(right))) return;
    values_.settle_sizes_within(left);
    return values_.settle_sizes_within(right);
  }
  const std::optional<ir::Size> a = as_size(left), b = as_size(right);
  std::optional<ir::Size> result;
  TensorWorld& world = values_.tensors();
  if (a && b) switch (operation % NB_INPLACE_ADD) {
      case NB_ADD: result = *a + *b; break;
      case NB_SUBTRACT: result = *a - *b; break;
      case NB_MULTIPLY: result = *a * *b; break;
      case NB_FLOOR_DIVIDE:
      case NB_REMAINDER:
        // A divisor of 0 raises, and one below 0 rounds the other way: neither is an expression.
        if (b->is_constant() ? b->constant() < 1 : !world.decide(ir::at_least(*b, 1))) break;
        result = operation % NB_INPLACE_ADD == NB_REMAINDER ? ir::mod(*a, *b) : ir::floor_div(*a, *b);
        break;
      default: break;
    }
  if (result) {
    activity().size = *result;
    return;
  }
  values_.settle_sizes_within(left);
  values_.settle_sizes_within(right);
}

/// The answer is that of this call, and a guard says that it is.
void Sizes::compare_sizes(PyObject*& left, PyObject*& right, int comparison) {
  if (values_.tensors().is_tensor(left) || values_.tensors().is_tensor(right)) {
    if (give_number(left, right) || give_number(right, left)) return;
    values_.settle_sizes_within(left);
    return values_.settle_sizes_within(right);
  }
  const bool is_equality = comparison == Py_EQ || comparison == Py_NE;
  if (is_sequence(left) && is_sequence(right) && is_equality) {
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(left);
    if (count != PySequence_Fast_GET_SIZE(right)) return;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject *one = PySequence_Fast_GET_ITEM(left, i), *other = PySequence_Fast_GET_ITEM(right, i);
      if (!values_.size_of(one) && !values_.size_of(other)) continue;
      const std::optional<ir::Size> a = as_size(one), b = as_size(other);
      if (a && b) {
        values_.tensors().decide(ir::equal(*a, *b));
      } else {
        values_.settle_sizes_within(one);
        values_.settle_sizes_within(other);
      }
    }
    return;
  }
  if (values_.size_of(left) || values_.size_of(right)) {
    const std::optional<ir::Size> a = as_size(left), b = as_size(right);
    if (a && b) {
      values_.tensors().decide(test_of(comparison, *a, *b));
      return;
    }
    if (is_equality && (left == Py_None || right == Py_None)) return;
  }
  values_.settle_sizes_within(left);
  values_.settle_sizes_within(right);
}

/// What a call of C code does with the sizes that it is given. True: it is said.
bool Sizes::builtin_of_sizes(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type) && count == 1 && values_.size_of(arguments[0]))
    return true;  // It is what it gives.
  if (count == 1 && is_sequence(arguments[0]) && PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    if (type == &PyTuple_Type || type == &PyList_Type || guards::is_torch_size(type)) return true;
  }
  if (callable == reinterpret_cast<PyObject*>(&PyType_Type) && count == 1) return true;
  if (PyType_Check(callable) && is_iterator_of_others(reinterpret_cast<PyTypeObject*>(callable))) {
    // The items are handed on as they are.
    if (std::any_of(arguments, arguments + count, [&](PyObject* one) { return values_.size_of(one); }))
      return false;
    for (Py_ssize_t i = 0; i < count; ++i) values_.hand_to_iterator(arguments[i]);
    return true;
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    const auto is_method = [&](PyTypeObject& type, const char* name) {
      return Py_IS_TYPE(arguments[0], &type) && callable == class_entry(reinterpret_cast<PyObject*>(&type), name);
    };
    if (count == 2 && is_method(PyList_Type, "append")) return true;
    if (count < 2 || !is_method(PyDict_Type, "get")) return false;
    values_.settle_sizes_within(arguments[1]);  // The values of a dict are handed on as they are, its keys are not.
    return true;
  }
  if (!PyCFunction_Check(callable)) return false;
  PyObject* self = PyCFunction_GET_SELF(callable);
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (self && PyList_CheckExact(self) && name == "append") return true;
  if (self && PyType_Check(self) && name == "__instancecheck__") return true;
  if (!self || !PyModule_Check(self)) return false;
  const char* module = PyModule_GetName(self);
  const std::string_view from = module ? module : "";
  if (from == "builtins" && (name == "isinstance" || name == "callable")) return true;
  if (from == "builtins" && name == "len") return count == 1 && !values_.size_of(arguments[0]);
  if (from == "builtins" && (name == "min" || name == "max") && !run_.keyword_names && count > 0) {
    std::vector<PyObject*> items(arguments, arguments + count);
    if (count == 1) {
      if (!is_sequence(arguments[0])) return false;
      items.assign(PySequence_Fast_ITEMS(arguments[0]),
                   PySequence_Fast_ITEMS(arguments[0]) + PySequence_Fast_GET_SIZE(arguments[0]));
    }
    PyObject* best = nullptr;
    for (PyObject* item : items) {
      if (!as_size(item)) return false;
      if (!best) {
        best = item;
        continue;
      }
      const ir::SizeTest beats =
          name == "min" ? ir::less(*as_size(item), *as_size(best)) : ir::greater(*as_size(item), *as_size(best));
      if (values_.tensors().decide(beats)) best = item;
    }
    return true;
  }
  const bool is_product = from == "math" && name == "prod";
  if ((is_product || (from == "builtins" && name == "sum")) && count == 1 && is_sequence(arguments[0])) {
    ir::Size all = is_product ? 1 : 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arguments[0]); ++i) {
      const std::optional<ir::Size> one = as_size(PySequence_Fast_GET_ITEM(arguments[0], i));
      if (!one) return false;
      all = is_product ? all * *one : all + *one;
    }
    activity().size = all;
    return true;
  }
  return false;
}

/// An operator of tensors, or a method of theirs, written in C.
bool Sizes::calls_tensors(PyObject* callable) const {
  if (activity().entry != Entry::tensor) return false;
  const TensorWorld& world = values_.tensors();
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    return world.may_call(callable) || (self && world.is_tensor(self));
  }
  if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) && !Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return false;
  PyTypeObject* owner = PyDescr_TYPE(callable);
  return owner != &PyBaseObject_Type &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(world.tensor_type()), owner);
}

bool Sizes::enters_watched() const {
  const Activity& activity = this->activity();
  return activity.entry == Entry::known && (activity.is_direct || activity.constructs);
}

void Sizes::give_sizes(Activation& a, int arg) {
  const bool has_self = a.peek(arg + 2) != nullptr;
  const int count = arg + has_self;
  PyObject* callable = a.peek(count + 1);
  if (enters_watched()) return;
  if (builtin_of_sizes(callable, a.top - count, count)) return;
  const bool of_tensors = calls_tensors(callable),
             takes_sizes = of_tensors && size_operators().contains(name_of(callable));
  const bool takes_numbers = of_tensors && Numbers::are_given_to(name_of(callable));
  for (int depth = 1; depth <= count; ++depth) {
    if (!takes_numbers && a.peek(depth)) values_.settle_number(a.peek(depth));
    if (of_tensors && (takes_sizes || !values_.size_of(a.peek(depth)))) give_to_tensors(a.peek(depth));
    values_.settle_sizes_within(a.peek(depth));
  }
}

void Sizes::give_unpacked_sizes(Activation& a, int arg) {
  if (enters_watched()) return;
  const bool keywords = arg & 1;
  PyObject* callable = a.peek(2 + keywords);
  PyObject*& given = a.peek(1 + keywords);
  if (calls_tensors(callable) && size_operators().contains(name_of(callable))) give_to_tensors(given);
  values_.settle_sizes_within(given);
  if (keywords) values_.settle_sizes_within(a.peek(1));
}

void Sizes::take_sizes(Activation& a) {
  PyObject*& top = a.peek(1);
  if (!top || watch_.numbers.take(top)) return;
  if (const std::optional<ir::Size> size = std::exchange(activity().size, std::nullopt)) {
    if (PyLong_CheckExact(top) && !size->is_constant()) {
      PyObject* one = values_.make_size(PyLong_AsLongLong(top), *size);
      Ref::steal(std::exchange(top, Py_NewRef(one)));
    }
    return;
  }
  if (const std::optional<ir::Size> size = values_.tensors().from_symbolic(top)) {
    PyObject* one = values_.make_size(values_.tensors().value_of(*size), *size);
    Ref::steal(std::exchange(top, Py_NewRef(one)));
    return;
  }
  if (!PyTuple_Check(top) || Py_REFCNT(top) != 1 || !is_sequence(top)) return;
  // The tuple is new, and nobody else has it.
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(top); ++i) {
    PyObject*& item = reinterpret_cast<PyTupleObject*>(top)->ob_item[i];
    const std::optional<ir::Size> size = values_.tensors().from_symbolic(item);
    if (!size) continue;
    PyObject* one = values_.make_size(values_.tensors().value_of(*size), *size);
    Ref::steal(std::exchange(item, Py_NewRef(one)));
  }
}

}  // namespace braze::interpreter
