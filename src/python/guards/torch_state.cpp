// python/guards/torch_state.cpp: PyTorch's modes and flags, on this thread and in the process, as one guard.
//
// Each row is one word that a captured call depends on without naming it. Flags that ATen reads when a replayed
// call runs an operator need no row: they act then as they would in eager. There is one for all that a capture
// bakes in: what is recorded under a mode, which dtype a factory gives, which attention kernel was chosen, whether
// an error is raised.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PythonDispatcherTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <array>
#include <utility>

#include "capture/devices.h"
#include "python/guards/function_modes.h"
#include "python/guards/kinds.h"
#include "python/guards/saved_tensor_hooks.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "support/error.h"

namespace braze::guards {

namespace {

std::string truth_text(uint64_t word) {
  return word ? "True" : "False";
}
std::string number_text(uint64_t word) {
  return std::to_string(word);
}
std::string dtype_text(uint64_t word) {
  return describe_dtype(static_cast<int8_t>(word));
}
std::string keys_text(uint64_t word) {
  return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, word));
}

/// What lies in thread-local variables of PyTorch's libraries, each looked up once for all rows.
struct ThreadState {
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  const at::impl::SavedTensorDefaultHooksTLS& hooks = at::SavedTensorDefaultHooks::get_tls_state();
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  int64_t function_modes = at::impl::PythonTorchFunctionTLS::stack_len();
  const at::Context& context = at::globalContext();
};

/// In the forward of a checkpoint and when it is run again one program runs, which saves the same both times.
uint64_t hooks_word(const ThreadState& thread) {
  if (thread.hooks.stack.empty()) return uint64_t(SavedTensorHooks::none);
  const SavedTensorHooks hooks = saved_tensor_hooks();
  return uint64_t(hooks == SavedTensorHooks::recomputation ? SavedTensorHooks::checkpoint : hooks);
}
/// A checkpoint that is run again enters more of them than were entered the first time, and means the same.
uint64_t nesting_word(const ThreadState& thread) {
  return hooks_word(thread) == uint64_t(SavedTensorHooks::checkpoint) ? 0 : uint64_t(autocast_nesting());
}
std::string hooks_text(uint64_t word) {
  switch (static_cast<SavedTensorHooks>(word)) {
    case SavedTensorHooks::none: return "none";
    case SavedTensorHooks::checkpoint:
    case SavedTensorHooks::recomputation: return "those of torch.utils.checkpoint";
    case SavedTensorHooks::other: break;
  }
  return "the user's";
}

struct StateRow {
  const char* text;
  uint64_t (*read)(const ThreadState&);
  std::string (*word_text)(uint64_t);
};

/// What factories mean by "cuda", counted from the device that was current when somebody first traced for CUDA's: 0
/// before, too, since a guard of the program that first does is made before it does.
uint64_t current_cuda_device(const ThreadState&) {
  if (!capture::has_met_cuda()) return 0;
  const auto device = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index();
  return static_cast<uint64_t>(int64_t{device} - capture::first_cuda_device());
}
std::string cuda_device_text(uint64_t word) {
  return std::to_string(static_cast<int64_t>(word) + capture::first_cuda_device());
}

/// Which attention is tried first, one digit each. It is GPUs' alone: 0 as long as nobody has traced for them, and
/// afterwards for the order that there was first.
uint64_t attention_order(const ThreadState&) {
  const auto now = [] {
    uint64_t order = 0;
    for (const at::SDPBackend backend : at::globalContext().sDPPriorityOrder())
      order = order * 10 + uint64_t(backend) + 1;
    return order;
  };
  static const uint64_t first = now();
  return capture::has_met_cuda() ? now() - first : 0;
}

/// How many modes of torch functions there are. A default device counts as none, as captured code runs without it.
uint64_t function_modes(const ThreadState& thread) {
  return thread.function_modes > 0 && default_device() ? 0 : static_cast<uint64_t>(thread.function_modes);
}

/// 0 for the CPU, with which factories give what they give without a default device.
uint64_t default_device_word(const ThreadState& thread) {
  if (thread.function_modes == 0) return 0;
  const std::optional<c10::Device> device = default_device();
  if (!device || device->is_cpu()) return 0;
  return uint64_t(device->type()) << 8 | uint8_t(device->index());
}
std::string device_text(uint64_t word) {
  if (word == 0) return "cpu";
  return c10::Device(static_cast<c10::DeviceType>(word >> 8), static_cast<c10::DeviceIndex>(word & 0xFF)).str();
}

