// capture/sized_calls.h: library calls on tensors whose sizes are expressions.
#pragma once

#include "capture/recorder.h"

namespace braze::capture {

/// Records a call whose results have sizes that follow from its arguments' by a row of a table; composite operators
/// that PyTorch would take apart step by step (a GRU over a length that varies) among them.
/// False: nothing was recorded.
bool record_sized_call(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace braze::capture
