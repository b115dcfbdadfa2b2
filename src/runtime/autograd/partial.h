// runtime/autograd/partial.h: the backward programs of a joint trace, by the tangents and gradients that they are
// for.
//
// The most likely one is made with the forward: that of all results, or of the only number among them, as a loss
// beside logits is. Others are made when a backward first runs with these: where another one of several results has
// a backward, or a gradient is asked of one input alone. One set has one program for all sizes. An input that is
// saved twice (passes::Saved::Kind::held) is one, but for a backward before which it was given other memory.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "capture/trace.h"
#include "passes/partial_backward.h"
#include "passes/partition.h"
#include "runtime/autograd/staged.h"
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

  /// Some of the tangents, and of the outputs of the whole backward.
  struct Pattern {
    Bits tangents, gradients;
    bool is_apart = false;   ///< What is saved twice is not the same any more.
    bool is_parted = false;  ///< At capture::Gradients::inner: what comes there is given and taken.
    bool operator==(const Pattern&) const = default;
  };

  /// \param joint  its graph stays, and is not changed.
  /// \param whole    the backward that it was cut into; null if it gave none, and then nothing is asked for.
  /// \param saved    what the whole one takes before the tangents.
  PartialPrograms(const capture::Trace& joint, std::shared_ptr<const ir::Graph> whole,
                  std::vector<passes::Saved> saved, ProgramOptions options);
  PartialPrograms(const PartialPrograms&) = delete;
  PartialPrograms& operator=(const PartialPrograms&) = delete;

  /// From several threads at once.
  Part at(const Pattern& pattern, std::span<const int64_t> symbols) const;
  /// The likely one in stages; null where it is better run at once. Known from the first who asks on.
  const StagedPrograms* staged() const;
  /// What a backward of such results will most likely ask for.
  const Pattern& likely() const { return likely_; }
  /// The backward for all, which may never be compiled; null if there is none.
  const std::shared_ptr<const ir::Graph>& whole() const { return whole_; }
  /// Of the backward that is parted at all inner roots.
  const std::vector<passes::BackwardReaders>& readers() const;
  /// Some gradient depends on an input that the forward writes to; worked out for the first who asks.
  bool reads_what_is_written() const;
  size_t compiled() const;  ///< So often was code made for the likely one.

 private:
  struct Row {
    Pattern pattern;
    std::shared_ptr<const passes::PartialBackward> of;
    std::shared_ptr<Program> program;             ///< Of numbers, or
    std::shared_ptr<const ProgramFamily> family;  ///< of expressions.
  };
  Pattern find_likely() const;
  const Row& row(const Pattern& pattern) const;
  Row make(const Pattern& pattern) const;
  passes::Backward backward(bool is_apart = false) const;
  passes::Parted parted(const passes::Backward& whole) const;
  /// \param inputs  of the whole graph, or behind them.
  capture::Trace trace_of(std::shared_ptr<ir::Graph> graph, std::span<const uint32_t> inputs) const;
  std::unique_ptr<const StagedPrograms> make_staged() const;

  const std::shared_ptr<const ir::Graph> joint_, whole_;
  const std::vector<passes::Saved> saved_;
  const std::vector<std::optional<uint32_t>> also_as_;
  const std::shared_ptr<const ir::Graph> together_;  ///< The whole one, in which nothing is saved twice.
  const capture::Gradients gradients_;
  const Pattern likely_;
  std::vector<at::Tensor> bound_;  ///< By input of the joint graph, from the first tangent on.
  const std::vector<c10::IValue> objects_;
  const ProgramOptions options_;
  mutable std::mutex mutex_;  ///< Of all that follows.
  mutable std::optional<Row> likely_row_;
  mutable std::optional<std::vector<passes::BackwardReaders>> readers_;
  mutable std::optional<bool> reads_what_is_written_;
  mutable std::optional<std::unique_ptr<const StagedPrograms>> staged_;
  mutable std::list<Row> rows_;  ///< The others; the one used last comes first.
};

}  // namespace braze::runtime
