// capture/sized_calls.h: library calls on tensors whose sizes are expressions.
#pragma once

#include "capture/recorder.h"

namespace braze::capture {

/// Records a call that no rule took, if it is known how the sizes of its results follow from those of its arguments.
/// False: nothing was recorded.
bool record_sized_call(Recorder& recorder, const OpEntry& entry, torch::jit::Stack* stack);

}  // namespace braze::capture
