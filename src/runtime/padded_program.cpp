#include "runtime/padded_program.h"

#include <ATen/ops/copy.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "ir/clone.h"
#include "ir/shape_env.h"
#include "passes/independent_rows.h"
#include "runtime/device/cuda/device.h"
#include "runtime/program_impl.h"

namespace braze::runtime {

namespace {

/// Every result is a tensor of the program's own, and no two are one.
bool makes_all_results(const capture::Trace& trace) {
  using Recipe = capture::OutputRecipe;
  std::vector<uint32_t> outputs;
  for (const Recipe& recipe : trace.outputs) {
    if (recipe.kind != Recipe::Kind::output || !recipe.whole || recipe.base_kind != Recipe::Base::none)
      return false;
    outputs.push_back(recipe.index);
  }
  std::ranges::sort(outputs);
  return trace.hidden.empty() && std::ranges::adjacent_find(outputs) == outputs.end();
}

bool has_bound_rows(const capture::Trace& trace, const passes::IndependentRows& rows) {
  for (size_t i = 0; i < rows.inputs.size(); ++i)
    if (rows.inputs[i] && trace.graph->inputs()[i].kind != ir::InputKind::argument) return true;
  return false;
}

/// Dimension `dim` of `tensor` from `begin` on, `length` long.
at::Tensor part(const at::Tensor& tensor, size_t dim, int64_t begin, int64_t length) {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[dim] = length;
  return alias(tensor, sizes, tensor.strides(), tensor.storage_offset() + begin * tensor.stride(dim));
}

/// `from` in the first places of every dimension, its last slice in all that follow.
void pad_into(const at::Tensor& to, const at::Tensor& from) {
  alias(to, from.sizes(), to.strides(), to.storage_offset()).copy_(from);
  std::vector<int64_t> sizes = from.sizes().vec();
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t size = sizes[d], padded = to.size(d);
    sizes[d] = padded;
    if (size == padded) continue;
    const at::Tensor done = alias(to, sizes, to.strides(), to.storage_offset());
    part(done, d, size, padded - size).copy_(part(done, d, size - 1, 1));
  }
}

}  // namespace

BatchPadding::BatchPadding(const capture::Trace& trace, SizeBuckets buckets) : buckets_(std::move(buckets)) {
  if (!makes_all_results(trace)) {
    refused_ = "a result is an argument or a view";
    return;
  }
  const auto graph = ir::clone(*trace.graph, trace.graph->find_shape_env()->examples());
  for (size_t slot = 0; slot < trace.symbols.size(); ++slot) {
    const passes::IndependentRows rows = passes::independent_rows(*graph, static_cast<uint32_t>(slot));
    if (rows.refused.empty() && !has_bound_rows(trace, rows))
      slots_.push_back(slot);
    else if (refused_.empty())
      refused_ = rows.refused.empty() ? "a parameter has such rows" : rows.refused;
  }
  if (!slots_.empty()) refused_.clear();
}

std::vector<int64_t> BatchPadding::bucket_of(std::span<const int64_t> symbols) const {
  std::vector<int64_t> padded(symbols.begin(), symbols.end());
  for (const size_t slot : slots_) padded[slot] = buckets_.of(symbols[slot]);
  return padded;
}

PaddedProgram::PaddedProgram(std::shared_ptr<Program> program, std::shared_ptr<PaddedMemory> memory,
                             const capture::Trace& real, const capture::Trace& padded)
    : program_(std::move(program)), memory_(std::move(memory)) {
  for (size_t i = 0; i < real.graph->inputs().size(); ++i) {
    const ir::Input &one = real.graph->inputs()[i], &other = padded.graph->inputs()[i];
    if (one.kind != ir::InputKind::argument) continue;
    Argument argument{Geometry::of(*one.value->type), Geometry::of(*other.value->type), false};
    argument.is_padded = argument.real.sizes != argument.padded.sizes;
    arguments_.push_back(std::move(argument));
  }
  for (const capture::OutputRecipe& recipe : real.outputs)
    results_.push_back(Geometry::of(*real.graph->outputs()[recipe.index]->type));
}

bool PaddedProgram::accepts(const at::Tensor* const* arguments) const noexcept {
  for (size_t k = 0; k < arguments_.size(); ++k)
    if (!arguments_[k].real.matches(*arguments[k])) return false;
  return true;
}

std::vector<at::Tensor> PaddedProgram::allocate() const {
  std::vector<at::Tensor> memory;
  for (const Argument& argument : arguments_)
    memory.push_back(argument.is_padded ? argument.padded.allocate() : at::Tensor());
  return memory;
}

void PaddedProgram::run(const at::Tensor* const* arguments, at::Tensor* results) const {
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(recorded_keys());
  // Another call that is at it may be waiting for Python's lock, which this one has.
  const std::unique_lock lock(memory_->mutex, std::try_to_lock);
  if (!lock) return run_in(allocate(), arguments, results);
  const auto on_gpu = std::ranges::find_if(
      arguments_, [](const Argument& argument) { return argument.is_padded && argument.padded.device.is_cuda(); });
  const void* const stream = on_gpu == arguments_.end() ? nullptr : current_stream(on_gpu->padded.device);
  const auto [place, is_new] = memory_->arguments.try_emplace(stream);
  if (is_new) place->second = allocate();
  run_in(place->second, arguments, results);
}

void PaddedProgram::run_in(const std::vector<at::Tensor>& memory, const at::Tensor* const* arguments,
                           at::Tensor* results) const {
  std::vector<const at::Tensor*> given;
  for (size_t k = 0; k < arguments_.size(); ++k) {
    if (arguments_[k].is_padded) pad_into(memory[k], *arguments[k]);
    given.push_back(arguments_[k].is_padded ? &memory[k] : arguments[k]);
  }
  program_->run(given.data(), results);
  for (size_t r = 0; r < results_.size(); ++r) {
    const Geometry& real = results_[r];
    const at::Tensor whole = results[r];
    if (whole.sizes() == c10::IntArrayRef(real.sizes)) continue;
    results[r] = alias(whole, real.sizes, whole.strides(), whole.storage_offset());
    if (!real.same_layout(real.sizes, whole.strides())) results[r] = real.allocate().copy_(results[r]);
  }
}

}  // namespace braze::runtime
