// api/program.cpp: braze::Program, a face of runtime::Program; and one program behind a typed call.
#include "braze/program.h"

#include <atomic>

#include "api/traced_run.h"
#include "braze/function.h"
#include "runtime/packed_weights.h"
#include "support/error.h"

namespace braze {

namespace {

/// What braze says to its callers is an Error; everything else passes.
template <typename Body>
auto as_error(Body&& body) {
  try {
    return body();
  } catch (const UserError& error) {
    throw Error(error.what());
  }
}

}  // namespace

std::vector<at::Tensor> Program::operator()(const std::vector<at::Tensor>& arguments) const {
  return as_error([&] {
    program_->check_arguments(arguments);
    return program_->run(arguments);
  });
}

std::string Program::graph() const {
  return program_->code("graph");
}
std::string Program::code(std::string_view stage) const {
  return as_error([&] { return program_->code(stage); });
}

std::vector<Kernel> Program::kernels() const {
  std::vector<Kernel> kernels;
  for (const driver::KernelFacts& info : program_->facts().kernels)
    kernels.push_back({info.name, info.fused, info.bytes_read, info.bytes_written,
                       static_cast<int64_t>(info.code_bytes), info.launches});
  return kernels;
}

std::vector<Step> Program::steps() const {
  std::vector<Step> steps;
  for (const driver::StepFacts& info : program_->facts().steps)
    steps.push_back({info.kind, info.name, info.source});
  return steps;
}

std::vector<Phase> Program::compile_times() const {
  const PhaseTimes& times = program_->facts().times;
  std::vector<Phase> phases;
  for (const PhaseTimes::Row& row : times.rows())
    phases.push_back({row.name, row.nanoseconds, row.allocations.count, row.allocations.bytes});
  const Allocations all = times.total_allocations();
  phases.push_back({"total", times.total(), all.count, all.bytes});
  return phases;
}

Memory Program::memory() const {
  const runtime::MemoryInfo info = program_->memory();
  return {info.arena_bytes,  info.unplanned_bytes, info.output_bytes,     info.code_bytes,
          info.packed_bytes, info.graph_bytes,     info.graph_used_bytes, info.graph_peak_bytes};
}

void repack_weights() {
  runtime::forget_packed_weights();
}

std::vector<std::string> Program::warnings() const {
  return program_->trace().warnings;
}

// ---- trace()

class detail::TracedCall::Impl {
 public:
  api::Signature signature;
  std::string name;
  std::shared_ptr<const runtime::Program> program;     ///< Of the examples.
  std::shared_ptr<const runtime::SizedProgram> sized;  ///< Null: of the examples' sizes alone.
  std::shared_ptr<const void> rest;
  std::vector<uint32_t> results;
  mutable std::atomic<bool> warned_detached{false};

  Impl(api::Signature of, std::string called) : signature(std::move(of)), name(std::move(called)) {}
};

detail::TracedCall::TracedCall(const Options& options, const Names& names, const Inputs& inputs,
                               const Record& record) {
  as_error([&] {
    if (capture::Tracer::current())
      throw UserError("braze::trace was called while another function is being traced");
    for (const at::Tensor* tensor : inputs.tensors)
      if (capture::is_tracer(*tensor))
        throw UserError("an example is a tensor of another trace; give real tensors");
    api::Signature signature(api::Environment::now(), inputs.key, inputs.tensors);
    api::TracedRun traced = api::record(options.name, signature, inputs, record, names, options.dynamic);
    if (!traced.kept.empty())
      throw UserError(
          "braze: the traced function leaves a tensor in something that outlives the call. Return that tensor "
          "instead");
    auto impl = std::make_shared<Impl>(std::move(signature), options.name);
    impl->rest = std::move(traced.rest);
    impl->results = std::move(traced.results);
    if (traced.trace.symbols.empty()) {
      impl->program = api::compile(traced, options);
    } else {
      impl->sized = api::compile_sized(traced, options);
      impl->program = impl->sized->latest();
    }
    impl_ = std::move(impl);
  });
}

void detail::TracedCall::call(const Inputs& inputs, Outputs& outputs) const {
  as_error([&] {
    if (capture::Tracer::current())
      throw UserError(
          concat("the program of `", impl_->name,
                 "` was called while another function is being traced; call the function itself there"));
    if (!impl_->signature.same_structure(inputs.key, inputs.tensors))
      throw UserError(
          concat("`", impl_->name,
                 "` was traced with another value of an argument that is not a tensor, another number of "
                 "tensors, or one tensor in two places; trace again for such arguments"));
    const auto distinct = impl_->signature.distinct(inputs.tensors);
    const std::shared_ptr<const runtime::Program> program =
        impl_->sized ? impl_->sized->at(distinct.data()) : impl_->program;
    if (!program->accepts(distinct.data())) {
      std::vector<at::Tensor> arguments;
      for (const at::Tensor* tensor : distinct) arguments.push_back(*tensor);
      program->check_arguments(arguments);
    }
    if (program->loses_grad(distinct.data()) && !impl_->warned_detached.exchange(true))
      TORCH_WARN("the results of braze's program of `", impl_->name,
                 "` are detached: inputs or parameters require grad, and programs do not record gradients. Call it "
                 "under torch::NoGradGuard to say that this is meant.");
    api::run(*program, impl_->results, distinct, outputs);
  });
  outputs.rest = impl_->rest;
}

Program detail::TracedCall::program() const {
  return Program(impl_->program);
}

}  // namespace braze
