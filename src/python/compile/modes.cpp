// python/compile/modes.cpp
#include "python/compile/modes.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <iterator>
#include <vector>

#include "python/guards/torch_values.h"

namespace braze::python {

namespace {

/// One row a switch that at::Context, or PyTorch's warnings, have.
struct Switch {
  bool (*is_on)(const at::Context&);
  void (*set)(at::Context&, bool);
};
constexpr Switch rows[] = {
    // Kinds of kernels for attention.
    {[](const at::Context& c) { return c.userEnabledFlashSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseFlash(on); }},
    {[](const at::Context& c) { return c.userEnabledMemEfficientSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseMemEfficient(on); }},
    {[](const at::Context& c) { return c.userEnabledMathSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseMath(on); }},
    {[](const at::Context& c) { return c.userEnabledCuDNNSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseCuDNN(on); }},
    {[](const at::Context& c) { return c.userEnabledOverrideableSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseOverrideable(on); }},
    // cuDNN: what a program's calls find then is as good.
    {[](const at::Context& c) { return c.userEnabledCuDNN(); },
     [](at::Context& c, bool on) { c.setUserEnabledCuDNN(on); }},
    {[](const at::Context& c) { return c.benchmarkCuDNN(); },
     [](at::Context& c, bool on) { c.setBenchmarkCuDNN(on); }},
    {[](const at::Context& c) { return c.deterministicCuDNN(); },
     [](at::Context& c, bool on) { c.setDeterministicCuDNN(on); }},
    // Deterministic algorithms: an error, or a warning, where there are none (capture/changed_switches.h).
    {[](const at::Context& c) { return c.deterministicAlgorithms(); },
     [](at::Context& c, bool on) { c.setDeterministicAlgorithms(on, c.deterministicAlgorithmsWarnOnly()); }},
    {[](const at::Context& c) { return c.deterministicAlgorithmsWarnOnly(); },
     [](at::Context& c, bool on) { c.setDeterministicAlgorithms(c.deterministicAlgorithms(), on); }},
    {[](const at::Context&) { return c10::WarningUtils::get_warnAlways(); },
     [](at::Context&, bool on) { c10::WarningUtils::set_warnAlways(on); }},
};
static_assert(std::size(rows) == Modes::switch_count);

constexpr c10::DispatchKeySet inference_keys = c10::autograd_dispatch_keyset_with_ADInplaceOrView;

void set(const Modes::Inference& inference, bool grad) {
  c10::AutogradState state = c10::AutogradState::get_tls_state();
  state.set_grad_mode(grad);
  state.set_inference_mode(inference.is_on);
  state.set_fw_grad_mode(inference.forward_grad);
  state.set_multithreading_enabled(inference.multithreading);
  c10::AutogradState::set_tls_state(state);
  const auto with = [](c10::DispatchKeySet keys, uint64_t own) {
    return (keys - inference_keys) | c10::DispatchKeySet(c10::DispatchKeySet::RAW, own);
  };
  const c10::impl::LocalDispatchKeySet now = c10::impl::tls_local_dispatch_key_set();
  c10::impl::PODLocalDispatchKeySet keys{};
  keys.set_included(with(now.included_, inference.included));
  keys.set_excluded(with(now.excluded_, inference.excluded));
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

constexpr const auto& devices = at::autocast::_AUTOCAST_SUPPORTED_DEVICES;

}  // namespace

Modes Modes::now() {
  Modes modes;
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  modes.grad = autograd.get_grad_mode();
  modes.inference = {autograd.get_inference_mode(), autograd.get_fw_grad_mode(),
                     autograd.get_multithreading_enabled(), (keys.included_ & inference_keys).raw_repr(),
                     (keys.excluded_ & inference_keys).raw_repr()};
  modes.default_dtype = c10::get_default_dtype_as_scalartype();
  modes.attention_order = at::globalContext().sDPPriorityOrder();
  modes.autocast_cache = at::autocast::is_autocast_cache_enabled();
  modes.autocast_nesting = guards::autocast_nesting();
  for (size_t i = 0; i < switch_count; ++i) modes.switches[i] = rows[i].is_on(at::globalContext());
  for (size_t i = 0; i < devices.size(); ++i)
    modes.autocast[i] = {at::autocast::is_autocast_enabled(devices[i]),
                         at::autocast::get_autocast_dtype(devices[i])};
  return modes;
}

void Modes::set_from(const Modes& before) const {
  if (inference != before.inference)
    set(inference, grad);
  else if (grad != before.grad)
    at::GradMode::set_enabled(grad);
  if (default_dtype != before.default_dtype) c10::set_default_dtype(c10::scalarTypeToTypeMeta(default_dtype));
  if (attention_order != before.attention_order) {
    std::vector<int64_t> order;
    for (const at::SDPBackend backend : attention_order) order.push_back(static_cast<int64_t>(backend));
    at::globalContext().setSDPPriorityOrder(order);
  }
  if (autocast_cache != before.autocast_cache) at::autocast::set_autocast_cache_enabled(autocast_cache);
  for (size_t i = 0; i < switch_count; ++i)
    if (switches[i] != before.switches[i]) rows[i].set(at::globalContext(), switches[i]);
  for (int nesting = before.autocast_nesting; nesting < autocast_nesting; ++nesting)
    at::autocast::increment_nesting();
  for (int nesting = before.autocast_nesting; nesting > autocast_nesting; --nesting)
    at::autocast::decrement_nesting();
  for (size_t i = 0; i < devices.size(); ++i) {
    if (autocast[i].is_enabled != before.autocast[i].is_enabled)
      at::autocast::set_autocast_enabled(devices[i], autocast[i].is_enabled);
    if (autocast[i].dtype != before.autocast[i].dtype)
      at::autocast::set_autocast_dtype(devices[i], autocast[i].dtype);
  }
}

void set_inference_mode(bool on) {
  Modes::Inference inference = Modes::now().inference;
  const auto replaced = [](uint64_t keys, c10::DispatchKeySet own, bool there) {
    const c10::DispatchKeySet all(c10::DispatchKeySet::RAW, keys);
    return (there ? all | own : all - own).raw_repr();
  };
  inference.is_on = on;
  inference.forward_grad = inference.multithreading = !on;
  inference.included = replaced(inference.included, c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView), !on);
  inference.excluded = replaced(inference.excluded, c10::autograd_dispatch_keyset, on);
  set(inference, !on);
}

}  // namespace braze::python
