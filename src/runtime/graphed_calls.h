// runtime/graphed_calls.h: calls of a program as CUDA graphs (mode="reduce-overhead").
//
// The first call of a program runs as ever and warms libraries up; the second is recorded. A recording works on
// fixed memory:
//   bound tensors            where they lie; a call that finds one elsewhere records anew
//   arguments                likewise while they stay where they are (a batch that is refilled), else they are
//   copied
//                            into memory of the recording
//   results                  in memory of the recording, which the next replay overwrites
// No result is ever overwritten under the eyes of whoever holds it: a call that finds results of a recording's last
// replay alive takes another recording, of up to three, and runs as ever if all are in use. So `y = f(x)` in a loop
// alternates between two, and a list of results is right.
//
// A recording belongs to one stream. Calls on further streams, while somebody else records, or beside another call
// of the same program, run as ever. What cannot be recorded at all is told in facts() and in the log "cudagraphs".
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda_graphs.h"
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
  /// A recording of this stream whose results nobody holds; made now if there may be another. Null: run as ever.
  std::shared_ptr<Recording> pick(const at::Tensor* const* arguments, void* stream);
  std::shared_ptr<Recording> record(const at::Tensor* const* arguments, void* stream) const;
  /// Recordings that rely on a place where a tensor no longer is are dropped, and arguments that move noted.
  void follow(const at::Tensor* const* arguments);
  bool is_at_home(const Recording& recording, const at::Tensor* const* arguments) const;
  void replay(const std::shared_ptr<Recording>& recording, const at::Tensor* const* arguments, at::Tensor* results);

  const Program::Impl& program_;
  mutable std::mutex
      mutex_;  ///< Protects what follows; never waited for, since who holds it may want Python's lock.
  std::vector<std::shared_ptr<Recording>> recordings_;
  std::vector<const void*> places_;  ///< Of each argument at the last call.
  std::vector<bool> moves_;          ///< By argument: has been elsewhere, so it is copied.
  uint32_t calls_ = 0;
  CudaGraphFacts facts_;
};

}  // namespace braze::runtime
