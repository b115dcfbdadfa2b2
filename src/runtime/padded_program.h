// runtime/padded_program.h: batches of many sizes by programs of few: a batch of 13 runs in one for 16, whose CUDA
// graph is recorded once (the option size_buckets).
//
//   BatchPadding padding(family.trace(), SizeBuckets::parse("powers_of_two"));
//   padding.refused()                               // why no symbol counts rows that are independent; "": one does
//   const auto bucket = padding.bucket_of(symbols); // {16} for {13}
//   PaddedProgram padded(family.at(bucket, ...), memory_of_that_bucket, trace_of_13, trace_of_16);
//   padded.run(arguments, results);
//
// Only where each row of the results depends on the same row of the arguments alone (passes/independent_rows.h):
// the rows that fill the program up are copies of the last one, so that nothing is wrong with them that is not
// wrong anyway, and what is computed of them is dropped. Copying costs two small kernels an argument.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "capture/trace.h"
#include "runtime/geometry.h"
#include "runtime/program.h"
#include "runtime/size_buckets.h"

namespace braze::runtime {

/// Which symbols of a trace are padded.
class BatchPadding {
 public:
  BatchPadding(const capture::Trace& trace, SizeBuckets buckets);

  const std::string& refused() const { return refused_; }
  /// The values of the symbols for which a program is to be used; `symbols` themselves where nothing is padded.
  std::vector<int64_t> bucket_of(std::span<const int64_t> symbols) const;

 private:
  const SizeBuckets buckets_;
  std::string refused_;
  std::vector<size_t> slots_;  ///< Of symbols that are padded.
};

/// Where the arguments of one bucket's calls are put, so that its CUDA graph finds them at the same place: by
/// stream, as work on one does not wait for that on another.
struct PaddedMemory {
  std::mutex mutex;  ///< Held while a call copies and starts its work.
  std::map<const void*, std::vector<at::Tensor>> arguments;
};

/// From several threads at once.
class PaddedProgram {
 public:
  /// \param program  of the trace `padded`.
  /// \param real     the same trace, of the sizes that arguments have.
  PaddedProgram(std::shared_ptr<Program> program, std::shared_ptr<PaddedMemory> memory, const capture::Trace& real,
                const capture::Trace& padded);

  const std::shared_ptr<Program>& program() const { return program_; }
  bool accepts(const at::Tensor* const* arguments) const noexcept;
  /// As Program::run.
  void run(const at::Tensor* const* arguments, at::Tensor* results) const;

 private:
  struct Argument {
    Geometry real, padded;
    bool is_padded;
  };
  /// Memory for all padded arguments; undefined tensors in the place of others.
  std::vector<at::Tensor> allocate() const;
  void run_in(const std::vector<at::Tensor>& memory, const at::Tensor* const* arguments, at::Tensor* results) const;

  const std::shared_ptr<Program> program_;
  const std::shared_ptr<PaddedMemory> memory_;
  std::vector<Argument> arguments_;
  std::vector<Geometry> results_;
};

}  // namespace braze::runtime
