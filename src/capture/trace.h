// capture/trace.h: a user's tensor program as a graph, recorded at the ATen dispatcher.
//
// While a Tracer's Scope is alive on a thread, every operator that the thread calls below autograd reaches braze's
// kernel on DispatchKey::CustomRNGKeyId: plain tensors and factories too. Operators are recorded on *tracer
// tensors*, TensorImpls without data. Nothing is computed, and the user's real tensors are not touched.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/phases.h"

namespace braze::capture {

/// The arguments of an `ir::Op::call` node. `stack` holds them in schema order; a tensor argument (also inside a
/// list) that is a graph value is replaced at run time by operand number `operand`.
struct CallPayload {
  struct Slot {
    uint32_t argument;  ///< Index into `stack`.
    int32_t element;    ///< Index into a tensor list, -1 for a plain tensor.
    uint32_t operand;   ///< Operand of the node.
  };
  c10::OperatorHandle op;
  std::vector<c10::IValue> stack;
  std::vector<Slot> slots;
  std::vector<uint32_t>
      cloned;  ///< Operands that the operator writes: it gets a clone, which is then also a result.

  /// Where result number k of the node is found after the call: one entry a node result, in order. Returned tensors
  /// that alias a written argument are not listed a second time, undefined ones not at all.
  struct Result {
    int32_t returned;  ///< Index of the return value on the stack, -1: the clone `cloned[element]`.
    int32_t element;   ///< Index into a returned tensor list, -1 for a plain tensor.
  };
  std::vector<Result> results;
};

/// How operators of all traces of this process were recorded.
struct Statistics {
  int64_t native = 0;  ///< By a rule, as IR nodes or views.
  int64_t calls = 0;   ///< As `call` nodes.
  int64_t meta = 0;    ///< Shapes asked of PyTorch's Meta kernels (some of them Python functions).
  int64_t frozen = 0;  ///< Run on example values because their result decides shapes or Python values.
};
Statistics statistics();

/// How a returned tensor is made from the graph's outputs, so that results alias as in eager.
struct OutputRecipe {
  enum class Kind : uint8_t {
    output,        ///< Graph output `index` itself (first use) or a view of its storage.
    input_view,    ///< A view of graph input `index`.
    input_object,  ///< The very tensor of graph input `index`.
  } kind = Kind::output;
  uint32_t index = 0;
  bool whole = true;                    ///< The geometry is the output's own.
  std::vector<int64_t> sizes, strides;  ///< In elements, if !whole.
  int64_t offset = 0;                   ///< In elements from the storage's start (output) or the input's start.
  bool is_conj = false, is_neg = false;
};

/// A finished trace.
struct Trace {
  std::shared_ptr<ir::Graph> graph;
  /// One per graph input: the real tensor of a `param` or `constant`, undefined for an `argument`. Held strongly.
  std::vector<at::Tensor> bound;
  std::vector<CallPayload> payloads;
  std::vector<OutputRecipe> outputs;  ///< One per returned tensor.
  bool any_requires_grad = false;     ///< Eager's result would require grad.
  std::vector<std::string> warnings;  ///< Texts for the user, each naming a line.
};

/// Tells the user's "file:line" now; set by the Python binding (empty result: unknown). Must not raise.
using SourceHook = std::string_view (*)(ir::Graph&);
void set_source_hook(SourceHook hook);

/// Runs a graph on the example inputs to read a value while tracing; set by runtime/. Given a trace whose only
/// outputs are the values wanted, and the arguments.
using EvaluateHook = std::function<std::vector<at::Tensor>(const Trace&, const std::vector<at::Tensor>& arguments)>;
void set_evaluate_hook(EvaluateHook hook);

/// Registers the kernels: once, on first use; later operators through a registration listener. 10-20 ms.
void install();

bool is_tracer(const at::Tensor& tensor);

/// Records one program. Used by one thread at a time.
class Tracer {
 public:
  explicit Tracer(std::string_view name, PhaseTimes* times = nullptr);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Includes the dispatch key for this thread. The destructor restores the thread's dispatch state in any case.
  class Scope {
   public:
    explicit Scope(Tracer& tracer);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Saved;
    std::unique_ptr<Saved> saved_;
  };

  /// A tracer tensor that stands for `real`, an argument. The same tensor twice gives the same tracer; arguments
  /// that share storage give tracers that share storage. Throws UserError for layouts and devices braze cannot
  /// trace.
  at::Tensor add_argument(const at::Tensor& real, std::string_view name);
  /// Names a parameter or buffer, so that it prints as `%encoder.weight` when an operator first reads it.
  void name_parameter(const at::Tensor& real, std::string_view name);

  /// The value of a tracer, computed from the example inputs through the evaluate hook. Adds a warning that the
  /// value is frozen into the trace; `what` says what read it ("item()", "tolist()").
  at::Tensor materialize(const at::Tensor& tracer, std::string_view what);

  /// Ends the trace. Afterwards tracer tensors that are still alive raise when used.
  Trace finish(const std::vector<at::Tensor>& outputs);

  /// After finish(), lets go of the tensors of the trace. Gives those that are still alive: none if the caller let
  /// go of arguments and results, and the traced function kept none in anything that outlives it.
  std::vector<at::Tensor> release();
  /// After finish(): more outputs, at the end.
  void add_outputs(Trace& trace, const std::vector<at::Tensor>& outputs);

  /// The tracer of the Scope on this thread, or null.
  static Tracer* current();

  class Impl;  ///< capture/recorder.h
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::capture
