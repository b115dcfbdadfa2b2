// capture/differentiate.cpp: the backward of what was recorded, recorded behind it.
//
// Autograd has built its graph over tracers, with stand-ins for the user's tensors as leaves. Its nodes are run
// here in the order of PyTorch's engine (capture/engine_walk.h).
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "capture/autograd_node.h"
#include "capture/call.h"
#include "capture/effect_times.h"
#include "capture/engine_order.h"
#include "capture/engine_walk.h"
#include "capture/memory_reads.h"
#include "capture/rerun_gradients.h"
#include "capture/saving_nodes.h"
#include "capture/tape.h"
#include "capture/traced_function.h"
#include "capture/version_checks.h"
#include "passes/round_halves.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// A leaf of the trace: the node at which gradients of an input of the graph arrive.
struct Leaf {
  uint32_t input;
  Edge edge;
};

class Backward final : EngineWalk {
 public:
  /// Told of each result that roots lead to what has come to it, a root's own tangent among it, which it
  /// gives back.
  using OnArrival = std::function<at::Tensor(uint32_t result, at::Tensor gradient)>;

  /// Whether nobody will see the gradient of a leaf that the trace has made.
  using IsUnseen = std::function<bool(const at::Tensor&)>;

  Backward(const std::vector<Leaf>& leaves, uint64_t first_sequence_number, OnArrival on_arrival,
           IsUnseen is_unseen)
      : first_sequence_number_(first_sequence_number),
        on_arrival_(std::move(on_arrival)),
        is_unseen_(std::move(is_unseen)) {
    for (uint32_t k = 0; k < leaves.size(); ++k) leaf_of_[leaves[k].edge.function.get()] = k;
    gradients_.resize(leaves.size());
  }

  /// The gradients of the leaves, undefined where no root depends on one.
  std::vector<at::Tensor> run(const std::vector<Edge>& roots, const std::vector<at::Tensor>& tangents) {
    for (const Edge& root : roots) discover(root.function.get());
    walk(roots, tangents);
    return std::move(gradients_);
  }

  /// Why the recorded operators alone do not tell the gradient; empty: they do.
  const std::string& own_gradients() const { return own_gradients_; }

  /// Leaves in the order in which their gradients have come.
  std::vector<uint32_t> leaf_order() const {
    std::vector<uint32_t> order;
    for (Node* node : order_)
      if (const auto leaf = leaf_of_.find(node); leaf != leaf_of_.end()) order.push_back(leaf->second);
    return order;
  }

  /// Gradients count by leaf.
  NodeReach reach(const std::vector<Edge>& results, size_t roots) const {
    return reach_of(order_, results, roots, leaf_of_);
  }
  /// After all else.
  std::vector<Gradients::Saving> saving(const NodeReach& reach) const {
    return saving_nodes(order_, reach, leaf_of_);
  }
  const NodesThatSave& nodes_that_save() const { return nodes_that_save_; }

