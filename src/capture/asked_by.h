// capture/asked_by.h: who asks for a size, for the guards and for people.
#pragma once

#include <string>
#include <utility>

#include "capture/recorder.h"
#include "support/error.h"

namespace braze::capture {

/// For a guard: the operator that asks now; outside of one, the line of Python.
std::string who_asks();

/// While one of these lives: an operator, and where it is called. Composite ones ask by themselves, between those
/// that they are made of.
class AskedBy {
 public:
  AskedBy(Recorder& recorder, const c10::OperatorHandle& op) : symbols_(recorder.symbols()) {
    if (!symbols_) return;
    const ir::Graph& graph = recorder.graph();
    outer_ = std::exchange(symbols_->why,
                           concat(op.schema().name(), graph.source().empty() ? "" : " at ", graph.source()));
  }
  ~AskedBy() {
    if (symbols_) symbols_->why = std::move(outer_);
  }
  AskedBy(const AskedBy&) = delete;
  AskedBy& operator=(const AskedBy&) = delete;

 private:
  Symbols* symbols_;  ///< Null: all sizes are numbers.
  std::string outer_;
};

}  // namespace braze::capture
