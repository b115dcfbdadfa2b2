// runtime/autograd/node_results.cpp: several results of one call, from each of which the engine comes to the inputs
// that it depends on.
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

#include "capture/autograd_node.h"
#include "runtime/autograd/node_rest.h"

namespace braze::runtime {

using torch::autograd::variable_list;

/// A node of a backward that it owns, and by whose numbers it is known.
class OwningNode : public torch::autograd::Node {
 public:
  OwningNode(torch::autograd::Edge owner, uint32_t number) : owner_(std::move(owner)), number_(number) {}
  std::string name() const override { return "BrazeBackward"; }

 protected:
  BackwardNode& owner() const { return static_cast<BackwardNode&>(*owner_.function); }

 private:
  const torch::autograd::Edge owner_;

 protected:
  const uint32_t number_;
};

/// The history of one of several results. Its edges lead to the nodes that give gradients, and then to those of
/// other results from which this one was computed.
class ResultNode final : public OwningNode {
 public:
  /// \param inner  those others, by number of capture::Gradients::inner.
  ResultNode(torch::autograd::Edge owner, uint32_t number, std::vector<uint32_t> inner)
      : OwningNode(std::move(owner), number), inner_(std::move(inner)) {}
  ResultNode(const ResultNode&) = delete;
  ResultNode& operator=(const ResultNode&) = delete;
  ~ResultNode() override { std::atomic_ref(owner().entries_[number_]).store(nullptr); }
  const std::vector<uint32_t>& inner() const { return inner_; }
  size_t first_inner() const { return num_outputs() - inner_.size(); }  ///< Among its edges.
  void will_release_variables() override { is_running_ = true; }
  void release_variables() override {
    if (std::exchange(is_running_, false)) return;
    // It is being dropped. What is saved may own other nodes, which are to be dropped one by one.
    if (!std::exchange(is_gone_, true) && std::atomic_ref(owner().entries_left_).fetch_sub(1) == 1)
      owner().release_variables();
  }

 protected:
  variable_list apply(variable_list&& tangents) override {
    const std::shared_ptr<BackwardNode::Rest> rest = owner().arrive(number_, std::move(tangents[0]));
    variable_list given(num_outputs());
    const size_t parcels = first_inner();
    for (size_t k = 0; k < parcels; ++k) given[k] = parcel(rest, owner().parcels_on_);
    if (!rest->is_parted || !rest->tangents[number_].defined()) return given;
    std::vector<uint32_t> wanted;
    for (size_t k = 0; k < inner_.size(); ++k)
      if (task_should_compute_output(parcels + k)) wanted.push_back(inner_[k]);
    if (wanted.empty()) return given;
    variable_list to_inner = owner().run_to_inner(number_, std::move(wanted), rest, is_running_);
    for (size_t k = 0; k < inner_.size(); ++k) given[parcels + k] = std::move(to_inner[inner_[k]]);
    return given;
  }

 private:
  const std::vector<uint32_t> inner_;
  bool is_running_ = false, is_gone_ = false;
};

/// Gives gradients of inputs on which the same ones of several results depend.
class GradientsNode final : public OwningNode {
 public:
  using OwningNode::OwningNode;
  GradientsNode(const GradientsNode&) = delete;
  GradientsNode& operator=(const GradientsNode&) = delete;
  ~GradientsNode() override { forget(owner().nodes_, number_); }
  void will_release_variables() override { is_last_ = true; }
  void release_variables() override {
    if (std::exchange(has_run_, false)) owner().release_variables();
  }

 protected:
  variable_list apply(variable_list&& parcels) override {
    const bool is_last = std::exchange(is_last_, false);
    const auto first = std::ranges::find_if(parcels, [](const at::Tensor& one) { return one.defined(); });
    if (first == parcels.end()) return variable_list(num_outputs());
    const std::shared_ptr<BackwardNode::Rest> rest = content_of<BackwardNode::Rest>(*first);
    parcels.clear();
    bool computes = false;
    variable_list given = owner().run_group(number_, rest, is_last, computes);
    has_run_ = computes && is_last;
    return given;
  }