  /// Of each leaf, whether the root depends on it.
  std::vector<bool> reached_from(const Edge& root) const {
    std::vector<bool> reached(leaf_of_.size());
    std::unordered_map<const Node*, bool> seen;
    std::vector<const Node*> stack{root.function.get()};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (std::exchange(seen[node], true)) continue;
      if (const auto leaf = leaf_of_.find(node); leaf != leaf_of_.end()) reached[leaf->second] = true;
      for (const Edge& edge : node->next_edges())
        if (edge.is_valid()) stack.push_back(edge.function.get());
    }
    return reached;
  }

  /// A result to which roots lead.
  struct Inner {
    uint32_t number;
    uint32_t place;  ///< Among the inputs of its node.
    std::vector<uint32_t> directly;
  };
  const std::unordered_multimap<const Node*, Inner>& inner() const { return inner_; }
  /// First of all.
  /// \param base_of  by result, of views of roots: these are come to by the views.
  void find_inner(const std::vector<Edge>& results, size_t roots,
                  std::span<const std::optional<uint32_t>> base_of) {
    if (results.size() < 2) return;
    const ResultsByEdge result_at = results_by_edge(results);
    const auto note = [&](uint32_t result) -> std::vector<uint32_t>& {
      const auto [first, last] = inner_.equal_range(results[result].function.get());
      auto at = std::find_if(first, last, [&](const auto& row) { return row.second.number == result; });
      if (at == last)
        at = inner_.emplace(results[result].function.get(), Inner{result, results[result].input_nr, {}});
      return at->second.directly;
    };
    for (uint32_t from = 0; from < roots; ++from) {
      std::unordered_set<const Node*> seen{results[from].function.get()};
      std::vector<const Node*> stack{results[from].function.get()};
      while (!stack.empty()) {
        const Node* node = stack.back();
        stack.pop_back();
        for (const Edge& edge : node->next_edges()) {
          if (!edge.is_valid()) continue;
          if (const auto result = result_at.find(edge); result != result_at.end()) {
            std::vector<uint32_t>& directly = note(result->second);
            if (directly.empty() || directly.back() != from) directly.push_back(from);
            if (base_of[result->second]) note(*base_of[result->second]);
          } else if (seen.insert(edge.function.get()).second) {
            stack.push_back(edge.function.get());
          }
        }
      }
    }
  }

 private:
  /// Counts what each node waits for.
  void discover(Node* root) {
    std::vector<Node*> stack;
    const auto visit = [&](Node* node) {
      if (!add_node(*node)) return;
      check(*node);
      stack.push_back(node);
    };
    visit(root);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (leaf_of_.contains(node)) continue;
      for (const Edge& edge : node->next_edges()) {
        if (!follows(edge)) continue;
        visit(edge.function.get());
        wait_for_one(edge);
      }
    }
  }

  /// Not to a leaf that the trace has made, by requires_grad_(), and that nobody sees.
  bool follows(const Edge& edge) const override {
    const Node* const node = edge.function.get();
    const auto* const accumulates = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    return node && !(accumulates && !leaf_of_.contains(node) && is_unseen_(accumulates->variable));
  }

  void check(Node& node) {
    const bool is_leaf = leaf_of_.contains(&node);
    if (!is_leaf && (node.sequence_nr() < first_sequence_number_ || node.num_outputs() == 0))
      throw UserError(
          concat("the gradient of a tensor that is no input of the trace is wanted (", node.name(), ")"));
    // Python code of the user's: what it does beside computing would be done once, and now.
    if (std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos)
      throw UserError(concat("the backward of an autograd.Function is wanted (", node.name(), ")"));
    const std::string_view type = typeid(node).name();
    if (!is_leaf && !is_rerun(node) && !is_traced_function(node) &&
        (type.find("CppNode") != type.npos || type.find("braze") != type.npos))
      own_gradients_ = concat("a function has a gradient of its own (", node.name(), ")");
    check_hooks(node);
  }

  void step(Node& node, variable_list inputs) override {
    const auto [first, last] = inner_.equal_range(&node);
    for (auto at = first; at != last; ++at) {
      at::Tensor& one = inputs.at(at->second.place);
      if (one.defined()) one = on_arrival_(at->second.number, std::move(one));
    }
    if (const auto leaf = leaf_of_.find(&node); leaf != leaf_of_.end()) {
      gradients_[leaf->second] = inputs.at(0);
      order_.push_back(&node);
      ++leaves_run_;
      return;
    }
    order_.push_back(&node);
    nodes_that_save_.add(node, leaves_run_);
    const MemoryReads* const reads = MemoryReads::current();
    const size_t reads_before = reads ? reads->count() : 0;
    variable_list outputs = compute(node, std::move(inputs));
    if (EffectTimes* const times = EffectTimes::current(); times && reads && reads->count() > reads_before)
      times->note_saving(node.sequence_nr());
    pass_on(node, std::move(outputs));
  }

  const uint64_t first_sequence_number_;
  std::unordered_map<const Node*, uint32_t> leaf_of_;
  std::vector<at::Tensor> gradients_;
  std::unordered_multimap<const Node*, Inner> inner_;
  const OnArrival on_arrival_;
  const IsUnseen is_unseen_;
  std::string own_gradients_;
  std::vector<Node*> order_;  ///< In which they have run.
  uint32_t leaves_run_ = 0;
  NodesThatSave nodes_that_save_;
};

/// Gradients that come in this order, those of leaves first, as a node has to give them for that.
void arrange(std::vector<Gradients::Input>& gradients, size_t leaves) {
  std::vector<Gradients::Input> arranged(gradients);
  const std::vector<size_t> runs = run_order_of_leaves(leaves, gradients.size() - leaves);
  for (size_t k = 0; k < leaves; ++k) arranged[runs[k]] = std::move(gradients[k]);
  gradients = std::move(arranged);
}

