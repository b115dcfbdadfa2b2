// capture/autograd_node.h: autograd's nodes, and where the history of a tracer begins.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace braze::capture {

/// An owner of a node: std::shared_ptr before PyTorch 2.13, c10::intrusive_ptr since.
template <typename T, typename... Arguments>
auto make_node(Arguments&&... arguments) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
  return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
#else
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
#endif
}

/// Where gradients of a tracer for an input arrive. Keeps the node alive, which a leaf does not.
struct InputHistory {
  torch::autograd::Edge edge;
};

}  // namespace braze::capture
