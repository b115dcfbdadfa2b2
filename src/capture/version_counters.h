// capture/version_counters.h: which tensors count their writes together.
#pragma once

#include <ATen/ATen.h>

namespace braze::capture {

/// One counter counts the writes to both. (Counters do not say which they are: it is moved, and put back.)
inline bool share_version(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_inference() || b.is_inference() || a._version() != b._version()) return false;
  auto& counter = const_cast<c10::VariableVersion&>(a.unsafeGetTensorImpl()->version_counter());
  const uint32_t before = counter.current_version();
  counter.set_version(before + 1);
  const bool moved = b._version() == before + 1;
  counter.set_version(before);
  return moved;
}

}  // namespace braze::capture