/// Autograd differentiates the view: it shows the base's elements, or complex ones as two real ones, or the
/// reverse.
bool is_differentiable(const OutputRecipe& recipe, const at::Tensor& base) {
  return recipe.whole || c10::toRealValueType(recipe.dtype) == c10::toRealValueType(base.scalar_type());
}

/// A view that an autograd.Function has given: its history is the function's, and not that of its base.
bool is_view_of_function(const at::Tensor& tensor) {
  using torch::autograd::CreationMeta;
  return tensor.is_view() && torch::autograd::impl::get_view_autograd_meta(tensor)->get_creation_meta() ==
                                 CreationMeta::IN_CUSTOM_FUNCTION;
}

}  // namespace

namespace {

/// Returned views that have a history as others do, each with the root that it is a view of, if it is one of a
/// root.
using InnerViews = std::vector<std::pair<uint32_t, std::optional<uint32_t>>>;

bool is_view(const Gradients::Result& result) {
  using Kind = Gradients::Result::Kind;
  return result.kind == Kind::view_of_other || result.kind == Kind::view_of_input;
}

/// Of a returned view, those that eager makes by operators of views, one or several at once.
bool has_history_of_its_own(const OutputRecipe& recipe, const at::Tensor& output) {
  using torch::autograd::CreationMeta;
  return (recipe.creation == CreationMeta::DEFAULT || recipe.creation == CreationMeta::MULTI_OUTPUT_NODE) &&
         output.grad_fn();
}

/// A returned view that was made of another one has its history from that: what comes to it goes on to the other
/// one, and to the hooks there.
void find_views_between(const Trace& trace, const std::vector<at::Tensor>& outputs, Gradients& gradients) {
  const auto is_fit = [&](size_t r) {
    const OutputRecipe& recipe = trace.outputs[r];
    return is_view(gradients.results[r]) && has_history_of_its_own(recipe, outputs[r]) && !recipe.is_conj &&
           !recipe.is_neg;
  };
  const std::vector<Gradients::Result> bases = gradients.results;
  const auto is_between = [&](size_t r, size_t other, const Edge& edge) {
    return other != r && is_fit(other) && bases[other].kind == bases[r].kind &&
           bases[other].index == bases[r].index && outputs[other].scalar_type() == outputs[r].scalar_type() &&
           edge == torch::autograd::impl::gradient_edge(outputs[other]);
  };
  for (size_t r = 0; r < outputs.size(); ++r) {
    if (!is_fit(r)) continue;
    const Node* node = outputs[r].grad_fn().get();
    for (bool is_found = false; !is_found && node && node->num_outputs() == 1;) {
      const Edge& edge = node->next_edge(0);
      for (uint32_t other = 0; other < outputs.size() && !is_found; ++other) {
        if (!is_between(r, other, edge)) continue;
        gradients.results[r] = {Gradients::Result::Kind::view_of_other, other};
        is_found = true;
      }
      node = edge.function.get();
    }
  }
}

InnerViews inner_views(const Trace& trace, const std::vector<at::Tensor>& outputs, const Gradients& gradients) {
  using Kind = Gradients::Result::Kind;
  InnerViews views;
  for (uint32_t r = 0; r < outputs.size(); ++r) {
    if (!is_view(gradients.results[r]) || !has_history_of_its_own(trace.outputs[r], outputs[r])) continue;
    Gradients::Result result = gradients.results[r];
    while (result.kind == Kind::view_of_other && is_view(gradients.results[result.index]))
      result = gradients.results[result.index];
    std::optional<uint32_t> base;
    if (result.kind == Kind::view_of_other) {
      base = gradients.results[result.index].index;
    } else {
      const auto written = std::ranges::find(gradients.written, result.index, &Gradients::Written::input);
      if (written != gradients.written.end()) base = written->tangent;
    }
    views.emplace_back(r, base);
  }
  return views;
}

}  // namespace

