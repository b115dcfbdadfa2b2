#include "capture/traced_function.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "capture/autograd_node.h"
#include "capture/call.h"
#include "capture/recorder.h"
#include "capture/tape.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

class TracedFunction final : public Node {
 public:
  TracedFunction(Recorder& recorder, const FunctionCall& call)
      : recorder_(recorder),
        name_(concat(call.name, "Backward")),
        reads_(call.reads),
        last_(recorder.graph().last()) {
    for (const at::Tensor& tangent : call.tangents) tangents_.push_back(recorder.value_of(tangent));
    for (const at::Tensor& gradient : call.gradients)
      gradients_.push_back(gradient.defined() ? std::optional(Gradient{recorder.value_of(gradient),
                                                                       gradient.scalar_type(), gradient.device()})
                                              : std::nullopt);
    last_ = recorder.graph().last();  // Reading what they are may have made nodes.
    for (const at::Tensor& tensor : call.saved) {
      const ViewPtr& view = recorder.view_of(tensor);
      saved_.push_back({view, view->memory->version});
    }
    for (const at::Tensor& output : call.outputs)
      is_constant_.push_back(std::ranges::any_of(
          call.constants, [&](const at::Tensor& constant) { return constant.is_same(output); }));
  }

  std::string name() const override { return name_; }
  const std::shared_ptr<const LateReads>& reads() const { return reads_; }

 protected:
  variable_list apply(variable_list&& given) override {
    for (const Saved& saved : saved_)
      if (saved.view->memory->version != saved.version)
        throw UserError(concat("what ", name_, " has saved is written before its backward"));
    std::unordered_map<const ir::Value*, ir::Value*> copy_of;
    size_t tangent = 0;
    for (size_t k = 0; k < is_constant_.size(); ++k) {
      if (is_constant_[k]) continue;
      const ir::Value* placeholder = tangents_.at(tangent++);
      copy_of[placeholder] = value_for(*placeholder, given.at(k));
    }
    copy(copy_of);
    variable_list found;
    for (const std::optional<Gradient>& gradient : gradients_) {
      if (!gradient) {
        found.emplace_back();
        continue;
      }
      const auto copied = copy_of.find(gradient->value);
      ir::Value* value = copied == copy_of.end() ? gradient->value : copied->second;
      if (tangents_.size() > 1)
        for (const ir::Value* placeholder : tangents_) value = come_with(value, copy_of.at(placeholder));
      found.push_back(recorder_.wrap_fresh(densified(recorder_.graph(), value), gradient->dtype, gradient->device));
    }
    return found;
  }

 private:
  struct Gradient {
    ir::Value* value;
    c10::ScalarType dtype;
    c10::Device device;
  };
  struct Saved {
    ViewPtr view;
    uint32_t version;
  };

  /// A gradient, or zeros, as the backward has taken it.
  ir::Value* value_for(const ir::Value& placeholder, const at::Tensor& given) {
    ir::Graph& graph = recorder_.graph();
    const ir::Type* type = placeholder.type;
    if (given.defined()) {
      ir::Value* value = recorder_.value_of(given);
      return value->type == type ? value : graph.create(ir::Op::cast, {value}, {}, type);
    }
    ir::Value* zero = graph.scalar(type->dtype, ir::Number::of(0), type->device);
    const Sizes none(type->sizes.size(), Dim(0));
    ir::Value* zeros = graph.create(ir::Op::expand, {zero}, {},
                                    type_in(graph, type->dtype, type->device, to_ref(type->sizes), none));
    return graph.create(ir::Op::cast, {zeros}, {}, type);
  }

  /// The backward is run as a whole: given any of the tangents, the others are zeros for it, and so is a gradient
  /// that comes of those alone. The value, in a form that depends on the tangent (passes/partial_backward.h).
  ir::Value* come_with(ir::Value* value, ir::Value* tangent) {
    ir::Graph& graph = recorder_.graph();
    const ir::Type *type = value->type, *given = tangent->type;
    std::vector<int64_t> dims(given->sizes.size());
    std::iota(dims.begin(), dims.end(), 0);
    ir::Value* number = tangent;
    if (!dims.empty())
      number = graph.create(ir::Op::sum, {number}, {{"dims", std::span<const int64_t>(dims)}, {"keepdim", false}},
                            type_in(graph, given->dtype, given->device, {}, {}));
    if (type->dtype != given->dtype)
      number = graph.create(ir::Op::cast, {number}, {}, type_in(graph, type->dtype, type->device, {}, {}));
    ir::Value* never = graph.scalar(ir::DType::b8, ir::Number::of(0), type->device);
    return graph.create(ir::Op::where, {never, number, value}, {}, type);
  }

