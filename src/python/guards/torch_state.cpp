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

#include "capture/devices.h"
#include "python/guards/function_modes.h"
#include "python/guards/kinds.h"
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

struct StateRow {
  const char* text;
  uint64_t (*read)();
  std::string (*word_text)(uint64_t);
};

const c10::AutogradState& autograd() {
  return c10::AutogradState::get_tls_state();
}
const at::Context& context() {
  return at::globalContext();
}

/// What factories mean by "cuda". 0 where nobody has traced for CUDA devices, or none is chosen.
uint64_t current_cuda_device() {
  if (!capture::has_met_cuda()) return 0;
  return static_cast<uint64_t>(c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index());
}

/// Which attention is tried first, one digit each. It is GPUs' alone: 0 as long as nobody has traced for them, and
/// afterwards for the order that there was first.
uint64_t attention_order() {
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
uint64_t function_modes() {
  const auto count = static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::stack_len());
  return count > 0 && default_device() ? 0 : count;
}

/// 0 for the CPU, with which factories give what they give without a default device.
uint64_t default_device_word() {
  if (at::impl::PythonTorchFunctionTLS::stack_len() == 0) return 0;
  const std::optional<c10::Device> device = default_device();
  if (!device || device->is_cpu()) return 0;
  return uint64_t(device->type()) << 8 | uint8_t(device->index());
}
std::string device_text(uint64_t word) {
  if (word == 0) return "cpu";
  return c10::Device(static_cast<c10::DeviceType>(word >> 8), static_cast<c10::DeviceIndex>(word & 0xFF)).str();
}

/// The likeliest to change first.
const StateRow kState[] = {
    {"torch.is_grad_enabled()", [] { return uint64_t(autograd().get_grad_mode()); }, truth_text},
    {"torch.is_inference_mode_enabled()", [] { return uint64_t(autograd().get_inference_mode()); }, truth_text},
    // Autocast is enabled for a device unless its key is excluded.
    {"the excluded dispatch keys", [] { return c10::impl::tls_local_dispatch_key_set().excluded_.raw_repr(); },
     keys_text},
    {"the included dispatch keys", [] { return c10::impl::tls_local_dispatch_key_set().included_.raw_repr(); },
     keys_text},
    {"torch.get_autocast_dtype('cpu')", [] { return uint64_t(at::autocast::get_autocast_dtype(at::kCPU)); },
     dtype_text},
    {"torch.get_autocast_dtype('cuda')", [] { return uint64_t(at::autocast::get_autocast_dtype(at::kCUDA)); },
     dtype_text},
    {"torch.cuda.current_device()", [] { return current_cuda_device(); }, number_text},
    {"torch.is_autocast_cache_enabled()", [] { return uint64_t(at::autocast::is_autocast_cache_enabled()); },
     truth_text},
    {"the number of autocast contexts", [] { return uint64_t(autocast_nesting()); }, number_text},
    {"torch.get_default_dtype()", [] { return uint64_t(c10::get_default_dtype_as_scalartype()); }, dtype_text},
    {"the number of torch function modes", function_modes, number_text},
    {"torch.get_default_device()", default_device_word, device_text},
    {"the state of torch functions",
     [] { return uint64_t(at::impl::PythonTorchFunctionTLS::get_disabled_state()); }, number_text},
    {"the number of torch dispatch modes", [] { return uint64_t(c10::impl::TorchDispatchModeTLS::stack_len()); },
     number_text},
    {"the Python dispatcher's being enabled",
     [] { return uint64_t(c10::impl::PythonDispatcherTLS::get_state() != nullptr); }, truth_text},
    {"the number of saved tensor hooks",
     [] { return uint64_t(at::SavedTensorDefaultHooks::get_tls_state().stack.size()); }, number_text},
    {"saved tensor hooks being allowed",
     [] { return uint64_t(!at::SavedTensorDefaultHooks::get_tls_state().disabled_error_message.has_value()); },
     truth_text},
    {"forward-mode AD being enabled", [] { return uint64_t(autograd().get_fw_grad_mode()); }, truth_text},
    {"a level of forward-mode AD being entered",
     [] { return uint64_t(torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr); }, truth_text},
    {"torch.autograd.is_multithreading_enabled()", [] { return uint64_t(autograd().get_multithreading_enabled()); },
     truth_text},
    {"torch.is_anomaly_enabled()", [] { return uint64_t(torch::autograd::AnomalyMode::is_enabled()); }, truth_text},
    {"torch.jit.is_tracing()", [] { return uint64_t(torch::jit::tracer::isTracing()); }, truth_text},
    {"torch.are_deterministic_algorithms_enabled()", [] { return uint64_t(context().deterministicAlgorithms()); },
     truth_text},
    {"torch.is_deterministic_algorithms_warn_only_enabled()",
     [] { return uint64_t(context().deterministicAlgorithmsWarnOnly()); }, truth_text},
    {"torch.utils.deterministic.fill_uninitialized_memory",
     [] { return uint64_t(context().deterministicFillUninitializedMemory()); }, truth_text},
    {"torch.get_num_threads()", [] { return uint64_t(at::get_num_threads()); }, number_text},
    {"torch.backends.mkldnn.enabled", [] { return uint64_t(context().userEnabledMkldnn()); }, truth_text},
    {"torch.backends.cudnn.enabled", [] { return uint64_t(context().userEnabledCuDNN()); }, truth_text},
    {"torch.backends.cudnn.deterministic", [] { return uint64_t(context().deterministicCuDNN()); }, truth_text},
    {"torch.backends.cudnn.benchmark", [] { return uint64_t(context().benchmarkCuDNN()); }, truth_text},
    {"flash attention being enabled", [] { return uint64_t(context().userEnabledFlashSDP()); }, truth_text},
    {"memory efficient attention being enabled", [] { return uint64_t(context().userEnabledMemEfficientSDP()); },
     truth_text},
    {"plain attention being enabled", [] { return uint64_t(context().userEnabledMathSDP()); }, truth_text},
    {"overrideable attention being enabled", [] { return uint64_t(context().userEnabledOverrideableSDP()); },
     truth_text},
    {"cuDNN's attention being enabled", [] { return uint64_t(context().userEnabledCuDNNSDP()); }, truth_text},
    {"the order of attention kernels", attention_order, number_text},
};

struct TorchState : Payload {
  std::array<uint64_t, std::size(kState)> words;

  TorchState() {
    for (size_t i = 0; i < words.size(); ++i) words[i] = kState[i].read();
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

int autocast_nesting() noexcept {
  at::autocast::increment_nesting();  // There is no other way to ask.
  return at::autocast::decrement_nesting();
}

std::shared_ptr<Payload> make_torch_state_payload() {
  return std::make_shared<TorchState>();
}

bool test_torch_state(const Expected& expected, PyObject* const*, const Call&) noexcept {
  const auto& words = static_cast<const TorchState*>(expected.payload)->words;
  for (size_t i = 0; i < words.size(); ++i)
    if (kState[i].read() != words[i]) return false;
  return true;
}

std::string explain_torch_state(const Expected& expected, PyObject* const* values, const Call&, const Texts&) {
  const auto& words = static_cast<const TorchState*>(expected.payload)->words;
  if (values)
    for (size_t i = 0; i < words.size(); ++i)
      if (const uint64_t now = kState[i].read(); now != words[i])
        return concat(kState[i].text, " == ", kState[i].word_text(words[i]), ", was ", kState[i].word_text(now));
  return "PyTorch's modes and flags are as they were";
}

}  // namespace braze::guards
