// The face of capture/trace.h: the Scope that turns recording on, and what is made of a recording at its end.
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <ranges>

#include "capture/call.h"
#include "capture/index_map.h"
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
  return impl_->materialize(tracer, what);
}

void Tracer::vary(const at::Tensor& real, std::string_view name, std::span<const Varying> dims,
                  std::span<const bool> strides) {
  impl_->vary(real, name, dims, strides);
}

ir::Size Tracer::vary_number(std::string_view name, int64_t example, ir::SizeRange range) {
  return impl_->vary_number(name, example, range).size();
}

at::Tensor Tracer::wrap_number(ir::Size size) {
  const SymbolsScope sizes(impl_->symbols());
  ir::Value* value = number_of(impl_->graph(), size, {});
  at::Tensor tensor = impl_->wrap_fresh(value, at::kLong, c10::Device(c10::kCPU));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::Tensor Tracer::wrap_number(ir::Size significand, ir::Size divisor) {
  const SymbolsScope sizes(impl_->symbols());
  ir::Graph& graph = impl_->graph();
  const ir::Type* type = graph.type(ir::DType::f64, {}, {}, {});
  const auto part = [&](ir::Size size) {
    return graph.create(ir::Op::cast, {number_of(graph, size, {})}, {}, type);
  };
  ir::Value *value = part(significand), *by = part(divisor);
  for (int times = 0; times < 2; ++times) value = graph.create(ir::Op::div, {value, by}, {}, type);
  at::Tensor tensor = impl_->wrap_fresh(value, at::kDouble, c10::Device(c10::kCPU));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

void Tracer::prepare_symbols() {
  impl_->need_symbols();
}

Symbols* Tracer::symbols() {
  return impl_->symbols();
}

const std::string& Tracer::last_read() const {
  return impl_->last_read();
}

bool Tracer::wants_gradients() const {
  return impl_->wants_gradients();
}

Trace Tracer::finish(const std::vector<at::Tensor>& outputs) {
  const RunForReal guard;
  const SymbolsScope sizes(impl_->symbols());
  return impl_->finish(outputs);
}

std::string Tracer::differentiate(Trace& trace, const std::vector<at::Tensor>& outputs) {
  try {
    impl_->differentiate(trace, outputs);
    return {};
  } catch (const c10::Error& error) {  // Of a formula of PyTorch's: eager raises it, if it comes to that.
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<at::Tensor> Tracer::release() {
  return impl_->release();
}

void Tracer::add_outputs(Trace& trace, const std::vector<at::Tensor>& outputs) {
  const RunForReal guard;
  const SymbolsScope sizes(impl_->symbols());
  impl_->add_outputs(trace, outputs);
}

struct Tracer::Scope::Saved {
  Tracer* tracer;
  Tracer* outer;
  c10::impl::LocalDispatchKeySet keys;
  bool autocast_cache;
  bool hooks_deferred;
  std::unique_ptr<SymbolsScope> sizes;
};

Tracer::Scope::Scope(Tracer& tracer)
    : saved_(std::make_unique<Saved>(Saved{&tracer,
                                           current_tracer,
                                           c10::impl::tls_local_dispatch_key_set(),
                                           at::autocast::is_autocast_cache_enabled(),
                                           false,
                                           {}})) {
  if (current_tracer)
    throw UserError(
        "braze: trace() was called inside a function that is being traced. Trace the inner function "
        "before, and call its program outside of the traced function.");
  tracer.impl().generator().begin();
  // The cache would keep casts of parameters, tensors of this trace, beyond it.
  at::autocast::set_autocast_cache_enabled(false);
  // Hooks on saved tensors are the user's code; what a replay saves goes through them.
  saved_->hooks_deferred = at::SavedTensorDefaultHooks::set_tracing(true);
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
  saved_->tracer->impl().generator().end();
}

// ---- the end of a trace

/// Recipes follow eager's aliasing: a result in memory of an input is a view of that input; results in one memory
/// are views of one output.
OutputRecipe Recorder::recipe_of(const at::Tensor& output, Trace& trace) {
  const ViewPtr view = view_of(output);
  Memory& memory = *view->memory;
  OutputRecipe recipe;
  const auto as_view_of = [&](const View& root) {
    recipe.is_conj = view->is_conj;
    recipe.is_neg = view->is_neg;
    recipe.whole = view->type == root.type && view->offset == root.offset && view->dtype == root.dtype;
    const Dim offset = first_byte(*view) - first_byte(root);
    const DimsRef sizes = view->type->sizes, strides = view->type->strides;
    if (recipe.whole) return;
    recipe.dtype = view->dtype;
    if (!sizes.is_numbers() || !strides.is_numbers() || !offset.is_number()) {
      for (const DimsRef part : {sizes, strides, DimsRef(&offset, 1)})
        recipe.symbolic.insert(recipe.symbolic.end(), part.symbolic().begin(), part.symbolic().end());
      return;
    }
    recipe.offset = offset;
    recipe.sizes = sizes.vec();
    recipe.strides = strides.vec();
  };
  for (const auto& [impl, bound] : bound_) {
    const bool same = impl == output.unsafeGetTensorImpl() || bound.tracer.is_same(output);
    if (!same || bound.view->input < 0 || !inputs_[bound.view->input].is_same(bound.real)) continue;
    recipe.kind = OutputRecipe::Kind::input_object;
    recipe.index = static_cast<uint32_t>(bound.view->input);
    return recipe;
  }
  const View* input = view.get();  // That it was made from, or else another in the same memory.
  while (input && input->input < 0) input = input->parent.get();
  for (const ViewPtr& root : memory.roots)
    if (!input && root->input >= 0) input = root.get();
  if (input) {
    recipe.kind = OutputRecipe::Kind::input_view;
    recipe.index = static_cast<uint32_t>(input->input);
    as_view_of(*input);
    return recipe;
  }
  recipe.of_other_mode = output.is_inference() != began_in_inference_mode_;
  if (!output.is_inference()) recipe.version = output._version();
  const auto [place, is_new] = output_of_.try_emplace(&memory, trace.graph->outputs().size());
  ir::Value* base = read(*this, *memory.base);
  ir::Value* dense = memory_of_its_own(base);
  if (is_new) trace.graph->outputs().push_back(dense);
  recipe.index = place->second;
  if (dense->type == base->type) as_view_of(*memory.base);
  return recipe;
}

/// The value in memory that can be given away. Kernels make that themselves, but not of what only ATen knows.
ir::Value* Recorder::memory_of_its_own(ir::Value* value) {
  const ir::Type& type = *value->type;
  if (ir::is_native(type.dtype)) return densified(*graph_, value);
  const bool dense = is_dense(to_ref(type.sizes), to_ref(type.strides));
  if (dense && value->def->op == Op::call) return value;
  const Sizes strides = preserved_strides(to_ref(type.sizes), to_ref(type.strides));
  return call_simple("braze::lay_out", {value}, {at::Tensor(), as_ints(strides).vec()},
                     type_in(*graph_, type.dtype, type.device, type.sizes, strides));
}

/// What autograd takes a returned view for a view of: results know it as eager's do.
void Recorder::find_base(const at::Tensor& output, const std::vector<at::Tensor>& outputs, OutputRecipe& recipe) {
  using Base = OutputRecipe::Base;
  if (recipe.kind == OutputRecipe::Kind::input_object || !as_tracer(output) || !output.is_view()) return;
  const at::Tensor base(output._base());
  recipe.made_without_grad = torch::autograd::impl::get_view_autograd_meta(output)->get_creation_meta() ==
                             torch::autograd::CreationMeta::NO_GRAD_MODE;
  for (const auto& [impl, bound] : bound_) {
    if (bound.view->input < 0 || !inputs_[bound.view->input].is_same(bound.real)) continue;
    const at::Tensor& one = bound.tracer.defined() && as_tracer(base) ? bound.tracer : bound.real;
    if (!base.is_same(one) && !(one.is_view() && base.is_same(one._base()))) continue;
    recipe.base_kind = Base::input;
    recipe.base = static_cast<uint32_t>(bound.view->input);
    return;
  }
  if (!as_tracer(base)) return;
  const auto place = [&](const std::vector<at::Tensor>& tensors) {
    return static_cast<uint32_t>(
        std::ranges::find_if(tensors, [&](const at::Tensor& one) { return one.is_same(base); }) - tensors.begin());
  };
  recipe.base_kind = Base::output;
  recipe.base = place(outputs);
  if (recipe.base < outputs.size()) return;
  recipe.base += place(hidden_);
  if (recipe.base == outputs.size() + hidden_.size()) hidden_.push_back(base);
}

namespace {

/// One counter counts the writes to both.
bool share_version(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_inference() || b.is_inference() || a._version() != b._version()) return false;
  auto& counter = const_cast<c10::VariableVersion&>(a.unsafeGetTensorImpl()->version_counter());
  const uint32_t before = counter.current_version();
  counter.set_version(before + 1);
  const bool moved = b._version() == before + 1;
  counter.set_version(before);
  return moved;
}

}  // namespace

void Recorder::count_writes(Trace& trace) const {
  trace.writes.assign(inputs_.size(), 0);
  for (const auto& [impl, bound] : bound_) {
    if (bound.view->input < 0 || !inputs_[bound.view->input].is_same(bound.real)) continue;
    uint32_t& writes = trace.writes[bound.view->input];
    if (!bound.real.is_inference()) writes = bound.real._version() - bound.version;
    if (bound.tracer.defined() && !bound.tracer.is_inference() && !share_version(bound.tracer, bound.real))
      writes += bound.tracer._version();
  }
}

/// `.backward()` inside the traced function leaves tensors of the trace in `.grad` of real ones: undone, and told.
void Recorder::check_gradients() {
  bool found = false;
  for (auto& [impl, bound] : bound_) {
    if (!bound.real.requires_grad() || !bound.real.is_leaf()) continue;
    if (!as_tracer(bound.real.grad())) continue;
    bound.real.mutable_grad() = bound.gradient;
    found = true;
  }
  if (found)
    throw UserError(
        "braze: the traced function calls backward(), which writes to .grad of tensors outside of it. Use "
        "torch.autograd.grad() and return the gradients.");
}

/// A bad index, divisor or probability raises even where nobody uses the result. Nodes that check one and that no
/// output needs become outputs of the graph, behind all that recipes name: one bool for the elements of each.
void Recorder::keep_checks() {
  std::vector<bool> live(graph_->value_limit());
  const auto mark = [&](const ir::Value* value) {
    live[ir::Graph::resolve(const_cast<ir::Value*>(value))->id] = true;
  };
  std::ranges::for_each(graph_->outputs(), mark);
  for (const ir::Mutation& mutation : graph_->mutations()) mark(mutation.value);
  std::vector<ir::Value*> unused;
  for (ir::Node* node = graph_->last(); node; node = node->previous) {
    const bool needed = node->has_effect() || std::ranges::any_of(node->results, [&](const ir::Value& result) {
                          return live[result.id];
                        });
    const ir::OpKind kind = ir::info(node->op).kind;
    const bool checks = kind == ir::OpKind::Gather || kind == ir::OpKind::Update || node->op == ir::Op::divisor ||
                        node->op == ir::Op::probability;
    if (!needed && !checks) continue;
    if (!needed) unused.push_back(node->result());
    std::ranges::for_each(node->operands, mark);
  }
  for (ir::Value* value : unused | std::views::reverse) {
    const ir::Type& type = *value->type;
    std::vector<int64_t> dims(type.rank());
    std::iota(dims.begin(), dims.end(), 0);
    if (type.dtype != ir::DType::b8)
      value = graph_->create(ir::Op::cast, {value}, {},
                             type_in(*graph_, ir::DType::b8, type.device, type.sizes, type.strides));
    if (!dims.empty())
      value = graph_->create(ir::Op::any, {value}, {{"dims", std::span<const int64_t>(dims)}, {"keepdim", false}},
                             rows_in(*graph_, ir::DType::b8, type.device, {}));
    graph_->outputs().push_back(value);
  }
}

Trace Recorder::finish(const std::vector<at::Tensor>& outputs) {
  check_gradients();
  generator_.sync(*this);
  settle_sizes();
  Trace trace;
  trace.graph = graph_;
  for (const at::Tensor& output : outputs) {
    BRAZE_CHECK(output.defined(), "an undefined tensor was returned");
    trace.any_requires_grad |= output.requires_grad();
    trace.outputs.push_back(recipe_of(output, trace));
    find_base(output, outputs, trace.outputs.back());
  }
  for (const auto& [impl, bound] : bound_) trace.any_requires_grad |= was_rebased(bound);
  for (const at::Tensor& tensor : hidden_) trace.hidden.push_back(recipe_of(tensor, trace));
  hidden_.clear();
  count_writes(trace);
  for (Memory& memory : memories_)
    if (memory.version > 0 && memory.base->input >= 0)
      graph_->mutations().push_back({static_cast<uint32_t>(memory.base->input), read(*this, *memory.base)});
  keep_checks();
  take_inputs(trace);
  trace.objects = std::move(objects_);
  trace.warnings = std::move(warnings_);
  trace.symbols = symbol_sources_;
  if (symbols_) {
    settle_sizes();
    trace.specialised = symbols_->specialised;
  }
  return trace;
}

void Recorder::take_inputs(Trace& trace) {
  trace.place_modulus = place_modulus_;
  trace.bound = {};
  for (size_t k = 0; k < inputs_.size(); ++k)
    trace.bound.push_back(graph_->inputs()[k].kind == ir::InputKind::argument ? at::Tensor() : inputs_[k]);
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

std::vector<at::Tensor> Recorder::release() {
  for (auto& [impl, bound] : bound_) {
    bound.tracer.reset();
    bound.history.reset();  // It holds a leaf.
  }
  return tensors_->alive();
}

void Recorder::add_outputs(Trace& trace, const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& output : outputs) trace.outputs.push_back(recipe_of(output, trace));
  BRAZE_CHECK(objects_.empty(), "a view of a value is not made by a call");
}

}  // namespace braze::capture
