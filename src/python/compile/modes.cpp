// python/compile/modes.cpp
#include "python/compile/modes.h"

#include <ATen/core/grad_mode.h>

#include "python/guards/torch_values.h"

namespace braze::python {

namespace {

constexpr const auto& devices = at::autocast::_AUTOCAST_SUPPORTED_DEVICES;

}  // namespace

Modes Modes::now() {
  Modes modes;
  modes.grad = at::GradMode::is_enabled();
  modes.autocast_cache = at::autocast::is_autocast_cache_enabled();
  modes.autocast_nesting = guards::autocast_nesting();
  for (size_t i = 0; i < devices.size(); ++i)
    modes.autocast[i] = {at::autocast::is_autocast_enabled(devices[i]),
                         at::autocast::get_autocast_dtype(devices[i])};
  return modes;
}

void Modes::set_from(const Modes& before) const {
  if (grad != before.grad) at::GradMode::set_enabled(grad);
  if (autocast_cache != before.autocast_cache) at::autocast::set_autocast_cache_enabled(autocast_cache);
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
