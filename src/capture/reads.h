// capture/reads.h: what Tracer::last_read() says of an operator that was run to see what it gives.
#pragma once

#include <string_view>

namespace braze::capture {

/// Follows the operator's name where neither its Meta kernel nor its own one, for zeros, answers: as a rule it
/// raises.
inline constexpr std::string_view only_for_real_data = " (whose shapes PyTorch tells only for real data)";

}  // namespace braze::capture
