// passes/uses.h: who reads each value of a graph, as it stands when this is made.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace braze::passes {

class Uses {
 public:
  explicit Uses(const ir::Graph& graph) : readers_(graph.value_limit()), is_result_(graph.value_limit()) {
    for (ir::Node* node = graph.first(); node; node = node->next)
      for (const ir::Value* operand : node->operands) readers_[operand->id].push_back(node);
    for (const ir::Value* output : graph.outputs()) is_result_[output->id] = true;
    for (const ir::Mutation& mutation : graph.mutations()) is_result_[mutation.value->id] = true;
  }
  /// A node that reads it twice stands there twice.
  const std::vector<ir::Node*>& readers(const ir::Value* value) const { return readers_.at(value->id); }
  /// Of the graph, or what an input becomes.
  bool is_result(const ir::Value* value) const { return is_result_.at(value->id); }
  /// Null: several read it, or nobody, or the graph wants it as it is, or it came after this was made.
  ir::Node* only_reader(const ir::Value* value) const {
    const bool is_alone = value->id < readers_.size() && readers_[value->id].size() == 1 && !is_result_[value->id];
    return is_alone ? readers_[value->id].front() : nullptr;
  }

 private:
  std::vector<std::vector<ir::Node*>> readers_;  ///< By Value::id.
  std::vector<bool> is_result_;
};

}  // namespace braze::passes
