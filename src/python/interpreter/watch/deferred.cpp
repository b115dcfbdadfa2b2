// python/interpreter/watch/deferred.cpp: numbers that are only put somewhere.
//
// `losses.append(loss.item())` must not specialise on the loss. A number that a frame was only passing on, and that
// an instruction puts into a list, tuple, dict or cell, is guarded by its type; its value is guarded when some
// other instruction looks at it, or into what it was put into. Until then another object stands for it in the run,
// equal to it and found nowhere else, so that provenance goes by identity here too: equal small integers are one
// object otherwise.
#include <algorithm>
#include <unordered_set>

#include "python/guards/scalar.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/root_slots.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// list.append, called as a method with one argument.
bool appends(Activation& a, int opcode, int arg) {
  if (opcode != CALL || arg != 1 || a.keyword_names || !a.peek(3)) return false;
  PyObject* method = class_entry(reinterpret_cast<PyObject*>(&PyList_Type), "append");
  return a.peek(3) == method && PyList_CheckExact(a.peek(2));
}

}  // namespace

/// The operand that lies `depth` below the top, 1 being the top, is not looked at.
bool RootSlots::only_moves(Activation& a, int opcode, int arg, int depth) {
  return moves_operand(opcode, arg, depth) || (depth == 1 && appends(a, opcode, arg));
}

/// False: it is no number that could be guarded later.
bool RootSlots::defer_slot(Activation& a, int slot) {
  const guards::Source* source = run_.root->passed_on(slot).source;
  PyObject* stand_in = source ? values_.defer(a.local(slot), source) : nullptr;
  if (!stand_in) return false;
  run_.root->use(slot);
  Ref::steal(std::exchange(a.local(slot), Py_NewRef(stand_in)));
  return true;
}

void RootSlots::settle_operands(Activation& a, int opcode, int arg) {
  const int all = static_cast<int>(a.top - a.stack_base()), used = operands_used(opcode, arg);
  const bool is_append = appends(a, opcode, arg);
  for (int depth = 1; depth <= (used < 0 ? all : std::min(used, all)); ++depth) {
    PyObject*& operand = a.peek(depth);
    if (!operand || only_moves(a, opcode, arg, depth)) continue;
    if (PyObject* number = values_.settle(operand)) {
      Ref::steal(std::exchange(operand, Py_NewRef(number)));
      continue;
    }
    if (!is_append && !leaves_shut(opcode, arg, depth)) values_.settle_within(operand);
  }
}

// ---- what the values know of them
PyObject* Values::defer(PyObject* number, const guards::Source* source) {
  const bool is_float = PyFloat_CheckExact(number) && !guards::is_nan(number);
  if (!is_float && !PyLong_CheckExact(number)) return nullptr;
  guards::Ref stand_in =
      guards::Ref::steal(is_float ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(number)) : fresh_int(number));
  if (!stand_in) {
    PyErr_Clear();
    return nullptr;
  }
  guards_.type(source, Py_TYPE(number));
  deferred_.emplace(stand_in.get(), Deferred{guards::Ref::borrow(number), source});
  scalars_[stand_in.get()] = {source};
  held_.push_back(stand_in);
  return stand_in.get();
}

PyObject* Values::settle(PyObject* value) {
  const auto found = deferred_.find(value);
  if (found == deferred_.end()) return nullptr;
  PyObject* number = found->second.number.get();
  if (PyFloat_CheckExact(number))
    if (PyObject* one = vary_float(number, found->second.source)) return one;
  if (const std::optional<ir::Size> size = symbol_of(number, found->second.source)) {
    sizes_.try_emplace(value, *size);
    return value;
  }
  learn(number, found->second.source);
  return number;
}

void Values::settle_within(PyObject* container) {
  if (!storage_type(container)) return;
  std::unordered_set<PyObject*> seen;
  settle_within(container, seen);
}

void Values::settle_within(PyObject* container, std::unordered_set<PyObject*>& seen) {
  if (!storage_type(container) || !seen.insert(container).second) return;
  const auto visit = [&](PyObject* item) {
    if (!settle(item)) settle_within(item, seen);
  };
  if (PyDict_Check(container)) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(container, &at, &key, &value)) visit(key), visit(value);
    return;
  }
  if (PyAnySet_Check(container)) return;  // What is put there is looked at.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i)
    visit(PySequence_Fast_GET_ITEM(container, i));
}

}  // namespace braze::interpreter
