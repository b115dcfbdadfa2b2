#include "support/allocations.h"

namespace braze {
namespace {

thread_local Allocations counted;

}  // namespace

Allocations thread_allocations() noexcept {
  return counted;
}
void count_allocation(size_t bytes) noexcept {
  ++counted.count;
  counted.bytes += static_cast<int64_t>(bytes);
}
void adopt_allocations(const Allocations& helper) noexcept {
  counted += helper;
}

}  // namespace braze
