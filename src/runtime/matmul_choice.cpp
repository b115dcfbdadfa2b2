#include "runtime/matmul_choice.h"

#include <cpuid.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <unordered_map>

#include "cache/disk_cache.h"
#include "codegen/target.h"
#include "runtime/program.h"

namespace braze::runtime {

namespace {

constexpr std::string_view names[matmul_method_count] = {"aten", "onednn", "rows", "panels", "packed"};
constexpr int wanted_samples = 4;
// A change of library must be worth more than noise.
constexpr double advantage = 0.97;

/// The four highest bits of a size stay.
int64_t rounded(int64_t size) {
  const int low_bits = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(size))) - 4);
  return size >> low_bits << low_bits;
}

/// Processor, libraries and this table's meaning.
const Hash128& host_key() {
  static const Hash128 key = [] {
    Hasher hasher;
    hasher.add("matmul choice 2").add(BRAZE_TORCH_VERSION).add(codegen::Target::host().name());
    // Hypervisors give several processors one name: the signature tells them apart.
    for (unsigned leaf : {1u, 0x80000002u, 0x80000003u, 0x80000004u}) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      __get_cpuid(leaf, &a, &b, &c, &d);
      hasher.add(a);
      if (leaf != 1) hasher.add(b).add(c).add(d);
    }
    return hasher.finish();
  }();
  return key;
}

}  // namespace

std::string_view name(MatmulMethod method) {
  return names[static_cast<size_t>(method)];
}

Hash128 MatmulShape::bucket(MatmulMethods methods, int threads) const {
  Hasher hasher;
  hasher.add(host_key()).add(methods.to_ulong()).add(threads);
  for (int64_t size : {batch, m, n, k}) hasher.add(rounded(size));
  return hasher.add(a_transposed).add(b_transposed).add(bias).finish();
}

MatmulChoice& MatmulChoice::of(const MatmulShape& shape, MatmulMethods methods, int threads, bool use_disk_cache) {
  // Of the process, because a measurement is about the machine; never freed, because programs point into it.
  static std::mutex mutex;
  static auto& entries = *new std::unordered_map<Hash128, std::unique_ptr<MatmulChoice>>();
  const Hash128 key = shape.bucket(methods, threads);
  std::lock_guard lock(mutex);
  std::unique_ptr<MatmulChoice>& entry = entries[key];
  if (!entry) entry = std::make_unique<MatmulChoice>(key, methods, threads, use_disk_cache);
  return *entry;
}

MatmulChoice::MatmulChoice(const Hash128& key, MatmulMethods methods, int threads, bool use_disk_cache)
    : key_(key), threads_(threads), use_disk_cache_(use_disk_cache), left_(methods) {
  if (!use_disk_cache_) return;
  const auto blob = cache::DiskCache::standard().get(key_);
  if (!blob) return;
  const std::string_view kept(blob->data(), blob->size());
  for (size_t i = 0; i < matmul_method_count; ++i)
    if (names[i] == kept && methods[i]) decided_ = static_cast<uint8_t>(i);
}

MatmulMethod MatmulChoice::next() {
  if (const uint8_t method = decided_.load(std::memory_order_acquire); method != undecided)
    return static_cast<MatmulMethod>(method);
  std::lock_guard lock(mutex_);
  size_t fewest = 0;
  for (size_t i = 0; i < matmul_method_count; ++i)
    if (left_[i] && (!left_[fewest] || timings_[i].samples < timings_[fewest].samples)) fewest = i;
  return static_cast<MatmulMethod>(fewest);
}

void MatmulChoice::record(MatmulMethod method, int64_t nanoseconds) {
  std::lock_guard lock(mutex_);
  Timing& timing = timings_[static_cast<size_t>(method)];
  ++timing.samples;
  timing.best = std::min(timing.best, nanoseconds);
  int64_t best = INT64_MAX;
  for (const Timing& each : timings_) best = std::min(best, each.best);
  // The first time includes what a library prepares once a size.
  for (size_t i = 0; i < matmul_method_count; ++i)
    if (timings_[i].samples >= 2 && timings_[i].best / 2 > best) left_.reset(i);
  settle();
}

void MatmulChoice::exclude(MatmulMethod method) {
  std::lock_guard lock(mutex_);
  left_.reset(static_cast<size_t>(method));
  settle();
}

void MatmulChoice::settle() {
  size_t best = matmul_method_count;
  for (size_t i = 0; i < matmul_method_count; ++i) {
    if (!left_[i]) continue;
    if (timings_[i].samples < wanted_samples && left_.count() > 1) return;
    if (best == matmul_method_count || timings_[i].best < advantage * timings_[best].best) best = i;
  }
  if (decided_.load(std::memory_order_relaxed) != undecided) return;
  decided_.store(static_cast<uint8_t>(best), std::memory_order_release);
  if (use_disk_cache_) cache::DiskCache::standard().put(key_, names[best]);
}

}  // namespace braze::runtime
