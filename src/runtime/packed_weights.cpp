#include "runtime/packed_weights.h"

#include <c10/util/intrusive_ptr.h>
#include <pthread.h>

#include <atomic>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace braze::runtime {

namespace detail {

struct PackedCopy {
  explicit PackedCopy(const at::Tensor& weight)
      : tensor(weight.getIntrusivePtr()), storage(weight.storage().getWeakStorageImpl()) {}

  // Weak: they keep the addresses, not the memory.
  const c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  at::Tensor copy;  ///< Written once, before `ready`, and dropped when nobody can ask for it: the tensor is dead.
  std::atomic<int64_t> bytes{0};
  std::atomic<bool> ready{false};
  std::atomic<bool> stale{false};  ///< Forgotten.
};

}  // namespace detail

namespace {

using detail::PackedCopy;
using detail::WeightState;

struct Key {
  WeightState state;
  Hash128 format;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    // Of a weight there are few copies.
    return std::hash<const void*>()(key.state.tensor) * 31 + key.state.version;
  }
};

/// Of the process, so that programs share copies.
struct Registry {
  std::mutex mutex;  ///< Protects `copies`.
  std::unordered_map<Key, std::weak_ptr<PackedCopy>, KeyHash> copies;
  std::atomic<uint64_t> epoch{0};

  /// Forgets what nobody uses any more, and frees the copies of tensors that are dead. \pre locked
  int64_t sweep() {
    int64_t bytes = 0;
    for (auto at = copies.begin(); at != copies.end();) {
      const std::shared_ptr<PackedCopy> copy = at->second.lock();
      const bool dead = !copy || copy->tensor.expired();
      if (copy && dead && copy->ready) {
        copy->copy.reset();
        copy->bytes = 0;
      }
      if (copy) bytes += copy->bytes;
      at = dead ? copies.erase(at) : std::next(at);
    }
    return bytes;
  }
};

Registry& registry() {
  static auto& all = *new Registry();  // Never freed: programs may end after static objects.
  // A child must not inherit the lock of a thread that it has not.
  static const int told_of_forks =
      pthread_atfork([] { all.mutex.lock(); }, [] { all.mutex.unlock(); }, [] { all.mutex.unlock(); });
  static_cast<void>(told_of_forks);
  return all;
}

/// Nothing for a tensor whose changes cannot be seen.
std::optional<WeightState> state_of(const at::Tensor& weight) {
  if (weight.is_inference() || !weight.has_storage()) return std::nullopt;
  return WeightState{weight.unsafeGetTensorImpl(),
                     weight.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), weight.const_data_ptr(),
                     weight.unsafeGetTensorImpl()->version_counter().current_version(),
                     registry().epoch.load(std::memory_order_acquire)};
}

}  // namespace

void forget_packed_weights() {
  Registry& all = registry();
  all.epoch.fetch_add(1, std::memory_order_acq_rel);
  const std::lock_guard lock(all.mutex);
  all.sweep();
  all.copies.clear();
}

void forget_packed_weights(c10::ArrayRef<at::Tensor> weights) {
  Registry& all = registry();
  std::unordered_set<const void*> storages;
  const std::lock_guard lock(all.mutex);
  if (all.copies.empty()) return;
  for (const at::Tensor& weight : weights)
    if (weight.has_storage())
      storages.insert(weight.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  std::erase_if(all.copies, [&](const auto& entry) {
    if (!storages.contains(entry.first.state.storage)) return false;
    if (const auto copy = entry.second.lock()) copy->stale.store(true, std::memory_order_release);
    return true;
  });
}

int64_t packed_weight_bytes() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.sweep();
}

bool PackedWeight::stays(const at::Tensor& weight) const {
  const auto state = state_of(weight);
  if (!state) return false;
  const std::lock_guard lock(mutex_);
  if (copy_ && copy_->stale.load(std::memory_order_acquire)) copy_.reset();
  if (seen_ == *state) return true;
  seen_ = *state;
  copy_.reset();
  return false;
}

at::Tensor PackedWeight::copy(const at::Tensor& weight, const std::function<at::Tensor()>& make) const {
  const auto state = state_of(weight);
  if (!state) return {};
  {
    const std::lock_guard lock(mutex_);
    if (seen_ != *state) {
      seen_ = *state;
      copy_.reset();
      return {};
    }
    if (copy_ && copy_->stale.load(std::memory_order_acquire)) copy_.reset();
    if (copy_) return copy_->ready.load(std::memory_order_acquire) ? copy_->copy : at::Tensor();
  }
  Registry& all = registry();
  const Key key{*state, format_};
  std::shared_ptr<PackedCopy> copy;
  bool mine = false;
  {
    const std::lock_guard lock(all.mutex);
    all.sweep();
    std::weak_ptr<PackedCopy>& entry = all.copies[key];
    copy = entry.lock();
    if (!copy) {
      copy = std::make_shared<PackedCopy>(weight);
      entry = copy;
      mine = true;
    }
  }
  if (mine) {
    at::Tensor made = make();
    // Written to meanwhile, or forgotten: the copy may hold both old and new numbers.
    if (state_of(weight) != state || copy->stale.load(std::memory_order_acquire)) return {};
    copy->bytes = static_cast<int64_t>(made.numel() * made.element_size());
    copy->copy = std::move(made);
    copy->ready.store(true, std::memory_order_release);
  }
  const std::lock_guard lock(mutex_);
  if (seen_ == *state) copy_ = copy;
  return copy->ready.load(std::memory_order_acquire) ? copy->copy : at::Tensor();
}

void PackedWeight::release() const {
  const std::lock_guard lock(mutex_);
  copy_.reset();
}

int64_t PackedWeight::bytes() const {
  const std::lock_guard lock(mutex_);
  return copy_ ? copy_->bytes.load() : 0;
}

}  // namespace braze::runtime
