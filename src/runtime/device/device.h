// runtime/device/device.h: what a program asks of a device that its kernels run on. One folder a kind of device,
// with the same file names (cpu, cuda); nothing else in runtime/ asks which kind it is.
//
// A GPU works behind the back of whoever calls: what is launched on a stream runs in order, some time later. So
// nothing here waits. Memory is taken from PyTorch's allocators, which give freed memory out again on the same
// stream only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codegen/compiler.h"
#include "runtime/geometry.h"

namespace braze::runtime {

/// What a launch of a kernel that serves all sizes has to know of the present ones.
struct LaunchSizes {
  const std::vector<int64_t>& symbols;  ///< The values of the kernel's symbols; empty: it serves one size.
  int64_t bytes;                        ///< That it moves.
};

/// What may run in place of a kernel: it takes the same pointers and scalars.
struct KernelForm {
  std::shared_ptr<const codegen::CompiledKernel> code;
  std::vector<int64_t> symbols;
};

/// Memory that a kernel writes.
struct WrittenMemory {
  char* begin;
  int64_t bytes;
};

/// Is told when each kernel of a region begins and ends, by its place among those that were added.
class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  virtual void begin(size_t kernel) = 0;
  virtual void end(size_t kernel) = 0;
};

/// Kernels of one device that are started together (loops/regions.h).
class Region {
 public:
  virtual ~Region() = default;
  /// What is added next waits for all before.
  virtual void add_barrier() = 0;
  /// A kernel whose parameters begin at `first_pointer` of the pointers that run() is given.
  virtual void add(const codegen::CompiledKernel& kernel, uint32_t first_pointer,
                   const std::vector<uint64_t>& scalars, const LaunchSizes& sizes) = 0;
  /// Runs all kernels, or puts them on the current stream of the device. `status` as in codegen::PhaseFunction; a
  /// device that reports late has a word of its own.
  virtual void run(void* const* pointers, int64_t* status) const = 0;
  /// The same, one kernel after the other: same results, in more time.
  virtual void run_watched(void* const* pointers, int64_t* status, LaunchWatch& watch) const = 0;

  /// Nanoseconds that each of `forms` takes in place of a kernel, with caches that hold nothing of its data. Waits
  /// for the device. What it writes goes to copies of `written`. Of a kernel for which there are several forms.
  virtual std::vector<int64_t> measure(size_t kernel, std::span<const KernelForm> forms,
                                       std::span<const WrittenMemory> written, void* const* pointers) const = 0;
  /// The kernel runs in this form from now on; calls that have begun may still start the one before.
  virtual void replace(size_t kernel, KernelForm form) = 0;
};

/// A device as one program sees it.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::unique_ptr<Region> make_region() = 0;

  /// A result of this geometry is wanted from every call.
  virtual void expect_result(const Geometry& geometry) = 0;
  /// A new tensor.
  /// \param zeroed  full of zeros, of memory that nobody has touched (PlanBuffer::zeroed); else uninitialised.
  /// \pre expect_result(geometry) was called, if it is not zeroed.
  virtual at::Tensor allocate_result(const Geometry& geometry, bool zeroed) const = 0;
  /// Memory for the temporaries of one call; aligned to 64 bytes at least.
  virtual at::Tensor allocate_temporaries(int64_t bytes) const = 0;
  /// One call after the other may use the same memory for them.
  virtual bool keeps_temporaries() const = 0;

  /// Status words of kernels are read when calls begin and where the stream was waited for, not after each kernel.
  virtual bool reports_late() const = 0;
  /// The status that a kernel has set since the last time, or 0. Does not wait. \pre reports_late()
  virtual int64_t take_status() const = 0;
};

/// Throws UserError where braze has no code for that device.
std::unique_ptr<Device> make_device(c10::Device place);

/// Whether kernels can be generated for the device and run there. If not, `why_not` (null: not wanted) says why.
bool is_supported(c10::Device place, std::string* why_not = nullptr);

}  // namespace braze::runtime
