// capture/tape.h: a trace as the dispatcher saw it: every operator in order, with the arguments that it got.
//
// Beside the graph, for those who want no code generated: backend "eager" replays a tape by ATen calls, and other
// people's compilers get it as a torch.fx graph. A tape is not functional: views are views and in-place operators
// write, so results alias as eager's do without anything being worked out.
//
// A joint trace has one too, of its forward: second derivatives are had by running it again under autograd. There a
// tape may be given up (lose()), and its sizes may be expressions.
//
//   capture::Tracer tracer("f");
//   capture::TapeRecorder recorder;
//   recorder.add_argument(x);
//   {
//     capture::Tracer::Scope tracing(tracer);
//     capture::TapeRecorder::Scope taping(recorder);
//     y = f(x);
//     trace = tracer.finish({y});
//   }
//   capture::Tape tape = recorder.finish(trace, {y});
//   tape.run(&arguments)[0];
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/memory.h"
#include "capture/trace.h"
#include "ir/size_code.h"

namespace braze::capture {

struct FunctionCall;
struct OpEntry;
struct VersionChecks;

/// Tensors of a tape are numbered, in no particular order; each result of a call has a number of its own.
class Tape {
 public:
  struct Function;
  struct Result {
    uint32_t returned;  ///< Index of the return value.
    int32_t element;    ///< Index into a returned list, -1 for a plain tensor.
    uint32_t tensor;
    bool is_differentiable;  ///< By its type.
  };
  struct Call {
    c10::OperatorHandle op;
    std::vector<c10::IValue> stack;        ///< In schema order; tensors of the tape are undefined here.
    std::vector<CallPayload::Slot> slots;  ///< Their places; `operand` is the tensor's number.
    std::vector<Result> results;           ///< Written arguments that are returned have no new number.
    std::vector<uint32_t> written;         ///< Numbers of the arguments that the operator writes.
    std::vector<uint32_t> releases;        ///< Numbers that nobody reads afterwards.
    bool random = false;                   ///< Draws from a generator.
    bool with_grad = false;                ///< Grad mode was on.
    std::vector<bool> tracked;             ///< By slot: the tensor required grad.
    std::vector<CallPayload::Slot>
        sizes;                           ///< Arguments that are expressions; `operand` is the number of its value.
    std::string source;                  ///< The user's "file:line", or empty.
    std::vector<uint32_t> numbers = {};  ///< Slots of tensors that count as Python numbers, as to types of results.
  };
  /// Of a joint trace: calls in order, and the functions between them (capture/tape_function.h).
  /// A tensor that was made a leaf, by requires_grad_(): from this call on its number is of the same elements with
  /// a history that begins there.
  struct Leaf {
    size_t before;
    uint32_t tensor;
  };
  struct Part {
    std::vector<Call> calls;
    std::vector<Leaf> leaves;
    std::vector<std::shared_ptr<const Function>> functions;
  };
  /// What the numbers stand for in one run.
  struct Run {
    std::vector<at::Tensor> tensors;
    std::shared_ptr<const std::vector<int64_t>> sizes;
    bool is_gradient = false;  ///< Of a function's own, so that nothing is known of who has a history.
  };
  struct Input {
    uint32_t tensor;
    std::string name;
    at::Tensor bound;          ///< Undefined for an argument. Held strongly.
    bool tracked;              ///< It requires grad.
    int32_t graph_input = -1;  ///< Of a joint trace: which of its inputs it is, -1 for a constant, which is bound.
  };

  /// An expression over sizes that counts as a Python number: the size, or significand / divisor / divisor as a
  /// float.
  struct Number {
    uint32_t tensor;
    uint32_t size;  ///< Of sizes().
    std::optional<uint32_t> divisor;
  };

  /// Arguments in order, then what is bound.
  const std::vector<Input>& inputs() const { return inputs_; }
  size_t argument_count() const { return argument_count_; }
  const std::vector<Call>& calls() const { return part_.calls; }
  const std::vector<uint32_t>& outputs() const { return outputs_; }
  uint32_t tensor_count() const { return tensor_count_; }

