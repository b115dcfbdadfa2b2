// python/compile/frame_driver.cpp
#include "python/compile/frame_driver.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "python/compile/announce.h"
#include "python/compile/capture.h"
#include "python/compile/events.h"
#include "python/compile/torch_world.h"
#include "python/errors.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"

namespace braze::python {

namespace {

using interpreter::FrameRun;
using interpreter::Step;

constexpr int most_refusals = 4;           // Captures in a row that come to nothing, at one place.
constexpr int most_fruitless = 48;         // Captures that come to nothing, in one code object.
constexpr int most_runs_without_gain = 4;  // Runs of a code object in which nothing was replayed.
constexpr int deepest_container = 3;
constexpr Py_ssize_t most_items = 16;  // Of a container that are looked at.
constexpr int deepest_calls = 2000;    // Each takes some of the C stack.

bool is_module(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("_parameters");  // Kept for good.
  PyObject* dict = PyType_Check(object) ? nullptr : guards::instance_dict(object);
  return dict && PyDict_CheckExact(dict) && PyDict_GetItemWithError(dict, name);
}

/// Tensors, modules, and builtin containers of them.
bool has_tensors(PyObject* value, int depth = 0) {
  if (!value || depth > deepest_container) return false;
  if (guards::is_tensor(value) || is_module(value)) return true;
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    const Py_ssize_t count = std::min(PySequence_Fast_GET_SIZE(value), most_items);
    for (Py_ssize_t i = 0; i < count; ++i)
      if (has_tensors(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
    return false;
  }
  if (!PyDict_CheckExact(value)) return false;
  Py_ssize_t at = 0, seen = 0;
  PyObject *key, *item;
  while (seen++ < most_items && PyDict_Next(value, &at, &key, &item))
    if (has_tensors(item, depth + 1)) return true;
  return false;
}

bool is_given_tensors(interpreter::Frame* frame) {
  for (int i = 0; i < frame->f_code->co_nlocalsplus; ++i)
    if (has_tensors(frame->localsplus[i])) return true;
  return false;
}

bool fits_frame(const Specialisation& one, const FrameRun& run) {
  if (one.globals != run.frame()->f_globals || one.builtins != run.frame()->f_builtins) return false;
  PyObject* const* stack = const_cast<FrameRun&>(run).activation().stack_base();
  if (static_cast<size_t>(run.depth()) != one.empty_stack_slots.size()) return false;
  for (size_t k = 0; k < one.empty_stack_slots.size(); ++k)
    if (one.empty_stack_slots[k] != !stack[k]) return false;
  return true;
}

size_t count_programs(const CodeState& code) {
  size_t count = 0;
  for (const auto& [offset, start] : code.starts) count += start.specialisations.size();
  return count;
}

}  // namespace

PyObject* FrameDriver::drive(PyThreadState* thread, interpreter::Frame* frame) {
  const bool is_outermost = !std::exchange(has_begun_, true);
  if (is_capturing_ || depth_ >= deepest_calls) return _PyEval_EvalFrameDefault(thread, frame, 0);
  const std::shared_ptr<CodeState> held = table_.state(frame->f_code);
  CodeState& code = *held;
  if (code.is_skipped || (!is_outermost && code.starts.empty() && !is_given_tensors(frame)))
    return _PyEval_EvalFrameDefault(thread, frame, 0);
  FrameRun run(thread, frame);
  if (!run.entered()) return run.finish(Step::error);
  ++depth_;
  bool has_gained = false;
  Step step = Step::next;
  guards::Ref result;
  while (step == Step::next) {
    try {
      const Advance advanced = advance(code, run, result);
      has_gained |= advanced != Advance::no;
      if (advanced == Advance::returned) break;
    } catch (...) {
      set_python_error();
      --depth_;
      return run.finish_with(nullptr);
    }
    step = run.run(code.breakpoints);
  }
  --depth_;
  code.runs_without_gain = has_gained ? 0 : code.runs_without_gain + 1;
  code.is_skipped = code.runs_without_gain >= most_runs_without_gain;
  if (step == Step::next) return run.finish_with(result.release());
  return run.finish(step);
}

FrameDriver::Advance FrameDriver::advance(CodeState& code, FrameRun& run, guards::Ref& result) {
  const int offset = run.offset();
  Start& start = code.starts[offset];
  if (start.is_idle) return Advance::no;
  std::vector<PyObject*> values;
  std::shared_ptr<Specialisation> one = find(start, run, values);
  const bool is_new = !one;
  if (is_new) {
    one = capture(code, offset, run);
    if (!one) return Advance::no;
    start.specialisations.insert(start.specialisations.begin(), one);
    if (!find(start, run, values)) return Advance::no;
  }
  std::vector<guards::Ref> results(one->outcome.recipe.result_count());
  if (!one->replay(values.data(), results.data())) return Advance::no;
  ++(is_new ? counts_.captured : counts_.replayed);
  if (one->outcome.returns) {
    run.stand_at(one->outcome.offset);
    result = std::move(results[0]);
    return Advance::returned;
  }
  move(run, one->outcome, results);
  return Advance::moved;
}

/// The specialisation that holds, which comes first from now on; `values` become those of its guards.
std::shared_ptr<Specialisation> FrameDriver::find(Start& start, FrameRun& run, std::vector<PyObject*>& values) {
  std::vector<PyObject*> slots;  // Read when the first specialisation fits.
  for (size_t i = 0; i < start.specialisations.size(); ++i) {
    const Specialisation& one = *start.specialisations[i];
    if (!fits_frame(one, run)) continue;
    if (slots.empty()) slots = frame_values(run);
    const guards::Call call{slots.data(), slots.size(), nullptr};
    values.resize(one.guards.wanted());
    const int32_t failed = one.guards.check(call, values.data());
    if (failed == guards::GuardProgram::ok) {
      const auto first = start.specialisations.begin();
      std::rotate(first, first + i, first + i + 1);
      return start.specialisations.front();
    }
    if (is_enabled(Event::recompiles) && i + 1 == start.specialisations.size())
      emit(Event::recompiles,
           concat(one.begins.file, ":", one.begins.line, ": ", one.name, ": ", one.guards.explain(failed, call)));
  }
  return nullptr;
}

std::shared_ptr<Specialisation> FrameDriver::capture(CodeState& code, int offset, FrameRun& run) {
  {
    const Start& start = code.starts[offset];
    const bool is_full = start.specialisations.size() >= settings_.recompile_limit ||
                         count_programs(code) >= settings_.cache_size_limit;
    const bool is_fruitless = code.fruitless >= most_fruitless;
    if (!may_capture_ || is_full || is_fruitless || start.refused[at::GradMode::is_enabled()] >= most_refusals)
      return nullptr;
  }
  is_capturing_ = true;
  Captured captured;
  try {
    captured = capture_frame(run, code, settings_);
  } catch (...) {
    is_capturing_ = false;
    throw;
  }
  is_capturing_ = false;
  for (const int breakpoint : captured.breakpoints) code.breakpoints[breakpoint] = true;
  Start& start = code.starts[offset];
  start.is_idle = captured.kind == Captured::Kind::idle;
  int& refused = start.refused[at::GradMode::is_enabled()];
  refused = captured.made ? 0 : refused + 1;
  code.fruitless += !captured.made;
  if (captured.kind != Captured::Kind::whole && is_enabled(Event::graph_breaks))
    emit(Event::graph_breaks, captured.place.text());
  if (captured.made) announce(*captured.made);
  return std::move(captured.made);
}

void FrameDriver::move(FrameRun& run, const Outcome& outcome, std::vector<guards::Ref>& results) {
  FrameRun::State state = run.save();
  state.offset = outcome.offset;
  std::vector<interpreter::Ref> slots;
  for (size_t k = 0; k < outcome.slots.size(); ++k) {
    const Outcome::Slot& slot = outcome.slots[k];
    switch (slot.kind) {
      case Outcome::Slot::Kind::kept: slots.push_back(std::move(state.slots[k])); break;
      case Outcome::Slot::Kind::empty: slots.emplace_back(); break;
      case Outcome::Slot::Kind::made: slots.push_back(interpreter::Ref::borrow(results[slot.result].get())); break;
    }
  }
  state.slots = std::move(slots);
  run.restore(std::move(state));
}

}  // namespace braze::python
