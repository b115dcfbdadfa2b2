// capture/trace_end.cpp
#include "capture/trace_end.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <ranges>

#include "capture/call.h"
#include "capture/replaced_data.h"
#include "capture/version_counters.h"
#include "support/error.h"

namespace braze::capture {

/// Recipes follow eager's aliasing: a result in memory of an input is a view of that input; results in one memory
/// are views of one output.
OutputRecipe TraceEnd::recipe_of(const at::Tensor& output, Trace& trace) {
  const ViewPtr view = recorder_.view_of(output);
  Memory& memory = *view->memory;
  OutputRecipe recipe;
  const auto as_view_of = [&](const View& root) {
    recipe.is_conj = view->is_conj;
    recipe.is_neg = view->is_neg;
    recipe.whole = view->type == root.type && view->offset == root.offset && view->dtype == root.dtype;
    const Dim offset = first_byte(*view) - first_byte(root);
    const DimsRef sizes = view->type->sizes, strides = view->type->strides;
    if (recipe.whole) return;
    recipe.dtype = view->dtype;
    if (!sizes.is_numbers() || !strides.is_numbers() || !offset.is_number()) {
      for (const DimsRef part : {sizes, strides, DimsRef(&offset, 1)})
        recipe.symbolic.insert(recipe.symbolic.end(), part.symbolic().begin(), part.symbolic().end());
      return;
    }
    recipe.offset = offset;
    recipe.sizes = sizes.vec();
    recipe.strides = strides.vec();
  };
  for (const auto& [impl, bound] : recorder_.bound_) {
    const bool same = impl == output.unsafeGetTensorImpl() || bound.tracer.is_same(output);
    if (!same || bound.view->input < 0 || !recorder_.inputs_[bound.view->input].is_same(bound.real)) continue;
    recipe.kind = OutputRecipe::Kind::input_object;
    recipe.index = static_cast<uint32_t>(bound.view->input);
    return recipe;
  }
  const View* input = view.get();  // That it was made from, or else another in the same memory.
  while (input && input->input < 0) input = input->parent.get();
  for (const ViewPtr& root : memory.roots)
    if (!input && root->input >= 0) input = root.get();
  if (input) {
    recipe.kind = OutputRecipe::Kind::input_view;
    recipe.index = static_cast<uint32_t>(input->input);
    as_view_of(*input);
    return recipe;
  }
  recipe.of_other_mode = output.is_inference() != recorder_.began_in_inference_mode_;
  if (!output.is_inference()) recipe.version = output._version();
  const auto [place, is_new] = output_of_.try_emplace(&memory, trace.graph->outputs().size());
  ir::Value* base = read(recorder_, *memory.base);
  if (is_new) trace.graph->outputs().push_back(memory_of_its_own(base));
  const ir::Value* dense = trace.graph->outputs()[place->second];
  recipe.index = place->second;
  if (dense->type == base->type) as_view_of(*memory.base);
  return recipe;
}

/// The value in memory that can be given away. Kernels make that themselves, but not of what only ATen knows.
ir::Value* TraceEnd::memory_of_its_own(ir::Value* value) {
  const ir::Type& type = *value->type;
  if (ir::is_kernel_dtype(type.dtype)) return densified(*recorder_.graph_, value);
  const bool dense = is_dense(to_ref(type.sizes), to_ref(type.strides));
  const auto& outputs = recorder_.graph_->outputs();
  if (dense && value->def->op == Op::call && std::ranges::find(outputs, value) == outputs.end()) return value;
  const Sizes strides = preserved_strides(to_ref(type.sizes), to_ref(type.strides));
  return recorder_.call_simple("braze::lay_out", {value}, {at::Tensor(), as_ints(strides).vec()},
                               type_in(*recorder_.graph_, type.dtype, type.device, type.sizes, strides));
}

/// What autograd takes a returned view for a view of: results know it as eager's do.
void TraceEnd::find_base(const at::Tensor& output, const std::vector<at::Tensor>& outputs, OutputRecipe& recipe) {
  using Base = OutputRecipe::Base;
  if (recipe.kind == OutputRecipe::Kind::input_object || !as_tracer(output) || !output.is_view()) return;
  const at::Tensor base(output._base());
  if (const ReplacedData* replaced = replaced_data(); replaced && replaced->contains(base))
    throw UserError("braze: a view is returned of a tensor whose `data` was replaced before.");
  recipe.creation = torch::autograd::impl::get_view_autograd_meta(output)->get_creation_meta();
  for (const auto& [impl, bound] : recorder_.bound_) {
    if (bound.view->input < 0 || !recorder_.inputs_[bound.view->input].is_same(bound.real)) continue;
    const at::Tensor& one = bound.tracer.defined() && as_tracer(base) ? bound.tracer : bound.real;
    if (!base.is_same(one) && !(one.is_view() && base.is_same(one._base()))) continue;
    recipe.base_kind = Base::input;
    recipe.base = static_cast<uint32_t>(bound.view->input);
    return;
  }
  if (!as_tracer(base)) return;
  const auto place = [&](const std::vector<at::Tensor>& tensors) {
    return static_cast<uint32_t>(
        std::ranges::find_if(tensors, [&](const at::Tensor& one) { return one.is_same(base); }) - tensors.begin());
  };
  recipe.base_kind = Base::output;
  recipe.base = place(outputs);
  if (recipe.base < outputs.size()) return;
  recipe.base += place(hidden_);
  if (recipe.base == outputs.size() + hidden_.size()) hidden_.push_back(base);
}

/// Results that lie in one memory may count their writes apart. Where one counter is the memory's own, it is that
/// of the input, or of the first result.
void TraceEnd::find_counters(Trace& trace, const std::vector<at::Tensor>& outputs) const {
  using Kind = OutputRecipe::Kind;
  struct Result {
    at::Tensor tensor;
    OutputRecipe* recipe;
  };
  std::vector<Result> results;
  for (size_t r = 0; r < outputs.size(); ++r) results.push_back({outputs[r], &trace.outputs[r]});
  for (size_t r = 0; r < hidden_.size(); ++r) results.push_back({hidden_[r], &trace.hidden[r]});
  const auto is_inputs = [&](const at::Tensor& tensor, uint32_t index) {
    return std::ranges::any_of(recorder_.bound_, [&](const auto& one) {
      const auto& bound = one.second;
      return bound.view->input == static_cast<int32_t>(index) &&
             (share_version(bound.real, tensor) || (bound.tracer.defined() && share_version(bound.tracer, tensor)));
    });
  };
  for (size_t r = 0; r < results.size(); ++r) {
    const auto& [tensor, recipe] = results[r];
    if (recipe->kind == Kind::input_object || tensor.is_inference() || recipe->of_other_mode) continue;
    const bool is_output = recipe->kind == Kind::output;
    if (!is_output && is_inputs(tensor, recipe->index)) continue;
    bool is_first = true;
    int32_t counter = OutputRecipe::of_its_own;
    for (size_t k = 0; k < r && counter == OutputRecipe::of_its_own; ++k) {
      const OutputRecipe& earlier = *results[k].recipe;
      if (earlier.kind != recipe->kind || earlier.index != recipe->index) continue;
      is_first = false;
      if (share_version(results[k].tensor, tensor))
        counter = earlier.counter == OutputRecipe::of_its_own ? static_cast<int32_t>(k) : earlier.counter;
    }
    recipe->counter = is_first && is_output ? OutputRecipe::of_memory : counter;
    if (!is_output) recipe->version = tensor._version();
  }
}

void TraceEnd::count_writes(Trace& trace) const {
  trace.writes.assign(recorder_.inputs_.size(), 0);
  for (const auto& [impl, bound] : recorder_.bound_) {
    if (bound.view->input < 0 || !recorder_.inputs_[bound.view->input].is_same(bound.real)) continue;
    uint32_t& writes = trace.writes[bound.view->input];
    if (!bound.real.is_inference()) writes = bound.real._version() - bound.version;
    if (bound.tracer.defined() && !bound.tracer.is_inference() && !share_version(bound.tracer, bound.real))
      writes += bound.tracer._version();
  }
}

/// `.backward()` inside the traced function leaves tensors of the trace in `.grad` of real ones: undone, and told.
void TraceEnd::check_gradients() {
  bool found = false;
  for (auto& [impl, bound] : recorder_.bound_) {
    if (!bound.real.requires_grad() || !bound.real.is_leaf()) continue;
    if (!as_tracer(bound.real.grad())) continue;
    bound.real.mutable_grad() = bound.gradient;
    found = true;
  }
  if (found)
    throw UserError(
        "braze: the traced function calls backward(), which writes to .grad of tensors outside of it. Use "
        "torch.autograd.grad() and return the gradients.");
}

namespace {

/// A view raises for its sizes alone, which the trace has been through.
bool is_view_operator(const ir::Node& call) {
  const bool has_overload = call.find("overload");
  const auto op = c10::Dispatcher::singleton().findSchema(
      {std::string(call.text_attr("target")), has_overload ? std::string(call.text_attr("overload")) : ""});
  return op && std::ranges::any_of(op->schema().returns(), [](const c10::Argument& result) {
           return result.alias_info() && !result.alias_info()->isWrite();
         });
}

}  // namespace

/// A bad index, divisor or probability, or what was to be true and is not, raises even where nobody uses the
/// result, and so does whatever a kernel of ATen's refuses: a singular matrix, a maximum of nothing. Nodes that
/// check one and that no output needs become outputs of the graph, behind all that recipes name: one bool for the
/// elements of each, or what the call returns.
void TraceEnd::keep_checks() {
  std::vector<bool> live(recorder_.graph_->value_limit());
  const auto mark = [&](const ir::Value* value) {
    live[ir::Graph::resolve(const_cast<ir::Value*>(value))->id] = true;
  };
  std::ranges::for_each(recorder_.graph_->outputs(), mark);
  for (const ir::Mutation& mutation : recorder_.graph_->mutations()) mark(mutation.value);
  std::vector<ir::Value*> unused;
  for (ir::Node* node = recorder_.graph_->last(); node; node = node->previous) {
    const bool needed = node->has_effect() || std::ranges::any_of(node->results, [&](const ir::Value& result) {
                          return live[result.id];
                        });
    const ir::OpKind kind = ir::info(node->op).kind;
    const bool checks = kind == ir::OpKind::Gather || kind == ir::OpKind::Update ||
                        has(node->op, ir::traits::raises) ||
                        (node->op == ir::Op::call && !node->results.empty() && !is_view_operator(*node));
    if (!needed && !checks) continue;
    if (!needed) unused.push_back(node->result(0));
    std::ranges::for_each(node->operands, mark);
  }
  for (ir::Value* value : unused | std::views::reverse) {
    const ir::Type& type = *value->type;
    if (value->def->op == ir::Op::call) {
      recorder_.graph_->outputs().push_back(value);
      continue;
    }
    std::vector<int64_t> dims(type.rank());
    std::iota(dims.begin(), dims.end(), 0);
    if (type.dtype != ir::DType::b8)
      value = recorder_.graph_->create(
          ir::Op::cast, {value}, {},
          type_in(*recorder_.graph_, ir::DType::b8, type.device, type.sizes, type.strides));
    if (!dims.empty())
      value = recorder_.graph_->create(ir::Op::any, {value},
                                       {{"dims", std::span<const int64_t>(dims)}, {"keepdim", false}},
                                       rows_in(*recorder_.graph_, ir::DType::b8, type.device, {}));
    recorder_.graph_->outputs().push_back(value);
  }
}

Trace TraceEnd::finish(const std::vector<at::Tensor>& outputs) {
  check_gradients();
  recorder_.generator_.sync(recorder_);
  recorder_.sizes_.settle();
  Trace trace;
  trace.graph = recorder_.graph_;
  for (const at::Tensor& output : outputs) {
    BRAZE_CHECK(output.defined(), "an undefined tensor was returned");
    trace.outputs.push_back(recipe_of(output, trace));
    // One that the function has made, and given no history, is told so by whoever returns it.
    const bool is_new_leaf =
        as_tracer(output) && output.is_leaf() && trace.outputs.back().kind != OutputRecipe::Kind::input_object;
    trace.any_requires_grad |= output.requires_grad() && !is_new_leaf;
    find_base(output, outputs, trace.outputs.back());
  }
  for (const auto& [impl, bound] : recorder_.bound_) trace.any_requires_grad |= Recorder::was_rebased(bound);
  for (const at::Tensor& tensor : hidden_) trace.hidden.push_back(recipe_of(tensor, trace));
  find_counters(trace, outputs);
  hidden_.clear();
  count_writes(trace);
  for (Memory& memory : recorder_.memories_)
    if (memory.version > 0 && memory.base->input >= 0)
      recorder_.graph_->mutations().push_back(
          {static_cast<uint32_t>(memory.base->input), read(recorder_, *memory.base)});
  keep_checks();
  take_inputs(trace);
  trace.objects = std::move(recorder_.objects_);
  trace.warnings = std::move(recorder_.warnings_);
  trace.symbols = recorder_.sizes_.sources();
  if (const Symbols* symbols = recorder_.symbols()) {
    recorder_.sizes_.settle();
    trace.specialised = symbols->specialised;
  }
  return trace;
}

void TraceEnd::take_inputs(Trace& trace) {
  trace.place_modulus = recorder_.place_modulus_;
  trace.bound = {};
  for (size_t k = 0; k < recorder_.inputs_.size(); ++k)
    trace.bound.push_back(recorder_.graph_->inputs()[k].kind == ir::InputKind::argument ? at::Tensor()
                                                                                        : recorder_.inputs_[k]);
}

std::vector<at::Tensor> TraceEnd::release() {
  for (auto& [impl, bound] : recorder_.bound_) {
    bound.tracer.reset();
    bound.history.reset();  // It holds a leaf.
  }
  return recorder_.tensors_->alive();
}

void TraceEnd::add_outputs(Trace& trace, const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& output : outputs) trace.outputs.push_back(recipe_of(output, trace));
  BRAZE_CHECK(recorder_.objects_.empty(), "a view of a value is not made by a call");
}

}  // namespace braze::capture
