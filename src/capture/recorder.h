// capture/recorder.h: the state of one trace: its graph, its inputs, its memories.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/generator.h"
#include "capture/memory.h"
#include "capture/registry.h"
#include "capture/trace.h"
#include "capture/tracer_tensor.h"

namespace braze::capture {

struct InputHistory;
struct Shapes;

class Recorder {
 public:
  explicit Recorder(std::string_view name, PhaseTimes* times);

  // ---- the dispatcher's side
  /// Records one call: takes the arguments off `stack` and puts the results on it.
  void record(const OpEntry& entry, torch::jit::Stack* stack);

  // ---- tensors and values
  ir::Graph& graph() { return *graph_; }
  /// The view that a tensor stands for; a real tensor becomes a graph input. Throws UserError for what cannot be
  /// one.
  const ViewPtr& view_of(const at::Tensor& tensor);
  ir::Value* value_of(const at::Tensor& tensor) { return read(*this, *view_of(tensor)); }
  const ir::Type* type(c10::ScalarType dtype, c10::Device device, DimsRef sizes, DimsRef strides);
  /// A tensor in memory of its own.
  at::Tensor wrap_fresh(ir::Value* value, c10::ScalarType dtype, c10::Device device);
  /// Likewise; the value is made when it is first read.
  at::Tensor wrap_lazy(const ir::Type* type, c10::ScalarType dtype, c10::Device device,
                       std::function<ir::Value*()> make);
  /// A view of `base`: an inference tensor exactly if that is one.
  at::Tensor wrap_view(ViewPtr view, const at::Tensor& base);
  /// A tensor with gaps in memory of its own, which begins `offset` elements before it. Without a value: zeros.
  at::Tensor wrap_gapped(ir::Value* value, c10::ScalarType dtype, c10::Device device, DimsRef sizes,
                         DimsRef strides, Dim offset);
  at::Tensor wrap(ViewPtr view, c10::Device device);
  /// A tensor that nobody else holds (torch.tensor(...)); 0-dim ones become scalar nodes.
  at::Tensor add_private_constant(const at::Tensor& real);

  // ---- calls
  /// A `call` of an operator with one result. `operands` are its tensor arguments in order: the tensors of
  /// `arguments`.
  ir::Value* call_simple(const char* name, std::initializer_list<ir::Value*> operands,
                         std::vector<c10::IValue> arguments, const ir::Type* type);
  /// A `call` node for a payload; `payload.results` says how many results it has.
  ir::Node* create_call(const CallPayload& payload, std::span<ir::Value* const> operands,
                        std::span<const ir::Type* const> results, bool effect);
  GeneratorWatch& generator() { return generator_; }

  // ---- values known while tracing
  /// The value, computed from the example inputs, with a warning that it is frozen (none if no input decides it).
  at::Tensor materialize(const at::Tensor& tensor, std::string_view what);
  /// The value, on the CPU, if no input decides it and it is small: exact, and free. Undefined otherwise.
  at::Tensor known(const at::Tensor& tensor);
  void warn_frozen(std::string_view what);
  /// What read a value last that inputs decide: `what` of materialize(). Empty: nothing has.
  /// The function has set another default dtype than there was when the trace began.
  bool has_other_default_dtype() const { return c10::get_default_dtype() != default_dtype_; }
  const std::string& last_read() const { return last_read_; }
  /// The trace depends on where `view`'s input lies in its storage, modulo so many bytes.
  void depend_on_place(const ViewPtr& view, int64_t bytes);
  /// A real tensor that the trace knows from before: none that the traced function has just made.
  bool is_from_outside(const at::Tensor& real) const;

  // ---- what a part of the trace does beside computing
  struct Mark {
    size_t memories;  ///< That there were.
    uint64_t writes;  ///< To those, until now.
    size_t effects;   ///< Calls that draw random numbers, or have another effect.
    bool operator==(const Mark&) const = default;
  };
  Mark mark() const { return mark(memories_.size()); }
  /// Nothing that was there then was written since, and no random number was drawn.
  bool only_computed_since(const Mark& before) const { return mark(before.memories) == before; }

  // ---- the caller's side (capture/trace.h)
  at::Tensor add_argument(const at::Tensor& real, std::string_view name);
  /// As Tracer::vary(), Tracer::vary_number().
  void vary(const at::Tensor& real, std::string_view name, std::span<const Varying> dims,
            std::span<const bool> strides);
  Dim vary_number(std::string_view name, int64_t example, ir::SizeRange range);
  Symbols& need_symbols();
  Symbols* symbols() { return symbols_ ? &*symbols_ : nullptr; }
  /// Types, views and tensors say what is known of sizes by now.
  void settle_sizes();
  /// A tracer for a real tensor, bound if it was not.
  at::Tensor stand_in(const at::Tensor& real);
  /// Autograd knows, or has learnt in this trace, that the real tensor requires grad.
  bool is_tracked(const at::Tensor& real) const;
  /// The tensor from outside whose view this is; null if the trace made it.
  const at::Tensor* bound_as(const ViewPtr& view) const;
  void name_parameter(const at::Tensor& real, std::string_view name);
  bool wants_gradients() const { return wants_gradients_; }
  Trace finish(const std::vector<at::Tensor>& outputs);
  void differentiate(Trace& trace, const std::vector<at::Tensor>& outputs);
  std::vector<at::Tensor> release();
  void add_outputs(Trace& trace, const std::vector<at::Tensor>& outputs);

