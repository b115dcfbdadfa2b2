// python/compile/specialisation.h: a segment of Python that was captured, ready to be replayed.
//
// It is a whole call, or a part of a frame's run: from one instruction to another. Guards say when it holds; a
// program computes its tensors; a recipe makes what it returned, or what the frame holds where it ended.
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/compile/asked_values.h"
#include "python/compile/backend.h"
#include "python/compile/modes.h"
#include "python/guards/guard.h"
#include "python/guards/recipe.h"
#include "python/guards/shape_guard.h"
#include "python/interpreter/frame_run.h"
#include "python/interpreter/watch/place.h"

namespace braze::python {

using interpreter::Place;

/// What a segment leaves behind.
struct Outcome {
  /// What a slot of the frame holds afterwards: locals, cells and free variables, then the operand stack.
  struct Slot {
    enum class Kind : uint8_t {
      kept,   ///< As at the beginning; locals, cells and free variables only.
      empty,  ///< Nothing, or a variable that nobody reads any more.
      made,   ///< Result `result` of the recipe.
    } kind = Kind::empty;
    uint32_t result = 0;
  };

  guards::Recipe recipe;
  /// What an output of the recipe is: by its number among the tensors of the program, or in `sizes` or `derived`.
  struct Output {
    enum class Kind : uint8_t { tensor, size, derived } kind;
    uint32_t number;
  };
  std::vector<Output> outputs;
  ir::SizeCode sizes;
  std::vector<std::shared_ptr<const guards::Derived>> derived;
  bool returns = true;               ///< The frame or call ends; result 0 of the recipe is what it returns.
  int offset = -1;                   ///< Else: of the next instruction, in code units.
  std::vector<Slot> slots;           ///< Likewise.
  std::optional<ModesChange> modes;  ///< Where the segment leaves other modes than it found.
};

class Specialisation {
 public:
  guards::GuardProgram guards;
  std::shared_ptr<const SegmentProgram> program;
  size_t tensor_count;  ///< The first values that the guards give are the program's arguments that are tensors.
  Outcome outcome;
  std::optional<Place> break_reason;  ///< Why it ends where it does, if it does not return.
  std::string name;                   ///< Of the function.
  Place begins;                       ///< Where in the source.
  size_t op_count = 0;
  std::vector<bool> empty_stack_slots = {};  ///< Segments of frames: what the operand stack's slots must be.
  /// Likewise: a variable that was not set, and that the segment puts something into.
  struct Unset {
    int slot;
    bool is_moved;  ///< It must not be set. Else what it holds must go unnoticed, before the segment ends.
  };
  std::vector<Unset> unset_variables = {};
  size_t dropped = 0;                                ///< References to one object that the segment may let go of.
  PyObject *globals = nullptr, *builtins = nullptr;  ///< Of such a frame, held by `held`.
  std::vector<guards::Ref> held = {};
  guards::NumberReads numbers = {};  ///< Where symbols and floats that vary are among the values of the guards.
  std::vector<at::Generator> generators = {};  ///< What the program draws random numbers from.
  /// An argument of the program that is a float, which the call computes.
  struct FloatArgument {
    size_t place;  ///< Among the arguments.
    std::shared_ptr<const guards::Derived> derived;
  };
  std::vector<FloatArgument> float_arguments = {};  ///< By place.
  /// A generator of Python's, by its place among the values, and a tuple of what it draws.
  struct Drawn {
    uint32_t place;
    guards::Ref draws;
  };
  std::vector<Drawn> drawn = {};
  AskedValues asked = {};                       ///< Segments of frames.
  uint64_t made_by_call = 0, used_by_call = 0;  ///< Likewise: the calls' numbers, of the latest use.
  bool writes = false;                          ///< The program changes tensors that it is given or bound to.
  int64_t replays = 0;
  std::string missed = {};        ///< Why none of those that there were served; empty: there were none.
  int64_t guard_nanoseconds = 0;  ///< The least that checking them took, of a few times; 0: not measured.

  /// guards.check(), measured now and then.
  int32_t check(const guards::Call& call, PyObject** values);

  /// Which guard refuses the call, in words.
  std::string explain_miss(const guards::Call& call) const;

  enum class Replay : uint8_t {
    done,
    refused,  ///< The program is not for such arguments; another may be.
    raised,   ///< It found an error on its way, which eager is to raise.
  };
  /// Runs the program on what the guards found, then the recipe. Unless it is done nothing was written, and this
  /// must run natively after all. Throws what a Python effect raises.
  /// \param values  what the guards gave.
  /// \param results  room for outcome.recipe.result_count().
  Replay replay(PyObject* const* values, guards::Ref* results);

  int visit(visitproc visit, void* argument) const;

 private:
  using Arguments = c10::SmallVector<at::Tensor, 8>;
  /// The program's. False: a float is none here, or none that an operator would take.
  bool take_arguments(PyObject* const* values, const guards::CallNumbers& given, Arguments* arguments) const;
};

}  // namespace braze::python