/// Without that of names, which PyTorch had up to 2.12: tensors that have some are not captured, and the engine's
/// thread of a GPU, on which checkpoints run a function again, leaves them out.
template <typename Key = c10::DispatchKey>
uint64_t excluded_keys(const ThreadState& thread) {
  if constexpr (requires { Key::Named; }) return thread.keys.excluded_.remove(Key::Named).raw_repr();
  return thread.keys.excluded_.raw_repr();
}

/// The likeliest to change first. Constant, so that the compiler sees through the functions.
constexpr StateRow kState[] = {
    {"torch.is_grad_enabled()", [](const ThreadState& thread) { return uint64_t(thread.autograd.get_grad_mode()); },
     truth_text},
    {"torch.is_inference_mode_enabled()",
     [](const ThreadState& thread) { return uint64_t(thread.autograd.get_inference_mode()); }, truth_text},
    // Autocast is enabled for a device unless its key is excluded.
    {"the excluded dispatch keys", excluded_keys<>, keys_text},
    {"the included dispatch keys", [](const ThreadState& thread) { return thread.keys.included_.raw_repr(); },
     keys_text},
    {"torch.get_autocast_dtype('cpu')",
     [](const ThreadState&) { return uint64_t(at::autocast::get_autocast_dtype(at::kCPU)); }, dtype_text},
    {"torch.get_autocast_dtype('cuda')",
     [](const ThreadState&) { return uint64_t(at::autocast::get_autocast_dtype(at::kCUDA)); }, dtype_text},
    {"torch.cuda.current_device()", current_cuda_device, cuda_device_text},
    {"torch.is_autocast_cache_enabled()",
     [](const ThreadState&) { return uint64_t(at::autocast::is_autocast_cache_enabled()); }, truth_text},
    {"the number of autocast contexts", nesting_word, number_text},
    {"torch.get_default_dtype()",
     [](const ThreadState&) { return uint64_t(c10::get_default_dtype_as_scalartype()); }, dtype_text},
    {"the number of torch function modes", function_modes, number_text},
    {"torch.get_default_device()", default_device_word, device_text},
    {"the state of torch functions",
     [](const ThreadState&) { return uint64_t(at::impl::PythonTorchFunctionTLS::get_disabled_state()); },
     number_text},
    {"the number of torch dispatch modes",
     [](const ThreadState&) { return uint64_t(c10::impl::TorchDispatchModeTLS::stack_len()); }, number_text},
    {"the Python dispatcher's being enabled",
     [](const ThreadState&) { return uint64_t(c10::impl::PythonDispatcherTLS::get_state() != nullptr); },
     truth_text},
    {"the hooks on saved tensors", hooks_word, hooks_text},
    {"saved tensor hooks being allowed",
     [](const ThreadState& thread) { return uint64_t(!thread.hooks.disabled_error_message.has_value()); },
     truth_text},
    {"forward-mode AD being enabled",
     [](const ThreadState& thread) { return uint64_t(thread.autograd.get_fw_grad_mode()); }, truth_text},
    {"a level of forward-mode AD being entered",
     [](const ThreadState&) { return uint64_t(torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr); },
     truth_text},
    {"torch.autograd.is_multithreading_enabled()",
     [](const ThreadState& thread) { return uint64_t(thread.autograd.get_multithreading_enabled()); }, truth_text},
    {"torch.is_anomaly_enabled()",
     [](const ThreadState&) { return uint64_t(torch::autograd::AnomalyMode::is_enabled()); }, truth_text},
    {"torch.jit.is_tracing()", [](const ThreadState&) { return uint64_t(torch::jit::tracer::isTracing()); },
     truth_text},
    {"torch.are_deterministic_algorithms_enabled()",
     [](const ThreadState& thread) { return uint64_t(thread.context.deterministicAlgorithms()); }, truth_text},
    {"torch.is_deterministic_algorithms_warn_only_enabled()",
     [](const ThreadState& thread) { return uint64_t(thread.context.deterministicAlgorithmsWarnOnly()); },
     truth_text},
    {"torch.is_warn_always_enabled()",
     [](const ThreadState&) { return uint64_t(c10::WarningUtils::get_warnAlways()); }, truth_text},
    {"torch.utils.deterministic.fill_uninitialized_memory",
     [](const ThreadState& thread) { return uint64_t(thread.context.deterministicFillUninitializedMemory()); },
     truth_text},
    {"torch.get_num_threads()", [](const ThreadState&) { return uint64_t(at::get_num_threads()); }, number_text},
    {"torch.backends.mkldnn.enabled",
     [](const ThreadState& thread) { return uint64_t(thread.context.userEnabledMkldnn()); }, truth_text},
    {"torch.backends.cudnn.enabled",
     [](const ThreadState& thread) { return uint64_t(thread.context.userEnabledCuDNN()); }, truth_text},
    {"torch.backends.cudnn.deterministic",
     [](const ThreadState& thread) { return uint64_t(thread.context.deterministicCuDNN()); }, truth_text},
    {"torch.backends.cudnn.benchmark",
     [](const ThreadState& thread) { return uint64_t(thread.context.benchmarkCuDNN()); }, truth_text},
    {"flash attention being enabled",
     [](const ThreadState& thread) { return uint64_t(thread.context.userEnabledFlashSDP()); }, truth_text},
    {"memory efficient attention being enabled",
     [](const ThreadState& thread) { return uint64_t(thread.context.userEnabledMemEfficientSDP()); }, truth_text},
    {"plain attention being enabled",
     [](const ThreadState& thread) { return uint64_t(thread.context.userEnabledMathSDP()); }, truth_text},
    {"overrideable attention being enabled",
     [](const ThreadState& thread) { return uint64_t(thread.context.userEnabledOverrideableSDP()); }, truth_text},
    {"cuDNN's attention being enabled",
     [](const ThreadState& thread) { return uint64_t(thread.context.userEnabledCuDNNSDP()); }, truth_text},
    {"the order of attention kernels", attention_order, number_text},
};