 private:
  ir::Size symbol(std::string_view name, int64_t example, ir::SymbolFacts facts);
  bool record_by_rule(const OpEntry& entry, torch::jit::Stack* stack);
  uint64_t count_writes() const;

  struct Bound {
    at::Tensor real;  ///< Keeps the TensorImpl alive, so that its address is its identity.
    ViewPtr view;
    at::Tensor tracer;                            ///< For an argument: what stands for it.
    at::Tensor gradient;                          ///< `.grad` as it was.
    std::shared_ptr<const InputHistory> history;  ///< Of the tracer, if the real one requires grad.
    uint32_t version = 0;                         ///< Of the real one, when it was bound.
  };
  /// Addresses of the storages of one memory, and the one that offsets are counted from.
  struct Placed {
    intptr_t begin, end, origin;
    Memory* memory;
  };

  Mark mark(size_t memories) const;
  Memory& new_memory(const ir::Type* type, c10::ScalarType dtype, c10::Device device, ir::Value* value);
  Placed place_of(const at::Tensor& real) const;
  void keep_place(Placed place);
  const ViewPtr& bind(const at::Tensor& real, ir::InputKind kind, std::string_view name);
  void move_view(const OpEntry& entry, const at::Tensor& target, const at::Tensor& view);
  bool store(const at::Tensor& target, ir::Value* value, bool may_resize);
  bool deliver(Call& call);
  void follow_known(const OpEntry& entry, std::span<const c10::IValue> arguments, Call& call);
  at::Tensor evaluate(ir::Value* value);
  OutputRecipe recipe_of(const at::Tensor& output, Trace& trace);
  void refuse_tracked_write(const OpEntry& entry, std::span<const c10::IValue> arguments);
  const Bound* stood_in_by(const at::Tensor& tracer) const;
  static bool was_rebased(const Bound& bound);
  ir::Value* memory_of_its_own(ir::Value* value);
  void find_base(const at::Tensor& output, const std::vector<at::Tensor>& outputs, OutputRecipe& recipe);
  void count_writes(Trace& trace) const;
  void take_inputs(Trace& trace);
  at::Tensor add_tangent(const at::Tensor& root, size_t number);
  std::vector<at::Tensor> find_roots(const Trace& trace, const std::vector<at::Tensor>& outputs,
                                     Gradients& gradients) const;
  void check_gradients();
  void keep_checks();

  const std::shared_ptr<TraceTensors> tensors_;
  std::shared_ptr<ir::Graph> graph_;
  PhaseTimes* times_;
  std::deque<Memory> memories_;
  std::unordered_map<const c10::TensorImpl*, Bound> bound_;
  std::map<intptr_t, Placed> placed_;  ///< By `begin`; none overlap.
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
  std::unordered_map<const Memory*, uint32_t> output_of_;
  std::vector<at::Tensor> hidden_;       ///< Bases of returned views that are not returned.
  std::vector<at::Tensor> inputs_;       ///< The real tensor of each graph input.
  std::vector<uint32_t> place_modulus_;  ///< Of each.
  std::unordered_map<const ir::Value*, at::Tensor> known_;
  std::vector<c10::IValue> objects_;  ///< What calls are given that has no text.
  std::vector<std::string> warnings_;
  const caffe2::TypeMeta default_dtype_ = c10::get_default_dtype();
  const bool began_in_inference_mode_ = c10::InferenceMode::is_enabled();
  std::string last_read_;
  std::optional<Symbols> symbols_;  ///< Of a trace whose sizes may be expressions.
  size_t settled_ = 0;              ///< So many specialisations are known to all types.
  std::vector<SymbolSource> symbol_sources_;
  struct Varied {
    std::vector<ir::Size> sizes, strides;
  };
  std::unordered_map<const c10::TensorImpl*, Varied> varied_;  ///< Tensors that are yet to be bound.
  bool wants_gradients_ = false;
  const uint64_t first_sequence_number_;  ///< Autograd nodes of this trace have this one or a later one.
  GeneratorWatch generator_;
};

class Tracer::Impl final : public Recorder {
 public:
  using Recorder::Recorder;
};

/// Records a call that no rule took (capture/fallback.cpp). `guessed`: the shapes, taken from there, where sizes
/// are expressions; else null.
void record_fallback(Recorder& recorder, const OpEntry& entry, torch::jit::Stack* stack, Shapes* guessed = nullptr);
/// Runs the operator on the example values of its arguments; what it returns is a constant of the trace.
void record_frozen(Recorder& recorder, const OpEntry& entry, torch::jit::Stack* stack);
/// The value, copied into a dense layout if its type has gaps or overlaps.
ir::Value* densified(ir::Graph& graph, ir::Value* value);
/// A copy of the part of the graph that `value` needs, with `value` as its only output (capture/extract.cpp).
std::shared_ptr<ir::Graph> extract(const ir::Graph& graph, ir::Value* value);

/// The source of nodes from now on is where the user's program is.
void update_source(ir::Graph& graph);
/// statistics(), counted over all threads.
struct Counters {
  std::atomic<int64_t> native{0}, calls{0}, meta{0}, frozen{0};
};
Counters& mutable_statistics();
EvaluateHook& evaluate_hook();

}  // namespace braze::capture
