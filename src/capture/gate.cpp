#include "capture/gate.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "capture/arguments.h"
#include "capture/asked_by.h"
#include "capture/devices.h"
#include "capture/known_masks.h"
#include "capture/number_calls.h"
#include "capture/numbers_in_calls.h"
#include "capture/placeholders.h"
#include "capture/recorder.h"
#include "capture/recurrent_layers.h"
#include "capture/rerun_gradients.h"
#include "capture/sized_calls.h"
#include "capture/sized_composites.h"
#include "capture/sparse_gradients.h"
#include "capture/tape.h"
#include "capture/traceable.h"
#include "capture/version_counters.h"
#include "capture/wrappers.h"
#include "support/error.h"

namespace braze::capture {

namespace {

/// Above autograd and autocast, and used by nobody: PyTorch keeps it for tests.
constexpr auto kGateKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Those through which everything on the CPU and on CUDA devices goes. An override for one of the others is Python
/// code that the run enters, or changes what a mode does.
constexpr c10::DispatchKey kWatched[] = {c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU,
                                         c10::DispatchKey::CUDA, c10::DispatchKey::AutogradCUDA};

/// Those of a GPU come into it only where there is one.
std::span<const c10::DispatchKey> watched() {
  return {kWatched, has_met_cuda() ? std::size(kWatched) : 2};
}

thread_local Gate* current_gate = nullptr;  // Kernels, plain functions, have no other way to it.
thread_local const c10::OperatorHandle* current_composite = nullptr;  // As above.

/// While it lives: the operator runs, if it is a composite one.
class RunningComposite {
 public:
  RunningComposite(const c10::OperatorHandle& op, bool is_composite) : outer_(current_composite) {
    if (is_composite) current_composite = &op;
  }
  ~RunningComposite() { current_composite = outer_; }
  RunningComposite(const RunningComposite&) = delete;
  RunningComposite& operator=(const RunningComposite&) = delete;

 private:
  const c10::OperatorHandle* outer_;
};

std::atomic<uint64_t> deregistered{0};

bool is_pytorchs(const c10::OperatorHandle& op) {
  return op.operator_name().name.starts_with("aten::");
}

/// The dispatcher's own table of an operator: PyTorch has no notice of a kernel that is registered.
c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op);
template <auto member>
struct EntryAccess {
  friend c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op) { return (op.*member)->op; }
};
template struct EntryAccess<&c10::OperatorHandle::operatorDef_>;
/// Where it keeps the object of torch.ops.
c10::PyHandleCache& python_object_of(c10::impl::OperatorEntry& entry);
template <auto member>
struct CacheAccess {
  friend c10::PyHandleCache& python_object_of(c10::impl::OperatorEntry& entry) { return entry.*member; }
};
template struct CacheAccess<&c10::impl::OperatorEntry::py_cache_>;

const c10::KernelFunction* kernel_of(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return op.hasComputedKernelForDispatchKey(key) ? &entry_of(op).lookup(c10::DispatchKeySet(key)) : nullptr;
}

/// Kernels written in C++ can be called without boxes.
bool is_python(const c10::KernelFunction& kernel) {
  return !kernel.isValidUnboxed() && !kernel.isValidSymUnboxed();
}

bool gives_number(const c10::FunctionSchema& schema) {
  if (schema.returns().size() != 1) return false;
  const c10::TypeKind kind = schema.returns()[0].type()->kind();
  return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::BoolType;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

/// It writes something with a history into a tensor, which has one from then on. Not where an operator on lists
/// calls it for each tensor, below autograd, which has taken the tensors themselves.
bool hands_on_history(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) {
  const bool below = c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset);
  return !below && std::ranges::any_of(schema.arguments(), is_written) &&
         std::ranges::any_of(arguments, [](const c10::IValue& value) {
           return value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad();
         });
}

