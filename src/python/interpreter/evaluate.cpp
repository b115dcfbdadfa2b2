// python/interpreter/evaluate.cpp: the loop, the unwinder, and the installation.
#include "python/interpreter/evaluate.h"

#include <array>
#include <utility>

#include "python/interpreter/activation.h"
#include "python/interpreter/entry.h"
#include "python/interpreter/exception_table.h"
#include "python/interpreter/frame_run.h"
#include "python/interpreter/handlers.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/observer.h"
#include "python/interpreter/raised.h"
#include "support/stack.h"

namespace braze::interpreter {

namespace {

constexpr auto handlers = [] {
  std::array<Handler, 256> table{};
#define OPCODE(name, handler, look) table[name] = handler;
#include BRAZE_OPCODES
#undef OPCODE
  return table;
}();

struct ThreadState {
  int scopes = 0;
  int installed = 0;  ///< Scopes of either kind, paused ones too.
  Observer* observer = nullptr;
  FrameDriver* driver = nullptr;
  Statistics statistics;
};
thread_local ThreadState this_thread;  // The evaluation function gets no argument of ours.

// Guarded by the GIL: how many scopes of either kind are open in all threads, and whose frames the others
// are.
int open_scopes = 0;
_PyFrameEvalFunction function_before = nullptr;

// ---- unwinding
// ------------------------------------------------------------------------------------------------------

void add_traceback(Activation& a) {
  if (_PyFrame_IsIncomplete(a.frame)) return;
  // The current frame of this thread is this one.
  const Ref frame = Ref::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(a.thread)));
  if (frame) PyTraceBack_Here(reinterpret_cast<PyFrameObject*>(frame.get()));
}

/// Goes to the handler of the instruction that failed. False if the frame has none: its stack is empty then, unless
/// CPython is to raise the exception anew where the frame stands.
bool unwind(Activation& a, Step step) {
  const CodeUnit* const first = first_unit(a.code());
  HandlerRange range{};
  const bool abandoned = a.observer && a.observer->abandoned();
  const bool found = !abandoned && find_handler_range(a.code(), a.offset_of(a.current), range);
  a.keyword_names = nullptr;
  if (!found && !abandoned && cpython_ends_frames) return false;
  // Before its first instruction a frame has no handlers.
  if (abandoned && cpython_ends_frames) a.frame->prev_instr = first_unit(a.code()) - 1;
  if (step == Step::error) add_traceback(a);
  a.drop(a.top - a.stack_base() - (found ? range.depth : 0));
  if (!found) return false;
  if (range.wants_offset) a.push(Ref::steal(PyLong_FromLong(static_cast<long>(a.frame->prev_instr - first))));
  a.push(take_raised());
  a.next = first + range.handler;
  return true;
}

// ---- the loop
// -------------------------------------------------------------------------------------------------------

/// Reads the instruction at `next` and moves past it.
Fetched fetch_next(Activation& a) {
  const Fetched found = fetch(a.next);
  a.start = a.next;
  a.current = found.last;
  a.frame->prev_instr = const_cast<CodeUnit*>(found.last);
  a.next = found.next;
  return found;
}

/// Ends all frames at once; see observer.h.
Step abandon() {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "braze's capture of this call was abandoned");
  return Step::reraise;
}

/// Runs one instruction and tells the observer.
Step run_observed(Activation& a, Handler handler, int opcode, int arg) {
  if (!a.observer->before(a, opcode, arg)) return abandon();
  const Step step = handler(a, arg);
  if (step == Step::handover) return a.observer->handing_over(a.handover) ? step : abandon();
  return a.observer->after(a, opcode, arg, step) ? step : abandon();
}

