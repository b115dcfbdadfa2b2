// codegen/nvptx/linker.h: PTX to machine code of a GPU, by NVIDIA's nvJitLink, which comes with PyTorch.
//
// It is opened when it is first asked for. Other than the driver's own compiler it runs on several threads at once:
// 32 kernels took 58 ms on 16 threads where the driver took 465 (H200, CUDA 13).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace braze::codegen::nvptx {

/// Which linker makes the machine code, part of the key of what is cached: "nvJitLink 13.0"; empty: there is none.
std::string_view linker_name();

/// A cubin for `architecture` ("sm_90"), or nothing where there is no linker or it does not know this PTX: then the
/// driver is left to compile it. Thread-safe.
std::optional<std::string> link(std::string_view ptx, std::string_view architecture);

/// Lets a thread of its own make the first cubin of this process, an empty one: it takes the linker 20 ms longer
/// than others (H100), in which the caller captures and lowers. Once a process, and later calls do nothing. The
/// thread has ended before the process forks or exits.
void prepare_linker(std::string_view architecture);

}  // namespace braze::codegen::nvptx
