// capture/memory_reads.h: through which memory the backward reads each value.
//
// A graph knows no copies: x and x.clone() are one value. Autograd does: who saves the clone does not mind that x
// is written to before the backward runs, so the values that a backward reads are told apart by the memory that
// eager has saved.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/memory.h"

namespace braze::capture {

class MemoryReads {
 public:
  /// While it lives, whatever is read on this thread is noted in `reads`.
  class Scope {
   public:
    explicit Scope(MemoryReads& reads);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MemoryReads* const outer_;
  };

  /// Of a backward that begins now.
  explicit MemoryReads(const ir::Graph& graph) : first_id_(graph.value_limit()) {}
  static MemoryReads* current();
  void note(const Memory& memory, ir::Value* value);
  /// Of values of the forward part, numbers not among them.
  size_t count() const { return count_; }
  /// Values of the forward part of which every read went through memory for which `is_private` holds, in the order
  /// of first reads.
  std::vector<ir::Value*> only_through(const std::function<bool(const Memory&)>& is_private) const;

 private:
  const uint32_t first_id_;  ///< Values of the backward have this one or a later one.
  size_t count_ = 0;
  std::vector<ir::Value*> values_;
  std::unordered_map<const ir::Value*, std::vector<const Memory*>> through_;
};

/// What the user has (inputs, what is written to them, outputs before `first_gradient`) is read by the backward as
/// a copy, where it is one of `values`. The forward part makes the copies.
void keep_copies(ir::Graph& graph, ir::Node* first_backward, size_t first_gradient,
                 std::span<ir::Value* const> values);

}  // namespace braze::capture
