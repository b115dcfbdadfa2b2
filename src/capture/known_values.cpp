// capture/known_values.cpp
#include "capture/known_values.h"

#include <algorithm>

#include "capture/arguments.h"
#include "capture/call.h"
#include "capture/number.h"
#include "capture/window.h"
#include "ir/graph_copy.h"
#include "ir/instantiate.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// Values known while tracing are kept up to this many elements.
constexpr int64_t most_known_elements = 16384;

}  // namespace

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

void KnownValues::keep(const ir::Value* value, const at::Tensor& real) {
  if (real.numel() <= most_known_elements && real.is_cpu()) values_[value] = real;
}

/// Runs small operators on values that no input decides beside recording them, so that reading such a value later
/// (transformers: "are these position ids packed?") costs no compilation and freezes nothing.
void KnownValues::follow(const OpEntry& entry, std::span<const c10::IValue> arguments, Call& call) {
  if (!entry.pure || entry.mode != OpEntry::Mode::functional) return;
  bool has_tensor = false;
  std::vector<c10::IValue> stack;
  const auto known_or_plain = [&](const at::Tensor& tensor, at::Tensor& out) {
    has_tensor = true;
    out = tensor.defined() ? find(tensor) : tensor;
    return !tensor.defined() || out.defined();
  };
  for (const c10::IValue& argument : arguments) {
    at::Tensor found;
    if (argument.isSymInt() || number_behind(argument).defined()) return;
    if (argument.isTensor()) {
      if (!known_or_plain(argument.toTensor(), found)) return;
    } else if (argument.isTensorList()) {
      for (const at::Tensor& element : argument.toTensorVector())
        if (!known_or_plain(element, found)) return;
    } else if (argument.isOptionalTensorList()) {
      return;
    }
  }
  for (const Call::Result& result : call.results) {
    if (!result.ready.isTensor()) return;
    const at::Tensor& tensor = result.ready.toTensor();
    // What is on a GPU is followed on the CPU, where floating numbers may round otherwise.
    const bool elsewhere = !tensor.is_cpu() && !c10::isIntegralType(tensor.scalar_type(), true);
    if (elsewhere || !dims_of(tensor).is_numbers() || tensor.numel() > most_known_elements) return;
    if (!has_tensor && !c10::isIntegralType(tensor.scalar_type(), true) && tensor.dim() != 0) return;
  }
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      stack.emplace_back(argument.toTensor().defined() ? find(argument.toTensor()) : at::Tensor());
    } else if (argument.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& element : argument.toTensorVector()) list.push_back(find(element));
      stack.emplace_back(std::move(list));
    } else {
      stack.push_back(argument.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : argument);
    }
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  entry.op.callBoxed(stack);
  for (size_t k = 0; k < call.results.size(); ++k)
    values_[recorder_.value_of(call.results[k].ready.toTensor())] = stack[k].toTensor();
}

at::Tensor KnownValues::find(const at::Tensor& tensor) {
  const TracerTensor* tracer = as_tracer(tensor);
  if (!tracer) return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? tensor : at::Tensor();
  if (values_.empty()) return {};
  const ViewPtr& view = recorder_.view_of(tensor);
  // A view that was not read yet is not known; reading it here would only make nodes.
  if (!view->value || view->version != view->memory->version) return {};
  const auto found = values_.find(view->value);
  if (found == values_.end()) return {};
  const at::Tensor& real = found->second;
  return dims_of(tensor).is_numbers() && real.sizes() == tensor.sizes() ? real : at::Tensor();
}

at::Tensor KnownValues::evaluate(ir::Value* value) {
  if (!evaluate_hook())
    throw UserError(
        "braze: the traced function reads the value of a tensor, and no way to compute it is installed.");
  PhaseTimer timer(recorder_.times_, "capture/evaluate");
  // An input is there, of whatever type and layout; but whether values may be read at all, the hook says.
  for (size_t k = 0; k < recorder_.inputs_.size(); ++k)
    if (recorder_.graph_->inputs()[k].value == value) return evaluate_hook()(Trace(), {recorder_.inputs_[k]}).at(0);
  Trace trace;
  trace.graph = extract(*recorder_.graph_, value);
  if (const Symbols* symbols = recorder_.symbols())
    trace.graph = ir::instantiate(*trace.graph, symbols->env->examples(), nullptr, symbols->env);
  std::vector<at::Tensor> arguments;
  for (size_t k = 0; k < recorder_.inputs_.size(); ++k) {
    const bool is_argument = recorder_.graph_->inputs()[k].kind == ir::InputKind::argument;
    if (is_argument) arguments.push_back(recorder_.inputs_[k]);
    trace.bound.push_back(is_argument ? at::Tensor() : recorder_.inputs_[k]);
  }
  trace.objects = recorder_.objects_;
  trace.outputs.emplace_back();
  const bool draws = recorder_.generator_.active();
  const at::Tensor state = draws ? cpu_generator_state() : at::Tensor();
  if (draws) set_cpu_generator_state(recorder_.generator_.original());
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

void KnownValues::warn_frozen(std::string_view what) {
  update_source(*recorder_.graph_);
  const std::string_view source = recorder_.graph_->source();
  std::string text =
      concat(source.empty() ? "the traced function" : source, ": ", what,
             " reads the value of a tensor. The trace keeps the value of the example inputs; calls with "
             "other values will not see the difference.");
  if (std::find(recorder_.warnings_.begin(), recorder_.warnings_.end(), text) == recorder_.warnings_.end())
    recorder_.warnings_.push_back(std::move(text));
}

at::Tensor KnownValues::materialize(const at::Tensor& tensor, std::string_view what) {
  ir::Value* value = recorder_.value_of(tensor);
  if (const at::Tensor real = find(tensor); real.defined())
    return real.to(tensor.device(), /*non_blocking=*/false, /*copy=*/true);
  recorder_.generator_.sync(recorder_);
  last_read_ = what;
  warn_frozen(what);
  return laid_out(evaluate(value), tensor.strides());
}

}  // namespace braze::capture
