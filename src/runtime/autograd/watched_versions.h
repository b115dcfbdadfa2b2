// runtime/autograd/watched_versions.h: whether tensors have been written to since.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace braze::runtime {

/// Keeps the counters of tensors, and none of their memory.
class WatchedVersions {
 public:
  void reserve(size_t count) { all_.reserve(count); }
  void add(const at::Tensor& tensor) {
    const c10::VariableVersion& counter = tensor.unsafeGetTensorImpl()->version_counter();
    all_.push_back({counter, counter.enabled() ? counter.current_version() : 0});
  }
  bool is_modified(size_t k) const { return current(k) != expected(k); }
  bool any_is_modified() const {
    return std::ranges::any_of(all_, [](const One& one) { return one.now() != one.expected; });
  }
  uint32_t current(size_t k) const { return all_[k].now(); }
  uint32_t expected(size_t k) const { return all_[k].expected; }

 private:
  struct One {
    c10::VariableVersion counter;
    uint32_t expected;
    uint32_t now() const { return counter.enabled() ? counter.current_version() : 0; }
  };
  std::vector<One> all_;
};

}  // namespace braze::runtime
