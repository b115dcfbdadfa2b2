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
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ir/size_table.h"
#include "support/bits.h"
#include "support/phases.h"

namespace torch::autograd {
enum class CreationMeta : uint8_t;
}

namespace braze::capture {

struct Symbols;
class Tape;

/// A call of an operator, ready to be made (in plain values: ir/library_call.h). `stack` holds its arguments in
/// schema order; a tensor argument (also inside a list) that is a graph value is replaced at run time by operand
/// number `operand`.
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

  /// An argument that is the number significand / divisor / divisor (capture/number.h).
  struct Quotient {
    uint32_t argument;
    ir::Size significand, divisor;
  };
  std::vector<Quotient> quotients = {};
};

/// How a returned tensor is made from the graph's outputs, so that results alias as in eager.
struct OutputRecipe {
  enum class Kind : uint8_t {
    output,        ///< Graph output `index` itself (first use) or a view of its storage.
    input_view,    ///< A view of graph input `index`.
    input_object,  ///< The very tensor of graph input `index`.
  } kind = Kind::output;
  uint32_t index = 0;
  bool whole = true;  ///< The geometry is the output's own, and so is the dtype.
  // If !whole:
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  ///< In bytes from the first element of the output or input.
  /// Where one of those is an expression: sizes, then strides, then the offset, and those above say nothing.
  std::vector<ir::Size> symbolic;
  bool is_conj = false, is_neg = false;

  /// An inference tensor although the trace began outside of inference mode, or the other way round.
  bool of_other_mode = false;
  uint32_t version = 0;  ///< What eager's version counter shows, unless it is an input's.
  /// Which counter that is: that of the memory (the input's, or the output's), or that of an earlier result by its
  /// number, the hidden ones counted behind the others, or one of its own, as `data` has.
  static constexpr int32_t of_memory = -1, of_its_own = -2;
  int32_t counter = of_memory;
  /// Of what autograd calls a view: which tensor is its base.
  enum class Base : uint8_t {
    none,    ///< It is no view.
    input,   ///< That of graph input `base`, which is itself its base if it is no view.
    output,  ///< Result number `base`, the hidden ones counted behind the others.
  } base_kind = Base::none;
  uint32_t base = 0;
  /// How the view was made, which autograd remembers: in a no_grad block, as one of several.
  torch::autograd::CreationMeta creation = {};
};

/// The real tensors that graph inputs are bound to; undefined for arguments. Owned, but for those that it was told
/// to let go of: whoever runs the graph knows that they are alive, and keeps them so meanwhile.
class Bindings {
 public:
  Bindings() = default;
  Bindings(Bindings&&) noexcept = default;
  Bindings(const Bindings& other) : tensors_(other.tensors_) {}  // A copy owns all, which must be alive.
  Bindings& operator=(Bindings other) noexcept {
    std::swap(tensors_, other.tensors_);
    std::swap(borrowed_, other.borrowed_);
    return *this;
  }
  ~Bindings();

  void push_back(at::Tensor tensor) { tensors_.push_back(std::move(tensor)); }
  const at::Tensor& operator[](size_t k) const { return tensors_[k]; }
  const at::Tensor& at(size_t k) const { return tensors_.at(k); }
  size_t size() const { return tensors_.size(); }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

  /// These may die from now on.
  void let_go(const std::unordered_set<const c10::TensorImpl*>& kept_elsewhere);

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<size_t> borrowed_;  ///< Places among tensors_ that own nothing.
};

/// What makes a trace a joint one: behind its first part, which computes the results, the graph holds their
/// backward. Its last inputs are the tangents, gradients of the results; its last outputs the gradients of inputs.
struct Gradients {
  const ir::Node* first_backward = nullptr;        ///< Null: there is none.
  uint32_t first_tangent = 0, first_gradient = 0;  ///< Among the inputs and outputs of the graph.
  size_t objects = 0;                              ///< Of the trace's objects, those of the first part.

  /// What autograd knows of a result.
  struct Result {
    enum class Kind : uint8_t {
      plain,          ///< Nothing, or all there is to know: it is an input.
      root,           ///< Its gradient is tangent `index`.
      view_of_other,  ///< A differentiable view of result `index`, the hidden ones counted behind the others.
      view_of_input,  ///< Likewise, of graph input `index`.
    } kind = Kind::plain;
    uint32_t index = 0;
  };
  std::vector<Result> results;  ///< One per output of the trace, then one per hidden tensor.
  /// Inputs of the graph that have a gradient.
  struct Input {
    uint32_t input;
    enum class Kind : uint8_t { tangent, output } kind;  ///< The gradient is that tangent, or an output:
    uint32_t index;                                      ///< Counted from the first gradient.
    std::vector<bool> from;                              ///< Tangents that it depends on.
  };
  std::vector<Input> inputs;
  /// Where eager's backward of some roots comes by another result, from which they were computed: a root, or a view
  /// of one or of an input. Hooks see and change what comes there. A root's tangent is part of that.
  struct Inner {
    static constexpr uint32_t none = UINT32_MAX;
    uint32_t tangent = none;  ///< Of the root, or of what is viewed if that is one.
    uint32_t view = none;     ///< Which result it is, if a view.
    uint32_t output = 0;      ///< What comes there, counted as Input::index.
    std::vector<uint32_t> directly =
        {};                           ///< Tangents of roots from which a way leads there by no other such place.
    std::vector<bool> leads_to = {};  ///< By place in `inputs`.
    bool is_view() const { return view != none; }
  };
  std::vector<Inner> inner;
  std::vector<uint32_t> root_order;  ///< Tangents, in the order in which the roots were computed.
  /// Inputs whose history becomes another, as they were written.
  struct Written {
    uint32_t input, tangent;
  };
  std::vector<Written> written;
  uint32_t tangents = 0;
  /// Nodes of eager's that do not run twice, as the graph lets go of what they save.
  struct Saving {
    /// That lead to one, and that it leads to, by no root on the way; the latter by output as Input::index.
    Bits tangents, gradients;
  };
  std::vector<Saving> saving;
  /// The forward for those who differentiate the backward: its outputs are the roots, by tangent.
  std::shared_ptr<const Tape> tape;
  std::string no_tape;  ///< Why there is none.
};

