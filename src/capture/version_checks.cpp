#include "capture/version_checks.h"

#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/version.h>

#include <algorithm>
#include <unordered_set>

#include "capture/dim.h"
#include "capture/traced_function.h"
#include "capture/unguarded_numbers.h"
#include "support/error.h"

namespace braze::capture {

using torch::autograd::Node;

namespace {

/// PyTorch tells two counters apart by moving them; other threads may see those of real tensors.
const void* address_of(const c10::VariableVersion& version);
template <auto member>
struct CounterAccess {
  friend const void* address_of(const c10::VariableVersion& version) { return (version.*member).get(); }
};
template struct CounterAccess<&c10::VariableVersion::version_counter_>;

bool begins_history(const Node& node) {
  return node.name() == history_from_outside;
}

std::vector<ir::Size> sizes_of(const at::Tensor& tensor) {
  std::vector<ir::Size> sizes;
  for (const Dim size : dims_of(tensor)) sizes.push_back(size.size());
  return sizes;
}

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
constexpr const char* as_strided_history = ", which is output 0 of AsStrided,";
#else
constexpr const char* as_strided_history = ", which is output 0 of AsStridedBackward0,";
#endif

VersionChecks::Saved described(const at::Tensor& tensor) {
  VersionChecks::Saved saved;
  const c10::ScalarType type = tensor.scalar_type();
  const char* const name = c10::toString(type);
  // Types that are newer than the classes of tensors are told in other words.
  const bool has_class = type != c10::kBool && type != c10::kBFloat16 && !c10::isComplexType(type);
  saved.type = has_class ? concat(tensor.is_cuda() ? "torch.cuda." : "torch.", name, "Tensor")
                         : concat(tensor.is_cuda() ? "CUDA" : "CPU", name, "Type");
  if (!tensor.is_leaf())
    saved.history = concat(", which is output ", tensor.output_nr(), " of ", told_name(*tensor.grad_fn()), ",");
  // Of which autograd makes a history anew, once its base has been written to.
  if (!tensor.is_leaf() && tensor.is_view()) saved.history = as_strided_history;
  return saved;
}

}  // namespace

const void* version_counter_of(const at::Tensor& tensor) {
  return address_of(tensor.unsafeGetTensorImpl()->version_counter());
}

std::string told_name(const Node& node) {
  const auto told = [](const auto& node) {  // Since PyTorch 2.13 by the operator.
    if constexpr (requires { node.forward_op_name(); })
      return node.forward_op_name();
    else
      return node.name();
  };
  return told(node);
}

std::optional<std::vector<SavedByNode>> saved_by(Node& node) {
  // PyTorch's way to ask a node for all that its formula reads; numbers become part of a key that is not looked at.
  torch::dynamo::autograd::AutogradCompilerCall all(torch::dynamo::autograd::SizeInput::STATIC);
  torch::dynamo::autograd::NodeCall call(0, node.getptr());
  const UnguardedNumbers unguarded;
  try {
    torch::dynamo::autograd::CompiledNodeArgs arguments(all, call);
    node.compiled_args(arguments);
  } catch (const std::exception&) {
    // A function's own node, which its own code decides on; or one that will raise when it runs.
    return std::nullopt;
  }
  std::vector<SavedByNode> found;
  for (const at::Tensor& tensor : all.tensor_args.inputs)
    if (const void* counter = version_counter_of(tensor))
      found.push_back({counter, tensor.unsafeGetTensorImpl(),
                       !tensor.is_leaf() && !begins_history(*tensor.grad_fn()), sizes_of(tensor),
                       described(tensor)});
  return found;
}

void NodesThatSave::add(Node& node, uint32_t leaves_before) {
  if (auto reads = late_reads_of(node)) reads_.push_back(std::move(reads));
  std::optional<std::vector<SavedByNode>> saved = saved_by(node);
  is_all_known_ &= saved.has_value();
  if (saved && !saved->empty()) nodes_.push_back({&node, leaves_before, *std::move(saved)});
}

std::shared_ptr<const VersionChecks> NodesThatSave::checks(
    const Surroundings& around, const std::function<ir::Size(ir::Size)>& simplify) const {
  using Watched = VersionChecks::Watched;
  std::unordered_map<const void*, Watched> users;
  std::unordered_map<const c10::TensorImpl*, uint32_t> input_of;
  for (const auto& [tensor, number] : around.inputs) {
    if (const void* counter = version_counter_of(tensor))
      users.try_emplace(counter, Watched{Watched::Kind::input, number});
    input_of.emplace(tensor.unsafeGetTensorImpl(), number);
  }
  for (uint32_t r = 0; r < around.results.size(); ++r)
    if (const void* counter = version_counter_of(around.results[r]))
      users.try_emplace(counter, Watched{Watched::Kind::result, r});

  auto found = std::make_shared<VersionChecks>();
  found->reads = reads_;
  std::unordered_map<const void*, uint32_t> number_of;
  const size_t gradients =
      static_cast<size_t>(std::ranges::count_if(around.place_of, [](int32_t place) { return place >= 0; }));
  std::unordered_set<const void*> saved_counters;
  for (const One& one : nodes_)
    for (const SavedByNode& saved : one.saved) saved_counters.insert(saved.counter);
  for (const auto& [tensor, number] : around.inputs) {
    if (number >= found->may_watch.size()) found->may_watch.resize(number + 1);
    if (!is_all_known_ || saved_counters.contains(version_counter_of(tensor))) found->may_watch[number] = true;
  }
  for (const One& one : nodes_) {
    const Gradients::Saving& way = around.reach.at(one.node);
    VersionChecks::Check check{way.tangents, Bits(gradients + around.inner.size()), one.leaves_before, {}};
    for (size_t leaf = 0; leaf < around.place_of.size(); ++leaf)
      if (around.place_of[leaf] >= 0 && way.gradients[leaf]) check.gradients.set(around.place_of[leaf]);
    for (size_t k = 0; k < around.inner.size(); ++k)
      if (way.gradients[around.place_of.size() + around.inner[k]]) check.gradients.set(gradients + k);
    if (!check.gradients.any()) continue;
    for (const SavedByNode& saved : one.saved) {
      const auto user = users.find(saved.counter);
      if (user == users.end()) continue;
      const auto [number, is_new] = number_of.try_emplace(saved.counter, found->watched.size());
      if (is_new) found->watched.push_back(user->second);
      // An earlier node raises.
      const bool is_known = std::ranges::any_of(found->in_order, [&](const VersionChecks::Check& other) {
        return other.tangents.contains(check.tangents) && other.gradients.contains(check.gradients) &&
               std::ranges::any_of(other.saved, [&](const auto& its) { return its.watched == number->second; });
      });
      if (is_known) continue;
      VersionChecks::Saved what = saved.what;
      what.watched = number->second;
      for (const ir::Size size : saved.sizes) what.sizes.push_back(found->sizes.add(simplify(size)));
      if (const auto input = input_of.find(saved.tensor); input != input_of.end() && !saved.has_own_history) {
        what.input = static_cast<int32_t>(input->second);
        what.history.clear();
      }
      check.saved.push_back(std::move(what));
    }
    if (!check.saved.empty()) found->in_order.push_back(std::move(check));
  }
  for (size_t leaf = 0; leaf < around.place_of.size(); ++leaf) {
    const at::Tensor& gradient = around.gradients[leaf];
    if (around.place_of[leaf] < 0 || !gradient.defined() || gradient._version() == 0) continue;
    found->versions.resize(gradients);
    found->versions[around.place_of[leaf]] = gradient._version();
  }
  for (const uint32_t leaf : around.order)
    if (around.place_of[leaf] >= 0) found->leaves.push_back(static_cast<uint32_t>(around.place_of[leaf]));
  for (VersionChecks::Check& check : found->in_order)
    check.leaves_before = static_cast<uint32_t>(std::ranges::count_if(
        around.order.first(check.leaves_before), [&](uint32_t leaf) { return around.place_of[leaf] >= 0; }));
  return found;
}

}  // namespace braze::capture
