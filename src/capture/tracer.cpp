// The face of capture/trace.h: the Scope that turns recording on.
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include <algorithm>
#include <numeric>
#include <ranges>

#include "capture/call.h"
#include "capture/gate.h"
#include "capture/index_map.h"
#include "capture/tape.h"
#include "ir/instantiate.h"
#include "ir/size_code.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// The tracer that records on this thread: the kernels, plain functions, have no other way to it.
thread_local Tracer* current_tracer = nullptr;

SourceHook& source_hook() {
  static SourceHook hook = nullptr;
  return hook;
}

}  // namespace

void set_source_hook(SourceHook hook) {
  source_hook() = hook;
}

void update_source(ir::Graph& graph) {
  if (source_hook()) graph.set_source(source_hook()(graph));
}

bool is_tracer(const at::Tensor& tensor) {
  return as_tracer(tensor) != nullptr;
}

Tracer::Tracer(std::string_view name, PhaseTimes* times) : impl_(std::make_unique<Impl>(name, times)) {
  install();
}

Tracer::~Tracer() = default;

Tracer* Tracer::current() {
  return current_tracer;
}

at::Tensor Tracer::add_argument(const at::Tensor& real, std::string_view name) {
  const SymbolsScope sizes(impl_->symbols());
  return impl_->add_argument(real, name);
}

at::Tensor Tracer::stand_in(const at::Tensor& real) {
  const SymbolsScope sizes(impl_->symbols());
  return impl_->stand_in(real);
}

void Tracer::name_parameter(const at::Tensor& real, std::string_view name) {
  impl_->name_parameter(real, name);
}

at::Tensor Tracer::materialize(const at::Tensor& tracer, std::string_view what) {
  const RunForReal guard;
  const SymbolsScope sizes(impl_->symbols());
  return impl_->known().materialize(tracer, what);
}

void Tracer::vary(const at::Tensor& real, std::string_view name, std::span<const Varying> dims,
                  std::span<const bool> strides) {
  impl_->sizes().vary(real, name, dims, strides);
}

ir::Size Tracer::vary_number(std::string_view name, int64_t example, ir::SizeRange range) {
  return impl_->sizes().vary_number(name, example, range).size();
}

at::Tensor Tracer::wrap_number(ir::Size size) {
  const SymbolsScope sizes(impl_->symbols());
  ir::Value* value = number_of(impl_->graph(), size, {});
  at::Tensor tensor = impl_->wrap_fresh(value, at::kLong, c10::Device(c10::kCPU));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (TapeRecorder* const tape = TapeRecorder::current()) tape->note_number(tensor, size);
  return tensor;
}

at::Tensor Tracer::wrap_number(ir::Size significand, ir::Size divisor) {
  const SymbolsScope sizes(impl_->symbols());
  ir::Graph& graph = impl_->graph();
  const ir::Type* type = graph.type(ir::DType::f64, {}, {}, {});
  ir::Value* value = number_of(graph, significand, {}, ir::DType::f64);
  ir::Value* by = number_of(graph, divisor, {}, ir::DType::f64);
  for (int times = 0; times < 2; ++times) value = graph.create(ir::Op::div, {value, by}, {}, type);
  at::Tensor tensor = impl_->wrap_fresh(value, at::kDouble, c10::Device(c10::kCPU));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (TapeRecorder* const tape = TapeRecorder::current()) tape->note_number(tensor, significand, divisor);
  return tensor;
}

void Tracer::prepare_symbols() {
  impl_->sizes().need_symbols();
}

Symbols* Tracer::symbols() {
  return impl_->symbols();
}

const std::string& Tracer::last_read() const {
  return impl_->known().last_read();
}

bool Tracer::wants_gradients() const {
  return impl_->wants_gradients();
}

Trace Tracer::finish(const std::vector<at::Tensor>& outputs) {
  const RunForReal guard;
  const SymbolsScope sizes(impl_->symbols());
  return impl_->end().finish(outputs);
}

