// python/interpreter/evaluate.cpp: the loop, the unwinder, and the installation.
#include "python/interpreter/evaluate.h"

#include <array>

#include "python/interpreter/activation.h"
#include "python/interpreter/handlers.h"
#include "python/interpreter/observer.h"

namespace braze::interpreter {

namespace {

constexpr auto handlers = [] {
  std::array<Handler, 256> table{};
#define OPCODE(name, handler) table[name] = handler;
#include "python/interpreter/opcodes_311.def"
#undef OPCODE
  return table;
}();

struct ThreadState {
  int scopes = 0;
  Observer* observer = nullptr;
  Statistics statistics;
};
thread_local ThreadState this_thread;  // The evaluation function gets no argument of ours.

// Guarded by Python's lock: how many scopes are open in all threads, and whose frames the others are.
int open_scopes = 0;
_PyFrameEvalFunction function_before = nullptr;

// ---- the exception table (Objects/exception_handling_notes.txt of CPython)
// ------------------------------------------

struct Region {
  int start, size, handler, depth;
  bool wants_offset;
};

/// Big-endian groups of six bits; bit 6 says that another follows, bit 7 marks the start of an entry.
int read_varint(const uint8_t*& at) {
  int value = *at & 63;
  while (*at & 64) value = (value << 6) | (*++at & 63);
  ++at;
  return value;
}

Region read_region(const uint8_t*& at) {
  Region region{};
  region.start = read_varint(at);
  region.size = read_varint(at);
  region.handler = read_varint(at);
  const int depth_and_offset = read_varint(at);
  region.depth = depth_and_offset >> 1;
  region.wants_offset = depth_and_offset & 1;
  return region;
}

bool find_region(PyCodeObject* code, int offset, Region& found) {
  const auto* at = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const uint8_t* const end = at + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (at < end) {
    const Region region = read_region(at);
    if (region.start > offset) return false;  // Entries are sorted.
    if (offset >= region.start + region.size) continue;
    found = region;
    return true;
  }
  return false;
}

// ---- unwinding
// ------------------------------------------------------------------------------------------------------

void add_traceback(Activation& a) {
  if (_PyFrame_IsIncomplete(a.frame)) return;
  // The current frame of this thread is this one.
  const Ref frame = Ref::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(a.thread)));
  if (frame) PyTraceBack_Here(reinterpret_cast<PyFrameObject*>(frame.get()));
}

/// The exception that is set, as an instance with its traceback.
Ref take_exception() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback ? traceback : Py_None);
  Py_XDECREF(traceback);
  Py_XDECREF(type);
  return Ref::steal(value);
}

/// Goes to the handler of the instruction that failed; false if the frame has none, with its stack empty.
bool unwind(Activation& a) {
  const CodeUnit* const first = _PyCode_CODE(a.code());
  Region region{};
  const bool abandoned = a.observer && a.observer->abandoned();
  const bool found = !abandoned && find_region(a.code(), static_cast<int>(a.current - first), region);
  a.keyword_names = nullptr;
  a.drop(a.top - a.stack_base() - (found ? region.depth : 0));
  if (!found) return false;
  if (region.wants_offset) a.push(Ref::steal(PyLong_FromLong(static_cast<long>(a.frame->prev_instr - first))));
  a.push(take_exception());
  a.next = first + region.handler;
  return true;
}

// ---- the loop
// -------------------------------------------------------------------------------------------------------

