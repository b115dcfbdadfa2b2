// python/interpreter/watch/watcher_root.cpp: runs that begin in the middle of a frame.
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

constexpr int deepest = 3;  // Of what an object holds, as far as it is looked at.

/// Neither the object nor what it holds has a finalizer.
bool is_inert(PyObject* value, int depth = 0) {
  if (!value || guards::is_scalar(value)) return true;
  const PyTypeObject* type = Py_TYPE(value);
  if (type->tp_finalize || type->tp_del) return false;
  if (depth >= deepest) return true;
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      if (!is_inert(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return false;
    return true;
  }
  if (PyModule_Check(value) || PyType_Check(value) || PyFunction_Check(value)) return true;  // Held elsewhere.
  PyObject* dict = PyDict_CheckExact(value) ? value : guards::instance_dict(value);
  Py_ssize_t at = 0;
  PyObject *key, *item;
  while (dict && PyDict_CheckExact(dict) && PyDict_Next(dict, &at, &key, &item))
    if (!is_inert(item, depth + 1)) return false;
  return true;
}

}  // namespace

/// What the instruction uses of the root frame's stack is learnt now; what it only moves goes on being passed on.
bool Watcher::consume(Activation& a, int opcode, int arg) {
  const int depth = static_cast<int>(a.top - a.stack_base());
  const int base = a.code()->co_nlocalsplus, top = base + depth;
  int used = operands_used(opcode, arg);
  if (used < 0 || used > depth) used = depth;
  for (int slot = top - used; slot < top; ++slot)
    if (!learn_slot(a, slot)) return false;
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
    case MAKE_CELL: return learn_slot(a, arg);
    case LOAD_DEREF:
    case LOAD_CLOSURE:
    case STORE_DEREF:
    case DELETE_DEREF: return learn_cell_slot(a, arg);
    default: return true;
  }
}

bool Watcher::learn_slot(Activation& a, int slot) {
  const bool is_temporary = root_->is_temporary(slot);
  const guards::Source* source = root_->use(slot);
  if (!source) return true;
  if (!values_.learn(a.local(slot), source)) return abandon("a value that cannot be guarded", a.local(slot));
  return !is_temporary || dies_quietly(a.local(slot), source);
}

/// The frame lets go of what a slot holds. A replay does so at its end only.
bool Watcher::drops(Activation& a, int slot) {
  PyObject* value = a.local(slot);
  const guards::Source* source = root_->passed_on(slot);
  if (!source) source = value ? values_.source_of(value) : nullptr;
  return !source || dies_quietly(value, source);
}

/// Nobody notices when the object goes, now or on later calls.
bool Watcher::dies_quietly(PyObject* value, const guards::Source* source) {
  if (!is_inert(value)) return abandon("an object is dropped that may have a finalizer", value);
  values_.guards().type(source, Py_TYPE(value));
  const bool is_instance = Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE && !values_.tensors().is_tensor(value);
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  return !is_instance || keep_in_class(type, values_.sources().type_of(source), {"__del__"});
}

/// A cell of the root frame: the run may have made it, or it was there before, and its contents come from it.
bool Watcher::learn_cell_slot(Activation& a, int index) {
  const guards::Source* source = root_->use(index);
  if (source && a.local(index) && PyCell_Check(a.local(index)))
    values_.learn_cell(a.local(index), values_.sources().member(source, guards::Member::cell_contents));
  return true;
}

}  // namespace braze::interpreter