std::string Tracer::differentiate(Trace& trace, const std::vector<at::Tensor>& outputs) {
  try {
    impl_->end().differentiate(trace, outputs);
    return {};
  } catch (const c10::Error& error) {  // Of a formula of PyTorch's: eager raises it, if it comes to that.
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<at::Tensor> Tracer::release() {
  return impl_->end().release();
}

void Tracer::add_outputs(Trace& trace, const std::vector<at::Tensor>& outputs) {
  const RunForReal guard;
  const SymbolsScope sizes(impl_->symbols());
  impl_->end().add_outputs(trace, outputs);
}

struct Tracer::Scope::Saved {
  Tracer* tracer;
  Tracer* outer;
  c10::impl::LocalDispatchKeySet keys;
  bool autocast_cache;
  bool hooks_deferred;
  bool scripts_optimized;
  std::unique_ptr<SymbolsScope> sizes;
};

Tracer::Scope::Scope(Tracer& tracer)
    : saved_(std::make_unique<Saved>(Saved{&tracer,
                                           current_tracer,
                                           c10::impl::tls_local_dispatch_key_set(),
                                           at::autocast::is_autocast_cache_enabled(),
                                           false,
                                           torch::jit::getGraphExecutorOptimize(),
                                           {}})) {
  if (current_tracer)
    throw UserError(
        "braze: trace() was called inside a function that is being traced. Trace the inner function "
        "before, and call its program outside of the traced function.");
  if (is_below_gate())
    throw UserError(
        "braze: trace() was called inside of a __torch_dispatch__, where operators are not recorded. Trace the "
        "function that calls the operator.");
  tracer.impl().generator().begin();
  // The cache would keep casts of parameters, tensors of this trace, beyond it.
  at::autocast::set_autocast_cache_enabled(false);
  // Hooks on saved tensors are the user's code; what a replay saves goes through them.
  saved_->hooks_deferred = at::SavedTensorDefaultHooks::set_tracing(true);
  // TorchScript differentiates graphs that it has optimized itself: autograd would see one node for many operators.
  torch::jit::setGraphExecutorOptimize(false);
  current_tracer = &tracer;
  if (tracer.symbols()) saved_->sizes = std::make_unique<SymbolsScope>(tracer.symbols());
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::BackendSelect, true);
}

Tracer::Scope::~Scope() {
  c10::impl::_force_tls_local_dispatch_key_set(saved_->keys);
  current_tracer = saved_->outer;
  at::autocast::set_autocast_cache_enabled(saved_->autocast_cache);
  at::SavedTensorDefaultHooks::set_tracing(saved_->hooks_deferred);
  torch::jit::setGraphExecutorOptimize(saved_->scripts_optimized);
  saved_->tracer->impl().generator().end();
}

Trace instantiate(const Trace& trace, std::span<const int64_t> symbols) {
  Trace made = trace;
  const ir::Node* first_backward = trace.gradients ? trace.gradients->first_backward : nullptr;
  made.graph = ir::instantiate(*trace.graph, symbols, &first_backward);
  if (made.gradients) made.gradients->first_backward = first_backward;
  made.symbols.clear();
  for (std::vector<OutputRecipe>* recipes : {&made.outputs, &made.hidden})
    for (OutputRecipe& recipe : *recipes) {
      if (recipe.symbolic.empty()) continue;
      ir::SizeCode code;
      for (const ir::Size size : recipe.symbolic) code.add(size);
      std::vector<int64_t> numbers(recipe.symbolic.size());
      if (!code.run(symbols, numbers)) throw UserError("a size of a result has no value for these symbols");
      const auto rank = static_cast<std::ptrdiff_t>(numbers.size() / 2);
      recipe.sizes.assign(numbers.begin(), numbers.begin() + rank);
      recipe.strides.assign(numbers.begin() + rank, numbers.end() - 1);
      recipe.offset = numbers.back();
      recipe.symbolic.clear();
    }
  return made;
}

}  // namespace braze::capture