/// An operator that moves the versions of what it writes by Python code of its own, as those of
/// torch.library.custom_op do, before the trace sees it: what it writes is bound at once, and afterwards moved
/// again, as by its kernel, which is above nothing that counts. (A kernel that writes more than once moves it more
/// often in eager.)
class OwnVersions {
 public:
  OwnVersions(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    constexpr auto key = c10::DispatchKey::ADInplaceOrView;
    if (is_pytorchs(op) || !op.hasKernelForDispatchKey(key) || !is_python(*kernel_of(op, key))) return;
    const auto& arguments = op.schema().arguments();
    for (size_t k = 0; k < arguments.size(); ++k)
      if (is_written(arguments[k]))
        for_each_tensor(std::span(&stack[stack.size() - arguments.size() + k], 1),
                        [&](const at::Tensor& tensor, uint32_t, int32_t) {
                          if (is_transformed(tensor)) return;
                          recorder.view_of(tensor);
                          written_.push_back(tensor);
                        });
  }
  ~OwnVersions() {
    for (const at::Tensor& tensor : written_) torch::autograd::impl::bump_version(tensor);
  }
  OwnVersions(const OwnVersions&) = delete;
  OwnVersions& operator=(const OwnVersions&) = delete;

 private:
  c10::SmallVector<at::Tensor, 2> written_;
};

/// Somebody above the trace has a part in the call, autograd or a transform: formulas keep sizes of all operands.
bool keeps_sizes(Recorder& recorder, std::span<const c10::IValue> arguments) {
  bool keeps = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    keeps |= tensor.defined() && (recorder.is_tracked(tensor) || is_transformed(tensor));
  });
  return keeps;
}

/// The real tensors among the arguments of an operator, and what stands for them.
class StandIns {
 public:
  /// Those that require grad; in either case those whose memory the run has replaced.
  enum class For : uint8_t { all, differentiated, replaced };
  /// \param sized  also those whose sizes vary.
  StandIns(Recorder& recorder, For which, bool sized = false) : recorder_(recorder), which_(which), sized_(sized) {}

  enum class Written : uint8_t { no, as_it_is, takes_history };
  void put(c10::IValue& value, Written written = Written::no) {
    if (value.isTensor()) {
      if (wants(value.toTensor(), written)) value = stand_in(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list = value.toTensorList().copy();
      bool any = false;
      for (size_t k = 0; k < list.size(); ++k)
        if (const at::Tensor tensor = list.get(k); wants(tensor)) list.set(k, stand_in(tensor)), any = true;
      if (any) value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list = value.toOptionalTensorList().copy();
      bool any = false;
      for (size_t k = 0; k < list.size(); ++k)
        if (const std::optional<at::Tensor> tensor = list.get(k); tensor && wants(*tensor))
          list.set(k, stand_in(*tensor)), any = true;
      if (any) value = std::move(list);
    }
  }

  /// Operators that give back what they were given, as `to`, `contiguous` and `broadcast_tensors` do, give the real
  /// tensor back.
  void take_out(c10::IValue& value) const {
    if (real_.empty()) return;
    if (value.isTensor()) {
      if (const at::Tensor* real = real_of(value.toTensor())) value = *real;
    } else if (value.isTensorList()) {
      const c10::List<at::Tensor> list = value.toTensorList();
      for (size_t k = 0; k < list.size(); ++k)
        if (const at::Tensor* real = real_of(list.get(k))) list.set(k, *real);
    }
  }

 private:
  bool wants(const at::Tensor& tensor, Written written = Written::no) const {
    const auto is_tracked = [&] { return which_ != For::replaced && recorder_.is_tracked(tensor); };
    const bool keeps_size = written == Written::no && varies(tensor);
    const bool takes_history = written == Written::takes_history;
    return tensor.defined() && !as_tracer(tensor) &&
           (takes_history || keeps_size || which_ == For::all || replaced_data()->contains(tensor) ||
            is_tracked()) &&
           !is_transformed(tensor) && !is_dispatched(tensor) && (tensor.is_cpu() || tensor.is_cuda()) &&
           is_strided(tensor) && !tensor.unsafeGetTensorImpl()->is_wrapped_number() && !tensor.is_conj() &&
           !tensor.is_neg();
  }
  /// With the version counter of the real tensor, which is written by that or by this name: what autograd has saved
  /// of either is then found out of date.
  at::Tensor stand_in(const at::Tensor& real) {
    const at::Tensor tracer = recorder_.stand_in(real);
    if (!real.is_inference() && !tracer.is_inference() && !share_version(tracer, real)) {
      auto& counter = const_cast<c10::VariableVersion&>(real.unsafeGetTensorImpl()->version_counter());
      counter.set_version(counter.current_version() + tracer._version());  // What was written by the tracer's name.
      tracer.unsafeGetTensorImpl()->set_version_counter(counter);
    }
    real_.emplace_back(tracer, real);
    current_gate->note_stand_in(tracer, real);
    return tracer;
  }

  /// What `tensor` stands for; null if for nothing.
  const at::Tensor* real_of(const at::Tensor& tensor) const {
    for (const auto& [tracer, real] : real_)
      if (tracer.is_same(tensor)) return &real;
    return nullptr;
  }

  bool varies(const at::Tensor& tensor) const { return sized_ && recorder_.sizes().varied(tensor); }

  Recorder& recorder_;
  const For which_;
  const bool sized_;
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 4> real_;
};

}  // namespace

