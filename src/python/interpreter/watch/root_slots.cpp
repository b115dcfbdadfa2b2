// python/interpreter/watch/root_slots.cpp
#include "python/interpreter/watch/root_slots.h"

#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// super() without arguments reads the variables of the frame that calls it: the first, and the cell of the class.
bool is_bare_super(Activation& a, int arg) {
  return arg == 0 && a.peek(1) == reinterpret_cast<PyObject*>(&PySuper_Type) && !a.peek(2);
}

bool holds_cell(Activation& a, int slot) {
  return (PyBytes_AS_STRING(a.code()->co_localspluskinds)[slot] & CO_FAST_CELL) && a.local(slot) &&
         PyCell_Check(a.local(slot));
}

}  // namespace

bool RootSlots::consume(Activation& a, int opcode, int arg) {
  const int depth = static_cast<int>(a.top - a.stack_base());
  const int base = a.code()->co_nlocalsplus, top = base + depth;
  int used = operands_used(opcode, arg);
  if (used < 0 || used > depth) used = depth;
  for (int slot = top - used; slot < top; ++slot)
    if (!(only_moves(a, opcode, arg, top - slot) && defer_slot(a, slot)) &&
        !learn_slot(a, slot, opcode == FOR_ITER))
      return false;
  if (const int at = container_grown(opcode, arg); at > used && at <= depth && !learn_slot(a, top - at))
    return false;
  for (int slot = top; slot < base + a.code()->co_stacksize; ++slot) run_.root->overwrite(slot);
  switch (local_use(opcode)) {
    case LocalUse::none: break;
    case LocalUse::copies: run_.root->copy(arg, top); return a.local(arg) || abandon("a variable that is not set");
    case LocalUse::takes: run_.root->take(arg, top); return true;
    case LocalUse::deletes:
      if (!drops(a, arg)) return false;
      run_.root->overwrite(arg);
      return true;
    case LocalUse::stores:
      if (!drops(a, arg)) return false;
      run_.root->copy(top - 1, arg);
      return true;
  }
  switch (opcode) {
    case POP_TOP: return drops(a, top - 1);
    case POP_EXCEPT:
      return !run_.root->passed_on(top - 1) || abandon("the end of a handler that was entered before");
    case COPY: run_.root->copy(top - arg, top); return true;
    case SWAP: run_.root->swap(top - 1, top - arg); return true;
    case MAKE_CELL: return learn_slot(a, arg);
    case LOAD_DEREF:
    case LOAD_CLOSURE:
    case STORE_DEREF:
    case DELETE_DEREF: return learn_cell_slot(a, arg);
    case CALL:
      if (!is_bare_super(a, arg)) return true;
      for (int slot = base - a.code()->co_nfreevars; slot < base; ++slot) learn_cell_slot(a, slot);
      return holds_cell(a, 0) ? learn_cell_slot(a, 0) && watch_.variables.load_cell(a.local(0)) : learn_slot(a, 0);
    default: return true;
  }
}

/// \param stays  the instruction leaves it there.
bool RootSlots::learn_slot(Activation& a, int slot, bool stays) {
  const bool is_temporary = run_.root->is_temporary(slot);
  const Passed passed = run_.root->use(slot);
  if (!passed) return true;
  if (PyObject* one =
          passed.source && a.local(slot) ? values_.numbers().vary(a.local(slot), passed.source) : nullptr) {
    Ref::steal(std::exchange(a.local(slot), Py_NewRef(one)));
    return true;
  }
  if (!watch_.iterators.learn_passed(a.local(slot), passed))
    return abandon("a value that cannot be guarded", a.local(slot));
  return !is_temporary || stays || lets_go(a.local(slot), passed.source);
}

/// The frame lets go of what a slot holds. A replay does so at its end only.
bool RootSlots::drops(Activation& a, int slot) {
  PyObject* value = a.local(slot);
  const guards::Source* source = run_.root->passed_on(slot).source;
  if (!source) source = value ? values_.source_of(value) : nullptr;
  return !source || lets_go(value, source);
}

/// A cell of the root frame: the run may have made it, or it was there before, and its contents come from it.
bool RootSlots::learn_cell_slot(Activation& a, int index) {
  const guards::Source* source = run_.root->use(index).source;
  if (source && a.local(index) && PyCell_Check(a.local(index)))
    values_.learn_cell(a.local(index), values_.sources().member(source, guards::Member::cell_contents));
  return true;
}

}  // namespace braze::interpreter
