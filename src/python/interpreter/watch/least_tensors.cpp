// python/interpreter/watch/least_tensors.cpp
#include "python/interpreter/watch/least_tensors.h"

#include <opcode.h>

#include <string_view>

#include "python/guards/tensor_forms.h"
#include "python/interpreter/code_units.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

namespace {

/// Classes of the other operand, whose operators keep nothing of this one.
bool is_plain_operand(PyObject* value) {
  return value && (PyFloat_CheckExact(value) || PyLong_CheckExact(value) || guards::is_plain_tensor(value));
}

/// \param callee  the stack slot of the function that the frame is about to call.
bool is_computed_with_at_once(const Frame* frame, PyObject* const* callee) {
  const PyCodeObject* code = frame->f_code;
  PyObject* const* stack = frame->localsplus + code->co_nlocalsplus;
  const Fetched call = fetch(frame->prev_instr);
  if (call.opcode != CALL) return false;
  // An operator in place would be told that the two share memory. As the right operand: the left one lies below the
  // call's null and function.
  const auto computes = [](const Fetched& one) { return one.opcode == BINARY_OP && one.arg < NB_INPLACE_ADD; };
  const Fetched next = fetch(call.next);
  if (computes(next)) return callee - stack >= 2 && !callee[-1] && is_plain_operand(callee[-2]);
  if (next.opcode != LOAD_CONST && next.opcode != LOAD_FAST) return false;
  PyObject* other =
      next.opcode == LOAD_CONST ? PyTuple_GET_ITEM(code->co_consts, next.arg) : frame->localsplus[next.arg];
  return computes(fetch(next.next)) && is_plain_operand(other);
}

}  // namespace

PyObject* selects_tensor(WatchedRun& run, PyObject* function, std::span<PyObject* const> arguments) {
  const char* name = reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name;
  const bool is_least = std::string_view(name) == "min";
  const bool is_called = run.callee && *run.callee == function && !run.keyword_names && arguments.size() > 1;
  if (!is_called || (!is_least && std::string_view(name) != "max") || !guards::are_like_numbers(arguments) ||
      run.values.tensors().modes().are_calls_handled() ||
      !is_computed_with_at_once(PyThreadState_Get()->cframe->current_frame, run.callee))
    return nullptr;
  return interned(is_least ? "min of tensors" : "max of tensors");
}

}  // namespace braze::interpreter
