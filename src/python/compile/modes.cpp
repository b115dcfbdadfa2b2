// python/compile/modes.cpp
#include "python/compile/modes.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include "python/guards/torch_values.h"

namespace braze::python {

namespace {

/// One row a kind of kernel for attention, in the order of Modes::attention.
struct AttentionSwitch {
  bool (at::Context::*is_on)() const;
  void (at::Context::*set)(bool);
};
constexpr AttentionSwitch attention_switches[] = {
    {&at::Context::userEnabledFlashSDP, &at::Context::setSDPUseFlash},
    {&at::Context::userEnabledMemEfficientSDP, &at::Context::setSDPUseMemEfficient},
    {&at::Context::userEnabledMathSDP, &at::Context::setSDPUseMath},
    {&at::Context::userEnabledCuDNNSDP, &at::Context::setSDPUseCuDNN},
    {&at::Context::userEnabledOverrideableSDP, &at::Context::setSDPUseOverrideable},
};

constexpr const auto& devices = at::autocast::_AUTOCAST_SUPPORTED_DEVICES;

}  // namespace

Modes Modes::now() {
  Modes modes;
  modes.grad = at::GradMode::is_enabled();
  modes.autocast_cache = at::autocast::is_autocast_cache_enabled();
  modes.autocast_nesting = guards::autocast_nesting();
  for (size_t i = 0; i < modes.attention.size(); ++i)
    modes.attention[i] = (at::globalContext().*attention_switches[i].is_on)();
  for (size_t i = 0; i < devices.size(); ++i)
    modes.autocast[i] = {at::autocast::is_autocast_enabled(devices[i]),
                         at::autocast::get_autocast_dtype(devices[i])};
  return modes;
}

void Modes::set_from(const Modes& before) const {
  if (grad != before.grad) at::GradMode::set_enabled(grad);
  if (autocast_cache != before.autocast_cache) at::autocast::set_autocast_cache_enabled(autocast_cache);
  for (size_t i = 0; i < attention.size(); ++i)
    if (attention[i] != before.attention[i]) (at::globalContext().*attention_switches[i].set)(attention[i]);
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

}  // namespace braze::python
