// capture/recurrent_layers.h: recurrent layers whose gradient is wanted, on a GPU.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace braze::capture {

class Recorder;

/// PyTorch's own code of lstm, gru and rnn_* on a GPU looks where the weights lie, to find the one buffer that
/// cuDNN wants them in (`flatten_parameters`), and tensors of a trace lie nowhere. Here the buffer is put together
/// of the weights, as part of the graph, and cuDNN's operator is called above autograd, which knows its gradient.
/// Where the weights lie apart the operator does that itself, and warns of it, as in eager. False: nothing was
/// done. That is for calls on a CPU, and those that draw random numbers (dropout between layers).
bool open_recurrent_layer(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace braze::capture
