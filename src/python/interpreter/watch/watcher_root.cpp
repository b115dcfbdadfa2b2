// python/interpreter/watch/watcher_root.cpp: runs that begin in the middle of a frame.
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

/// What the instruction uses of the root frame's stack is learnt now; what it only moves goes on being passed on.
bool Watcher::consume(Activation& a, int opcode, int arg) {
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
  for (int slot = top; slot < base + a.code()->co_stacksize; ++slot) root_->overwrite(slot);
  switch (local_use(opcode)) {
    case LocalUse::none: break;
    case LocalUse::copies: root_->copy(arg, top); return a.local(arg) || abandon("a variable that is not set");
    case LocalUse::takes:
      root_->copy(arg, top);
      root_->overwrite(arg);
      return true;
    case LocalUse::deletes:
      if (!drops(a, arg)) return false;
      root_->overwrite(arg);
      return true;
    case LocalUse::stores:
      if (!drops(a, arg)) return false;
      root_->copy(top - 1, arg);
      return true;
  }
  switch (opcode) {
    case POP_TOP: return drops(a, top - 1);
    case POP_EXCEPT: return !root_->passed_on(top - 1) || abandon("the end of a handler that was entered before");
    case COPY: root_->copy(top - arg, top); return true;
    case SWAP: return swap_slots(a, top - 1, top - arg);
    case MAKE_CELL: return learn_slot(a, arg);
    case LOAD_DEREF:
    case LOAD_CLOSURE:
    case STORE_DEREF:
    case DELETE_DEREF: return learn_cell_slot(a, arg);
    default: return true;
  }
}

/// An object that perhaps nobody else holds counts as used: once it has moved, nobody knows that of it any more.
bool Watcher::swap_slots(Activation& a, int one, int other) {
  for (const int slot : {one, other})
    if (root_->is_temporary(slot) && !learn_slot(a, slot)) return false;
  root_->swap(one, other);
  return true;
}

/// \param stays  the instruction leaves it there.
bool Watcher::learn_slot(Activation& a, int slot, bool stays) {
  const bool is_temporary = root_->is_temporary(slot);
  const Passed passed = root_->use(slot);
  if (!passed) return true;
  if (!learn_passed(a.local(slot), passed)) return abandon("a value that cannot be guarded", a.local(slot));
  return !is_temporary || stays || lets_go(a.local(slot), passed.source);
}

/// The frame lets go of what a slot holds. A replay does so at its end only.
bool Watcher::drops(Activation& a, int slot) {
  PyObject* value = a.local(slot);
  const guards::Source* source = root_->passed_on(slot).source;
  if (!source) source = value ? values_.source_of(value) : nullptr;
  return !source || lets_go(value, source);
}

/// The run lets go of what a path led to before it: nobody may notice, now or on later calls.
bool Watcher::lets_go(PyObject* value, const guards::Source* source, bool contents) {
  return values_.drop(value, source, contents) ||
         abandon("an object is dropped that may have a finalizer", contents ? nullptr : value);
}

/// Entry `key` of a dict that existed before is overwritten or deleted.
bool Watcher::lets_go_of_entry(PyObject* dict, PyObject* key) {
  const guards::Source* source = values_.source_of(dict);
  if (!source || values_.effects().wrote(dict, key)) return true;
  return lets_go(PyDict_GetItemWithError(dict, key), values_.sources().dict_item(source, key));
}

/// A cell of the root frame: the run may have made it, or it was there before, and its contents come from it.
bool Watcher::learn_cell_slot(Activation& a, int index) {
  const guards::Source* source = root_->use(index).source;
  if (source && a.local(index) && PyCell_Check(a.local(index)))
    values_.learn_cell(a.local(index), values_.sources().member(source, guards::Member::cell_contents));
  return true;
}

}  // namespace braze::interpreter
