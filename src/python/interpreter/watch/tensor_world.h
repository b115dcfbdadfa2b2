// python/interpreter/watch/tensor_world.h: what the watcher must know of tensors, without torch's headers.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "ir/shape_env.h"
#include "python/guards/derived.h"
#include "python/guards/source.h"
#include "python/interpreter/ref.h"
#include "python/interpreter/watch/break_reasons.h"

namespace braze::interpreter {

/// A number that is computed of sizes and floats that vary, or such a float (derived_numbers.h).
using DerivedNumber = std::shared_ptr<const guards::Derived>;

/// What the user says of a function, and the run takes on trust.
enum class Promise : uint8_t {
  none,
  in_graph,  ///< It depends on nothing but its arguments, and changes nothing.
  constant,  ///< It gives the same object for these arguments for ever.
  disabled,  ///< It is never to be captured.
};

/// Sizes, and numbers, that may be other ones at later calls (sizes.h).
class SizeWorld {
 public:
  virtual ~SizeWorld() = default;
  /// The run may meet such.
  virtual bool has_sizes() const = 0;
  /// There were such in the run before, which came to nothing by them: they are numbers now, and are not to become
  /// more than that.
  virtual bool stay_numbers() const = 0;
  /// What stands for a tensor whose sizes are such, borrowed; null for all others.
  virtual PyObject* tracer_of(PyObject* tensor) const = 0;
  /// Of its first dimension, if such a tracer stands for the tensor.
  virtual std::optional<ir::Size> length_of(PyObject* tensor) const = 0;
  /// The tensor that such a tracer stands for, borrowed; null for all else.
  virtual PyObject* behind_tracer(PyObject* tracer) const = 0;
  /// All sizes and strides of such a tensor, or of a tensor of the run, are those of this call.
  virtual void settle(PyObject* tensor) = 0;
  /// A size as operators of tensors are given it.
  virtual Ref to_symbolic(ir::Size size) const = 0;
  /// A size as arithmetic with a tensor is given it: a tensor without dimensions, of a number's precedence. Null
  /// where the number itself must be there.
  virtual Ref to_number(ir::Size size, PyObject* beside) const = 0;
  /// Whether each size is a number of the tensor's type: eager raises where one is stored that is not.
  virtual bool holds_sizes(PyObject* tensor) const = 0;
  /// A tensor of the trace that has the place of a Python float.
  virtual bool is_number(PyObject* tensor) const = 0;
  /// What to_symbolic() gives, or operators do; nothing for anything else.
  virtual std::optional<ir::Size> from_symbolic(PyObject* object) const = 0;
  /// In this call.
  virtual int64_t value_of(ir::Size size) const = 0;
  /// The answer for this call, which a guard keeps.
  virtual bool decide(const ir::SizeTest& test) = 0;
  /// A symbol for a number read from `source`, if it was another one at an earlier call, or is drawn.
  virtual std::optional<ir::Size> vary_number(PyObject* number, const guards::Source* source) = 0;
  /// Another object lay where this one lies at an earlier capture: what each call replaces is no object to be bound
  /// to.
  virtual bool is_replaced(PyObject*, const guards::Source*) { return false; }
  /// Element `index` of a dimension of a tensor, as a view. Null: there is none.
  virtual Ref select(PyObject* tensor, int64_t dim, ir::Size index) = 0;

  /// A float read from `source`, if it was another one at an earlier call, or is drawn. Null: it was not, or too
  /// much is decided by what was drawn.
  virtual DerivedNumber vary_float(PyObject* number, const guards::Source* source) = 0;

