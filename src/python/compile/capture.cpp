// python/compile/capture.cpp: a call, from its arguments to its result.
#include "python/compile/capture.h"

#include <torch/csrc/autograd/python_variable.h>

#include "python/compile/captured_run.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/sizes.h"
#include "support/error.h"

namespace braze::python {

using interpreter::Break;
using interpreter::BreakReason;

namespace {

/// Whether a call of it begins with Python code, which the watcher sees. C code would read a number that varies
/// unnoticed, and so would operators of torch.ops, whose Python code is not watched.
bool begins_in_python(PyObject* callable) {
  callable = interpreter::behind_partials(callable);
  const std::string_view type = Py_TYPE(callable)->tp_name;
  if (type == "OpOverload" || type == "OpOverloadPacket") return false;
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable)) return true;
  PyObject* call = _PyType_Lookup(Py_TYPE(callable), interpreter::interned("__call__"));
  return call && PyFunction_Check(call);
}

class CallCapture : CapturedRun {
 public:
  using CapturedRun::with_symbols;
  CallCapture(const py::object& function, const Arguments& arguments, const Settings& settings,
              TorchWorld::Others others, SizeHistory& history)
      : CapturedRun(py::str(py::getattr(function, "__name__", py::str("compiled"))).cast<std::string>(), settings,
                    others, history),
        function_(function),
        arguments_(arguments) {}

  Captured run() {
    values_asked_.arrive(AskedValues::whole_call, decisions());
    learn_call();
    Outcome outcome;
    record([&] {
      const py::object result = interpret();
      values_asked_.arrive(AskedValues::whole_call, decisions());
      want_arguments();
      Rebuilder rebuilder(builder_, watcher_.values(), guards_);
      const guards::RecipeNode node = rebuilder.node(result.ptr());
      take_effects(rebuilder, arguments_.call());
      hold_outputs(rebuilder, outcome);
      outcome.recipe = std::move(builder_).finish({&node, 1});
      outcome.modes = modes_change();
    });
    if (loses_gradients())
      return {.kind = Captured::Kind::gradients,
              .place = wants_gradients().place,
              .wanting = finish_guards(),
              .op_count = op_count_};
    Captured captured{.kind = Captured::Kind::whole, .made = compile(std::move(outcome))};
    captured.is_outdated = is_outdated();
    captured.made->asked = std::move(values_asked_).take();
    return captured;
  }

 private:
  void learn_call() {
    const guards::Call call = arguments_.call();
    if (world_.sizes().may_vary(arguments_.all())) tracer_.prepare_symbols();
    const bool is_watched = begins_in_python(function_.ptr());
    given_.assign(call.arguments, call.arguments + call.size());
    guards_.call_shape(call);
    interpreter::Values& values = watcher_.values();
    guards::SourceTable& sources = values.sources();
    values.learn(function_.ptr(), sources.object(function_.ptr(), "f"));
    for (uint32_t i = 0; i < call.size(); ++i) {
      const std::string name = argument_name(i);
      PyObject* varied = is_watched ? values.numbers().vary(call.arguments[i], sources.argument(i, name)) : nullptr;
      if (varied) {
        given_[i] = varied;
        continue;
      }
      if (!values.learn(call.arguments[i], sources.argument(i, name)))
        throw GivenUp{Captured::Kind::refused,
                      {interpreter::dispatches_by_python(world_, call.arguments[i]) ? Break::class_dispatches
                                                                                    : Break::argument_unguarded,
                       name}};
      if (is_watched || !interpreter::is_builtin_container(call.arguments[i])) continue;
      interpreter::absorb(values, call.arguments[i]);
      values.numbers().settle_sizes_within(call.arguments[i]);
    }
    world_.seal();
  }

  std::string argument_name(uint32_t i) const {
    const guards::Call call = arguments_.call();
    if (i >= call.positional) return text_of(PyTuple_GET_ITEM(call.keywords, i - call.positional));
    PyObject* function = function_.ptr();
    if (!PyFunction_Check(function)) return concat("args[", i, "]");
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    if (static_cast<int>(i) >= code->co_argcount) return concat("args[", i, "]");
    return text_of(PyTuple_GET_ITEM(code->co_localsplusnames, i));
  }

  py::object interpret() {
    const guards::Call call = arguments_.call();
    PyObject* result = nullptr;
    if (watcher_.begin(function_.ptr(), given_.data(), static_cast<Py_ssize_t>(call.size()))) {
      const interpreter::Scope scope(&watcher_);
      result = PyObject_Vectorcall(function_.ptr(), given_.data(),
                                   arguments_.flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, arguments_.names);
    }
    py::object owned = py::reinterpret_steal<py::object>(result);
    if (watcher_.abandoned()) {
      PyErr_Clear();
      if (tracer_.wants_gradients()) throw wants_gradients();
      throw GivenUp{watcher_.is_for_later() ? Captured::Kind::later : Captured::Kind::broken, watcher_.place()};
    }
    if (!result) {
      const py::error_already_set error;  // Takes the exception; raised again by the native run.
      throw GivenUp{Captured::Kind::broken,
                    {Break::raises, py::str(error.type().attr("__name__")).cast<std::string>()}};
    }
    return owned;
  }

  const py::object& function_;
  const Arguments& arguments_;
  std::vector<PyObject*> given_;  ///< The arguments; numbers that vary as what stands for them.
};

}  // namespace

Captured capture_call(const py::object& function, const Arguments& arguments, const Settings& settings,
                      bool is_first, size_t dropped, SizeHistory& history) {
  using Others = TorchWorld::Others;
  const bool is_bound = is_first && dropped == 0;
  const Others others = dropped >= few_dropped ? Others::all : is_bound ? Others::none : Others::attributes;
  const auto record = [&] {
    return attempt(settings, [&] {
      CallCapture capture(function, arguments, settings, others, history);
      return capture.with_symbols([&] { return capture.run(); });
    });
  };
  Captured captured = record();
  if (!captured.made && history.meets_draws()) captured = record();
  if (captured.is_outdated) {
    Captured again = record();
    if (again.made) return again;
    if (!captured.made) captured = std::move(again);
  }
  // Numbers go where symbols do not.
  while (!captured.made && captured.kind != Captured::Kind::gradients && history.gives_up()) {
    const Place before = captured.place;
    captured = record();
    if (!captured.made && is_one_place(captured.place, before))
      history.take_up_again();
    else
      tell_numbers(before);
  }
  return captured;
}

}  // namespace braze::python
