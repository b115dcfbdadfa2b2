// capture/version_checks.h: which tensors of the user's are checked, when a backward runs, for having been written
// to.
//
// Eager's nodes save what their formulas may read, and raise if it has been modified since, whether the gradients
// that are wanted need it or not. A backward program reads less, and reads it at once: so the nodes themselves are
// asked what they save, and what of it the user has is noted, in the order in which the nodes run.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/late_reads.h"
#include "capture/saving_nodes.h"
#include "ir/size.h"
#include "ir/size_code.h"
#include "support/bits.h"

namespace braze::capture {

/// Name of the node at which the trace's history of a tensor with one ends.
constexpr const char* history_from_outside = "BrazeInput";

struct VersionChecks {
  /// Whose writes are counted together with those of something saved.
  struct Watched {
    enum class Kind : uint8_t {
      input,   ///< Of the graph.
      result,  ///< Of the trace.
    } kind;
    uint32_t index;
  };
  struct Saved {
    uint32_t watched = 0;  ///< Its number.
    // What eager's message tells of it:
    std::string type;
    std::vector<uint32_t> sizes = {};  ///< Numbers of results of VersionChecks::sizes.
    /// Empty: it has none, or
    std::string history;
    int32_t input = -1;  ///< that of this input of the graph.
  };
  /// A node of eager's.
  struct Check {
    /// That lead to it, and that it leads to, by no root on the way: by Gradients::inputs, then by
    /// Gradients::inner.
    Bits tangents, gradients;
    uint32_t leaves_before;  ///< So many of `leaves` have got their gradients before it runs.
    std::vector<Saved> saved;
  };
  std::vector<Watched> watched;
  ir::SizeCode sizes;
  std::vector<Check> in_order;
  /// Of gradients, by Gradients::inputs, what eager's counters show: formulas and sums that write in place count.
  std::vector<uint32_t> versions;
  /// By input of the graph: a node may save something that counts with it. Others are read as they are then.
  std::vector<bool> may_watch;
  bool ignores(uint32_t input) const { return input < may_watch.size() && !may_watch[input]; }
  std::vector<std::shared_ptr<const LateReads>> reads;  ///< Of all functions.
  std::vector<uint32_t> leaves;  ///< By Gradients::inputs, in the order in which they get their gradients.
};

/// What a node saves, as far as it is a tensor that counts its writes.
struct SavedByNode {
  const void* counter;            ///< Identifies who counts together.
  const c10::TensorImpl* tensor;  ///< For its identity.
  bool has_own_history;           ///< Which the trace knows.
  std::vector<ir::Size> sizes;
  VersionChecks::Saved what;
};
/// Nullopt: it does not tell.
std::optional<std::vector<SavedByNode>> saved_by(torch::autograd::Node& node);
/// As eager's messages name it.
std::string told_name(const torch::autograd::Node& node);
/// Null for tensors that do not count.
const void* version_counter_of(const at::Tensor& tensor);

/// Of nodes in the order in which they have run.
class NodesThatSave {
 public:
  /// Before the node runs.
  void add(torch::autograd::Node& node, uint32_t leaves_before);

  /// What the trace knows of them.
  struct Surroundings {
    std::span<const std::pair<at::Tensor, uint32_t>> inputs;  ///< What stands for each of the graph's, or is it.
    std::span<const at::Tensor> results;
    const NodeReach& reach;                 ///< Gradients count by leaf.
    std::span<const int32_t> place_of;      ///< By leaf, among Gradients::inputs; negative: it gets none.
    std::span<const uint32_t> inner;        ///< Numbers of those results that `reach` tells, by Gradients::inner.
    std::span<const uint32_t> order;        ///< Leaves, as their gradients have come.
    std::span<const at::Tensor> gradients;  ///< By leaf.
  };
  std::shared_ptr<const VersionChecks> checks(const Surroundings& around,
                                              const std::function<ir::Size(ir::Size)>& simplify) const;

 private:
  struct One {
    const torch::autograd::Node* node;
    uint32_t leaves_before;
    std::vector<SavedByNode> saved;
  };
  std::vector<One> nodes_;
  std::vector<std::shared_ptr<const LateReads>> reads_;
  bool is_all_known_ = true;
};

}  // namespace braze::capture
