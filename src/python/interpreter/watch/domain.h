// python/interpreter/watch/domain.h: what the classes that understand one domain of Python each have in common.
#pragma once

#include "python/interpreter/watch/watched_run.h"

namespace braze::interpreter {

struct Watch;

/// A domain answers, before an instruction runs, whether it understands all that the instruction reads and changes
/// there, with the guards and effects that follow; false if the run is abandoned. It asks others through `watch_`.
class Domain {
 public:
  Domain(Watch& watch, WatchedRun& run) : watch_(watch), run_(run), values_(run.values) {}
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

 protected:
  ~Domain() = default;

  bool abandon(BreakReason why, PyObject* subject = nullptr) { return run_.abandon(why, subject); }
  bool abandoned() const { return run_.abandoned; }
  bool allow(Entry entry) { return run_.allow(entry); }
  bool allow_made_result(Entry entry = Entry::none) { return run_.allow_made_result(entry); }
  bool looks() { return run_.looks(); }
  bool operand(PyObject* value, BreakReason why) { return run_.operand(value, why); }
  bool operands(std::initializer_list<PyObject*> values, BreakReason why) { return run_.operands(values, why); }
  bool absorb_all(PyObject* const* arguments, Py_ssize_t count, PyObject* callable) {
    return run_.absorb_all(arguments, count, callable);
  }
  bool lets_go(PyObject* value, const guards::Source* source, bool contents = false) {
    return run_.lets_go(value, source, contents);
  }
  bool lets_go_of_entry(PyObject* dict, PyObject* key) { return run_.lets_go_of_entry(dict, key); }
  Activity& activity() const { return run_.activity(); }

  Watch& watch_;
  WatchedRun& run_;
  Values& values_;
};

}  // namespace braze::interpreter