/// Tensors whose gradients the backward takes: what was computed, once, however many views of it are returned.
std::vector<at::Tensor> TraceEnd::find_roots(const Trace& trace, const std::vector<at::Tensor>& outputs,
                                             Gradients& gradients) const {
  using Kind = Gradients::Result::Kind;
  using Base = OutputRecipe::Base;
  std::vector<at::Tensor> roots;
  gradients.results.resize(outputs.size() + trace.hidden.size());
  const auto add_root = [&](size_t result, const at::Tensor& tensor) {
    if (gradients.results[result].kind == Kind::root) return;
    if (to_dtype(tensor.scalar_type()) == ir::DType::other)
      throw UserError("a result of complex halves requires grad");
    gradients.results[result] = {Kind::root, static_cast<uint32_t>(roots.size())};
    roots.push_back(tensor);
  };
  for (size_t r = 0; r < outputs.size(); ++r) {
    const at::Tensor& output = outputs[r];
    const OutputRecipe& recipe = trace.outputs[r];
    if (!output.requires_grad() || recipe.kind == OutputRecipe::Kind::input_object) continue;
    if (is_view_of_function(output)) {
      add_root(r, output);
      continue;
    }
    if (recipe.base_kind == Base::none) {
      if (recipe.kind != OutputRecipe::Kind::output || recipe.is_conj || recipe.is_neg)
        throw UserError("a result that requires grad lies in the memory of an input");
      add_root(r, output);
      continue;
    }
    const at::Tensor base(output._base());
    if (!is_differentiable(recipe, base))
      throw UserError("a result that requires grad is a view as other elements");
    if (recipe.base_kind == Base::output) {
      if (recipe.base >= outputs.size()) add_root(recipe.base, base);
      gradients.results[r] = {Kind::view_of_other, recipe.base};
    } else {
      const at::Tensor& input = recorder_.inputs_.at(recipe.base);
      if (!input.requires_grad()) throw UserError("a view of an input requires grad, and the input does not");
      // What makes views again takes elements of one place for one element, and eager's views do not.
      const at::Tensor whole = input.is_view() ? at::Tensor(input._base()) : input;
      if (may_overlap(*recorder_.type(whole.scalar_type(), whole.device(), dims_of(whole), strides_of(whole))))
        throw UserError("a view that requires grad is of an input whose elements overlap");
      gradients.results[r] = {Kind::view_of_input, recipe.base};
    }
  }
  find_views_between(trace, outputs, gradients);
  return roots;
}

at::Tensor TraceEnd::add_tangent(const at::Tensor& root, size_t number) {
  const DimsRef sizes = dims_of(root);
  const ir::Type* mine =
      recorder_.type(root.scalar_type(), root.device(), sizes, preserved_strides(sizes, strides_of(root)));
  ir::Value* value = recorder_.graph_->add_input(concat("tangent", number), mine, ir::InputKind::argument);
  Memory& memory = recorder_.new_memory(mine, root.scalar_type(), root.device(), value);
  memory.roots[0]->input = static_cast<int32_t>(recorder_.inputs_.size());
  recorder_.inputs_.emplace_back();
  recorder_.place_modulus_.push_back(1);
  return recorder_.wrap(memory.roots[0], root.device());
}

