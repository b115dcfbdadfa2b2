// runtime/device/cuda/stopwatch.h: how long work on a device takes.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace braze::runtime {

/// Nanoseconds that each of `launches` takes on the stream: the median of several turns that they take, each
/// between two events and behind a write of as much memory as the device's caches hold twice over. Those that are
/// much slower than the fastest take fewer turns. Waits for the stream.
std::vector<int64_t> time_with_cold_caches(c10::Device place, void* stream,
                                           std::span<const std::function<void()>> launches);

}  // namespace braze::runtime
