// capture/library_call.h: calls of ATen in plain values (ir/library_call.h), and back.
#pragma once

#include <vector>

#include "capture/trace.h"
#include "ir/library_call.h"

namespace braze::capture {

/// What has no text (a generator, a tensor of the trace's own) is appended to `objects`.
ir::LibraryCall describe(const CallPayload& payload, std::vector<c10::IValue>& objects);

/// Throws UserError if this process has no such operator, or one of another schema.
CallPayload payload_of(const ir::LibraryCall& call, const std::vector<c10::IValue>& objects);

/// The operator that a `call` node names.
c10::OperatorHandle operator_of(const ir::Node& node);

}  // namespace braze::capture
