// Values computed while tracing, from the example inputs: for what the user's Python code, or a shape, depends on.
#include <unordered_map>

#include "capture/call.h"
#include "capture/window.h"
#include "ir/graph_copy.h"
#include "ir/instantiate.h"
#include "support/error.h"

namespace braze::capture {

EvaluateHook& evaluate_hook() {
  static EvaluateHook hook;
  return hook;
}

void set_evaluate_hook(EvaluateHook hook) {
  evaluate_hook() = std::move(hook);
}

ir::Value* densified(ir::Graph& graph, ir::Value* value) {
  const ir::Type& type = *value->type;
  if (is_dense(to_ref(type.sizes), to_ref(type.strides))) return value;
  const Sizes strides = preserved_strides(to_ref(type.sizes), to_ref(type.strides));
  return graph.create(Op::cast, {value}, {}, type_in(graph, type.dtype, type.device, type.sizes, strides));
}

namespace {

/// Its sizes are the same expressions: it does not live longer than the graph.
class Extraction final : public ir::GraphCopy {
 public:
  using GraphCopy::GraphCopy;

 private:
  const ir::Type* type(const ir::Type& from) override {
    return type_in(to_, from.dtype, from.device, from.sizes, from.strides);
  }
};

}  // namespace

std::shared_ptr<ir::Graph> extract(const ir::Graph& graph, ir::Value* value) {
  // Effects stay even if unused: random numbers drawn before shift those drawn after.
  std::vector<char> needed(graph.value_limit() + 1, 0);
  needed[value->id] = 1;
  std::vector<const ir::Node*> nodes;
  for_each_node(graph, [&](const ir::Node* node) { nodes.push_back(node); });
  std::vector<const ir::Node*> kept;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    bool wanted = (*node)->has_effect();
    for (const ir::Value& result : (*node)->results) wanted |= needed[result.id] != 0;
    if (!wanted) continue;
    for (const ir::Value* operand : (*node)->operands) needed[operand->id] = 1;
    kept.push_back(*node);
  }
  auto copy = std::make_shared<ir::Graph>(graph.name());
  Extraction extraction(graph, *copy);
  extraction.copy_inputs();
  for (auto node = kept.rbegin(); node != kept.rend(); ++node) extraction.copy(**node);
  // Results are laid out as their types say, which for a view may be with gaps or overlaps.
  copy->outputs().push_back(densified(*copy, extraction[value]));
  return copy;
}

at::Tensor Recorder::evaluate(ir::Value* value) {
  if (!evaluate_hook())
    throw UserError(
        "braze: the traced function reads the value of a tensor, and no way to compute it is installed.");
  PhaseTimer timer(times_, "capture/evaluate");
  // An input is there, of whatever type and layout; but whether values may be read at all, the hook says.
  for (size_t k = 0; k < inputs_.size(); ++k)
    if (graph_->inputs()[k].value == value) return evaluate_hook()(Trace(), {inputs_[k]}).at(0);
  Trace trace;
  trace.graph = extract(*graph_, value);
  if (symbols_) trace.graph = ir::instantiate(*trace.graph, symbols_->env->examples());
  std::vector<at::Tensor> arguments;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const bool is_argument = graph_->inputs()[k].kind == ir::InputKind::argument;
    if (is_argument) arguments.push_back(inputs_[k]);
    trace.bound.push_back(is_argument ? at::Tensor() : inputs_[k]);
  }
  trace.objects = objects_;
  trace.outputs.emplace_back();
  const bool draws = generator_.active();
  const at::Tensor state = draws ? cpu_generator_state() : at::Tensor();
  if (draws) set_cpu_generator_state(generator_.original());
  struct Restore {
    bool active;
    const at::Tensor& state;
    ~Restore() {
      if (active) set_cpu_generator_state(state);
    }
  } restore{draws, state};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return evaluate_hook()(trace, arguments).at(0);
}

void Recorder::warn_frozen(std::string_view what) {
  update_source(*graph_);
  const std::string_view source = graph_->source();
  std::string text =
      concat(source.empty() ? "the traced function" : source, ": ", what,
             " reads the value of a tensor. The trace keeps the value of the example inputs; calls with "
             "other values will not see the difference.");
  if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end()) warnings_.push_back(std::move(text));
}

at::Tensor Recorder::materialize(const at::Tensor& tensor, std::string_view what) {
  ir::Value* value = value_of(tensor);
  if (const at::Tensor real = known(tensor); real.defined())
    return real.to(tensor.device(), /*non_blocking=*/false, /*copy=*/true);
  generator_.sync(*this);
  last_read_ = what;
  warn_frozen(what);
  ++mutable_statistics().frozen;
  return laid_out(evaluate(value), tensor.strides());
}

}  // namespace braze::capture
