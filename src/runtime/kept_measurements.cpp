#include "runtime/kept_measurements.h"

#include <mutex>
#include <unordered_map>

#include "cache/disk_cache.h"

namespace braze::runtime {

namespace {

struct Known {
  std::mutex mutex;
  std::unordered_map<Hash128, std::string> measurements;
};

Known& known() {
  static auto* known = new Known;  // never freed: programs may be compiled while the process ends
  return *known;
}

}  // namespace

std::optional<std::string> find_measurement(const Hash128& key, bool on_disk) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.measurements.find(key); found != all.measurements.end()) return found->second;
  if (!on_disk) return std::nullopt;
  const auto blob = cache::DiskCache::standard().get(key);
  if (!blob) return std::nullopt;
  return all.measurements.emplace(key, std::string(blob->data(), blob->size())).first->second;
}

void keep_measurement(const Hash128& key, const std::string& fastest, bool on_disk) {
  Known& all = known();
  {
    const std::lock_guard lock(all.mutex);
    all.measurements.insert_or_assign(key, fastest);
  }
  if (on_disk) cache::DiskCache::standard().put(key, fastest);
}

}  // namespace braze::runtime