/// Runs until the frame ends, is suspended or is to be left to CPython. Returns returned, yielded, ends, error or
/// handover; next after an instruction of `breakpoints`, if there are any.
Step run(Activation& a, const Entered& entered, Step step, const Offsets* breakpoints = nullptr) {
  uint64_t instructions = 0;
  const CodeUnit* resume_at = a.next;
  bool stops = false;
  for (;;) {
    while (step == Step::next) {
      if (!a.keyword_names) resume_at = a.next;  // KW_NAMES is one with the call that follows.
      if (entered.is_traced_now() && !a.keyword_names) [[unlikely]] {
        step = a.hand_over(Handover::tracing);
        if (a.observer && !a.observer->handing_over(a.handover)) step = abandon();
        break;
      }
      const auto [opcode, arg, last, next] = fetch_next(a);
      ++instructions;
      const Handler handler = handlers[opcode];
      if (!handler) [[unlikely]] {
        step = a.hand_over(is_instrumented(opcode) ? Handover::tracing : Handover::unknown_opcode);
        if (a.observer && !a.observer->handing_over(a.handover)) step = abandon();
        break;
      }
      step = a.observer ? run_observed(a, handler, opcode, arg) : handler(a, arg);
      // KW_NAMES belongs to the call that follows it.
      stops = stops || (breakpoints && (*breakpoints)[a.offset_of(a.start)]);
      if (stops && !a.keyword_names) break;
    }
    if (step != Step::next) {
      if ((step != Step::error && step != Step::reraise) || !unwind(a, step)) break;
      step = Step::next;
    }
    if (stops) break;
  }
  this_thread.statistics.instructions += instructions;
  if (step == Step::ends) a.frame->prev_instr = const_cast<CodeUnit*>(resume_at - 1);
  if (step == Step::handover) {
    // A handler that did its work and then asks for it goes on after its instruction; the others have done nothing.
    const bool done = a.handover == Handover::asynchronous_exception;
    a.frame->prev_instr = const_cast<CodeUnit*>((done ? a.next : resume_at) - 1);
    this_thread.statistics.instructions -= !done && a.handover != Handover::tracing;
  }
  return step == Step::reraise ? Step::error : step;
}

bool is_asynchronous(const PyCodeObject* code) {
  return code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR);
}

PyObject* evaluation_function(PyThreadState* thread, Frame* frame, int throwing);

void use(_PyFrameEvalFunction function) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), function);
}

/// CPython runs Python functions that call each other in one C function, as long as no evaluation function is
/// installed; here, and natively beside it, each takes some of the C stack. While this lives there is none, unless
/// another thread needs it.
class Uninstalled {
 public:
  Uninstalled() : is_alone_(open_scopes == this_thread.installed) {
    if (is_alone_) use(function_before);
  }
  ~Uninstalled() {
    if (is_alone_ && open_scopes > 0) use(evaluation_function);
  }
  Uninstalled(const Uninstalled&) = delete;
  Uninstalled& operator=(const Uninstalled&) = delete;

 private:
  bool is_alone_;
};

/// Null with an exception if an observer will not have it.
PyObject* leave_to_cpython(PyThreadState* thread, Frame* frame, int throwing, Handover reason) {
  Observer* observer = this_thread.observer;
  if (observer && !observer->handing_over(reason)) {
    abandon();
    return end_abandoned(thread, frame);
  }
  ++this_thread.statistics.handovers[static_cast<size_t>(reason)];
  return reason == Handover::too_deep ? evaluate_apart(thread, frame, throwing)
                                      : _PyEval_EvalFrameDefault(thread, frame, throwing);
}

/// The evaluation function for this thread's frames. Null for `result` with Step::error.
Step evaluate_here(PyThreadState* thread, Frame* frame, int throwing, PyObject*& result, Handover& reason) {
  const Entered entered(thread, frame);
  if (!enter_call(thread)) return Step::error;
  ++this_thread.statistics.frames;
  Activation a{.thread = thread,
               .frame = frame,
               .observer = this_thread.observer,
               .top = _PyFrame_GetStackPointer(frame),
               .current = frame->prev_instr,
               .next = frame->prev_instr + 1};
  frame->stacktop = -1;
  Step first = throwing ? Step::error : Step::next;
  const bool watched = a.observer && !a.observer->abandoned();
  if (a.observer && (!watched || !a.observer->entered(frame))) first = abandon();
  const Step step = run(a, entered, first);
  if (watched) a.observer->left(frame);
  _PyFrame_SetStackPointer(frame, a.top);
  result = a.result;
  reason = a.handover;
  leave_call(thread);
  return step;
}

