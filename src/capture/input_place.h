// capture/input_place.h: how much of where a graph input begins in its storage a program depends on.
#pragma once

#include <cstdint>

namespace braze::capture {

/// In the place of a modulus (Trace::place_modulus): all of it. as_strided() counts from where the storage begins.
inline constexpr uint32_t whole_place = UINT32_MAX;

}  // namespace braze::capture