/// A transform of torch.func is under way on this thread.
static bool is_transforming() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

/// The layers of transforms are left out: in code of Python's that the dispatcher has called, and where PyTorch
/// makes a tensor of Python's data.
static bool are_layers_excluded() {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) &&
         c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::FuncTorchDynamicLayerBackMode);
}

bool builds_python_tensor() {
  return are_layers_excluded() && c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::DeferredInit);
}

std::string_view running_composite() {
  return current_composite ? std::string_view(current_composite->operator_name().name) : std::string_view();
}

bool is_below_gate() {
  return c10::impl::tls_is_dispatch_key_excluded(kGateKey);
}

const at::Tensor* stood_for(const at::Tensor& tracer) {
  if (!current_gate) return nullptr;
  const auto found = current_gate->stood_for_.find(tracer.unsafeGetTensorImpl());
  return found == current_gate->stood_for_.end() ? nullptr : &found->second.second;
}

void open_gate() {
  c10::impl::tls_set_dispatch_key_excluded(kGateKey, false);
  // By which the making of a tensor of Python's data is told.
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::DeferredInit, false);
}

bool is_within_handler() {
  return are_layers_excluded() && !builds_python_tensor() && !is_below_gate() &&
         c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::PythonTLSSnapshot);
}

struct GateKernel {
  static void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kGateKey);
    Tracer* tracer = Tracer::current();
    if (!current_gate || !tracer || !c10::impl::tls_local_dispatch_key_set().included_.has(kKey))
      return op.redispatchBoxed(below, stack);
    const ParsedNumbers::OperatorScope running;
    const size_t count = op.schema().arguments().size();
    put_placeholders({stack->data() + stack->size() - count, count});
    if (running.is_outermost()) put_parsed_numbers(op, stack);
    const bool is_new = current_gate->called_.insert(op).second;
    if (is_new && is_pytorchs(op)) check(op);
    const OwnVersions versions(tracer->impl(), op, *stack);
    if (builds_python_tensor()) {
      // Of the tensors that it is given it asks for numbers; all else is done with the fresh one.
      if (gives_number(op.schema())) throw UserError("braze: a tensor is made of the values of others");
      return op.redispatchBoxed(below, stack);
    }
    const bool takes_wrapper = check_wrappers(tracer->impl(), op, stack);
    // Autograd, which comes next, must not find tensors of the user's: their histories and hooks are no part of the
    // trace.
    const bool is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    const auto& arguments = op.schema().arguments();
    const std::span<c10::IValue> given(stack->data() + stack->size() - arguments.size(), arguments.size());
    if (is_composite) lose_tape_of_own_gradient(op, given);
    if (!is_composite) note_views(op.schema(), given);
    const ReplacedData& replaced = current_gate->replaced_;
    if (!replaced.is_empty()) replaced.check(op.schema(), given);
    if (!is_composite && !at::GradMode::is_enabled()) {
      const bool is_sized = tracer->symbols() && is_transforming() && keeps_sizes(tracer->impl(), given);
      if (!replaced.is_empty() || is_sized) {
        StandIns stand_ins(tracer->impl(), StandIns::For::replaced, is_sized);
        for (size_t k = 0; k < given.size(); ++k)
          stand_ins.put(given[k], is_written(arguments[k]) ? StandIns::Written::as_it_is : StandIns::Written::no);
      }
      if (takes_wrapper) return op.redispatchBoxed(below, stack);
      if (!record_number_call(op, stack)) redispatch_with_numbers(tracer->impl(), op, below, stack);
      return;
    }
    if (at::GradMode::is_enabled()) refuse_sparse_gradient(tracer->impl(), op, given);
    const bool is_sized = !is_composite && tracer->symbols() && keeps_sizes(tracer->impl(), given);
    StandIns stand_ins(tracer->impl(), is_composite ? StandIns::For::all : StandIns::For::differentiated, is_sized);
    const bool takes_history = !is_composite && hands_on_history(op.schema(), given);
    // What a composite operator writes is the tensor itself.
    for (size_t k = 0; k < given.size(); ++k)
      if (const bool written = is_written(arguments[k]); !written || !is_composite) {
        const bool takes = written && takes_history && may_take_history(given[k]);
        stand_ins.put(given[k], takes ? StandIns::Written::takes_history
                                      : (written ? StandIns::Written::as_it_is : StandIns::Written::no));
      }
    if (takes_wrapper) {
      op.redispatchBoxed(below, stack);
      return take_out(stand_ins, op, stack);
    }
    if (is_composite) leave_out_known_mask(tracer->impl(), op, given, current_gate->has_read_compiling_flag_);
    if ((tracer->symbols() || has_met_cuda()) && record_sized_call(tracer->impl(), op, stack)) return;
    if (tracer->symbols() && record_rerun_call(tracer->impl(), op, stack)) return;
    if (tracer->symbols() && open_sized_composite(op, stack)) return;
    if (is_composite && has_met_cuda() && open_recurrent_layer(tracer->impl(), op, stack)) return;
    if (record_number_call(op, stack)) return;
    if (is_composite && tracer->symbols()) update_source(tracer->impl().graph());
    const AskedBy asked(tracer->impl(), op);
    const RunningComposite running_now(op, is_composite);
    redispatch_with_numbers(tracer->impl(), op, below, stack);
    take_out(stand_ins, op, stack);
  }

 private:
  static void take_out(const StandIns& stand_ins, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const size_t returns = op.schema().returns().size();
    for (size_t k = 0; k < returns; ++k) stand_ins.take_out((*stack)[stack->size() - returns + k]);
  }
  /// Whether it is given tensors whose class will carry it out. Refused is what a replay, which does without that,
  /// would leave undone: versions of what is written, histories.
  static bool check_wrappers(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack* stack) {
    const auto& arguments = op.schema().arguments();
    const std::span<const c10::IValue> given(stack->data() + stack->size() - arguments.size(), arguments.size());
    bool any = false, any_tracked = false, any_written = false;
    for_each_tensor(given, [&](const at::Tensor& tensor, uint32_t, int32_t) { any |= is_dispatched(tensor); });
    const bool is_within = is_within_handler();
    if (!any && !is_within) return false;  // Nearly all calls.
    for_each_tensor(given, [&](const at::Tensor& tensor, uint32_t place, int32_t) {
      const bool is_dispatched_here = is_dispatched(tensor);
      any_tracked |= is_dispatched_here ? tensor.requires_grad() : recorder.is_tracked(tensor);
      // Below autograd versions stay as they are.
      any_written |=
          is_written(arguments[place]) && (!is_within || is_dispatched_here || is_from_outside(recorder, tensor));
    });
    if (any_written) throw UserError("braze: a wrapper, or what it holds, is written");
    if (!any) return false;
    const bool is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    if (any_tracked && !is_composite && at::GradMode::is_enabled() && !is_within)
      throw UserError("braze: gradients of a wrapper are wanted");
    const auto keys = c10::impl::tls_local_dispatch_key_set();
    if ((keys.included_ - keys.excluded_).has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode))
      throw UserError("braze: a wrapper is given to a transform");
    return true;
  }
  static bool is_from_outside(Recorder& recorder, const at::Tensor& tensor) {
    const TracerTensor* tracer = as_tracer(tensor);
    if (!tracer) return true;
    for (const ViewPtr& root : tracer->view()->memory->roots)
      if (recorder.bound_as(root)) return true;
    return false;
  }
  /// One that a GPU has a kernel for, and autograd a formula (_fused_rms_norm), is taken apart below autograd,
  /// which would see a part of it when the tape is run again.
  static void lose_tape_of_own_gradient(const c10::OperatorHandle& op, std::span<const c10::IValue> given) {
    TapeRecorder* const tape = TapeRecorder::current();
    if (!tape || !tape->can_be_lost() || !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA)) return;
    const auto device = device_of(given).device;
    if (device && device->is_cuda()) tape->lose(concat(op.schema().name(), " has a gradient of its own on a GPU"));
  }
  /// Autograd takes the real tensor for the base of views of it.
  static void note_views(const c10::FunctionSchema& schema, std::span<const c10::IValue> given) {
    for (size_t k = 0; k < given.size(); ++k) {
      const bool is_viewed = schema.arguments()[k].alias_info() && !is_written(schema.arguments()[k]);
      if (is_viewed && given[k].isTensor() && given[k].toTensor().defined() && !as_tracer(given[k].toTensor()))
        current_gate->viewed_.insert(given[k].toTensor().unsafeGetTensorImpl());
    }
  }
  /// Views that there are already would not learn of it.
  static bool may_take_history(const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && !value.toTensor().is_view() &&
           !value.toTensor().is_inference() &&
           !current_gate->viewed_.contains(value.toTensor().unsafeGetTensorImpl());
  }
  static void check(const c10::OperatorHandle& op) {
    for (const c10::DispatchKey key : watched()) {
      if (key != c10::DispatchKey::CPU && key != c10::DispatchKey::CUDA) continue;
      const c10::KernelFunction* kernel = kernel_of(op, key);
      if (kernel && is_python(*kernel) && op.hasKernelForDispatchKey(key))
        throw UserError(concat("braze: the kernel of ", op.operator_name().name, " was replaced"));
    }
  }
};

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&GateKernel::run>());
}

