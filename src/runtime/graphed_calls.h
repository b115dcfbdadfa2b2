// runtime/graphed_calls.h: calls of a program as CUDA graphs (mode="reduce-overhead").
//
// The first call of a program runs as ever and warms libraries up; the second is recorded. A recording works on
// fixed memory:
//   bound tensors            where they lie; a call that finds one elsewhere records anew
//   arguments                likewise while they stay where they are (a batch that is refilled), else they are
//                            copied into memory of the recording
//   temporaries              in memory that recordings of one stream share, if nothing runs between their graphs
//   results                  in memory of the recording, which the next replay overwrites
// No result is ever overwritten under the eyes of whoever holds it: a call that finds results of a recording's last
// replay alive takes another recording, of up to three, and runs as ever if all are in use. So `y = f(x)` in a loop
// alternates between two, and a list of results is right.
//
// A program with steps that cannot be recorded has several graphs, and runs those steps between them
// (runtime/graph_parts.h). While it is recorded each graph is started as soon as it is made, so that what follows
// finds its values: the call that records is a replay like others. A step whose recording fails is run as ever from
// then on, that call included.
//
// A recording belongs to one stream. Calls on further streams, while somebody else records, or beside another call
// of the same program, run as ever. What cannot be recorded at all is told in facts() and in the log "cudagraphs".
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda_graphs.h"
#include "runtime/graph_parts.h"
#include "runtime/program_impl.h"

namespace braze::runtime {

class GraphedCalls {
 public:
  explicit GraphedCalls(const Program::Impl& program);
  ~GraphedCalls();
  GraphedCalls(const GraphedCalls&) = delete;
  GraphedCalls& operator=(const GraphedCalls&) = delete;

  /// One call. False: it has to be run as ever, and nothing has been done. Thread-safe.
  bool run(const at::Tensor* const* arguments, at::Tensor* results);
  CudaGraphFacts facts() const;

 private:
  struct Recording;

  /// What the program does that no recording can: empty if nothing.
  std::string obstacle() const;
  void give_up(std::string why);
  /// Splits the program anew, by what came of recording its steps so far.
  void split();
  /// A recording of this stream whose results nobody holds; one to be made now if there may be another. Null: run
  /// as ever.
  std::shared_ptr<Recording> pick(const at::Tensor* const* arguments, void* stream);
  /// Its memory; the graphs are made on the way through the first call.
  std::shared_ptr<Recording> prepare(const at::Tensor* const* arguments, void* stream) const;
  void place_temporaries(Recording& made, bool may_share) const;
  /// A call is one graph, and nothing besides.
  bool is_undivided() const;
  /// Recordings that rely on a place where a tensor no longer is are dropped, and arguments that move noted.
  void follow(const at::Tensor* const* arguments);
  bool is_at_home(const Recording& recording, const at::Tensor* const* arguments) const;
  /// On the device that is recorded; others are seen by direct steps only, which look anew.
  bool is_fixed(const BoundInput& input) const { return input.expected.device == parts_.place; }

  /// One call on the memory of a recording, whose graphs it makes where there are none yet. False: a step could not
  /// be recorded and the call went on without, so that the recording is of no use.
  bool perform(const std::shared_ptr<Recording>& recording, const at::Tensor* const* arguments,
               at::Tensor* results);
  void load(Recording& recording, const at::Tensor* const* arguments) const;
  /// False: it has to be run as ever, and so have all that follow.
  bool record(Recording& recording, size_t part, const at::Tensor* const* arguments);
  void settle(Recording& recording, size_t part) const;
  void give_results(const std::shared_ptr<Recording>& recording, const at::Tensor* const* arguments,
                    at::Tensor* results) const;

  const Program::Impl& program_;
  GraphParts parts_;
  std::map<uint32_t, std::string> refused_;  ///< Steps that could not be recorded, and what was said.
  mutable std::mutex mutex_;  ///< Protects what follows; never waited for, since who holds it may want the GIL.
  std::vector<std::shared_ptr<Recording>> recordings_;
  std::vector<const void*> places_;  ///< Of each argument at the last call.
  std::vector<bool> moves_;          ///< By argument: has been elsewhere, so it is copied.
  uint32_t calls_ = 0;
  CudaGraphFacts facts_;
};

}  // namespace braze::runtime
