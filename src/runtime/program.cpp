// runtime/program.cpp: compiling a trace, and telling about the result.
#include "runtime/program.h"

#include "ir/instantiate.h"
#include "ir/text.h"
#include "loops/symbolic_plan.h"
#include "runtime/graphed_calls.h"
#include "runtime/program_impl.h"
#include "runtime/program_layouts.h"
#include "support/error.h"
#include "support/switches.h"

namespace braze::runtime {

Program::Program(std::unique_ptr<Impl> impl, std::unique_ptr<Layouts> layouts)
    : impl_(std::move(impl)), layouts_(std::move(layouts)) {}
Program::~Program() = default;

template <typename Build>
std::shared_ptr<Program> Program::make(capture::Trace trace, const ProgramOptions& options, Build&& build) {
  ProgramOptions kept = options;
  kept.example_arguments.clear();
  kept.kept_elsewhere.clear();
  // Alive until it is compiled, whatever other threads do.
  const std::vector<at::Tensor> alive = trace.bound.tensors();
  trace.bound.let_go(options.kept_elsewhere);
  auto impl = std::make_unique<Impl>(std::make_shared<const capture::Trace>(std::move(trace)), std::move(kept));
  build(*impl);
  std::unique_ptr<Layouts> layouts = Layouts::of(*impl);
  std::shared_ptr<Program> program(new Program(std::move(impl), std::move(layouts)));
  if (options.cuda_graphs) program->graphed_ = std::make_unique<GraphedCalls>(program->current());
  return program;
}

std::shared_ptr<Program> Program::compile(capture::Trace trace, const ProgramOptions& options, PhaseTimes times) {
  return make(std::move(trace), options,
              [&](Impl& impl) { impl.build(Layouts::wanted(), options.example_arguments, std::move(times)); });
}

/// Some value of the graph lies on a GPU.
static bool has_gpu_values(const ir::Graph& graph) {
  const auto is_on_gpu = [](const ir::Value& value) {
    return value.type && value.type->device.kind == ir::DeviceKind::cuda;
  };
  bool found = std::ranges::any_of(graph.inputs(), [&](const ir::Input& input) { return is_on_gpu(*input.value); });
  ir::for_each_node(graph, [&](const ir::Node* node) { found |= std::ranges::any_of(node->results, is_on_gpu); });
  return found;
}

/// How the core is to compile.
static driver::Options driver_options(const ir::Graph& graph, const ProgramOptions& options,
                                      std::vector<bool> writable, driver::Convolutions convolutions) {
  driver::Options wanted;
  wanted.tunes = options.max_autotune && has_gpu_values(graph);
  wanted.emulate_precision_casts = options.emulate_precision_casts;
  wanted.fuse = options.fuse;
  wanted.verify = options.verify;
  wanted.writable = std::move(writable);
  wanted.convolutions = convolutions;
  wanted.code.use_disk_cache = options.use_disk_cache;
  wanted.code.threads = options.compile_threads;
  return wanted;
}

driver::Options Program::Impl::compile_options(driver::Convolutions convolutions) const {
  return driver_options(*trace.graph, options, writable, convolutions);
}

std::shared_ptr<const driver::SymbolicArtifact> Program::compile_symbolic(ir::Graph& graph,
                                                                          const ProgramOptions& options,
                                                                          std::vector<bool> writable,
                                                                          PhaseTimes times) {
  if (switches::text(switches::gpu_sizes) == "0" && has_gpu_values(graph))
    throw loops::NotSymbolic("kernels of a GPU are made for sizes that are numbers");
  return std::make_shared<const driver::SymbolicArtifact>(driver::compile_symbolic(
      graph, driver_options(graph, options, std::move(writable), Layouts::wanted()), std::move(times)));
}

std::shared_ptr<Program> Program::compile_at(capture::Trace trace, const driver::SymbolicArtifact& artifact,
                                             std::span<const int64_t> symbols, const ProgramOptions& options) {
  return make(std::move(trace), options,
              [&](Impl& impl) { impl.build_of(artifact.at(symbols), options.example_arguments); });
}

/// Throws UserError for a graph with values on a device that there is no code for.
static void check_devices(const ir::Graph& graph) {
  ir::for_each_node(graph, [](const ir::Node* node) {
    std::string why_not;
    for (const ir::Value& result : node->results)
      if (result.type && result.type->device.kind != ir::DeviceKind::cpu &&
          !is_supported(device(result.type->device), &why_not))
        throw UserError(concat("a program for ", ir::to_string(result.type->device), ": ", why_not));
  });
}

void Program::Impl::build(driver::Convolutions convolutions, const std::vector<at::Tensor>& example_arguments,
                          PhaseTimes times) {
  {
    PhaseTimer timer(&times, "bind");
    check_devices(*trace.graph);
    bind_inputs(example_arguments);
  }
  driver::Options wanted = compile_options(convolutions);
  wanted.keep_text = true;
  artifact = driver::compile(*trace.graph, wanted, std::move(times));
  artifact.facts.not_symbolic = options.not_symbolic;
  graph_is_rewritten = artifact.rewrote_graph;
  tuning = KernelTuning::of(artifact, wanted.code);
  PhaseTimer timer(&artifact.facts.times, "bind");
  bind();
}

void Program::Impl::build_of(driver::Artifact compiled, const std::vector<at::Tensor>& example_arguments) {
  bind_inputs(example_arguments);
  artifact = std::move(compiled);
  graph_is_rewritten = false;
  for (const loops::PlanBuffer& buffer : plan.buffers)
    if (buffer.kind == loops::BufferKind::mutated && !writable.at(buffer.index))
      throw loops::NotSymbolic("an input that is written shares memory with another one");
  tuning = KernelTuning::of(artifact, compile_options(driver::Convolutions::as_traced).code);
  PhaseTimer timer(&artifact.facts.times, "bind");
  bind();
}

const driver::Artifact& Program::Impl::running() const {
  const driver::Artifact* tuned = tuning ? tuning->tuned() : nullptr;
  return tuned ? *tuned : artifact;
}

void Program::Impl::build_like(const Impl& other, driver::Convolutions convolutions) {
  inputs = other.inputs;
  argument_inputs = other.argument_inputs;
  bound_inputs = other.bound_inputs;
  writable = other.writable;
  if (other.graph_is_rewritten) {
    artifact = driver::compile_rewritten(*trace.graph, compile_options(convolutions));
  } else {
    const auto copy = ir::instantiate(*trace.graph, {});
    artifact = driver::compile(*copy, compile_options(convolutions));
  }
  PhaseTimer timer(&artifact.facts.times, "bind");
  bind();
}

const Program::Impl& Program::current() const {
  return layouts_ ? layouts_->current() : *impl_;
}

std::vector<at::Tensor> Program::run(const std::vector<at::Tensor>& arguments) const {
  BRAZE_CHECK(arguments.size() == argument_count(), "the program takes ", argument_count(), " tensors");
  std::vector<const at::Tensor*> pointers;
  for (const at::Tensor& tensor : arguments) pointers.push_back(&tensor);
  std::vector<at::Tensor> results(result_count());
  run(pointers.data(), results.data());
  return results;
}

void Program::run(const at::Tensor* const* arguments, at::Tensor* results) const {
  if (graphed_ && graphed_->run(arguments, results)) return;
  layouts_ ? layouts_->run(arguments, results, nullptr) : impl_->run(arguments, results, nullptr);
}

void Program::run_consuming(std::vector<at::Tensor>& arguments, at::Tensor* results) const {
  BRAZE_CHECK(arguments.size() == argument_count(), "the program takes ", argument_count(), " tensors");
  std::vector<const at::Tensor*> pointers;
  for (const at::Tensor& tensor : arguments) pointers.push_back(&tensor);
  // What is written, or read when the steps have run, stays.
  at::Tensor* const owned = impl_->any_written ? nullptr : arguments.data();
  if (graphed_ && graphed_->run(pointers.data(), results)) return;
  layouts_ ? layouts_->run(pointers.data(), results, owned) : impl_->run(pointers.data(), results, owned);
}

size_t Program::argument_count() const noexcept {
  return impl_->argument_inputs.size();
}
size_t Program::result_count() const noexcept {
  return impl_->trace.outputs.size();
}

bool Program::is_long() const noexcept {
  // Letting go of the lock and taking it back costs 100 ns, as much as moving this many bytes takes ten times over.
  constexpr int64_t long_bytes = 64 << 10;
  return impl_->has_calls || impl_->work_bytes > long_bytes;
}

bool Program::loses_grad(const at::Tensor* const* arguments) const noexcept {
  if (!impl_->any_floating_output || !at::GradMode::is_enabled()) return false;
  for (size_t k = 0; k < argument_count(); ++k)
    if (arguments[k]->requires_grad()) return true;
  for (uint32_t i : impl_->bound_inputs)
    if (impl_->trace.bound[i].requires_grad()) return true;
  return false;
}

bool Program::accepts(const at::Tensor* const* arguments) const noexcept {
  for (size_t k = 0; k < impl_->argument_inputs.size(); ++k)
    if (!impl_->inputs[impl_->argument_inputs[k]].expected.matches(*arguments[k])) return false;
  return true;
}

void Program::check_arguments(const std::vector<at::Tensor>& arguments,
                              const std::vector<std::string>& labels) const {
  if (arguments.size() != argument_count())
    throw UserError(concat("this program takes ", argument_count(), " tensors, ", arguments.size(), " were given"),
                    UserError::Kind::type);
  for (size_t k = 0; k < arguments.size(); ++k) {
    const uint32_t i = impl_->argument_inputs[k];
    if (arguments[k].defined() && impl_->inputs[i].expected.matches(arguments[k])) continue;
    fail_geometry(
        k < labels.size() ? labels[k] : concat("argument ", k, " (`", impl_->trace.graph->inputs()[i].name, "`)"),
        impl_->inputs[i].expected, arguments[k],
        "trace again or use one program per shape, dtype, layout and device");
  }
}

void fail_geometry(std::string_view what, const Geometry& expected, const at::Tensor& tensor,
                   std::string_view advice) {
  const bool same_type = tensor.defined() && tensor.scalar_type() == expected.dtype;
  throw UserError(concat(what, ": traced with ", describe(expected), ", got ", describe(tensor), "; ", advice),
                  same_type ? UserError::Kind::value : UserError::Kind::type);
}

std::string Program::Impl::rewritten_text() const {
  if (graph_is_rewritten) return ir::print(*trace.graph, {.sources = true});
  const auto copy = ir::instantiate(*trace.graph, {});
  driver::Options wanted = compile_options(driver::Convolutions::as_traced);
  wanted.last = driver::Stage::passes;
  driver::compile(*copy, wanted);
  return ir::print(*copy, {.sources = true});
}

namespace {

struct KernelView {
  std::string_view stage;
  std::string (*text)(const loops::Kernel&, const Target&);
};
constexpr KernelView kKernelViews[] = {
    {"llvm", codegen::llvm_ir}, {"asm", codegen::assembly}, {"sass", codegen::machine_code}};

}  // namespace

std::string Program::code(std::string_view stage) const {
  const std::string& traced = impl_->artifact.traced_text;
  if (stage == "traced" && !traced.empty()) return traced;
  if (stage == "traced") return ir::print(*impl_->trace.graph, {.sources = true});
  if (stage == "graph") return impl_->rewritten_text();
  if (stage == "loops") return loops::print(plan());
  const auto view = std::ranges::find(kKernelViews, stage, &KernelView::stage);
  if (view == std::end(kKernelViews))
    throw UserError(concat("no stage \"", stage, "\": choose traced, graph, loops, llvm, asm or sass"),
                    UserError::Kind::value);
  std::string text;
  const driver::Artifact& artifact = current().running();
  for (size_t k = 0; k < artifact.plan.kernels.size(); ++k) {
    const loops::Kernel& kernel = *artifact.plan.kernels[k];
    text += view->text(kernel, *artifact.targets[k]);
  }
  return text;
}

const driver::Facts& Program::facts() const {
  return current().running().facts;
}

const loops::Plan& Program::plan() const {
  return current().running().plan;
}

std::vector<int64_t> Program::step_times() const {
  const Impl& impl = current();
  std::vector<int64_t> times(impl.artifact.facts.steps.size());
  if (impl.clock)
    for (size_t s = 0; s < times.size(); ++s) times[s] = impl.clock->best(s);
  return times;
}

MemoryInfo Program::memory() const {
  MemoryInfo info;
  const Impl& impl = current();
  const driver::Facts& facts = impl.running().facts;
  info.arena_bytes = facts.arena_bytes;
  info.unplanned_bytes = facts.unplanned_bytes;
  info.output_bytes = facts.output_bytes;
  info.code_bytes = facts.code_bytes;
  for (const auto& call : impl.calls)
    if (call->matmul) info.packed_bytes += call->matmul->packed_bytes();
  const ir::GraphStats graph = impl.trace.graph->stats();
  info.graph_bytes = static_cast<int64_t>(graph.bytes);
  info.graph_used_bytes = static_cast<int64_t>(graph.used_bytes);
  info.graph_peak_bytes = static_cast<int64_t>(graph.peak_bytes);
  return info;
}

CudaGraphFacts Program::cuda_graphs() const {
  return graphed_ ? graphed_->facts() : CudaGraphFacts{};
}

std::vector<KernelTuningFacts> Program::kernel_tuning() const {
  const Impl& impl = current();
  std::vector<KernelTuningFacts> all = impl.tuning ? impl.tuning->facts() : std::vector<KernelTuningFacts>{};
  for (const auto& call : impl.calls)
    if (call->product) all.push_back(call->product->facts());
  return all;
}

const capture::Trace& Program::trace() const {
  return impl_->trace;
}

}  // namespace braze::runtime
