// The kernels: one for every operator of every namespace that PyTorch does not decompose by itself.
#include <torch/library.h>

#include <array>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "capture/fused_layers.h"
#include "capture/gate.h"
#include "capture/generator.h"
#include "capture/list_operators.h"
#include "capture/moved_indices.h"
#include "capture/recorder.h"
#include "capture/tape.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// Factories that make an empty tensor and write it by another operator.
constexpr std::string_view kFilling[] = {"aten::full",   "aten::zeros", "aten::ones",     "aten::eye",
                                         "aten::arange", "aten::range", "aten::linspace", "aten::logspace",
                                         "aten::rand",   "aten::randn", "aten::randint",  "aten::randperm"};

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(const OpEntry* entry)
      : entry_(entry),
        fills_(entry->outs == 0 && std::ranges::find(kFilling, entry->op.schema().name()) != std::end(kFilling)),
        takes_indices_(takes_indices(entry->op.schema().name()) && entry->outs == 0) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    if (takes_indices_ && Tracer::current()) move_indices(*stack, entry_->arguments);  // That is recorded, too.
    const RunForReal guard;
    if (entry_->passes || builds_python_tensor()) return op.callBoxed(stack);
    Tracer* tracer = Tracer::current();
    if (!tracer)
      throw UserError(
          "braze: a tensor of a finished trace was used. Tensors made while tracing do not outlive the "
          "traced function, except as its results: do not keep them in attributes or globals.");
    TapeRecorder* tape = TapeRecorder::current();
    if (tape)
      tape->keep(*entry_, stack, [&] { tracer->impl().record(*entry_, stack); });
    else
      tracer->impl().record(*entry_, stack);
    // Below a composite operator, or torch.ops: PyTorch's own functions in Python leave the key out. torch.tensor()
    // of a number that varies is written as it is made.
    if (fills_ && stack->back().toTensor().dim() > 0 &&
        !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView))
      stack->back().toTensor().unsafeGetTensorImpl()->bump_version();
  }

 private:
  const OpEntry* entry_;
  const bool fills_, takes_indices_;
};

/// Of a layer that is recorded as what it consists of, or as itself.
class FusedLayerKernel final : public c10::OperatorKernel {
 public:
  explicit FusedLayerKernel(const OpEntry* entry) : whole_(entry) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    if (!Tracer::current() || !open_fused_layer(op, stack)) whole_(op, keys, stack);
  }

 private:
  Kernel whole_;
};

/// Of an operator on lists: recorded as the operators that it consists of.
class SpreadKernel final : public c10::OperatorKernel {
 public:
  explicit SpreadKernel(Spread spread) : spread_(spread) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    if (Tracer::current()) return spread_(op, stack);
    const RunForReal guard;
    op.callBoxed(stack);
  }

 private:
  const Spread spread_;
};

/// Operators whose results' shapes, or Python values, the data decides; beside those that PyTorch tags so.
constexpr std::string_view kDynamic[] = {"aten::nonzero",
                                         "aten::nonzero_numpy",
                                         "aten::masked_select",
                                         "aten::_unique2",
                                         "aten::unique_dim",
                                         "aten::unique_consecutive",
                                         "aten::unique_dim_consecutive",
                                         "aten::_unique",
                                         "aten::bincount",
                                         "aten::equal",
                                         "aten::repeat_interleave",
                                         "aten::is_nonzero",
                                         "aten::argwhere",
                                         "aten::_local_scalar_dense",
                                         "aten::item"};

std::string_view without_namespace(const std::string& name) {
  const size_t colons = name.find("::");
  return colons == std::string::npos ? std::string_view(name) : std::string_view(name).substr(colons + 2);
}

/// The operators of the process. Never destroyed: kernels in the dispatcher point into it, and the order in which
/// statics die at exit is not ours.
class Registry {
 public:
  static Registry& instance() {
    static auto* registry = new Registry;
    return *registry;
  }