void KernelSnapshot::add(const c10::OperatorHandle& op) {
  watches_names_ |= !is_pytorchs(op);
  for (const c10::DispatchKey key : watched()) {
    const c10::KernelFunction* kernel = kernel_of(op, key);
    if (!kernel) continue;
    // What it calls: an object, a function that takes boxes and one that takes none.
    const auto* words = reinterpret_cast<const void* const*>(kernel);
    static_assert(sizeof(c10::KernelFunction) >= 3 * sizeof(void*));
    for (int k = 0; k < 3; ++k) words_.push_back({words + k, words[k]});
  }
}

uint64_t KernelSnapshot::deregistrations() noexcept {
  return deregistered.load(std::memory_order_relaxed);
}

void operator_taken_back(const c10::OperatorHandle& op) noexcept {
  deregistered.fetch_add(1, std::memory_order_relaxed);
  c10::PyHandleCache& object = python_object_of(entry_of(op));
  std::destroy_at(&object);
  std::construct_at(&object);
}

ReplacedData* replaced_data() {
  return current_gate ? &current_gate->replaced_ : nullptr;
}

void note_compiling_flag_was_read() {
  if (current_gate) current_gate->has_read_compiling_flag_ = true;
}

Gate::Gate() : outer_(std::exchange(current_gate, this)) {
  c10::impl::tls_set_dispatch_key_included(kGateKey, true);
}

Gate::~Gate() {
  current_gate = outer_;
  if (!outer_) c10::impl::tls_set_dispatch_key_included(kGateKey, false);
}

KernelSnapshot Gate::kernels() const {
  KernelSnapshot snapshot;
  for (const c10::OperatorHandle& op : called_) snapshot.add(op);
  return snapshot;
}

}  // namespace braze::capture
