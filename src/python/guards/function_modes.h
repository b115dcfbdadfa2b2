// python/guards/function_modes.h: modes of torch functions that mean nothing to a program.
#pragma once

namespace braze::guards {

/// There are modes, all of them are default devices (torch.set_default_device, `with torch.device`), and those are
/// the CPU: factories give what they give without.
bool default_device_is_plain() noexcept;

}  // namespace braze::guards
