// api/traced_run.h: one run of a function on tracers, and the program made of it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/signature.h"
#include "braze/function.h"
#include "capture/trace.h"
#include "runtime/program.h"
#include "runtime/sized_program.h"
#include "support/error.h"

namespace braze::api {

/// Why a call is answered by the function itself.
enum class Eager : uint8_t { no, value_read, gradients, over_limit, unsupported };

/// What a run on tracers gave.
struct TracedRun {
  capture::Trace trace;
  std::shared_ptr<const void> rest;  ///< The result without its tensors; see detail::Recorded.
  std::vector<uint32_t> results;     ///< For each tensor of the result, which tensor of the trace it is.
  std::vector<at::Tensor> examples;  ///< The distinct arguments.
  PhaseTimes times;
  /// Tensors of the trace that the function left in something that outlives it: the last outputs of the trace.
  std::vector<at::Tensor> kept;
  bool closes_over_argument = false;  ///< It has an argument of this call from elsewhere as well.
};

/// What record() throws for a write that autograd would note in the history of a tensor from outside.
class GradientWanted : public UserError {
 public:
  using UserError::UserError;
};

/// Registers braze's kernels with the dispatcher, once a process.
void install();

/// Runs the function on tracers. Throws UserError for what cannot be traced, and what the function throws; the
/// thread's dispatch state is then as before. Throws Error if such a function has left a tensor of the trace
/// somewhere.
TracedRun record(const std::string& name, const Signature& signature, const detail::Inputs& inputs,
                 const detail::Record& function, const detail::Names& names,
                 std::span<const DynamicSize> dynamic = {});

/// passes -> loops -> machine code.
std::shared_ptr<const runtime::Program> compile(TracedRun& traced, const Options& options);

/// Of a run with sizes that vary.
std::shared_ptr<const runtime::SizedProgram> compile_sized(TracedRun& traced, const Options& options);

/// Runs a program on the distinct arguments, and puts the results where `results` says. Those of `kept` become
/// real.
void run(const runtime::Program& program, const std::vector<uint32_t>& results, Tensors distinct,
         detail::Outputs& outputs, const std::vector<at::Tensor>& kept = {});

/// The results of the trace should have an autograd graph, or tensors that it writes should.
bool needs_gradients(const capture::Trace& trace, bool any_requires_grad);

}  // namespace braze::api
