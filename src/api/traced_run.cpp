// api/traced_run.cpp
#include "api/traced_run.h"

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

/// What of the tensor's sizes may vary, to the tracer.
void vary(capture::Tracer& tracer, const at::Tensor& real, size_t number, std::span<const DynamicSize> dynamic) {
  std::vector<capture::Varying> sizes(static_cast<size_t>(real.dim()));
  const std::unique_ptr<bool[]> strides(new bool[sizes.size()]());
  for (const DynamicSize& one : dynamic) {
    if (one.tensor != number) continue;
    const int64_t dim = one.dim < 0 ? one.dim + real.dim() : one.dim, low = std::max<int64_t>(one.min, 2);
    if (dim < 0 || dim >= real.dim())
      throw UserError(concat("Options::dynamic: argument ", number, " has ", real.dim(), " dimensions"));
    if (real.size(dim) < low || real.size(dim) > one.max)
      throw UserError(concat("Options::dynamic: size ", dim, " of argument ", number, " is ", real.size(dim),
                             " in the example; it may vary from ", low, " up",
                             one.max == INT64_MAX ? "" : concat(" to ", one.max)));
    sizes[static_cast<size_t>(dim)] = {true, {low, one.max}, one.name};
  }
  tracer.vary(real, concat("x", number), sizes, {strides.get(), sizes.size()});
}

runtime::ProgramOptions program_options(TracedRun& traced, const Options& options) {
  runtime::ProgramOptions made;
  made.fuse = options.fuse;
  made.use_disk_cache = options.disk_cache;
  made.verify = options.verify;
  made.prepack_weights = options.prepack_weights;
  made.max_autotune = options.max_autotune;
  made.example_arguments = std::move(traced.examples);
  return made;
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

TracedRun record(const std::string& name, const Signature& signature, const detail::Inputs& inputs,
                 const detail::Record& function, const detail::Names& names, std::span<const DynamicSize> dynamic) {
  TracedRun traced;
  {
    PhaseTimer timer(&traced.times, "install");
    install();
  }
  PhaseTimer timer(&traced.times, "capture");
  capture::Tracer tracer(name, &traced.times);
  if (!dynamic.empty()) tracer.prepare_symbols();
  std::vector<at::Tensor> distinct;
  for (const at::Tensor* real : signature.distinct(inputs.tensors)) {
    const at::Tensor passed = stand_in(*real);
    if (!dynamic.empty()) vary(tracer, passed, distinct.size(), dynamic);
    distinct.push_back(tracer.add_argument(passed, concat("x", distinct.size())));
    traced.examples.push_back(*real);
  }
  std::vector<size_t> owners;
  for (const at::Tensor& real : traced.examples) owners.push_back(real.use_count());
  std::vector<at::Tensor> tracers;
  for (const uint32_t number : signature.distinct_numbers()) tracers.push_back(distinct[number]);
  distinct.clear();
  if (names)
    for (const auto& [path, tensor] : names()) tracer.name_parameter(tensor, path);
  try {
    capture::Tracer::Scope scope(tracer);
    detail::Recorded recorded = function(tracers);
    tracers.clear();
    traced.rest = std::move(recorded.rest);
    std::unordered_map<const c10::TensorImpl*, uint32_t> numbers;
    std::vector<at::Tensor> results;
    for (const at::Tensor& tensor : recorded.tensors) {
      const auto [at, added] = numbers.try_emplace(tensor.unsafeGetTensorImpl(), results.size());
      if (added) results.push_back(tensor);
      traced.results.push_back(at->second);
    }
    traced.trace = tracer.finish(results);
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
    traced.closes_over_argument |= traced.examples[k].use_count() > owners[k];
  traced.kept = tracer.release();
  tracer.add_outputs(traced.trace, traced.kept);
  return traced;
}

std::shared_ptr<const runtime::Program> compile(TracedRun& traced, const Options& options) {
  if (traced.trace.graph->find_shape_env()) traced.trace = capture::instantiate(traced.trace, {});
  const runtime::ProgramOptions made = program_options(traced, options);
  return runtime::Program::compile(std::move(traced.trace), made, std::move(traced.times));
}

std::shared_ptr<const runtime::SizedProgram> compile_sized(TracedRun& traced, const Options& options) {
  const std::vector<at::Tensor> examples = traced.examples;
  std::vector<const at::Tensor*> pointers;
  for (const at::Tensor& tensor : examples) pointers.push_back(&tensor);
  auto made = std::make_shared<const runtime::SizedProgram>(
      std::move(traced.trace), program_options(traced, options), std::move(traced.times));
  made->at(pointers.data());
  return made;
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
