// capture/recorder.h: the state of one trace: its graph, its inputs, its memories.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/generator.h"
#include "capture/known_values.h"
#include "capture/memory.h"
#include "capture/registry.h"
#include "capture/storage_places.h"
#include "capture/trace.h"
#include "capture/trace_end.h"
#include "capture/trace_sizes.h"
#include "capture/tracer_tensor.h"

namespace braze::capture {

struct InputHistory;
struct Shapes;

class Recorder {
  // What they know of a trace and decide about it is theirs; what was recorded they read here.
  friend class TraceSizes;
  friend class KnownValues;
  friend class TraceEnd;
  friend class InnerBackward;

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

  /// Values that Python, or a shape, may depend on.
  KnownValues& known() { return known_; }
  /// Sizes that are expressions.
  TraceSizes& sizes() { return sizes_; }
  Symbols* symbols() { return sizes_.symbols(); }

  /// The function has set another default dtype than there was when the trace began.
  bool has_other_default_dtype() const { return c10::get_default_dtype() != default_dtype_; }
  /// The trace depends on where `view`'s input lies in its storage, modulo so many bytes.
  void depend_on_place(const ViewPtr& view, int64_t bytes);
  /// A real tensor that the trace knows from before: none that the traced function has just made.
  bool is_from_outside(const at::Tensor& real) const;

  // ---- what a part of the trace does beside computing
  struct Mark {
    size_t memories;  ///< That there were.
    uint64_t writes;  ///< To those, until now.
    size_t effects;   ///< Calls that draw random numbers or have another effect, and checks of values.
    bool operator==(const Mark&) const = default;
  };
  Mark mark() const { return mark(memories_.size()); }
  /// Nothing that was there then was written since, no random number was drawn, and no value was checked.
  bool only_computed_since(const Mark& before) const { return mark(before.memories) == before; }

  // ---- the caller's side (capture/trace.h)
  at::Tensor add_argument(const at::Tensor& real, std::string_view name);
  /// A tracer for a real tensor, bound if it was not.
  at::Tensor stand_in(const at::Tensor& real);
  /// Autograd knows, or has learnt in this trace, that the real tensor requires grad.
  bool is_tracked(const at::Tensor& real) const;
  /// The tensor from outside whose view this is; null if the trace made it.
  const at::Tensor* bound_as(const ViewPtr& view) const;
  /// The run takes gradients itself (capture/inner_gradients.h), or begins a history where none was.
  enum class OwnGradients : uint8_t { none, some, refused };
  OwnGradients own_gradients = OwnGradients::none;
  void name_parameter(const at::Tensor& real, std::string_view name);
  bool wants_gradients() const { return wants_gradients_; }

 private:
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
  Mark mark(size_t memories) const;
  Memory& new_memory(const ir::Type* type, c10::ScalarType dtype, c10::Device device, ir::Value* value);
  const ViewPtr& bind(const at::Tensor& real, ir::InputKind kind, std::string_view name);
  void move_view(const OpEntry& entry, const at::Tensor& target, const at::Tensor& view);
  bool store(const at::Tensor& target, ir::Value* value, bool may_resize);
  bool deliver(Call& call);
  void refuse_tracked_write(const OpEntry& entry, std::span<const c10::IValue> arguments);
  const Bound* stood_in_by(const at::Tensor& tracer) const;
  static bool was_rebased(const Bound& bound);

  const std::shared_ptr<TraceTensors> tensors_;
  std::shared_ptr<ir::Graph> graph_;
  PhaseTimes* times_;
  std::deque<Memory> memories_;
  std::unordered_map<const c10::TensorImpl*, Bound> bound_;
  StoragePlaces places_;
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
  std::vector<at::Tensor> inputs_;       ///< The real tensor of each graph input.
  std::vector<uint32_t> place_modulus_;  ///< Of each.
  std::vector<c10::IValue> objects_;     ///< What calls are given that has no text.
  std::vector<std::string> warnings_;
  const caffe2::TypeMeta default_dtype_ = c10::get_default_dtype();
  const bool began_in_inference_mode_ = c10::InferenceMode::is_enabled();
  bool wants_gradients_ = false;
  const uint64_t first_sequence_number_;  ///< Autograd nodes of this trace have this one or a later one.
  GeneratorWatch generator_;
  TraceSizes sizes_{*this};
  KnownValues known_{*this};
};

class Tracer::Impl final : public Recorder {
 public:
  using Recorder::Recorder;
  TraceEnd& end() { return end_; }

 private:
  TraceEnd end_{*this};
};

/// Records a call that no rule took (capture/fallback.cpp). `guessed`: the shapes, taken from there, where sizes
/// are expressions; else null.
void record_fallback(Recorder& recorder, const OpEntry& entry, torch::jit::Stack* stack, Shapes* guessed = nullptr);
/// Runs the operator on the example values of its arguments; what it returns is a constant of the trace.
void record_frozen(Recorder& recorder, const OpEntry& entry, torch::jit::Stack* stack);
/// The value, copied into a dense layout if its type has gaps or overlaps.
ir::Value* densified(ir::Graph& graph, ir::Value* value);
/// A copy of the part of the graph that `value` needs, with `value` as its only output (capture/known_values.cpp).
std::shared_ptr<ir::Graph> extract(const ir::Graph& graph, ir::Value* value);

/// The source of nodes from now on is where the user's program is.
void update_source(ir::Graph& graph);
EvaluateHook& evaluate_hook();

}  // namespace braze::capture