  /// Records the nodes again that the gradients are made by.
  void copy(std::unordered_map<const ir::Value*, ir::Value*>& copy_of) {
    std::unordered_set<const ir::Value*> needed;
    for (const std::optional<Gradient>& gradient : gradients_)
      if (gradient) needed.insert(gradient->value);
    const ir::Node* first = nullptr;
    for (const ir::Value* tangent : tangents_)
      if (!first || tangent->def->id < first->id) first = tangent->def;
    std::vector<ir::Node*> nodes;
    for (ir::Node* node = last_; first; node = node->previous) {
      const auto is_needed = [&](const ir::Value& result) { return needed.contains(&result); };
      const bool is_placeholder = !node->results.empty() && copy_of.contains(node->results.data());
      if (!is_placeholder && std::ranges::any_of(node->results, is_needed)) {
        nodes.push_back(node);
        needed.insert(node->operands.begin(), node->operands.end());
      }
      if (node == first) break;
    }
    ir::Graph& graph = recorder_.graph();
    const std::string_view source = graph.source();
    for (ir::Node* node : std::views::reverse(nodes)) {
      std::vector<ir::Value*> operands;
      for (ir::Value* operand : node->operands) {
        const auto copied = copy_of.find(operand);
        operands.push_back(copied == copy_of.end() ? operand : copied->second);
      }
      std::vector<const ir::Type*> types;
      for (const ir::Value& result : node->results) types.push_back(result.type);
      graph.set_source(node->source);
      ir::Node* copied = graph.create(node->op, operands, node->attrs, types);
      for (size_t k = 0; k < types.size(); ++k) copy_of[&node->results[k]] = copied->result(k);
    }
    graph.set_source(source);
  }

  Recorder& recorder_;  ///< Of the trace, in which alone this node runs.
  const std::string name_;
  const std::shared_ptr<const LateReads> reads_;
  ir::Node* last_;
  std::vector<const ir::Value*> tangents_;
  std::vector<std::optional<Gradient>> gradients_;
  std::vector<Saved> saved_;
  std::vector<bool> is_constant_;  ///< By output.
};

std::unordered_set<at::TensorImpl*> impls_of(const std::vector<at::Tensor>& tensors) {
  std::unordered_set<at::TensorImpl*> impls;
  for (const at::Tensor& tensor : tensors) impls.insert(tensor.unsafeGetTensorImpl());
  return impls;
}

at::Tensor view_as_self(const at::Tensor& tensor) {
  const at::NoGradGuard no_history;
  return tensor.view_as(tensor);
}

}  // namespace

bool is_traced_function(const Node& node) {
  return dynamic_cast<const TracedFunction*>(&node);
}

std::shared_ptr<const LateReads> late_reads_of(const Node& node) {
  const auto* const function = dynamic_cast<const TracedFunction*>(&node);
  return function ? function->reads() : nullptr;
}

std::vector<at::Tensor> function_tangents(Recorder& recorder, const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> tangents;
  for (const at::Tensor& output : outputs) {
    if (!c10::isFloatingType(output.scalar_type())) throw UserError("a complex result of an autograd.Function");
    const DimsRef sizes = dims_of(output);
    const ir::Type* type =
        recorder.type(output.scalar_type(), output.device(), sizes, preserved_strides(sizes, strides_of(output)));
    // Of the output, so that nothing that reads its value takes it for a constant.
    ir::Value* value = recorder.graph().create(ir::Op::cast, {recorder.value_of(output)}, {}, type);
    tangents.push_back(recorder.wrap_fresh(value, output.scalar_type(), output.device()));
  }
  if (TapeRecorder* const tape = TapeRecorder::current()) tape->begin_function(tangents);
  return tangents;
}

std::vector<at::Tensor> join_function(Recorder& recorder, FunctionCall call) {
  const auto stand_in = [&](at::Tensor& tensor) {
    if (!is_tracer(tensor) && recorder.is_tracked(tensor)) tensor = recorder.stand_in(tensor);
  };
  for (auto* list : {&call.inputs, &call.outputs, &call.constants, &call.dirty})
    std::ranges::for_each(*list, stand_in);
  for (const at::Tensor& tensor : call.dirty)  // As eager counts them, whatever has been done to them.
    if (is_tracer(tensor)) torch::autograd::impl::bump_version(tensor);
  const auto node = make_node<TracedFunction>(recorder, call);
  const at::AutoGradMode gradients_on(true);
  node->set_next_edges(torch::autograd::collect_next_edges(call.inputs));
  const std::vector<std::optional<at::Tensor>> outputs(call.outputs.begin(), call.outputs.end());
  const auto no_jvp = [](const variable_list&, const variable_list&) -> variable_list {
    throw UserError("forward-mode derivatives of an autograd.Function in a compiled function");
  };
  TapeRecorder* const tape = TapeRecorder::current();
  if (call.reads && !tape)
    throw UserError("a backward that reads numbers by name, where nothing checks them later");
  std::vector<at::Tensor> joined;
  {
    const TapeRecorder::Scope not_taped(nullptr);
    for (const std::optional<at::Tensor>& output : torch::autograd::_wrap_outputs(
             call.inputs, impls_of(call.constants), impls_of(call.dirty), outputs, node, no_jvp, {}, &view_as_self,
             /*pure_view=*/false))
      joined.push_back(*output);
  }
  if (tape) tape->end_function(call, joined);
  return joined;
}

void note_inner_function(FunctionCall call, bool is_bare) {
  TapeRecorder* const tape = TapeRecorder::current();
  if (!tape) return;
  if (is_bare)
    tape->add_bare_function(call);
  else
    tape->end_function(call, call.outputs);
}

}  // namespace braze::capture