 private:
  bool is_last_ = false, has_run_ = false;
};

namespace {

/// Which node gives each gradient.
std::vector<uint32_t> groups_of(const std::vector<capture::Gradients::Input>& inputs,
                                const torch::autograd::edge_list& edges) {
  const size_t leaves = count_leaves(edges);
  std::vector<uint32_t> group_of(edges.size());
  std::vector<const std::vector<bool>*> from;  // By node.
  for (const size_t k : in_eagers_order(leaves, edges.size())) {
    const auto is_its = [&](const std::vector<bool>* one) { return *one == inputs[k].from; };
    // One that has run does not run again for a leaf that comes later; what is no leaf waits in any case.
    const auto first = k < leaves && !from.empty() ? from.end() - 1 : from.begin();
    const auto found = std::find_if(first, from.end(), is_its);
    group_of[k] = static_cast<uint32_t>(found - from.begin());
    if (found == from.end()) from.push_back(&inputs[k].from);
  }
  return group_of;
}

/// Whether the backward that is under way comes to a node, and goes on from there or takes what comes there.
struct OnTheWay {
  bool runs = false, is_asked_for = false;
};
OnTheWay on_the_way(const torch::autograd::Node* node) {
  const auto* const nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  const auto* const info = torch::autograd::get_current_graph_task_exec_info();
  auto* const one = const_cast<torch::autograd::Node*>(node);
  if (!one || !nodes || !nodes->contains(one)) return {};
  if (!info || info->empty()) return {true, false};
  const auto found = info->find(one);
  if (found == info->end()) return {};
  return {found->second.needed_, found->second.captures_ != nullptr};
}

/// Of those that this backward comes to.
bool are_all_there(const std::vector<const torch::autograd::Node*>& entries, const std::vector<bool>& arrived) {
  for (size_t k = 0; k < entries.size(); ++k)
    if (!arrived[k] && on_the_way(alive(entries, k)).runs) return false;
  return true;
}

bool has_hooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         !node.post_hooks().empty();
}

/// Hooks of a result that is reached from others, or who asks for its gradient. \param running  one of the results.
bool is_anyone_looking(const std::vector<const torch::autograd::Node*>& entries,
                       const std::vector<capture::Gradients::Inner>& inner, uint32_t running) {
  const auto is_seen = [](const torch::autograd::Node* node) {
    const OnTheWay way = on_the_way(node);
    return way.is_asked_for || (way.runs && has_hooks(const_cast<torch::autograd::Node&>(*node)));
  };
  for (size_t root = 0; root < entries.size() && !inner.empty(); ++root) {
    const auto* const entry = static_cast<const ResultNode*>(alive(entries, root));
    if (root != running && !on_the_way(entry).runs) continue;  // The first node of all is not told among those.
    for (size_t k = 0; k < entry->inner().size(); ++k) {
      const capture::Gradients::Inner& to = inner[entry->inner()[k]];
      const torch::autograd::Node* node = entry->next_edge(entry->first_inner() + k).function.get();
      if (is_seen(node)) return true;
      // A view that is one of another result's: on the way to what both are views of.
      while (to.is_view() && dynamic_cast<const torch::autograd::generated::AsStridedBackward0*>(node))
        if (is_seen(node = node->next_edge(0).function.get())) return true;
      if (to.is_view() && to.tangent != to.none && is_seen(alive(entries, to.tangent))) return true;
    }
  }
  return false;
}

}  // namespace

void BackwardNode::connect_results(torch::autograd::edge_list edges) {
  has_entries_ = true;
  entries_.resize(program_->tangents_.size());
  inner_.resize(program_->gradients().inner.size());
  if (staged_) {
    behind_entries_.push_back(connect_stages(std::move(edges), program_->tangents_[0].device, {getptr(), 0}));
    return;
  }
  node_of_ = groups_of(program_->gradients().inputs, edges);
  nodes_.assign(node_of_.empty() ? 0 : *std::ranges::max_element(node_of_) + 1, nullptr);
  behind_entries_ = divide(std::move(edges), nodes_.size());
}

