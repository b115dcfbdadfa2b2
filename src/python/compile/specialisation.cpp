// python/compile/specialisation.cpp
#include "python/compile/specialisation.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/ScalarOps.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "python/compile/events.h"
#include "python/compile/operators.h"
#include "python/compile/size_history.h"
#include "python/errors.h"
#include "python/guards/function_modes.h"
#include "python/guards/random_state.h"
#include "python/interpreter/evaluate.h"
#include "python/operator_warnings.h"
#include "support/error.h"

namespace braze::python {

namespace {

/// A run that ends in an error is repeated natively, and draws the same numbers then. Python's generators are moved
/// on before it begins, while nobody else may draw.
class GeneratorStates {
 public:
  GeneratorStates(const std::vector<at::Generator>& generators, const std::vector<Specialisation::Drawn>& drawn,
                  PyObject* const* values)
      : generators_(generators) {
    for (at::Generator generator : generators_) {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      states_.push_back(generator.get_state());
    }
    for (const Specialisation::Drawn& one : drawn) {
      guards::Ref generator = guards::Ref::borrow(values[one.place]);
      pythons_.emplace_back(generator, guards::RandomState(generator.get()));
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(one.draws.get()); ++k)
        guards::draw(generator.get(), PyTuple_GET_ITEM(one.draws.get(), k));
    }
  }
  void put_back() {
    for (size_t k = 0; k < states_.size(); ++k) {
      at::Generator generator = generators_[k];
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(states_[k]);
    }
    for (const auto& [generator, state] : pythons_) state.put_back(generator.get());
  }

 private:
  const std::vector<at::Generator>& generators_;
  c10::SmallVector<at::Tensor, 2> states_;
  std::vector<std::pair<guards::Ref, guards::RandomState>> pythons_;  ///< Which the guards have looked at.
};

/// The run has called the handlers of modes that were entered before it, and the program is what came of these.
/// What Python code there is among its operators runs without the modes, as it does within their handlers.
class FunctionModesPause {
 public:
  FunctionModesPause() {
    if (Functions::stack_len() == 0 || guards::default_device()) return;
    before_ = Functions::get_state();
    while (Functions::stack_len() > 0) Functions::pop_stack();
  }
  ~FunctionModesPause() {
    if (before_) Functions::set_state(*before_);
  }
  FunctionModesPause(const FunctionModesPause&) = delete;
  FunctionModesPause& operator=(const FunctionModesPause&) = delete;

 private:
  using Functions = at::impl::PythonTorchFunctionTLS;
  std::optional<Functions> before_;
};

}  // namespace

int32_t Specialisation::check(const guards::Call& call, PyObject** values) {
  constexpr int64_t last_measured = 32;
  if (replays > last_measured || !std::has_single_bit(static_cast<uint64_t>(replays)))
    return guards.check(call, values);
  const auto start = std::chrono::steady_clock::now();
  const int32_t failed = guards.check(call, values);
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
  if (failed == guards::GuardProgram::ok && (guard_nanoseconds == 0 || took.count() < guard_nanoseconds))
    guard_nanoseconds = std::max<int64_t>(1, took.count());
  return failed;
}

std::string Specialisation::explain_miss(const guards::Call& call) const {
  std::vector<PyObject*> values(guards.wanted());
  const int32_t failed = guards.check(call, values.data());
  return failed == guards::GuardProgram::ok ? "an argument's data or gradient" : guards.explain(failed, call);
}

bool Specialisation::take_arguments(PyObject* const* values, const guards::CallNumbers& given,
                                    Arguments* arguments) const {
  size_t next_tensor = 0;
  const auto tensors_until = [&](size_t place) {
    while (arguments->size() < place) arguments->push_back(THPVariable_Unpack(values[next_tensor++]));
  };
  for (const FloatArgument& one : float_arguments) {
    tensors_until(one.place);
    const guards::Ref number = one.derived->evaluate(given);
    if (!number || !PyFloat_CheckExact(number.get()) || !may_be_input(PyFloat_AS_DOUBLE(number.get())))
      return false;
    arguments->push_back(c10::scalar_to_tensor(PyFloat_AS_DOUBLE(number.get())));
  }
  tensors_until(tensor_count + float_arguments.size());
  return true;
}

