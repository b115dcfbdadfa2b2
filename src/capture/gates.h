// capture/gates.h: which calls are ATen's to judge, although there is a rule.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>

#include "capture/registry.h"

namespace braze::capture {

/// May ATen raise for these arguments where the operator's rule would not, or is more asked of it than the rule
/// gives? Then the call is recorded as such.
bool may_be_refused(const OpEntry& entry, std::span<const c10::IValue> arguments);
/// Is it a comparison with a complex number, of which there is no order? It raises whatever becomes of its result,
/// which a pass may find to decide nothing: where(x > 1j, a, a).
bool orders_complex(const OpEntry& entry, std::span<const c10::IValue> arguments);
/// Throws: an out= tensor of another size than the result's is an input, a view, or not empty, of which eager warns
/// at every call.
[[noreturn]] void refuse_resize(const OpEntry& entry);
/// Throws where the operator would ask for a switch that the trace has changed (changed_switches.h).
void check_switches(const OpEntry& entry);
/// Throws for tensors without memory, of which there is nothing to compute: they are eager's.
void refuse_meta(const OpEntry& entry, std::span<const c10::IValue> arguments);
/// A number that varies, where eager converts it to types that do not hold every such number and raises for those
/// that are too large: it is the number of this call from here on.
void specialise_narrow_numbers(const OpEntry& entry, std::span<c10::IValue> arguments);

}  // namespace braze::capture
