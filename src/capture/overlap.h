// capture/overlap.h: writes to memory that the same call also reads or writes elsewhere.
//
// Eager refuses most of them, each operator by rules of its own, and the graph, which is functional, would give a
// result. So ATen is asked, with zeros that lie as the call's tensors do. What it allows, although elements are
// shared, depends on the order in which its kernel goes through them: no graph can say that.
#pragma once

#include "capture/recorder.h"

namespace braze::capture {

/// Throws what eager throws, or UserError if the outcome depends on the kernel. Of an operator that writes.
void check_overlap(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments);

}  // namespace braze::capture
