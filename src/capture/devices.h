// capture/devices.h: on which device a call computes.
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "ir/graph.h"

namespace braze::capture {

/// A graph's device as PyTorch says it.
c10::Device to_torch(ir::Device device);

/// A tensor on a CUDA device has been traced in this process: from then on what holds for those is looked at, too.
bool has_met_cuda() noexcept;
void has_met(c10::Device device);
/// The number of the CUDA device that was current then.
c10::DeviceIndex first_cuda_device() noexcept;

/// `device` as tensors there say it: "cuda" is the current one, and the CPU has no number. Makes a guard on which
/// the current one is (guards/torch_state.cpp).
c10::Device numbered(c10::Device device);

/// The device that eager computes a call of these arguments on, and whether a kernel can do it: not where tensors
/// on several devices meet, but for numbers that lie on the CPU as tensors without dimensions.
struct CallDevice {
  std::optional<c10::Device> device;  ///< None: no argument is a tensor.
  bool is_one = true;                 ///< Of all tensors, but for those on the CPU without dimensions.
  bool has_numbers = false;           ///< There are such, beside tensors on another device.
};
CallDevice device_of(std::span<const c10::IValue> arguments);

}  // namespace braze::capture