/// What a dimension of an argument may be at later calls.
struct Varying {
  bool varies = false;
  ir::SizeRange range = {2, ir::SizeRange::infinity};
  std::string name = {};  ///< Of its symbol; empty: one is made up.
};

/// Where the value of a symbol is read.
struct SymbolSource {
  enum class Kind : uint8_t {
    size,    ///< Size `dim` of graph input `input`.
    stride,  ///< Stride `dim`.
    number,  ///< The caller tells it.
  } kind;
  uint32_t input, dim;
  std::string name;  ///< Of the argument.
};

/// A finished trace.
struct Trace {
  std::shared_ptr<ir::Graph> graph;
  Bindings bound;                     ///< One per graph input: the real tensor of a `param` or `constant`.
  std::vector<c10::IValue> objects;   ///< Arguments of library calls that have no text, by number.
  std::vector<OutputRecipe> outputs;  ///< One per returned tensor.
  std::vector<OutputRecipe> hidden;   ///< Tensors that returned views are views of, and nothing else.
  std::vector<uint32_t> writes;       ///< By graph input: by how much its version counter moves.
  /// By graph input: its place in its storage, in bytes, counts modulo this; all of it: whole_place.
  std::vector<uint32_t> place_modulus;
  std::vector<SymbolSource> symbols;     ///< By slot, where sizes of the graph are expressions.
  std::vector<std::string> specialised;  ///< Sizes that were to be expressions and had to be numbers, and why.
  bool any_requires_grad = false;        ///< Eager's result would require grad.
  std::optional<Gradients> gradients;    ///< If the backward is part of the graph.
  std::vector<std::string> warnings;     ///< Texts for the user, each naming a line.
};

/// Tells the user's "file:line" now; set by the Python binding (empty result: unknown). Must not raise.
using SourceHook = std::string_view (*)(ir::Graph&);
void set_source_hook(SourceHook hook);

/// Runs a graph on the example inputs to read a value while tracing; set by runtime/. Given a trace whose only
/// outputs are the values wanted, and the arguments.
using EvaluateHook = std::function<std::vector<at::Tensor>(const Trace&, const std::vector<at::Tensor>& arguments)>;
void set_evaluate_hook(EvaluateHook hook);

/// The trace of given values of its symbols: all sizes are numbers. Throws UserError that names the guard or range
/// that the values break.
Trace instantiate(const Trace& trace, std::span<const int64_t> symbols);

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
  /// Before the tensor is known to the trace: its sizes are symbols where they may vary, of which there are none of
  /// 0 and 1. Strides that lie in rows follow from sizes; of the others, those that vary are symbols.
  void vary(const at::Tensor& real, std::string_view name, std::span<const Varying> dims,
            std::span<const bool> strides);
  /// A symbol for a number that is no size of a tensor.
  ir::Size vary_number(std::string_view name, int64_t example, ir::SizeRange range = {2, ir::SizeRange::infinity});
  /// A size as a tensor without dimensions that counts as a Python number.
  at::Tensor wrap_number(ir::Size size);
  /// Likewise the float significand / divisor / divisor, of sizes for which that is exact.
  at::Tensor wrap_number(ir::Size significand, ir::Size divisor);
  /// Sizes may become symbols: to be said before a Scope of it begins.
  void prepare_symbols();
  /// Decides, with a guard, and specialises, for whoever reads sizes beside operators; `why` for people.
  Symbols* symbols();

  /// The tracer of a real tensor, which the trace binds if it does not know it.
  at::Tensor stand_in(const at::Tensor& real);
  /// Names a parameter or buffer, so that it prints as `%encoder.weight` when an operator first reads it.
  void name_parameter(const at::Tensor& real, std::string_view name);

  /// The value of a tracer, computed from the example inputs through the evaluate hook. Adds a warning that the
  /// value is frozen into the trace; `what` says what read it ("item()", "tolist()").
  at::Tensor materialize(const at::Tensor& tracer, std::string_view what);

  /// What read a value last that inputs decide: "item()", "aten::nonzero". Empty: nothing has.
  const std::string& last_read() const;

  /// A write was refused because autograd would note it in the history of a tensor that is not of this trace.
  bool wants_gradients() const;

  /// Ends the trace. Afterwards tracer tensors that are still alive raise when used.
  Trace finish(const std::vector<at::Tensor>& outputs);

  /// After finish(), while the Scope is alive: records the backward of these outputs, and sets trace.gradients. No
  /// hook of the user's runs. \returns why it cannot be recorded; empty: it was.
  std::string differentiate(Trace& trace, const std::vector<at::Tensor>& outputs);

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