/// C code that warns, and whose operator has raised, prints what the module `warnings` raises. The warning comes
/// when the call runs natively.
bool shows_warning(Frame* frame) {
  PyObject* const module =
      PyDict_Check(frame->f_globals) ? PyDict_GetItemString(frame->f_globals, "__name__") : nullptr;
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "warnings") == 0;
}

PyObject* evaluation_function(PyThreadState* thread, Frame* frame, int throwing) {
  // A hook of sys.addaudithook or sys.settrace runs beside the program, whose every step may call it.
  if (thread->tracing > 0) return _PyEval_EvalFrameDefault(thread, frame, throwing);
  if (this_thread.scopes > 0) return evaluate(thread, frame, throwing);
  if (this_thread.driver) {
    const bool is_begun = throwing || frame->owner == FRAME_OWNED_BY_GENERATOR || is_traced(thread) ||
                          frame->f_code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    return is_begun ? _PyEval_EvalFrameDefault(thread, frame, throwing) : this_thread.driver->drive(thread, frame);
  }
  // Who was there before may have come when this one was there already, and hand the frame back.
  static thread_local Frame* handed_on = nullptr;
  if (!function_before || handed_on == frame) return _PyEval_EvalFrameDefault(thread, frame, throwing);
  Frame* const outer = std::exchange(handed_on, frame);
  PyObject* const result = function_before(thread, frame, throwing);
  handed_on = outer;
  return result;
}

}  // namespace

PyObject* evaluate(PyThreadState* thread, Frame* frame, int throwing) {
  if (is_traced(thread)) return leave_to_cpython(thread, frame, throwing, Handover::tracing);
  if (is_asynchronous(frame->f_code)) return leave_to_cpython(thread, frame, throwing, Handover::coroutine);
  if (stack_is_short()) return leave_to_cpython(thread, frame, throwing, Handover::too_deep);
  PyObject* result = nullptr;
  Handover reason{};
  const Step step = evaluate_here(thread, frame, throwing, result, reason);
  if (step == Step::handover) return leave_to_cpython(thread, frame, 0, reason);
  const bool is_silent = this_thread.observer && this_thread.observer->abandoned() && shows_warning(frame);
  PyObject* const given = end_frame(thread, frame, step, result);
  if (given || !is_silent) return given;
  PyErr_Clear();
  Py_RETURN_NONE;
}

