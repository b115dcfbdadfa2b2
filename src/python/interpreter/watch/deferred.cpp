// python/interpreter/watch/deferred.cpp: numbers that are only put somewhere.
//
// `losses.append(loss.item())` must not specialise on the loss. A number that a frame was only passing on, and that
// an instruction puts into a list, tuple, dict or cell, is guarded by its type; its value is guarded when some
// other instruction looks at it, or into what it was put into. Until then another object stands for it in the run,
// equal to it and found nowhere else, so that provenance goes by identity here too: equal small integers are one
// object otherwise.
#include <algorithm>

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
  PyObject* stand_in = source ? values_.numbers().defer(a.local(slot), source) : nullptr;
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
    if (PyObject* number = values_.numbers().settle(operand)) {
      Ref::steal(std::exchange(operand, Py_NewRef(number)));
      continue;
    }
    if (!is_append && !leaves_shut(opcode, arg, depth)) values_.numbers().settle_within(operand);
  }
}

}  // namespace braze::interpreter
