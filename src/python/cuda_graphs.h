// python/cuda_graphs.h: recording CUDA graphs by PyTorch's own `torch._C._CUDAGraph`.
#pragma once

namespace braze::python {

/// From now on programs can record (runtime/cuda_graphs.h). Once a process.
void install_cuda_graphs();

}  // namespace braze::python