  /// Results, or what is computed on the way to them, have a history: it runs under autograd.
  bool has_history() const { return has_history_; }
  /// Runs the calls below autograd, or under it if there is a history. Each output is a tensor object of its own;
  /// an output that is an argument is that argument. Throws what ATen throws; then the inputs and the generator are
  /// as they were before.
  std::vector<at::Tensor> run(const at::Tensor* const* arguments) const;
  /// Of a joint trace: runs its forward under autograd once more. What fails has written to `inputs` (one for each
  /// of inputs()) and drawn numbers.
  std::vector<at::Tensor> run_again(std::vector<at::Tensor> inputs, std::span<const int64_t> symbols) const;
  /// Of a joint trace: those that its calls draw from.
  const std::vector<at::Generator>& generators() const { return generators_; }
  /// Of a joint trace: it has no calls, as something in it cannot be run again.
  bool is_lost() const { return is_lost_; }
  /// Of a joint trace: what eager's nodes save of inputs and results. Null: nothing.
  const std::shared_ptr<const VersionChecks>& checks() const { return checks_; }

 private:
  friend class TapeRecorder;
  friend class TapeHistory;
  void plan_releases();
  friend class TapeFunction;
  class Undo;
  std::vector<at::Tensor> run_calls(const std::vector<at::Tensor>& inputs, std::vector<int64_t> sizes,
                                    Undo* undo) const;
  static void run_part(const Part& part, Run& run, bool has_history, Undo* undo);
  static at::Tensor operand(const Call& call, size_t slot, const at::Tensor& tensor);

  std::vector<Input> inputs_;
  Part part_;
  std::vector<uint32_t> outputs_;
  std::vector<bool> outputs_tracked_;  ///< They require grad.
  size_t argument_count_ = 0;
  uint32_t tensor_count_ = 0;
  ir::SizeCode sizes_;  ///< Of arguments that are expressions.
  std::vector<Number> numbers_;
  bool draws_ = false;  ///< Some call is random.
  std::vector<at::Generator> generators_;
  bool has_history_ = false;
  bool is_lost_ = false;
  std::shared_ptr<const VersionChecks> checks_;
};

/// Which tensors of a tape have a history, as one goes through its calls: for those who write the tape down in a
/// form that runs under autograd. `x.detach()` has x's number, and a call under no_grad reads everything so.
class TapeHistory {
 public:
  explicit TapeHistory(const Tape& tape);
  /// The call, or the output, reads a tensor that has a history without it.
  /// Throws UserError for a write that would give one to `x.detach()`, and then x would seem to have it.
  bool is_dropped(const Tape::Call& call, size_t slot) const;
  bool is_output_dropped(size_t k) const;
  /// The call has been made.
  void pass(const Tape::Call& call);

 private:
  bool makes_history(const Tape::Call& call) const;

  const Tape& tape_;
  std::vector<bool> has_;  ///< By tensor.
};

/// Keeps a tape while a Tracer records on the same thread.
class TapeRecorder {
 public:
  /// \param can_be_lost  what cannot be kept ends the tape, and not the trace.
  explicit TapeRecorder(bool can_be_lost = false) : can_be_lost_(can_be_lost) {}
  TapeRecorder(const TapeRecorder&) = delete;
  TapeRecorder& operator=(const TapeRecorder&) = delete;

  /// While it lives, the calls of this thread's tracer are kept, or none are (null).
  class Scope {
   public:
    explicit Scope(TapeRecorder* recorder);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TapeRecorder* outer_;
  };

  /// In the order of the graph's arguments, at any time before finish(). The same tensor twice is one argument.
  void add_argument(const at::Tensor& real);
  /// After Tracer::finish(), given what that was given and what it returned.
  /// Throws UserError for what a tape cannot repeat: a seed that was set, a write that gives an input a history.
  Tape finish(const Trace& trace, const std::vector<at::Tensor>& outputs);
  /// Of a joint trace, before its backward is recorded: the tape's outputs are the roots.
  /// \param inputs  the real tensors, by graph input.
  void finish_forward(const ir::Graph& graph, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& roots);
  /// The tape of that, when all is known of sizes.
  std::shared_ptr<const Tape> take_forward(const std::function<ir::Size(ir::Size)>& simplify,
                                           std::shared_ptr<const VersionChecks> checks);

  /// A tensor that counts as a Python number is this size, or size / divisor / divisor as a float.
  void note_number(const at::Tensor& number, ir::Size size, std::optional<ir::Size> divisor = std::nullopt);

