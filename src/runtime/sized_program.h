// runtime/sized_program.h: a traced program some of whose arguments' sizes may vary, called like a Program.
//
//   SizedProgram program(std::move(trace), options, times);      // trace.symbols are read off its arguments
//   program.at(arguments)->run(arguments, results);
//
// What a later argument must be is said by the trace: its sizes and strides are expressions, and what was decided
// on the way is a guard. An argument that breaks one of these is named, with the relation and the values.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/size_code.h"
#include "runtime/family.h"

namespace braze::runtime {

class SizedProgram {
 public:
  SizedProgram(capture::Trace trace, ProgramOptions options, PhaseTimes times);
  SizedProgram(const SizedProgram&) = delete;
  SizedProgram& operator=(const SizedProgram&) = delete;

  /// The program for arguments of these sizes. What does not depend on sizes (dtypes, devices) it checks itself.
  /// \param labels  name the arguments in errors: "argument 1 (`mask`)". May be empty.
  /// Throws UserError that names the relation which an argument breaks.
  std::shared_ptr<Program> at(const at::Tensor* const* arguments,
                              const std::vector<std::string>& labels = {}) const;
  /// What was asked for last.
  std::shared_ptr<Program> latest() const { return family_.latest(); }
  size_t argument_count() const { return arguments_.size(); }
  const capture::Trace& trace() const { return family_.trace(); }

 private:
  /// What a dimension must be.
  struct Fit {
    uint32_t argument, dim;
    bool is_stride;
    ir::Size size;
  };
  int64_t read(const at::Tensor* const* arguments, uint32_t argument, uint32_t dim, bool is_stride) const;
  std::string label(uint32_t argument, const std::vector<std::string>& labels) const;
  /// "batch = 5 (size 0 of argument 0 (`x`))", of all symbols.
  std::string values(std::span<const int64_t> symbols, const std::vector<std::string>& labels) const;
  void check(const at::Tensor* const* arguments, std::span<const int64_t> symbols,
             const std::vector<std::string>& labels) const;

  const ProgramFamily family_;
  const ir::ShapeEnv& env_;
  std::vector<uint32_t> arguments_;    ///< Graph inputs that are arguments.
  std::vector<uint32_t> argument_of_;  ///< By graph input.
  std::vector<Fit> fits_;
  ir::SizeCode code_;  ///< Of the fits, in order.
};

}  // namespace braze::runtime
