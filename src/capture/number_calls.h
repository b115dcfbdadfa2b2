// capture/number_calls.h: operators that are given numbers which inputs decide (capture/number.h), before autograd
// and composite code of PyTorch's, where a double is a double.
#pragma once

#include <functional>

#include "capture/recorder.h"

namespace braze::capture {

/// What the parser has made of such numbers is put back, for the outermost operator that a thread calls.
void put_parsed_numbers(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Records a call that is given such numbers in the place of doubles. False: nothing was recorded.
bool record_number_call(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// An operator of which plain numbers decide how large its results are.
bool numbers_decide_shapes(const OpEntry& entry);

/// Whether a library call can be recorded that takes the number, on the CPU or beside a GPU's tensors: no kernel
/// computes on the CPU there, and what the program's symbols tell is all that is known.
bool takes_number(const c10::IValue& argument, bool on_cpu);
/// Notes such an argument in the call. \param operand  adds an operand of the call, and gives its number.
void put_number(CallPayload& payload, uint32_t argument, const c10::IValue& number, bool on_cpu,
                const std::function<uint32_t(const at::Tensor&)>& operand);

/// Calls the operator. C++ code that knows no such numbers raises, and is given those of this call.
void redispatch_with_numbers(Recorder& recorder, const c10::OperatorHandle& op, c10::DispatchKeySet below,
                             torch::jit::Stack* stack);

}  // namespace braze::capture