  void queue(const c10::OperatorHandle& op) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending_.push_back(op);
  }

  /// It is gone before anything was registered for it: the handle leads nowhere from now on.
  void forget(const c10::OperatorHandle& op) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(pending_, [&](const c10::OperatorHandle& one) { return one == op; });
  }

  void listen(c10::RegistrationHandleRAII handle) { handles_.push_back(std::move(handle)); }

  /// Registers kernels for the operators that came since the last time.
  void process() {
    const std::lock_guard<std::mutex> serial(processing_);
    std::vector<c10::OperatorHandle> fresh;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      fresh.swap(pending_);
    }
    if (fresh.empty()) return;
    for (const c10::OperatorHandle& op : fresh) add(op);
    derive();
  }

 private:
  void add(const c10::OperatorHandle& op) {
    if (!op.hasSchema() || is_decomposed(op)) return;
    const c10::OperatorName name = op.operator_name();
    if (const Spread spread = find_spread(op)) {
      if (spread_.insert(name).second)
        keep(name, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<SpreadKernel>(spread)));
      return;
    }
    OpEntry*& entry = by_name_[name];
    const bool known = entry != nullptr;
    if (!known) entry = &entries_.emplace_back(op);
    describe(*entry);
    if (known) return;
    keep(name, is_fused_layer(name)
                   ? c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<FusedLayerKernel>(entry))
                   : c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(entry)));
  }

  void keep(const c10::OperatorName& name, c10::KernelFunction kernel) {
    handles_.push_back(
        c10::Dispatcher::singleton().registerImpl(name, kKey, std::move(kernel), std::nullopt, nullptr, "braze"));
  }

  /// PyTorch does it by itself, above the tracer's kernels. Some such operators have kernels of their own beside
  /// that, which eager runs; where there is a rule the tracer records them.
  bool is_decomposed(const c10::OperatorHandle& op) {
    if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return false;
    const c10::OperatorName& name = op.operator_name();
    return !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) || !name.overload_name.empty() ||
           !find_rule(without_namespace(name.name));
  }

  void describe(OpEntry& entry) {
    const c10::FunctionSchema& schema = entry.op.schema();
    const std::string& name = schema.name();
    entry.arguments = schema.arguments().size();
    entry.returns = schema.returns().size();
    entry.random = draws_numbers(entry.op);
    entry.dynamic = entry.op.hasTag(at::Tag::dynamic_output_shape) ||
                    entry.op.hasTag(at::Tag::data_dependent_output) ||
                    std::ranges::find(kDynamic, name) != std::end(kDynamic);
    // Tagged for its overload that takes the lengths as tensors; as lists they are known.
    if (name == "aten::_ctc_loss" && schema.overload_name().empty()) entry.dynamic = false;
    entry.passes = name.starts_with("profiler::");
    entry.writes = false;
    entry.outs = 0;
    for (const c10::Argument& argument : schema.arguments()) {
      entry.writes |= argument.alias_info() && argument.alias_info()->isWrite();
      entry.outs += argument.is_out();
    }
    entry.moves_view = entry.op.hasTag(at::Tag::inplace_view);
    entry.pure = !entry.random && !entry.writes && entry.returns > 0 && !may_write_unsaid(entry.op);
    if (!name.starts_with("aten::")) return;
    const std::string_view plain = without_namespace(name);
    full_name_.assign(plain);
    if (!schema.overload_name().empty()) full_name_.append(".").append(schema.overload_name());
    entry.rule = find_rule(full_name_);
    entry.mixes = is_pointwise(entry.rule);
    if (entry.rule)
      functional_[std::string(plain)].push_back(&entry);
    else if (entry.outs > 0 || plain.ends_with('_'))
      underived_.push_back(&entry);
  }

  /// Gives in-place and out= operators the rule of their functional form, which may have been registered after
  /// them.
  void derive() {
    for (OpEntry* entry : underived_) {
      const c10::FunctionSchema& schema = entry->op.schema();
      std::string_view plain = without_namespace(schema.name());
      entry->mode = entry->outs > 0 ? OpEntry::Mode::out : OpEntry::Mode::in_place;
      if (entry->mode == OpEntry::Mode::in_place) plain.remove_suffix(1);
      const auto candidates = functional_.find(std::string(plain));
      if (candidates == functional_.end()) continue;
      for (const OpEntry* functional : candidates->second)
        if (same_arguments(functional->op.schema(), schema, entry->outs)) entry->rule = functional->rule;
      entry->mixes = is_pointwise(entry->rule);
    }
    underived_.clear();
  }

  /// As TensorIterator computes: element by element.
  static bool is_pointwise(const RuleRow* rule) {
    const auto has = [rule](std::span<const RuleRow> table) {
      return rule >= table.data() && rule < table.data() + table.size();
    };
    return rule && (has(pointwise_rules()) || has(special_rules()));
  }

  static bool same_arguments(const c10::FunctionSchema& functional, const c10::FunctionSchema& other, size_t outs) {
    const auto &wanted = functional.arguments(), &have = other.arguments();
    if (wanted.size() + outs != have.size()) return false;
    for (size_t k = wanted.size(); k < have.size(); ++k)  // A list of tensors (unbind_copy) is ATen's to fill.
      if (have[k].type()->kind() != c10::TypeKind::TensorType) return false;
    for (size_t k = 0; k < wanted.size(); ++k)
      if (wanted[k].name() != have[k].name() || *wanted[k].type() != *have[k].type()) return false;
    return true;
  }

  const RuleRow* find_rule(std::string_view name) {
    if (rules_.empty())
      for (const auto table :
           {pointwise_rules(), special_rules(),  activation_rules(),    loss_rules(),
            view_rules(),      copy_rules(),     reduction_rules(),     scan_rules(),
            matmul_rules(),    window_rules(),   normalisation_rules(), batch_norm_rules(),
            factory_rules(),   indexing_rules(), structure_rules(),     bits_rules(),
            padding_rules(),   update_rules(),   pooling_rules(),       resampling_rules(),
            host_rules(),      backward_rules(), loss_backward_rules(), pooling_backward_rules()})
        for (const RuleRow& row : table)
          BRAZE_CHECK(rules_.emplace(row.name, &row).second, "two rules for ", row.name);
    const auto found = rules_.find(name);
    return found == rules_.end() ? nullptr : found->second;
  }

  std::mutex mutex_;       ///< Guards pending_ alone: operators are queued under the dispatcher's own lock.
  std::mutex processing_;  ///< Guards everything else.
  std::vector<c10::OperatorHandle> pending_;
  std::deque<OpEntry> entries_;
  std::unordered_map<c10::OperatorName, OpEntry*> by_name_;
  std::unordered_set<c10::OperatorName> spread_;
  std::unordered_map<std::string_view, const RuleRow*> rules_;
  std::unordered_map<std::string, std::vector<const OpEntry*>> functional_;
  std::vector<OpEntry*> underived_;
  std::vector<c10::RegistrationHandleRAII> handles_;
  std::string full_name_;
};

class Listener final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override { Registry::instance().queue(op); }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    Registry::instance().forget(op);
    operator_taken_back(op);
  }
};

/// Our own operators, which recorded programs call.
TORCH_LIBRARY_FRAGMENT(braze, library) {
  library.def("get_generator_state() -> Tensor", [] { return cpu_generator_state(); });
  library.def("set_generator_state(Tensor state) -> ()",
              [](const at::Tensor& state) { set_cpu_generator_state(state); });
}

}  // namespace

void install() {
  static std::once_flag once;
  // Adding a listener tells it of every operator that exists.
  std::call_once(once, [] {
    Registry::instance().listen(c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
  });
  Registry::instance().process();
}

}  // namespace braze::capture