  // ---- numbers that are computed of such (derived_numbers.h)
  /// A symbol for such an int, `value` in this call. Nothing where it is too large.
  virtual std::optional<ir::Size> derive(const DerivedNumber& derived, PyObject* value) = 0;
  /// Such a float as to_number() gives a size.
  virtual Ref to_number(const DerivedNumber& derived, PyObject* value, PyObject* beside) = 0;
  /// In this call; null where it raises or is no number.
  virtual Ref value_of(const guards::Derived& derived) const = 0;
  /// A guard keeps it this value.
  virtual void decide(const DerivedNumber& derived, PyObject* value) = 0;
};

/// `rows[index]`, which asks a tensor without dimensions for its number.
class RowWorld {
 public:
  virtual ~RowWorld() = default;
  /// A tensor whose first row is that very one, without a look at the number; null where the two may not be told
  /// apart later on, or the index is no such tensor.
  virtual Ref first_row_at(PyObject* rows, PyObject* index) = 0;
  /// Likewise for `rows[index] = row`: an index of one element.
  virtual Ref index_of_one(PyObject* index) = 0;
};

class WrapperWorld;

/// Modes of torch functions; the default device is one.
class ModeWorld {
 public:
  virtual ~ModeWorld() = default;
  /// Factories are to take another device than the CPU where a call names none.
  virtual bool has_default_device() const = 0;
  /// Before a call: true if it is one of those, and takes that device until leave_default_device().
  virtual bool enter_default_device(PyObject* function) = 0;
  virtual void leave_default_device() = 0;
  /// It asks whether a mode handles a call.
  virtual bool asks_for_torch_function(PyObject* function) const = 0;
  /// What a C function does with the stack of modes.
  enum class Use : uint8_t { nothing, counts, gives, pushes };
  virtual Use use_of_stack(PyObject* function) const = 0;
  /// One that was on the stack when the run began, and where: none of those that the run has entered.
  struct OlderMode {
    PyObject* mode = nullptr;
    uint32_t place = 0;
  };
  /// Whose handler PyTorch calls now.
  virtual OlderMode handling() const = 0;
  /// What a function would give now that `gives` one.
  virtual OlderMode given_by(PyObject* const* arguments, Py_ssize_t count) const = 0;
  /// A mode is entered, or a class of tensors has a handler of its own, so that operators are calls of these.
  virtual bool are_calls_handled() const = 0;
};

/// Operators that PyTorch has as objects.
class OperatorWorld {
 public:
  virtual ~OperatorWorld() = default;