/// Leaves of a node are arranged anew.
std::vector<torch::autograd::edge_list> BackwardNode::divide(torch::autograd::edge_list edges, size_t count) {
  const size_t leaves = count_leaves(edges);
  std::vector<std::vector<size_t>> members(count);
  for (const size_t k : in_eagers_order(leaves, edges.size())) members[node_of_[k]].push_back(k);
  edge_of_.resize(edges.size());
  std::vector<torch::autograd::edge_list> by_node(members.size());
  for (size_t number = 0; number < members.size(); ++number) {
    const std::vector<size_t>& those = members[number];
    const auto mine = static_cast<size_t>(std::ranges::count_if(those, [&](size_t k) { return k < leaves; }));
    const bool goes_on = staged_ && number + 1 < members.size();
    const std::vector<size_t> runs = capture::run_order_of_leaves(mine, those.size() - mine + goes_on);
    by_node[number].resize(those.size());
    for (size_t n = 0; n < those.size(); ++n) {
      edge_of_[those[n]] = static_cast<uint32_t>(n < mine ? runs[n] : n);
      by_node[number][edge_of_[those[n]]] = std::move(edges[those[n]]);
    }
  }
  return by_node;
}

torch::autograd::Edge BackwardNode::history_of(uint32_t number, const at::Tensor& root) {
  if (!has_entries_) return {getptr(), number};
  const std::vector<capture::Gradients::Inner>& inner = program_->gradients().inner;
  std::vector<uint32_t> directly;
  torch::autograd::edge_list edges = std::move(behind_entries_[number]);
  for (uint32_t k = 0; k < inner.size(); ++k) {
    if (!inner_[k].is_valid() || std::ranges::find(inner[k].directly, number) == inner[k].directly.end()) continue;
    directly.push_back(k);
    edges.push_back(inner_[k]);
  }
  const auto node = capture::make_node<ResultNode>(torch::autograd::Edge(getptr(), 0), number, std::move(directly));
  node->add_input_metadata(root);
  node->set_next_edges(std::move(edges));
  entries_[number] = node.get();
  for (size_t k = 0; k < inner.size(); ++k)
    if (inner[k].tangent == number && !inner[k].is_view()) inner_[k] = {node, 0};
  if (++entries_left_ == entries_.size()) {
    behind_entries_.clear();
    inner_.clear();
  }
  return {node, 0};
}

void BackwardNode::note_view(uint32_t result, const at::Tensor& view) {
  const std::vector<capture::Gradients::Inner>& inner = program_->gradients().inner;
  for (size_t k = 0; k < inner_.size(); ++k)
    if (inner[k].view == result && view.requires_grad()) inner_[k] = torch::autograd::impl::gradient_edge(view);
}

/// Those that give gradients; `behind_entries_` becomes the edges to them, by result.
void BackwardNode::make_groups(c10::Device device) {
  std::vector<torch::autograd::edge_list> edges = std::exchange(behind_entries_, {});
  behind_entries_.resize(entries_.size());
  const std::vector<capture::Gradients::Input>& inputs = program_->gradients().inputs;
  parcels_on_ = device;
  const at::Tensor parcel = at::empty({0}, at::TensorOptions(at::kFloat).device(device));
  // The first one last: of those that are ready the engine runs the youngest. Stages have a first one alone.
  for (auto number = static_cast<uint32_t>(edges.size()); number-- > 0;) {
    const auto node = capture::make_node<GradientsNode>(torch::autograd::Edge(getptr(), 0), number);
    nodes_[number] = node.get();
    node->set_next_edges(std::move(edges[number]));
    const std::vector<bool>& from = inputs[std::ranges::find(node_of_, number) - node_of_.begin()].from;
    for (size_t t = 0; t < behind_entries_.size(); ++t)
      if (staged_ || from[t]) behind_entries_[t].emplace_back(node, node->add_input_metadata(parcel));
  }
}