Specialisation::Replay Specialisation::replay(PyObject* const* values, guards::Ref* results) {
  guards::ReadNumbers read;
  if (!numbers.empty() && !read.read(numbers, values)) return Replay::refused;
  const guards::CallNumbers given = read.all();
  Arguments held_tensors;
  c10::SmallVector<const at::Tensor*, 8> arguments;
  if (!take_arguments(values, given, &held_tensors)) return Replay::refused;
  for (const at::Tensor& tensor : held_tensors) arguments.push_back(&tensor);
  std::shared_ptr<const SegmentProgram> sized;
  if (!given.symbols.empty()) {
    const interpreter::Pause undriven;
    try {
      sized = program->at(given.symbols, arguments.data());
    } catch (const std::exception& error) {  // Another capture, or eager, may do it.
      if (is_enabled(Event::recompiles))
        emit(Event::recompiles, concat("no program for these sizes: ", error.what()));
      return Replay::refused;
    }
  }
  c10::SmallVector<guards::Ref, 2> computed;
  for (const auto& derived : outcome.derived) {
    computed.push_back(derived->evaluate(given));
    if (!computed.back()) return Replay::refused;
  }
  const SegmentProgram& running = sized ? *sized : *program;
  if (!running.accepts(arguments.data())) return Replay::refused;
  // The program may let go of the GIL, and then anything may be dropped.
  c10::SmallVector<guards::Ref, 16> held_values;
  for (size_t k = tensor_count; k < guards.wanted(); ++k) held_values.push_back(guards::Ref::borrow(values[k]));
  c10::SmallVector<at::Tensor, 4> tensors(running.result_count());
  GeneratorStates states(generators, drawn, values);
  const FunctionModesPause without_modes;
  try {
    // What a user's compiler has made is no part of the program, nor are operators written in Python.
    const interpreter::Pause undriven;
    const NativeOperators::Pause uncounted;
    with_operator_warnings([&] { running.run(arguments.data(), tensors.data(), outcome.recipe.replaces_lists()); });
  } catch (const runtime::LateError&) {
    throw;  // Of an earlier call, maybe: eager does not repeat it.
  } catch (const UserError& error) {
    states.put_back();
    // Something out of range, say: eager says so in its own words.
    const bool is_of_arguments = error.kind == UserError::Kind::value || error.kind == UserError::Kind::type;
    return is_of_arguments ? Replay::refused : Replay::raised;
  } catch (const python_error&) {
    // A filter has made an exception of an operator's warning, which the function may handle. Where something was
    // written it goes to the caller, as twice is worse.
    if (writes || !PyErr_ExceptionMatches(PyExc_Warning)) throw;
    PyErr_Clear();
    states.put_back();
    return Replay::raised;
  } catch (const InternalError&) {
    throw;
  } catch (const py::builtin_exception&) {  // That the callable of a user's compiler has returned what it must not.
    throw;
  } catch (const py::error_already_set&) {  // Of what a user's compiler has made.
    throw;
  } catch (const std::exception&) {
    // An operator refuses its arguments, by c10::Error or, where a number does not fit, std::runtime_error; or
    // there is no memory. No input was written: natively, what came before it happens, then the error.
    states.put_back();
    return Replay::raised;
  }
  c10::SmallVector<guards::Ref, 4> owned;
  c10::SmallVector<PyObject*, 4> outputs;
  c10::SmallVector<int64_t, 8> sizes(outcome.sizes.result_count());
  if (!outcome.sizes.run(given.symbols, {sizes.data(), sizes.size()})) return Replay::refused;
  const auto make = [&](Outcome::Output output) {
    using Kind = Outcome::Output::Kind;
    switch (output.kind) {
      case Kind::tensor: return guards::Ref::steal(THPVariable_Wrap(tensors[output.number]));
      case Kind::size: return guards::Ref::steal(PyLong_FromLongLong(sizes[output.number]));
      case Kind::derived: break;
    }
    return computed[output.number];
  };
  for (const Outcome::Output output : outcome.outputs) {
    owned.push_back(make(output));
    if (!owned.back()) throw_python_error();
    outputs.push_back(owned.back().get());
  }
  if (outcome.modes) outcome.modes->repeat();
  if (!outcome.recipe.run({values, guards.wanted()}, {outputs.data(), outputs.size()}, results))
    throw_python_error();
  ++replays;
  return Replay::done;
}

int Specialisation::visit(visitproc visit, void* arg) const {
  if (const int stop = guards.visit(visit, arg)) return stop;
  if (const int stop = outcome.recipe.visit(visit, arg)) return stop;
  for (const guards::Ref& object : held) Py_VISIT(object.get());
  for (const Drawn& one : drawn) Py_VISIT(one.draws.get());
  return 0;
}

}  // namespace braze::python