void TraceEnd::differentiate(Trace& trace, const std::vector<at::Tensor>& outputs) {
  if (c10::InferenceMode::is_enabled()) throw UserError("gradients are wanted in inference mode");
  Gradients gradients;
  std::vector<at::Tensor> roots = find_roots(trace, outputs, gradients);
  std::vector<Leaf> leaves;
  for (const auto& [impl, bound] : recorder_.bound_) {
    if (bound.view->input < 0 || !recorder_.inputs_[bound.view->input].is_same(bound.real)) continue;
    const auto input = static_cast<uint32_t>(bound.view->input);
    if (bound.history) leaves.push_back({input, bound.history->edge});
    if (!Recorder::was_rebased(bound)) continue;
    const auto shares = [&](const auto& row) {
      return row.second.view && row.second.view->memory == bound.view->memory;
    };
    if (std::ranges::count_if(recorder_.bound_, shares) > 1)
      throw UserError("a tensor that shares memory with another one is written, and autograd notes it");
    gradients.written.push_back({input, static_cast<uint32_t>(roots.size())});
    roots.push_back(bound.tracer);
  }
  std::ranges::sort(leaves, {}, &Leaf::input);

  TapeRecorder* const tape = TapeRecorder::current();
  if (tape) tape->finish_forward(*recorder_.graph_, recorder_.inputs_, roots);
  const TapeRecorder::Scope not_taped(nullptr);
  gradients.first_tangent = static_cast<uint32_t>(recorder_.inputs_.size());
  gradients.first_gradient = static_cast<uint32_t>(recorder_.graph_->outputs().size());
  gradients.tangents = static_cast<uint32_t>(roots.size());
  gradients.objects = trace.objects.size();
  recorder_.objects_ = std::move(trace.objects);
  ir::Node* const last_forward = recorder_.graph_->last();
  recorder_.graph_->set_source({});

  // What a backward outside of the function would run under.
  const at::AutoGradMode no_gradients(false);
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  MemoryReads reads(*recorder_.graph_);
  std::vector<Edge> edges;
  std::vector<at::Tensor> tangents;
  for (const at::Tensor& root : roots) {
    edges.push_back(torch::autograd::impl::gradient_edge(root));
    tangents.push_back(add_tangent(root, tangents.size()));
  }
  const InnerViews views = inner_views(trace, outputs, gradients);
  std::vector<Edge> results(edges);
  std::vector<std::optional<uint32_t>> base_of(edges.size());
  for (const auto& [result, base] : views) {
    results.push_back(torch::autograd::impl::gradient_edge(outputs[result]));
    base_of.push_back(base);
  }
  std::vector<ir::Value*> arrived(results.size());
  const auto note_arrival = [&](uint32_t result, at::Tensor gradient) {
    arrived[result] = read(recorder_, *recorder_.view_of(gradient));
    if (result < edges.size() || !ir::is_kernel_dtype(arrived[result]->type->dtype)) return gradient;
    // It may go elsewhere, too: what a view gets is a value of its own.
    ir::Value* const value = densified(*recorder_.graph_, arrived[result]);
    arrived[result] = recorder_.graph_->create(ir::Op::expand, {value}, {}, value->type);
    return recorder_.wrap_fresh(arrived[result], gradient.scalar_type(), gradient.device());
  };
  const auto is_unseen = [&](const at::Tensor& leaf) {
    if (recorder_.stood_in_by(leaf)) return false;
    return std::ranges::none_of(outputs, [&](const at::Tensor& output) {
      return recorder_.view_of(output)->memory == recorder_.view_of(leaf)->memory;
    });
  };
  Backward backward(leaves, recorder_.first_sequence_number_, note_arrival, is_unseen);
  backward.find_inner(results, edges.size(), base_of);
  const MemoryReads::Scope noting_reads(reads);
  std::vector<at::Tensor> found = backward.run(edges, tangents);
  std::vector<std::vector<bool>> reached;
  for (const Edge& edge : edges) reached.push_back(backward.reached_from(edge));

  const NodeReach reach = backward.reach(results, edges.size());
  const std::vector<Gradients::Saving> saving = backward.saving(reach);

  const RunForReal outside_of_trace;
  const auto place_of = [&](uint32_t input) {
    return std::ranges::find(leaves, input, &Leaf::input) - leaves.begin();
  };
  std::unordered_map<const ir::Value*, uint32_t> output_of;
  for (const uint32_t k : backward.leaf_order()) {
    if (!found[k].defined()) continue;
    Gradients::Input input{leaves[k].input, Gradients::Input::Kind::output, 0, {}};
    for (const std::vector<bool>& leaves_reached : reached) input.from.push_back(leaves_reached[k]);
    const ViewPtr& view = recorder_.view_of(found[k]);
    const int64_t tangent = int64_t{view->input} - gradients.first_tangent;
    if (tangent >= 0 && tangent < gradients.tangents) {
      input.kind = Gradients::Input::Kind::tangent;
      input.index = static_cast<uint32_t>(tangent);
    } else {
      ir::Value* value = memory_of_its_own(read(recorder_, *view));
      const auto [place, is_new] = output_of.try_emplace(value, output_of.size());
      if (is_new) recorder_.graph_->outputs().push_back(value);
      input.index = place->second;
    }
    gradients.inputs.push_back(std::move(input));
  }
  std::vector<uint32_t> inner;  // Numbers of those results.
  for (const auto& [node, one] : backward.inner()) {
    ir::Value* const value = arrived[one.number];
    // Nothing has come if it is the tangent itself, and what only ATen knows is added up by nobody else.
    if (!value || (one.number < roots.size() && value->def->op == ir::Op::input)) continue;
    if (ir::is_kernel_dtype(value->type->dtype)) inner.push_back(one.number);
  }
  std::ranges::sort(inner);
  gradients.root_order.resize(roots.size());
  std::iota(gradients.root_order.begin(), gradients.root_order.end(), 0u);
  std::ranges::stable_sort(gradients.root_order, {},
                           [&](uint32_t root) { return edges[root].function->sequence_nr(); });
  for (const uint32_t number : inner) {
    Gradients::Inner one;
    if (number < roots.size())
      one.tangent = number;
    else
      std::tie(one.view, one.tangent) =
          std::pair(views[number - roots.size()].first, base_of[number].value_or(one.none));
    one.output = static_cast<uint32_t>(recorder_.graph_->outputs().size() - gradients.first_gradient);
    recorder_.graph_->outputs().push_back(arrived[number]);
    const auto [first, last] = backward.inner().equal_range(results[number].function.get());
    one.directly =
        std::find_if(first, last, [&](const auto& row) { return row.second.number == number; })->second.directly;
    gradients.inner.push_back(std::move(one));
  }
  const auto others = std::ranges::stable_partition(
      gradients.inputs, [&](const Gradients::Input& one) { return recorder_.inputs_[one.input].is_leaf(); });
  arrange(gradients.inputs, gradients.inputs.size() - others.size());
  for (size_t k = 0; k < inner.size(); ++k) {
    const uint32_t number = inner[k];
    const std::vector<bool> leaves_reached =
        number < reached.size() ? reached[number] : backward.reached_from(results[number]);
    for (const Gradients::Input& input : gradients.inputs)
      gradients.inner[k].leads_to.push_back(leaves_reached[place_of(input.input)]);
  }
  ir::Node* first_backward = last_forward ? last_forward->next : recorder_.graph_->first();
  const auto is_private = [&](const Memory& memory) {
    return memory.base->input < 0 && !output_of_.contains(&memory);
  };
  keep_copies(*recorder_.graph_, first_backward, gradients.first_gradient, reads.only_through(is_private));
  passes::round_halves_of_joint(*recorder_.graph_, &first_backward);
  gradients.first_backward = first_backward;
  trace.objects = std::move(recorder_.objects_);
  take_inputs(trace);
  if (const Symbols* symbols = recorder_.symbols()) {
    recorder_.sizes_.settle();
    trace.specialised = symbols->specialised;
  }
  for (const Gradients::Saving& one : saving) {
    Bits of_outputs(recorder_.graph_->outputs().size() - gradients.first_gradient);
    for (const Gradients::Input& input : gradients.inputs)
      if (input.kind == Gradients::Input::Kind::output && one.gradients[place_of(input.input)])
        of_outputs.set(input.index);
    for (size_t k = 0; k < inner.size(); ++k)
      if (one.gradients[leaves.size() + inner[k]]) of_outputs.set(gradients.inner[k].output);
    gradients.saving.push_back({one.tangents, std::move(of_outputs)});
  }
  if (tape) {
    if (!gradients.written.empty()) tape->lose("a tensor from outside gets a history");
    if (!backward.own_gradients().empty()) tape->lose(backward.own_gradients());
    std::vector<int32_t> gradient_of(leaves.size(), -1);
    for (size_t k = 0; k < gradients.inputs.size(); ++k)
      gradient_of[place_of(gradients.inputs[k].input)] = static_cast<int32_t>(k);
    std::vector<std::pair<at::Tensor, uint32_t>> inputs;
    for (const auto& [impl, bound] : recorder_.bound_) {
      const int32_t input = bound.view->input;
      // Behind the tangents are constants of the backward's formulas: nobody else has them, and the forward does
      // not.
      if (input < 0 || static_cast<uint32_t>(input) >= gradients.first_tangent) continue;
      if (!recorder_.inputs_[input].is_same(bound.real)) continue;
      for (const at::Tensor& tensor : {bound.tracer, bound.real})
        if (tensor.defined()) inputs.emplace_back(tensor, input);
    }
    const std::vector<uint32_t> leaf_order = backward.leaf_order();
    const Symbols* const symbols = recorder_.symbols();
    const auto simplify = [&](ir::Size size) { return symbols ? symbols->env->simplify(size) : size; };
    gradients.tape = tape->take_forward(
        simplify, backward.nodes_that_save().checks({inputs, outputs, reach, gradient_of, inner, leaf_order, found},
                                                    simplify));
    if (gradients.tape->is_lost()) gradients.no_tape = tape->lost();
  }
  trace.gradients = std::move(gradients);
}

}  // namespace braze::capture
