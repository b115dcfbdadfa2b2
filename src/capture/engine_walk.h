// capture/engine_walk.h: a walk through autograd's graph over tracers, as PyTorch's engine goes.
//
// That engine would run hooks, want the GIL released and, for GPUs, threads that know nothing of the trace.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <unordered_map>
#include <vector>

#include "capture/engine_order.h"

namespace braze::capture {

/// Who derives from it discovers the nodes, and says what one of them does.
class EngineWalk {
 protected:
  using Edge = torch::autograd::Edge;
  using Node = torch::autograd::Node;
  using variable_list = torch::autograd::variable_list;

  EngineWalk() = default;
  EngineWalk(const EngineWalk&) = delete;
  EngineWalk& operator=(const EngineWalk&) = delete;
  virtual ~EngineWalk() = default;

  /// False: it is known already.
  bool add_node(Node& node);
  /// One more node gives it gradients.
  void wait_for_one(const Edge& edge) { ++states_.at(edge.function.get()).waits_for; }
  bool is_known(const Node* node) const { return states_.contains(node); }

  void walk(const std::vector<Edge>& roots, const std::vector<at::Tensor>& tangents);
  /// What the node computes, by rules of braze's where there are any. Inputs are let go of.
  static variable_list compute(Node& node, variable_list inputs);
  void pass_on(const Node& node, variable_list outputs);

  /// Throws where a hook would have to run.
  static void check_hooks(Node& node);

 private:
  struct State {
    size_t waits_for = 0;  ///< Nodes that give it gradients.
    bool is_ready = false;
    variable_list inputs = {};
  };

  /// All its gradients are there.
  virtual void step(Node& node, variable_list inputs) = 0;
  /// A node that does not run keeps none waiting that does.
  virtual bool runs(const Node&) const { return true; }
  /// Whether gradients go on to there.
  virtual bool follows(const Edge& edge) const { return edge.is_valid(); }

  void make_ready(Node* node);
  void add(const Edge& edge, at::Tensor gradient);

  std::unordered_map<const Node*, State> states_;
  ReadyNodes<Node*> ready_;
};

}  // namespace braze::capture