PyObject* evaluate_apart(PyThreadState* thread, Frame* frame, int throwing) {
  const Uninstalled uninstalled;
  return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

Statistics& statistics() {
  return this_thread.statistics;
}

namespace {

void install() {
  ++this_thread.installed;
  const _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
  // Others who install one for a while, PyTorch's Dynamo for one, may have put this one back when it was gone.
  if (open_scopes++ == 0 && now != evaluation_function) function_before = now;
  use(evaluation_function);  // Another thread may have taken it away for a while.
}

void uninstall() {
  --this_thread.installed;
  if (--open_scopes == 0) use(function_before);
}

}  // namespace

Scope::Scope(Observer* observer) : outer_observer_(std::exchange(this_thread.observer, observer)) {
  ++this_thread.scopes;
  install();
}

Scope::~Scope() {
  this_thread.observer = outer_observer_;
  --this_thread.scopes;
  uninstall();
}

DriverScope::DriverScope(FrameDriver* driver) : outer_(std::exchange(this_thread.driver, driver)) {
  install();
}

DriverScope::~DriverScope() {
  this_thread.driver = outer_;
  uninstall();
}

Pause::Pause()
    : depth_(std::exchange(this_thread.scopes, 0)), driver_(std::exchange(this_thread.driver, nullptr)) {}

Pause::~Pause() {
  this_thread.scopes = depth_;
  this_thread.driver = driver_;
}

// ---- frames by the piece
// --------------------------------------------------------------------------------------------

FrameRun::FrameRun(PyThreadState* thread, Frame* frame)
    : entry_(std::make_unique<Entered>(thread, frame)),
      activation_{.thread = thread,
                  .frame = frame,
                  .observer = nullptr,
                  .top = _PyFrame_GetStackPointer(frame),
                  .current = frame->prev_instr,
                  .next = frame->prev_instr + 1} {
  entered_ = enter_call(thread);
  frame->stacktop = -1;
}

FrameRun::~FrameRun() {
  if (entered_) leave_call(activation_.thread);
}

int FrameRun::offset() const {
  return activation_.offset_of(activation_.next);
}

Step FrameRun::run(const Offsets& breakpoints) {
  return interpreter::run(activation_, *entry_, Step::next, &breakpoints);
}

Step FrameRun::run_raising(const Offsets& breakpoints) {
  fetch_next(activation_);
  return interpreter::run(activation_, *entry_, Step::error, &breakpoints);
}

Step FrameRun::run(Observer& observer) {
  const Scope scope(&observer);
  activation_.observer = &observer;
  const Step step = interpreter::run(activation_, *entry_, Step::next);
  activation_.observer = nullptr;
  return step;
}

FrameRun::State FrameRun::save() const {
  State state;
  PyObject** const slots = activation_.frame->localsplus;
  for (PyObject** slot = slots; slot < activation_.top; ++slot) state.slots.push_back(Ref::borrow(*slot));
  state.offset = offset();
  state.handled = Ref::borrow(activation_.thread->exc_info->exc_value);
  return state;
}

void FrameRun::restore(State state) {
  Activation& a = activation_;
  PyObject** const slots = a.frame->localsplus;
  std::vector<Ref> dropped;  // Last, when the frame is whole again: dropping may run Python code.
  for (PyObject** slot = slots; slot < a.top; ++slot) dropped.push_back(Ref::steal(*slot));
  for (size_t i = 0; i < state.slots.size(); ++i) slots[i] = state.slots[i].release();
  a.top = slots + state.slots.size();
  a.keyword_names = nullptr;
  go_to(state.offset);
  dropped.push_back(Ref::steal(std::exchange(a.thread->exc_info->exc_value, state.handled.release())));
  dropped.push_back(Ref::steal(std::exchange(a.result, nullptr)));
}

void FrameRun::go_to(int offset) {
  Activation& a = activation_;
  a.next = first_unit(code()) + offset;
  a.current = a.start = a.next - 1;
  a.frame->prev_instr = const_cast<CodeUnit*>(a.current);
}

void FrameRun::stand_at(int offset) {
  activation_.drop(activation_.top - activation_.stack_base());
  go_to(offset);
}

PyObject* FrameRun::finish_with(PyObject* result) {
  Activation& a = activation_;
  a.drop(a.top - a.stack_base());
  if (!result) {
    Py_CLEAR(a.result);
    if (cpython_ends_frames) stand_at(0);  // Where no handler covers it.
    return finish(Step::error);
  }
  if (!cpython_ends_frames) {
    Py_XDECREF(std::exchange(a.result, result));
    return finish(Step::returned);
  }
  const Instruction last = instruction_at(code(), offset());
  Ref owned = Ref::steal(result);
  if (!returned_constant(code(), last.opcode, last.arg)) a.push(std::move(owned));
  return finish(Step::ends);
}

PyObject* FrameRun::finish(Step last) {
  Activation& a = activation_;
  _PyFrame_SetStackPointer(a.frame, a.top);
  PyThreadState* thread = a.thread;
  Frame* frame = a.frame;
  const Handover reason = a.handover;
  if (entered_) leave_call(thread);
  entered_ = false;
  entry_.reset();
  if (last == Step::handover) return leave_to_cpython(thread, frame, 0, reason);
  return end_frame(thread, frame, last, a.result);
}

}  // namespace braze::interpreter
