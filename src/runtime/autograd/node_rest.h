// runtime/autograd/node_rest.h: what the nodes of one call hand to each other in a backward.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "capture/engine_order.h"
#include "runtime/autograd/node.h"

namespace braze::runtime {

struct BackwardNode::Rest {
  torch::autograd::edge_list owner;  ///< Of the first node, by an edge to it.
  bool is_in_stages = false;
  torch::autograd::variable_list gradients;  ///< Those that are not given yet, unless it is run in stages.
  torch::autograd::variable_list tangents;
  std::vector<bool> kept;             ///< By saved value: others read it later, too.
  std::vector<at::Tensor> handed_on;  ///< By earlier stages to later ones.
  // Where results have nodes of their own:
  std::vector<bool> arrived;  ///< by tangent.
  bool is_parted = false;     ///< Somebody looks at what comes to a result by another one.
  // In that case, of the several runs of one backward:
  Unpacked unpacked;
  std::vector<std::pair<Bits, Bits>> ran;  ///< Those after which the graph is not retained.

  Rest() = default;
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;
  ~Rest() {
    if (!ran.empty()) static_cast<BackwardNode&>(*owner[0].function).release_after(ran);
  }
};

/// An empty tensor that owns something: the engine hands gradients from node to node, for each backward apart, and
/// lets go of them where it ends with an error.
template <typename T>
at::Tensor parcel(std::shared_ptr<T> content, c10::Device device) {
  using Held = std::shared_ptr<T>;
  auto held = std::make_unique<Held>(std::move(content));
  Held* const place = held.get();
  c10::DataPtr data(place, held.release(), [](void* of) { std::unique_ptr<Held>(static_cast<Held*>(of)); }, device);
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, std::move(data), nullptr, false);
  const c10::DispatchKey key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                  caffe2::TypeMeta::Make<float>());
}

template <typename T>
std::shared_ptr<T> content_of(const at::Tensor& parcel) {
  return *static_cast<const std::shared_ptr<T>*>(parcel.storage().data_ptr().get());
}

inline size_t count_leaves(const torch::autograd::edge_list& edges) {
  const auto is_leaf = [](const torch::autograd::Edge& one) { return one.function->sequence_nr() == UINT64_MAX; };
  return static_cast<size_t>(std::ranges::find_if_not(edges, is_leaf) - edges.begin());
}

/// Gradients as eager gives them. Leaves have been arranged as one node has to give them for their hooks to run in
/// eager's order.
inline std::vector<size_t> in_eagers_order(size_t leaves, size_t count) {
  std::vector<size_t> order = capture::run_order_of_leaves(leaves, count - leaves);
  for (size_t k = leaves; k < count; ++k) order.push_back(k);
  return order;
}

}  // namespace braze::runtime