/// Reads the instruction at `next` with its whole argument and moves past it and its inline cache.
int fetch(Activation& a, int& arg) {
  int opcode = braze_plain_opcode[_Py_OPCODE(*a.next)];
  arg = _Py_OPARG(*a.next);
  while (opcode == EXTENDED_ARG) {
    ++a.next;
    opcode = braze_plain_opcode[_Py_OPCODE(*a.next)];
    arg = (arg << 8) | _Py_OPARG(*a.next);
  }
  a.current = a.next;
  a.frame->prev_instr = const_cast<CodeUnit*>(a.next);
  a.next += 1 + braze_cache_units[opcode];
  return opcode;
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

/// Runs until the frame ends, is suspended or is to be left to CPython. Returns returned, yielded, error or
/// handover.
Step run(Activation& a, const _PyCFrame& c_frame, Step step) {
  uint64_t instructions = 0;
  const CodeUnit* start = a.next;
  for (;;) {
    while (step == Step::next) {
      start = a.next;
      if (c_frame.use_tracing && !a.keyword_names) [[unlikely]] {
        step = a.hand_over(Handover::tracing);
        if (a.observer && !a.observer->handing_over(a.handover)) step = abandon();
        break;
      }
      int arg;
      const int opcode = fetch(a, arg);
      ++instructions;
      const Handler handler = handlers[opcode];
      if (!handler) [[unlikely]] {
        step = a.hand_over(Handover::unknown_opcode);
        if (a.observer && !a.observer->handing_over(a.handover)) step = abandon();
        break;
      }
      step = a.observer ? run_observed(a, handler, opcode, arg) : handler(a, arg);
    }
    if (step == Step::error) add_traceback(a);
    if ((step != Step::error && step != Step::reraise) || !unwind(a)) break;
    step = Step::next;
  }
  this_thread.statistics.instructions += instructions;
  if (step == Step::handover) {
    // A handler that did its work and then asks for it goes on after its instruction; the others have done nothing.
    const bool done = a.handover == Handover::asynchronous_exception;
    a.frame->prev_instr = const_cast<CodeUnit*>((done ? a.next : start) - 1);
    this_thread.statistics.instructions -= !done && a.handover != Handover::tracing;
  }
  return step == Step::reraise ? Step::error : step;
}

/// Tells the thread that this frame runs, as CPython's own evaluation function does.
class Entered {
 public:
  Entered(PyThreadState* thread, Frame* frame) : thread_(thread) {
    _PyCFrame* before = thread->cframe;
    c_frame.use_tracing = before->use_tracing;
    c_frame.previous = before;
    c_frame.current_frame = frame;
    thread->cframe = &c_frame;
    frame->is_entry = true;
    frame->previous = before->current_frame;
  }
  ~Entered() {
    thread_->cframe = c_frame.previous;
    thread_->cframe->use_tracing = c_frame.use_tracing;
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

  _PyCFrame c_frame;

 private:
  PyThreadState* thread_;
};

bool is_asynchronous(const PyCodeObject* code) {
  return code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR);
}

/// Null with an exception if an observer will not have it.
PyObject* leave_to_cpython(PyThreadState* thread, Frame* frame, int throwing, Handover reason) {
  Observer* observer = this_thread.observer;
  if (observer && !observer->handing_over(reason)) {
    abandon();
    return nullptr;
  }
  ++this_thread.statistics.handovers[static_cast<size_t>(reason)];
  return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

/// The evaluation function for this thread's frames. Null for `result` with Step::error.
Step evaluate_here(PyThreadState* thread, Frame* frame, int throwing, PyObject*& result, Handover& reason) {
  const Entered entered(thread, frame);
  if (_Py_EnterRecursiveCallTstate(thread, "")) return Step::error;
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
  const Step step = run(a, entered.c_frame, first);
  if (watched) a.observer->left(frame);
  _PyFrame_SetStackPointer(frame, a.top);
  result = a.result;
  reason = a.handover;
  _Py_LeaveRecursiveCallTstate(thread);
  return step;
}

PyObject* evaluation_function(PyThreadState* thread, Frame* frame, int throwing) {
  if (this_thread.scopes > 0) return evaluate(thread, frame, throwing);
  return function_before ? function_before(thread, frame, throwing)
                         : _PyEval_EvalFrameDefault(thread, frame, throwing);
}

}  // namespace

PyObject* evaluate(PyThreadState* thread, Frame* frame, int throwing) {
  if (thread->cframe->use_tracing) return leave_to_cpython(thread, frame, throwing, Handover::tracing);
  if (is_asynchronous(frame->f_code)) return leave_to_cpython(thread, frame, throwing, Handover::coroutine);
  PyObject* result = nullptr;
  Handover reason{};
  const Step step = evaluate_here(thread, frame, throwing, result, reason);
  return step == Step::handover ? leave_to_cpython(thread, frame, 0, reason) : result;
}

Statistics& statistics() {
  return this_thread.statistics;
}

Scope::Scope(Observer* observer) : outer_observer_(this_thread.observer) {
  this_thread.observer = observer;
  ++this_thread.scopes;
  if (open_scopes++ > 0) return;
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  function_before = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluation_function);
}

Scope::~Scope() {
  this_thread.observer = outer_observer_;
  --this_thread.scopes;
  if (--open_scopes > 0) return;
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), function_before);
}

Pause::Pause() : depth_(std::exchange(this_thread.scopes, 0)) {}

Pause::~Pause() {
  this_thread.scopes = depth_;
}

}  // namespace braze::interpreter
