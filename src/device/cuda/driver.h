// device/cuda/driver.h: NVIDIA's driver, opened when it is first asked for: braze is not linked with it, and a
// machine without it runs everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace braze::device::cuda {

/// Whether libcuda.so.1 could be opened and initialised and there is a device that Target sm_90 runs on.
/// \param why_not  Set to the reason where there is none.
bool available(std::string* why_not = nullptr);

// The driver's own types: all handles are pointers, addresses are integers (CUDA Driver API, cuda.h).
using Result = int;
using Context = struct CUctx_st*;
using ModuleHandle = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Address = uint64_t;

/// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id = 0;
  int padding = 0;
  unsigned cluster[16] = {};  ///< Of CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION the first three; a union of 64 bytes.
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// The calls that braze makes, by their names in the driver's manual.
struct Driver {
  Result (*cuInit)(unsigned flags);
  Result (*cuGetErrorString)(Result, const char** text);
  Result (*cuDeviceGetCount)(int* count);
  Result (*cuDeviceGet)(int* device, int ordinal);
  Result (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  Result (*cuDeviceGetName)(char* name, int length, int device);
  Result (*cuDevicePrimaryCtxRetain)(Context*, int device);
  Result (*cuCtxGetCurrent)(Context*);
  Result (*cuCtxSetCurrent)(Context);
  Result (*cuModuleLoadDataEx)(ModuleHandle*, const void* image, unsigned count, int* options, void** values);
  Result (*cuModuleUnload)(ModuleHandle);
  Result (*cuModuleGetFunction)(Function*, ModuleHandle, const char* name);
  Result (*cuFuncSetAttribute)(Function, int attribute, int value);
  Result (*cuLaunchKernel)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** parameters,
                           void** extra);
  Result (*cuLaunchKernelEx)(const LaunchConfig*, Function, void** parameters, void** extra);
  Result (*cuMemAlloc_v2)(Address*, size_t bytes);
  Result (*cuMemFree_v2)(Address);
  Result (*cuMemcpyHtoD_v2)(Address to, const void* from, size_t bytes);
  Result (*cuMemcpyDtoH_v2)(void* to, Address from, size_t bytes);
  Result (*cuMemcpyDtoDAsync_v2)(Address to, Address from, size_t bytes, Stream);
  Result (*cuMemsetD8Async)(Address, unsigned char value, size_t bytes, Stream);
  Result (*cuStreamSynchronize)(Stream);
  Result (*cuStreamIsCapturing)(Stream, int* status);
  Result (*cuEventCreate)(Event*, unsigned flags);
  Result (*cuEventRecord)(Event, Stream);
  Result (*cuEventSynchronize)(Event);
  Result (*cuEventElapsedTime)(float* milliseconds, Event from, Event to);
  Result (*cuEventDestroy_v2)(Event);
};

/// The driver. Throws UserError with why_not of available().
const Driver& driver();

/// Throws if a call of the driver failed, with its text: UserError where the machine or the program is at fault (no
/// memory, an illegal address in earlier work, a driver too old), else InternalError.
void check(Result result, const char* doing);

/// As its maker calls the device: "NVIDIA H200".
std::string name_of(int device);

/// Makes the primary context of a device current in this thread, unless some context is.
void ensure_context(int device);

}  // namespace braze::device::cuda