/// Whether the words are what they were, the first that differs ending the look.
template <size_t... Rows>
bool equal(const std::array<uint64_t, sizeof...(Rows)>& words, std::index_sequence<Rows...>) {
  const ThreadState thread;
  return ((kState[Rows].read(thread) == words[Rows]) && ...);
}

struct TorchState : Payload {
  std::array<uint64_t, std::size(kState)> words;

  TorchState() {
    const ThreadState thread;
    for (size_t i = 0; i < words.size(); ++i) words[i] = kState[i].read(thread);
  }
  bool equals(const Payload& other) const noexcept override {
    return words == static_cast<const TorchState&>(other).words;
  }
};

}  // namespace

std::optional<c10::Device> default_device() noexcept {
  const int64_t count = at::impl::PythonTorchFunctionTLS::stack_len();
  if (count == 0) return {};
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.utils._device");
  PyObject* type =
      module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "DeviceContext") : nullptr;
  std::optional<c10::Device> top;  // It is asked first, and those below see a call that names a device.
  for (int64_t k = 0; k < count; ++k) {
    PyObject* mode = at::impl::PythonTorchFunctionTLS::get_stack_at(k)->ptr(getPyInterpreter());
    PyObject* dict = reinterpret_cast<PyObject*>(Py_TYPE(mode)) == type ? instance_dict(mode) : nullptr;
    PyObject* device = dict ? PyDict_GetItemString(dict, "device") : nullptr;
    if (!device || !THPDevice_Check(device)) return {};
    top = reinterpret_cast<THPDevice*>(device)->device;
  }
  return top;
}

PyObject* function_mode_at(uint32_t index) noexcept {
  if (index >= at::impl::PythonTorchFunctionTLS::stack_len()) return nullptr;
  return at::impl::PythonTorchFunctionTLS::get_stack_at(index)->ptr(getPyInterpreter());
}

int autocast_nesting() noexcept {
  at::autocast::increment_nesting();  // There is no other way to ask.
  return at::autocast::decrement_nesting();
}

std::shared_ptr<Payload> make_torch_state_payload() {
  return std::make_shared<TorchState>();
}

bool test_torch_state(const Expected& expected, PyObject* const*, const Call&) noexcept {
  return equal(static_cast<const TorchState*>(expected.payload)->words,
               std::make_index_sequence<std::size(kState)>());
}

std::string explain_torch_state(const Expected& expected, PyObject* const* values, const Call&, const Texts&) {
  const auto& words = static_cast<const TorchState*>(expected.payload)->words;
  const ThreadState thread;
  if (values)
    for (size_t i = 0; i < words.size(); ++i)
      if (const uint64_t now = kState[i].read(thread); now != words[i])
        return concat(kState[i].text, " == ", kState[i].word_text(words[i]), ", was ", kState[i].word_text(now));
  return "PyTorch's modes and flags are as they were";
}

bool test_default_device(const Expected&, PyObject* const*, const Call&) noexcept {
  return !default_device();
}

std::string explain_default_device(const Expected&, PyObject* const*, const Call&, const Texts&) {
  return "no default device is set";
}

}  // namespace braze::guards
