#include "runtime/device/cuda/status.h"

#include <ATen/ATen.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "capture/tracer_tensor.h"

namespace braze::runtime {

namespace {

constexpr int64_t page_words = 512;

/// Pages of words, handed out one after the other. Never destroyed: the driver may be gone before it.
struct Pages {
  std::mutex mutex;
  at::Tensor page;  ///< The last one.
  std::vector<at::Tensor> full;
  int64_t used = page_words;

  static Pages& instance() {
    static auto* pages = new Pages;
    return *pages;
  }

  int64_t* next() {
    const std::lock_guard lock(mutex);
    if (used == page_words) {
      const capture::RunForReal outside_of_traces;
      if (page.defined()) full.push_back(page);
      page = at::zeros({page_words}, at::TensorOptions().dtype(at::kLong).pinned_memory(true));
      used = 0;
    }
    return page.mutable_data_ptr<int64_t>() + used++;
  }
};

}  // namespace

StatusWord::StatusWord() : word_(Pages::instance().next()) {}

int64_t StatusWord::take() const {
  std::atomic_ref<int64_t> word(*word_);
  if (word.load(std::memory_order_relaxed) == 0) [[likely]]
    return 0;
  return word.exchange(0, std::memory_order_relaxed);
}

}  // namespace braze::runtime
