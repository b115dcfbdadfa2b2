// python/compile/modes.h: the modes that captured code may change: gradients, inference mode, autocast, the default
// dtype, which kernels attention and cuDNN may take, and what is said of them.
//
// A capture runs the code for real, so the modes change for real; afterwards they are put back, and a replay sets
// what the code leaves different. Which modes hold at the beginning is guarded (guards/torch_state.cpp).
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SDPBackend.h>
#include <ATen/autocast_mode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <array>
#include <tuple>

namespace braze::python {

struct Modes {
  struct Autocast {
    bool is_enabled = false;
    at::ScalarType dtype = at::kFloat;
    bool operator==(const Autocast&) const = default;
  };

  /// What c10::InferenceMode sets beside the grad mode, and the dispatch keys that it leaves out.
  struct Inference {
    bool is_on = false, forward_grad = true, multithreading = true;
    uint64_t included = 0, excluded = 0;
    bool operator==(const Inference&) const = default;
  };

  bool grad = true;
  Inference inference = {};
  at::ScalarType default_dtype = at::kFloat;  ///< Of the process.
  bool autocast_cache = true;
  int autocast_nesting = 0;  ///< How many autocast contexts are entered. The outermost clears the cache at its end.
  /// In the order of at::autocast::_AUTOCAST_SUPPORTED_DEVICES.
  std::array<Autocast, std::tuple_size_v<decltype(at::autocast::_AUTOCAST_SUPPORTED_DEVICES)>> autocast = {};

  static constexpr size_t switch_count = 11;
  std::array<bool, switch_count> switches = {};  ///< Rows of modes.cpp. Of the process, not of the thread.
  std::array<at::SDPBackend, at::num_sdp_backends> attention_order = {};  ///< Which is tried first.

  static Modes now();
  /// Sets what is different here from `before`. The nesting changes by as much.
  void set_from(const Modes& before) const;
  bool operator==(const Modes&) const = default;
};

/// Enters inference mode, or leaves it, until the modes are set back.
void set_inference_mode(bool on);

/// Puts the modes back as they were, whatever runs while it lives.
class ModesScope {
 public:
  ModesScope() = default;
  ~ModesScope() {
    before_.set_from(Modes::now());
    at::impl::PythonTorchFunctionTLS::set_state(functions_);
    c10::impl::TorchDispatchModeTLS::set_state(dispatch_);
  }
  ModesScope(const ModesScope&) = delete;
  ModesScope& operator=(const ModesScope&) = delete;

 private:
  Modes before_ = Modes::now();
  /// The stack of torch function modes: Python code that takes one off for a while may be given up meanwhile.
  at::impl::PythonTorchFunctionTLS functions_ = at::impl::PythonTorchFunctionTLS::get_state();
  c10::impl::TorchDispatchModeTLS dispatch_ = c10::impl::TorchDispatchModeTLS::get_state();  ///< Likewise.
};

/// How a segment of code leaves the modes.
struct ModesChange {
  Modes before, after;

  void repeat() const { after.set_from(before); }
};

}  // namespace braze::python
