#include "codegen/memory_cache.h"

namespace braze::codegen {

namespace {
Hash128 key_of(const Hash128& structure, const Target& target) {
  return {structure.low ^ (static_cast<uint64_t>(target.isa) + 1), structure.high};
}
}  // namespace

MemoryCache& MemoryCache::instance() {
  // Never destroyed: programs held by other static objects may outlive any order of destruction.
  static MemoryCache& cache = *new MemoryCache;
  return cache;
}

std::shared_ptr<const CompiledKernel> MemoryCache::find(const Hash128& structure, const Target& target) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key_of(structure, target));
  if (found == entries_.end()) return nullptr;
  used_.splice(used_.begin(), used_, found->second);
  return found->second->kernel;
}

std::shared_ptr<const CompiledKernel> MemoryCache::insert(const Hash128& structure, const Target& target,
                                                          std::shared_ptr<const CompiledKernel> kernel) {
  const Hash128 key = key_of(structure, target);
  std::shared_ptr<const CompiledKernel> dropped;  // unmapped after the lock is given back
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) return found->second->kernel;
  used_.push_front({key, std::move(kernel)});
  entries_.emplace(key, used_.begin());
  if (used_.size() > kLimit) {
    dropped = std::move(used_.back().kernel);
    entries_.erase(used_.back().key);
    used_.pop_back();
  }
  return used_.front().kernel;
}

void MemoryCache::clear() {
  std::list<Entry> dropped;
  const std::lock_guard lock(mutex_);
  entries_.clear();
  dropped.swap(used_);
}

}  // namespace braze::codegen
