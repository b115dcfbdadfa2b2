// python/guards/function_modes.h: the default device, which is a mode of torch functions.
#pragma once

#include <c10/core/Device.h>

#include <optional>

namespace braze::guards {

/// What `torch.set_default_device` or the innermost `with torch.device` says that factories take where none is
/// named. Nothing without one, and where there are modes of other kinds beside it.
/// Source: torch.utils._device.DeviceContext, which torch.device.__enter__ puts on the stack of modes.
std::optional<c10::Device> default_device() noexcept;

}  // namespace braze::guards
