// api/recording.cpp
#include "api/recording.h"

#include <mutex>
#include <unordered_map>

#include "braze/error.h"
#include "capture/tracer_tensor.h"
#include "runtime/geometry.h"
#include "runtime/profiler_range.h"
#include "support/error.h"

namespace braze::api {

namespace {

/// Another tensor in the same memory, so that the argument itself has one owner more after the trace if the
/// function has it from elsewhere: what it does with that tensor it would do with the argument of every later call.
at::Tensor stand_in(const at::Tensor& real) {
  if (!is_plain(real)) return real;
  at::Tensor tensor = runtime::alias(real, real.sizes(), real.strides(), real.storage_offset());
  if (real.requires_grad()) tensor.set_requires_grad(true);
  return tensor;
}

}  // namespace

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    runtime::install_evaluate_hook();
    runtime::install_phase_ranges();
  });
  capture::install();  // again each time: operators may have been registered since
}

Recording record(const std::string& name, const Signature& signature, const detail::Inputs& inputs,
                 const detail::Record& function, const detail::Names& names) {
  Recording recording;
  {
    PhaseTimer timer(&recording.times, "install");
    install();
  }
  PhaseTimer timer(&recording.times, "capture");
  capture::Tracer tracer(name, &recording.times);
  std::vector<at::Tensor> distinct;
  for (const at::Tensor* real : signature.distinct(inputs.tensors)) {
    distinct.push_back(tracer.add_argument(stand_in(*real), concat("x", distinct.size())));
    recording.examples.push_back(*real);
  }
  std::vector<size_t> owners;
  for (const at::Tensor& real : recording.examples) owners.push_back(real.use_count());
  std::vector<at::Tensor> tracers;
  for (const uint32_t number : signature.distinct_numbers()) tracers.push_back(distinct[number]);
  distinct.clear();
  if (names)
    for (const auto& [path, tensor] : names()) tracer.name_parameter(tensor, path);
  try {
    capture::Tracer::Scope scope(tracer);
    detail::Recorded recorded = function(tracers);
    tracers.clear();
    recording.rest = std::move(recorded.rest);
    std::unordered_map<const c10::TensorImpl*, uint32_t> numbers;
    std::vector<at::Tensor> results;
    for (const at::Tensor& tensor : recorded.tensors) {
      const auto [at, added] = numbers.try_emplace(tensor.unsafeGetTensorImpl(), results.size());
      if (added) results.push_back(tensor);
      recording.results.push_back(at->second);
    }
    recording.trace = tracer.finish(results);
  } catch (const std::exception& error) {
    tracers.clear();
    if (tracer.release().empty()) {
      if (tracer.wants_gradients()) throw GradientWanted(error.what());
      throw;
    }
    throw Error(
        concat("braze: the function cannot be captured (", error.what(),
               "), and has left a tensor in something that outlives the call, so that it cannot be run again "
               "instead. Return that tensor, or call the function without braze."));
  }
  for (size_t k = 0; k < owners.size(); ++k)
    recording.closes_over_argument |= recording.examples[k].use_count() > owners[k];
  recording.kept = tracer.release();
  tracer.add_outputs(recording.trace, recording.kept);
  return recording;
}

std::shared_ptr<const runtime::Program> compile(Recording& recording, const Options& options) {
  runtime::ProgramOptions program_options;
  program_options.fuse = options.fuse;
  program_options.use_disk_cache = options.disk_cache;
  program_options.verify = options.verify;
  program_options.prepack_weights = options.prepack_weights;
  program_options.max_autotune = options.max_autotune;
  program_options.example_arguments = std::move(recording.examples);
  return runtime::Program::compile(std::move(recording.trace), program_options, std::move(recording.times));
}

void run(const runtime::Program& program, const std::vector<uint32_t>& results, Tensors distinct,
         detail::Outputs& outputs, const std::vector<at::Tensor>& kept) {
  c10::SmallVector<at::Tensor, 4> unique(program.result_count());
  program.run(distinct.data(), unique.data());
  outputs.tensors.clear();
  for (const uint32_t number : results) outputs.tensors.push_back(unique[number]);
  for (size_t k = 0; k < kept.size(); ++k)
    capture::as_tracer(kept[k])->become(unique[unique.size() - kept.size() + k]);
}

bool needs_gradients(const capture::Trace& trace, bool any_requires_grad) {
  return trace.any_requires_grad || (any_requires_grad && !trace.graph->mutations().empty());
}

}  // namespace braze::api