  /// An operator of torch.ops, or an overload of one, that computes on its arguments alone. Python functions that
  /// are part of it may run.
  virtual bool is_operator(PyObject* object) const = 0;
  /// What is called in the place of an operator of torch.ops, such as the overload that the call means; the
  /// arguments by name are the last ones. Null: nothing.
  virtual Ref called_instead(PyObject* /*object*/, PyObject* const* /*arguments*/, Py_ssize_t /*count*/,
                             PyObject* /*names*/) const {
    return {};
  }
  /// A gradient that Python code computes: of an operator, or of a torch.autograd.Function, given its class. Or one
  /// that a function of TorchScript computes by itself.
  struct PythonGradient {
    bool is_there = false;
    PyObject* form = nullptr;  ///< What a run calls in its place, with it as the first argument. Null: it cannot.
  };
  virtual PythonGradient python_gradient_of(PyObject*) const { return {}; }
  /// A function of TorchScript that computes on its arguments alone, by operators.
  virtual bool is_plain_script(PyObject*) const { return false; }
  /// torch.ops, its namespaces and packets make what they are asked for when they are first asked: has that done.
  virtual void make_attribute(PyObject* object, PyObject* name) const = 0;
};

/// Tensors themselves, and torch's functions of them.
class TensorWorld : public OperatorWorld {
 public:
  virtual ~TensorWorld() = default;
  virtual bool is_tensor(PyObject* object) const = 0;
  /// A tensor that existed before the call: adds its guards. False: it cannot be traced.
  virtual bool learn(PyObject* tensor, const guards::Source* source) = 0;
  /// dtype, device, layout, memory format: immutable, known by identity or value.
  virtual bool is_plain(PyObject* object) const = 0;
  /// A C function of torch that only computes on its arguments, or depends on nothing but torch's guarded modes.
  virtual bool may_call(PyObject* function) const = 0;
  /// A method of torch.Tensor written in C, likewise.
  virtual bool may_call_method(PyObject* name) const = 0;
  /// An attribute of torch.Tensor that the tensor guards pin down, or that dispatches.
  virtual bool may_read(PyObject* name) const = 0;
  /// A tensor that the run computed.
  virtual bool is_computed(PyObject* tensor) const = 0;
  /// The dict and the key of the flag that tells code whether it is being compiled: read as true here.
  virtual std::pair<PyObject*, PyObject*> compiling_flag() const = 0;
  /// The flag was read.
  virtual void compiling_flag_was_read() {}
  /// `isinstance(tensor, torch.FloatTensor)` and the like are true: of a class, or of one in a tuple.
  virtual bool is_of_legacy_type(PyObject* object, PyObject* classes) const = 0;
  /// The class torch.Tensor.
  virtual PyObject* tensor_type() const = 0;
  /// A class of tensors of which operators think nothing: adds guards that it goes on so. False: it is none.
  virtual bool keep_tensor_class(PyTypeObject*) { return false; }
  /// torch.Tensor._make_subclass.
  virtual bool gives_other_class(PyObject*) const { return false; }
  /// Nothing that the run may see of a tensor without gradients depends on how it came to be.
  virtual bool may_read_without_grad(PyObject* tensor, PyObject* name) const = 0;
  /// Why a method of tensors, or an attribute of one, is refused, in other words than "it is not understood".
  virtual std::optional<Break> why_not(PyObject* name) const = 0;
  /// Counts writes into the memory of tensors, those of the run among them.
  virtual uint64_t writes() const { return 0; }
  /// A tensor that existed before may have been written: really, by the program, at its end.
  virtual bool has_written_older() const { return false; }
  /// After an error under which a run ends: why, in other words than "it raised".
  virtual std::optional<Break> why_raised() const = 0;
  /// A method that changes nothing but what a tensor of this run says of itself, or nothing at all.
  virtual bool changes_only_itself(PyObject* tensor, PyObject* name, PyObject* const* arguments,
                                   Py_ssize_t count) const = 0;
  /// Before an attribute of a tensor is read that would show the run its real memory: what it is to see instead
  /// (borrowed). Null for all other attributes.
  virtual PyObject* answer_attribute(PyObject* tensor, PyObject* name) = 0;
  /// Before `tensor.data = value`.
  struct StoredData {
    Ref tensor, value;       ///< What the run does it with. Null: it cannot.
    bool is_effect = false;  ///< The tensor existed before: a replay gives it the value.
  };
  virtual StoredData store_data(PyObject*, PyObject*) { return {}; }
  /// Before a call of a function that reads or sets a flag of torch's which is not, while a run is traced, what the
  /// run is to see: what the call gives it (borrowed). Null for all other functions.
  virtual PyObject* answer(PyObject* function, PyObject* const* arguments, Py_ssize_t count) = 0;
  /// After such a call.
  virtual void answered() = 0;
  /// Autograd notes what is computed of these.
  virtual bool wants_history(PyObject* const* arguments, Py_ssize_t count) const = 0;
  /// The backward of a function is being run that may be differentiated, so that functions in it want one as well.
  virtual bool is_within_gradient() const { return false; }
  /// The gradient of a leaf that existed before (borrowed). Null: it has none.
  virtual PyObject* gradient_of(PyObject* tensor) = 0;
  /// What a compiled function runs, which is part of the capture when it is called there; null for all else.
  virtual PyObject* compiled_from(PyObject* object) const = 0;
  virtual Promise promise_about(PyObject* function) const = 0;
  /// Of a torch.device, which names no number of one.
  virtual bool is_cpu(PyObject*) const { return false; }
  /// What a run calls in the place of a function of PyTorch's; null for all others.
  virtual PyObject* stand_in_for(PyObject* function) const = 0;
  /// C functions of braze's own, for such code.
  enum class Own : uint8_t {
    none,
    ends_graph,      ///< For a reason that it passes as its argument.
    counts_effects,  ///< Asks how many effects the run has had so far.
    shares_array,    ///< Asks for the tensor over an array that existed before; None for one of the run's own.
  };
  virtual Own own_function(PyObject* function) const = 0;
  /// The one element of a tensor where an operator is to be given a number; null: it is none of the trace.
  virtual Ref number_of(PyObject*) { return {}; }
  virtual RowWorld* rows() { return nullptr; }
  /// Code of PyTorch's, or of the standard library: no line of the user's.
  virtual bool is_library(PyCodeObject*) const { return false; }
  /// Has the program check that the truth of a tensor of one element is this. False: it cannot.
  virtual bool expect(PyObject*, bool) { return false; }
  /// Null: there are none.
  virtual WrapperWorld* wrappers() const { return nullptr; }
  virtual ModeWorld& modes() = 0;
  virtual SizeWorld& sizes() = 0;
};

}  // namespace braze::interpreter
