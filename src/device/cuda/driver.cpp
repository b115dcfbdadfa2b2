#include "device/cuda/driver.h"

#include <dlfcn.h>

#include <array>
#include <mutex>

#include "support/error.h"
#include "support/library_functions.h"

namespace braze::device::cuda {

namespace {

// CUDA Driver API, cuda.h.
enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500
};
constexpr int kMajorVersion = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR

struct Opened {
  Driver calls{};
  std::string why_not;  ///< Empty: there is one.
};

std::string text_of(const Driver& driver, Result result) {
  const char* text = nullptr;
  if (driver.cuGetErrorString(result, &text) != kSuccess || !text) return concat("error ", result);
  return concat(text, " (error ", result, ")");
}

/// The name that the driver does not have; null: it has all.
const char* find_calls(void* file, Driver& driver) {
  LibraryFunctions functions(file);
#define FIND(name) functions.find(driver.name, #name)
  FIND(cuInit), FIND(cuGetErrorString), FIND(cuDeviceGetCount), FIND(cuDeviceGet), FIND(cuDeviceGetAttribute);
  FIND(cuDeviceGetName), FIND(cuDevicePrimaryCtxRetain), FIND(cuCtxGetCurrent), FIND(cuCtxSetCurrent);
  FIND(cuModuleLoadDataEx), FIND(cuModuleUnload), FIND(cuModuleGetFunction), FIND(cuFuncSetAttribute);
  FIND(cuLaunchKernel), FIND(cuLaunchKernelEx), FIND(cuMemAlloc_v2), FIND(cuMemFree_v2), FIND(cuMemcpyHtoD_v2),
      FIND(cuMemcpyDtoH_v2);
  FIND(cuMemcpyDtoDAsync_v2), FIND(cuMemsetD8Async), FIND(cuStreamSynchronize), FIND(cuStreamIsCapturing);
  FIND(cuEventCreate), FIND(cuEventRecord), FIND(cuEventSynchronize), FIND(cuEventElapsedTime),
      FIND(cuEventDestroy_v2);
#undef FIND
  return functions.missing();
}

/// Devices that run code for Target sm_90: it uses nothing of that one generation alone, but is linked for it.
std::string unfit_devices(const Driver& driver) {
  int count = 0;
  if (const Result result = driver.cuDeviceGetCount(&count); result != kSuccess) return text_of(driver, result);
  if (count == 0) return "the driver shows no device (CUDA_VISIBLE_DEVICES may hide it)";
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0, major = 0;
    if (driver.cuDeviceGet(&device, ordinal) == kSuccess &&
        driver.cuDeviceGetAttribute(&major, kMajorVersion, device) == kSuccess && major == 9)
      return "";
  }
  return "no device of compute capability 9 (H100, H200) is there";
}

Opened open() {
  Opened opened;
  void* file = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!file) {
    opened.why_not = "NVIDIA's driver (libcuda.so.1) is not on this machine";
    return opened;
  }
  if (const char* missing = find_calls(file, opened.calls)) {
    opened.why_not = concat("NVIDIA's driver is too old: it has no ", missing);
    return opened;
  }
  if (const Result result = opened.calls.cuInit(0); result != kSuccess)
    opened.why_not = concat("NVIDIA's driver cannot start: ", text_of(opened.calls, result));
  else
    opened.why_not = unfit_devices(opened.calls);
  return opened;
}

/// Opened once and for all: the driver cannot be taken down and set up again in a process.
const Opened& opened() {
  static const Opened driver = open();
  return driver;
}

}  // namespace

bool available(std::string* why_not) {
  const Opened& found = opened();
  if (why_not) *why_not = found.why_not;
  return found.why_not.empty();
}

const Driver& driver() {
  const Opened& found = opened();
  if (!found.why_not.empty()) throw UserError(concat("No kernel can run on a GPU: ", found.why_not, "."));
  return found.calls;
}

void check(Result result, const char* doing) {
  if (result == kSuccess) [[likely]]
    return;
  const std::string text = concat("CUDA, ", doing, ": ", text_of(opened().calls, result));
  switch (result) {
    // Mistakes in a call, which are braze's.
    case kInvalidValue:
    case kNotInitialized:
    case kInvalidContext:
    case kInvalidHandle:
    case kNotFound: throw InternalError(text);
    default: throw UserError(concat(text, "."));
  }
}

std::string name_of(int device) {
  std::array<char, 256> name{};
  int handle = 0;
  check(driver().cuDeviceGet(&handle, device), "finding a device");
  check(driver().cuDeviceGetName(name.data(), static_cast<int>(name.size()), handle), "asking a device's name");
  return name.data();
}

void ensure_context(int device) {
  const Driver& calls = driver();
  Context context = nullptr;
  check(calls.cuCtxGetCurrent(&context), "asking for the context");
  if (context) return;
  int handle = 0;
  check(calls.cuDeviceGet(&handle, device), "finding a device");
  check(calls.cuDevicePrimaryCtxRetain(&context, handle), "setting up a device");
  check(calls.cuCtxSetCurrent(context), "choosing a device");
}

}  // namespace braze::device::cuda
