// runtime/autograd/node.h: the history of what one run of a training program has computed.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/version_checks.h"
#include "runtime/autograd/saved_places.h"
#include "runtime/autograd/second_derivative.h"
#include "runtime/autograd/staged.h"
#include "runtime/autograd/training.h"
#include "runtime/autograd/watched_versions.h"

namespace braze::runtime {

/// Null: it is gone, which another thread may have seen to.
inline const torch::autograd::Node* alive(const std::vector<const torch::autograd::Node*>& nodes, size_t number) {
  return std::atomic_ref(const_cast<const torch::autograd::Node*&>(nodes[number])).load();
}

inline void forget(std::vector<const torch::autograd::Node*>& nodes, size_t number) {
  std::atomic_ref(nodes[number]).store(nullptr);
}

/// Gradients of results in, gradients of inputs out. May run several times, from any thread.
///
/// Where somebody waits for single gradients, it gives the first of them, and a chain of other nodes the others:
/// the engine hands out what one of them has given before it runs the next. A backward for which there is no
/// program in stages (runtime/autograd/staged.h) is run by the first node, and the others give what it has found.
///
/// Of several results each has a node of its own (ResultNode), behind which stand nodes that give gradients
/// (GradientsNode), and this one is no part of the graph: from a result the engine comes to the inputs that it
/// depends on, and to no others, whose hooks it would run. The first of those nodes runs the backward for all. In
/// stages there is one such node, which all results lead to, and the chain behind it.
class BackwardNode final : public torch::autograd::Node {
 public:
  explicit BackwardNode(std::shared_ptr<const TrainingProgram> program);
  /// First of all. \param edges  of the gradients, by Gradients::inputs.
  void connect(torch::autograd::edge_list edges, const std::vector<at::Tensor>& roots);
  /// Where the history of a root begins. In the order of capture::Gradients::root_order: of nodes that are ready
  /// the engine runs the youngest, as it does in eager.
  torch::autograd::Edge history_of(uint32_t number, const at::Tensor& root);
  /// Before those of roots that are computed from it. \param result  its number.
  void note_view(uint32_t result, const at::Tensor& view);

  /// What the backward program takes first, in order.
  void save(std::vector<at::Tensor> tensors);
  /// After save(). \param results  of the trace, as the caller gets them.
  void watch(const at::Tensor* const* arguments, const std::vector<at::Tensor>& results);
  /// For second derivatives.
  void remember(ForwardInputs inputs) { inputs_ = std::move(inputs); }

  std::string name() const override { return "BrazeBackward"; }
  void will_release_variables() override;
  void release_variables() override;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;

 private:
  friend class LaterGradients;
  friend class ResultNode;
  friend class GradientsNode;
  /// What one backward leaves for the later nodes.
  struct Rest;
  const torch::autograd::Edge& edge(size_t gradient) const;
  /// By node, as node_of_ says.
  std::vector<torch::autograd::edge_list> divide(torch::autograd::edge_list edges, size_t count);
  void connect_results(torch::autograd::edge_list edges);
  /// What the first node leads to. \param owner  of the others; invalid: this is the first one, and owns them.
  torch::autograd::edge_list connect_stages(torch::autograd::edge_list edges, c10::Device device,
                                            const torch::autograd::Edge& owner);
  void make_groups(c10::Device device);
  /// A tangent, in the backward that runs now.
  std::shared_ptr<Rest> arrive(uint32_t root, at::Tensor tangent);
  /// What a GradientsNode gives. \param computes  whether it has run the backward.
  torch::autograd::variable_list run_group(uint32_t number, const std::shared_ptr<Rest>& rest, bool is_last,
                                           bool& computes);
  /// Of a backward in parts, when it is over: what these have read is let go of. \param ran  tangents and
  /// gradients.
  void release_after(const std::vector<std::pair<Bits, Bits>>& ran);
  /// What comes to inner roots from that one alone. \param inner  numbers of capture::Gradients::inner.
  torch::autograd::variable_list run_to_inner(uint32_t root, std::vector<uint32_t> inner,
                                              const std::shared_ptr<Rest>& rest, bool is_last);
  /// \param gradient  of the inputs, then of inner roots.
  bool is_wanted(size_t gradient, const torch::autograd::variable_list& tangents) const;
  /// Which tangents there are, and which gradients are wanted, becomes the latest run.
  void begin(const torch::autograd::variable_list& tangents);
  bool runs_in_stages(const torch::autograd::variable_list& tangents);
  /// After runs_in_stages(). What the first node gives; `rest` has the tangents.
  torch::autograd::variable_list run_first_stage(const std::shared_ptr<Rest>& rest);
  /// The gradients of one stage.
  torch::autograd::variable_list run_stage(uint32_t stage, Rest& rest);
  /// What a node gives: its gradients, which are taken out of `gradients`, and what is left for the next node.
  torch::autograd::variable_list share(uint32_t stage, torch::autograd::variable_list& gradients,
                                       const std::shared_ptr<Rest>& rest) const;