  /// There will be no tape; `why` for people. The first reason counts.
  void lose(std::string_view why);
  const std::string& lost() const { return lost_; }

  /// Of a joint trace: what is kept from here to end_function() is the backward of a function whose gradient is
  /// code of its own, of `tangents`. Gradients are off, but would not be where it is differentiated.
  void begin_function(const std::vector<at::Tensor>& tangents);
  /// \param call    what it was given and gave.
  /// \param joined  its outputs with their history.
  void end_function(const FunctionCall& call, const std::vector<at::Tensor>& joined);
  /// One whose backward is not recorded.
  void add_bare_function(const FunctionCall& call);
  /// The forward of such a function begins.
  void begin_forward() { before_forward_ = tape_.tensor_count_; }
  /// The backward of a function goes on, or braze runs something between: the forward of an inner one, whose grad
  /// mode is what it would be.
  void set_in_backward(bool on) { is_in_backward_ = on; }
  /// The tensor is about to become a leaf.
  void begin_leaf(const at::Tensor& tensor);
  /// The program asks for the grad mode, or sets it.
  void note_grad_mode();
  /// A tracer of the same elements without a history has been made.
  void note_detached();
  /// Functions within whose backward the program is.
  size_t function_depth() const { return open_.size(); }

  /// Calls `record()`, which takes the operator's arguments off the stack and puts its results there, and keeps the
  /// call.
  template <typename Record>
  void keep(const OpEntry& entry, torch::jit::Stack* stack, Record&& record) {
    std::optional<Pending> pending = try_begin(entry, *stack);
    record();
    if (pending && lost_.empty()) end(*std::move(pending), *stack);
  }

  /// The recorder of the Scope on this thread, or null.
  static TapeRecorder* current();
  bool can_be_lost() const { return can_be_lost_; }

 private:
  struct Pending {
    const OpEntry* entry;
    Tape::Call call;
    std::vector<std::pair<at::Tensor, uint32_t>> written;
    std::optional<c10::Device> device = std::nullopt;  ///< Of the arguments.
    bool reads_lazy = false;                           ///< A conjugate or negative view with a history.
  };

  /// Nullopt: the tape has been lost.
  std::optional<Pending> try_begin(const OpEntry& entry, const torch::jit::Stack& stack);
  Pending begin(const OpEntry& entry, const torch::jit::Stack& stack);
  void keep_sizes(Tape::Call& call, uint32_t argument);
  void note_generator(c10::Device device);
  void end(Pending pending, const torch::jit::Stack& stack);
  bool has_history(const at::Tensor& tensor) const;
  static void check_leaf(const at::Tensor& leaf, const at::Tensor& tensor);
  void keep_number(Tape::Call& call, uint32_t argument);
  uint32_t number_of(const at::Tensor& tensor);
  uint32_t number_of_real(const at::Tensor& real);
  uint32_t set_number(const at::Tensor& tracer, uint32_t number);

  struct Open {
    size_t calls, functions;  ///< So many there were before,
    uint32_t tensors;         ///< and before the forward.
    std::vector<uint32_t> tangents;
  };
  /// \param old  tensors below this number were there before its forward.
  std::shared_ptr<Tape::Function> function_of(const FunctionCall& call, const std::vector<at::Tensor>& joined,
                                              uint32_t old);

  const bool can_be_lost_;
  std::string lost_;  ///< Why.
  std::vector<Open> open_;
  uint32_t before_forward_ = 0;  ///< Tensors that there were before the latest forward of a function.
  bool is_in_backward_ = false;  ///< What runs now, if any is open.
  Tape tape_;
  std::vector<ir::Size> sizes_;  ///< The expressions that the tape is to know, by number.
  std::vector<at::Tensor> arguments_;
  std::unordered_map<const c10::TensorImpl*, uint32_t> real_;  ///< The tape holds them.
  std::unordered_map<const View*, uint32_t> views_;
  std::unordered_map<uint32_t, at::Tensor> leaves_;  ///< By number.
  /// Copies that operators read instead of conjugate and negative views: below autograd, which gives them no
  /// history.
  std::vector<at::Tensor> resolved_;
  std::vector<ViewPtr> held_;  ///< So that an address in views_ is one view.
};

}  // namespace braze::capture
