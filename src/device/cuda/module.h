// device/cuda/module.h: compiled kernels on a device: loading and launching.
#pragma once

#include <cstdint>
#include <memory>

#include "codegen/compiler.h"

namespace braze::device::cuda {

/// The loaded code of one kernel on one device. Immutable; launched from any thread whose current context is that
/// device's primary one (as PyTorch keeps it). Unloaded with the last shared_ptr.
class Module;

/// Loads a kernel, or finds it among those loaded: kept as long as somebody holds it.
/// \param kernel  Compiled for a GPU (gpu_phases not empty).
/// \param device  The device's number, as PyTorch counts.
/// Errors: UserError where the driver cannot run the code, with its text.
std::shared_ptr<const Module> load(const codegen::CompiledKernel& kernel, int device);

/// Starts all phases of a kernel on a stream, one after another; waits for nothing.
/// \param buffers  Device address of the first element of each kernel parameter.
/// \param scalars  8 bytes each: f32 in the low half, integers sign-extended.
/// \param symbols  Value of each symbol.
/// \param status   Device address of one int64, or null; set as PhaseFunction's where a check fails.
/// \param stream   The driver's handle of a stream of that device; null: the default stream.
/// Errors: UserError with the driver's text, also for what earlier work on the device did wrong.
void launch(const Module& module, void* const* buffers, const uint64_t* scalars, const int64_t* symbols,
            int64_t* status, void* stream);

}  // namespace braze::device::cuda