std::shared_ptr<BackwardNode::Rest> BackwardNode::arrive(uint32_t root, at::Tensor tangent) {
  const int task = torch::autograd::get_current_graph_task_id();
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(tasks_, [](const auto& one) { return one.second.expired(); });
  std::shared_ptr<Rest> rest;
  for (const auto& [id, one] : tasks_)
    if (id == task) rest = one.lock();
  if (!rest) {
    rest = std::make_shared<Rest>();
    rest->tangents.resize(entries_.size());
    rest->arrived.resize(entries_.size());
    rest->is_parted = is_anyone_looking(entries_, program_->gradients().inner, root);
    if (rest->is_parted || staged_) rest->owner.emplace_back(getptr(), 0);
    if (rest->is_parted) {
      if (has_hooks_) rest->unpacked.resize(saved_.size());
    }
    tasks_.emplace_back(task, rest);
  }
  rest->tangents[root] = std::move(tangent);
  rest->arrived[root] = true;
  return rest;
}

variable_list BackwardNode::run_group(uint32_t number, const std::shared_ptr<Rest>& rest, bool is_last,
                                      bool& computes) {
  if (!rest->gradients.empty()) return share(number, rest->gradients, rest);
  variable_list tangents;
  bool is_for_all = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tangents = rest->tangents;
    is_for_all = staged_ || are_all_there(entries_, rest->arrived);
    only_ = {is_for_all ? std::nullopt : std::optional(number), std::nullopt, rest->is_parted};
    is_last_ = is_last && !rest->is_parted;
  }
  computes = !rest->is_parted;
  rest->is_in_stages = staged_ && !rest->is_parted && runs_in_stages(tangents);
  if (rest->is_in_stages) return run_first_stage(rest);
  Unpacked unpacked(has_hooks_ && !rest->is_parted ? saved_.size() : 0);
  variable_list gradients = apply_any(std::move(tangents), rest->is_parted ? rest->unpacked : unpacked);
  if (rest->is_parted && is_last) rest->ran.emplace_back(run_.came, run_.led);
  if (!is_for_all) return share(number, gradients, rest);
  rest->gradients = std::move(gradients);
  return share(number, rest->gradients, rest);
}

variable_list BackwardNode::run_to_inner(uint32_t root, std::vector<uint32_t> inner,
                                         const std::shared_ptr<Rest>& rest, bool is_last) {
  variable_list tangents(entries_.size());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tangents[root] = rest->tangents[root];
    only_ = {std::nullopt, std::move(inner), true};
    is_last_ = false;
  }
  variable_list gradients = apply_any(std::move(tangents), rest->unpacked);
  // A later run of this backward may read what this one has read.
  if (is_last) rest->ran.emplace_back(run_.came, run_.led);
  gradients.erase(gradients.begin(), gradients.begin() + static_cast<int64_t>(program_->gradients().inputs.size()));
  return gradients;
}

void BackwardNode::release_after(const std::vector<std::pair<Bits, Bits>>& ran) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (all_released_) return;
  const std::vector<passes::BackwardReaders>& readers = program_->backwards_->readers();
  released_.resize(readers.size());
  std::vector<bool> kept(saved_.size());
  all_released_ = true;
  for (size_t r = 0; r < readers.size(); ++r) {
    for (const auto& [came, led] : ran)
      released_[r] = released_[r] || (readers[r].tangents.meets(came) && readers[r].gradients.meets(led));
    if (released_[r]) continue;
    all_released_ = false;
    for (size_t k = 0; k < kept.size(); ++k) kept[k] = kept[k] || readers[r].saved[k];
  }
  for (uint32_t k = 0; k < saved_.size(); ++k)
    if (!kept[k]) let_go(k);
  if (!all_released_) return;
  inputs_.release();
  group_ = {};
}

}  // namespace braze::runtime