  /// What the forward is run with again, or why it cannot be.
  struct Again {
    std::vector<at::Tensor> inputs;
    std::string refused;
  };
  /// Gradients with a history, given those that are wanted.
  torch::autograd::variable_list differentiable(torch::autograd::variable_list gradients,
                                                const torch::autograd::variable_list& tangents,
                                                const Again& again) const;
  Again again();
  /// Of the gradients of such tangents, by Gradients::inputs.
  std::vector<bool> histories(const torch::autograd::variable_list& tangents, const Again& again) const;
  /// What hooks have unpacked in this backward, by number; empty without hooks.
  using Unpacked = std::vector<at::Tensor>;
  torch::autograd::variable_list apply_any(torch::autograd::variable_list&& tangents, Unpacked& unpacked);
  torch::autograd::variable_list apply_plain(torch::autograd::variable_list&& tangents, Unpacked& unpacked);
  at::Tensor unpack(uint32_t number);
  /// One of these inputs is saved twice, and has been given other memory.
  bool are_apart(std::span<const uint32_t> inputs) const;
  void let_go(size_t number);
  /// Raises as eager would where somebody has written to what its nodes have saved. Leaves that get their gradients
  /// before that get them. \param lock  of the node, which hooks may want.
  void check_versions(const torch::autograd::variable_list& tangents, std::unique_lock<std::mutex>& lock);
  void give_leaves_before(uint32_t count, const torch::autograd::variable_list& tangents,
                          std::unique_lock<std::mutex>& lock);
  std::string told(const capture::VersionChecks::Saved& saved) const;

  /// Which tangents are defined, and which outputs of the whole backward program are wanted.
  struct Run : PartialPrograms::Pattern {
    bool is_whole = false;
    Unpacked* unpacked = nullptr;
    Bits came,
        led;  ///< Tangents and gradients that eager's nodes would have, with those of inner roots on the way.
    /// \param wanted  of the inputs, then of inner results.
    void find_way(const capture::Gradients& joint, const Bits& wanted);
    bool meets(const passes::BackwardReaders& readers) const {
      return readers.tangents.meets(came) && readers.gradients.meets(led);
    }
  };
  /// Raises if eager would have freed what this run reads.
  void check_not_released() const;
  /// Of each saved value, whether what has been neither freed nor is running may read it.
  std::vector<bool> kept_for_later() const;
  /// Gradients by output of the whole backward program, where they are wanted.
  std::vector<at::Tensor> compute(const torch::autograd::variable_list& tangents);
  /// Saved values and tangents, by input of the whole backward program.
  std::vector<at::Tensor> arguments(const torch::autograd::variable_list& tangents,
                                    std::span<const uint32_t> inputs);

  const std::shared_ptr<const TrainingProgram> program_;
  const StagedPrograms* staged_ = nullptr;  ///< Null: this is the only node.
  /// By stage: each owns the next one, by an edge behind those of its gradients. Or those behind nodes of results,
  /// which own this one; null: gone.
  std::vector<const torch::autograd::Node*> nodes_;
  std::vector<uint32_t> node_of_, edge_of_;                 ///< By gradient, where there are several nodes.
  bool has_entries_ = false;                                ///< Results have nodes of their own:
  std::vector<const torch::autograd::Node*> entries_;       ///< by tangent; null: gone.
  std::vector<torch::autograd::edge_list> behind_entries_;  ///< Until these are made.
  torch::autograd::edge_list inner_;  ///< To what capture::Gradients::inner tells, until all have a history.
  c10::Device parcels_on_ = c10::kCPU;
  size_t entries_left_ = 0;
  std::vector<std::pair<int, std::weak_ptr<Rest>>> tasks_;  ///< Backwards of the engine that are under way.
  struct {
    std::optional<uint32_t> group;               ///< For the gradients of this node,
    std::optional<std::vector<uint32_t>> inner;  ///< or for these inner roots.
    bool is_parted = false;
  } only_;                     ///< The latest run.
  bool leaves_saved_ = false;  ///< Later stages of this run let go of what they read.
  std::mutex mutex_;
  std::vector<torch::autograd::SavedVariable> saved_;
  SavedPlaces places_;        ///< Of what TrainingSeam::is_held says, without hooks.
  WatchedVersions versions_;  ///< By VersionChecks::watched; none with hooks.
  capture::ReadValues late_values_;
  ForwardInputs inputs_;
  Run run_;  ///< The latest.
  struct {
    const void* of = nullptr;
    Unpacked unpacked;
  } group_;                 ///< What backwards of the latest group have unpacked.
  bool has_hooks_ = false;  ///< They have packed what is saved.
  bool all_released_ = false;
  std::vector<bool> released_;  ///< By PartialPrograms::readers(); empty: none is, or all.
  bool is_last_ = false;        ///< What is saved will be let go of after this run.
};

}  // namespace braze::runtime
