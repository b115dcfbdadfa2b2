// runtime/frame.cpp
#include "runtime/frame.h"

namespace braze::runtime {

void Frame::clear() {
  for (at::Tensor& tensor : owned)
    if (tensor.defined()) tensor.reset();
  arenas.clear();
  realigned.clear();
  stack.clear();
  status = 0;
}

void point_at(const at::Tensor& view, void* address) {
  view.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(address, view.device()));
}

FramePool::~FramePool() {
  clear();
}

void FramePool::clear() {
  delete single_.exchange(nullptr);
  std::lock_guard lock(mutex_);
  others_.clear();
}

std::unique_ptr<Frame> FramePool::take() {
  if (Frame* frame = single_.exchange(nullptr, std::memory_order_acq_rel)) return std::unique_ptr<Frame>(frame);
  std::lock_guard lock(mutex_);
  if (others_.empty()) return nullptr;
  auto frame = std::move(others_.back());
  others_.pop_back();
  return frame;
}

void FramePool::put(std::unique_ptr<Frame> frame) {
  Frame* empty = nullptr;
  if (single_.compare_exchange_strong(empty, frame.get(), std::memory_order_acq_rel)) {
    frame.release();
    return;
  }
  std::lock_guard lock(mutex_);
  others_.push_back(std::move(frame));
}

}  // namespace braze::runtime
