// runtime/autograd/partial.h: the backward programs of a joint trace for some of its tangents and gradients.
//
// Made when a backward first runs with these: where one of several results has a backward, or a gradient is asked
// of one input alone. One set has one program for all sizes, as the whole backward has.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "capture/trace.h"
#include "passes/partial_backward.h"
#include "runtime/family.h"
#include "runtime/program.h"
#include "support/bits.h"

namespace braze::runtime {

class PartialPrograms {
 public:
  struct Part {
    std::shared_ptr<Program> program;  ///< Null if it gives no gradient that is not a tangent.
    std::shared_ptr<const passes::PartialBackward> of;
  };

  /// \param joint  its graph stays, and is not changed.
  PartialPrograms(const capture::Trace& joint, ProgramOptions options);
  PartialPrograms(const PartialPrograms&) = delete;
  PartialPrograms& operator=(const PartialPrograms&) = delete;

  /// From several threads at once. \param gradients  by output of the whole backward.
  Part at(const Bits& tangents, const Bits& gradients, std::span<const int64_t> symbols) const;
  const std::vector<passes::BackwardReaders>& readers() const;

 private:
  struct Row {
    Bits tangents, gradients;
    std::shared_ptr<const passes::PartialBackward> of;
    std::shared_ptr<Program> program;             ///< Of numbers, or
    std::shared_ptr<const ProgramFamily> family;  ///< of expressions.
  };
  const Row& row(const Bits& tangents, const Bits& gradients) const;
  Row make(const Bits& tangents, const Bits& gradients) const;
  passes::Backward whole() const;
  capture::Trace trace_of(const passes::PartialBackward& part) const;

  const std::shared_ptr<const ir::Graph> joint_;
  const capture::Gradients gradients_;
  std::vector<at::Tensor> bound_;  ///< By input of the joint graph, from the first tangent on.
  const std::vector<c10::IValue> objects_;
  const ProgramOptions options_;
  mutable std::mutex mutex_;  ///< Of all that follows.
  mutable std::unique_ptr<const ir::Graph> whole_;
  mutable std::optional<std::vector<passes::BackwardReaders>> readers_;
  mutable std::list<Row> rows_;  ///< The one used last comes first.
};

}  // namespace braze::runtime
