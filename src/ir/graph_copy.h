// ir/graph_copy.h: the walk that copies a graph node by node into another one.
//
//   class Doubled : public GraphCopy { const Type* type(const Type& from) override; };
//   Doubled(from, to).run();
//
// A subclass says what is different in the copy; what it leaves alone is the same.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace braze::ir {

class GraphCopy {
 public:
  GraphCopy(const Graph& from, Graph& to) : from_(from), to_(to), values_(from.value_limit()) {}
  virtual ~GraphCopy() = default;
  GraphCopy(const GraphCopy&) = delete;
  GraphCopy& operator=(const GraphCopy&) = delete;

  /// Inputs, nodes, outputs and mutations.
  /// \param place  if given, a node of the graph; becomes the first of the copy that comes of it or of a later one.
  void run(const Node** place = nullptr);
  void copy_inputs();
  void copy_input(const Input& input);
  /// What stands for a value that is no input of the original.
  void add_input(const Value& old, std::string_view name, const Type& lies);
  /// Its operands were copied.
  void copy(const Node& node);
  /// From here on `instead` stands for it; returns what did so far.
  Value* exchange(const Value& old, Value* instead);
  bool has(const Value& old) const { return found(&old) != nullptr; }
  Value* operator[](const Value* old) const;  ///< Of the copy; it was copied.

 protected:
  /// By default of the same numbers; sizes that are expressions belong to a graph, so that copies of those say how.
  virtual const Type* type(const Type& from);
  /// \param attributes  those of the node, to be changed; texts in them live until it is made.
  virtual void change(const Node& node, std::vector<Attr>& attributes);
  /// What stands in the copy for the node's only result; null: a node of its own.
  virtual Value* replaced(const Node& node);
  /// By default with the types that type() gives.
  virtual Node* make(const Node& node, std::span<Value* const> operands, std::span<const Attr> attributes);

  const Graph& from_;
  Graph& to_;

 private:
  Value* found(const Value* old) const { return values_[Graph::resolve(const_cast<Value*>(old))->id]; }

  std::vector<Value*> values_;  ///< Of the copy, by the Value::id of `from_`.
};

}  // namespace braze::ir
