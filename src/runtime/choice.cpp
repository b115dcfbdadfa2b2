#include "runtime/choice.h"

#include <cpuid.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "cache/disk_cache.h"
#include "runtime/program.h"
#include "support/error.h"
#include "target/target.h"

namespace braze::runtime {

namespace {

constexpr int wanted_samples = 4;
constexpr int64_t budget = 20;  // Trials may cost one part in so many.
constexpr int64_t feared = 2;   // How many times as long as the best an unknown method is thought to take.
// A change of method must be worth more than noise.
constexpr double advantage = 0.97;

}  // namespace

const Hash128& measured_on() {
  static const Hash128 key = [] {
    Hasher hasher;
    hasher.add(BRAZE_TORCH_VERSION).add(Target::host().name());
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

ThreadedChoice& shared_choice(const Hash128& key, std::span<const Choice::Method> methods, int threads,
                              bool use_disk_cache) {
  // Of the process, because a measurement is about the machine; never freed, because programs point into it.
  static std::mutex mutex;
  static auto& entries = *new std::unordered_map<Hash128, std::unique_ptr<ThreadedChoice>>();
  const Hash128 threaded = Hasher().add(measured_on()).add(key).add(threads).finish();
  std::lock_guard lock(mutex);
  std::unique_ptr<ThreadedChoice>& entry = entries[threaded];
  if (!entry) entry.reset(new ThreadedChoice{threads, {threaded, methods, use_disk_cache}});
  return *entry;
}

Choice::Choice(const Hash128& key, std::span<const Method> methods, bool use_disk_cache)
    : key_(key), use_disk_cache_(use_disk_cache) {
  for (const Method& method : methods) timings_.push_back({method});
  BRAZE_CHECK(std::ranges::any_of(methods, &Method::possible), "a choice of nothing");
  if (!use_disk_cache_) return;
  const auto blob = cache::DiskCache::standard().get(key_);
  if (!blob) return;
  const std::string_view kept(blob->data(), blob->size());
  for (size_t i = 0; i < methods.size(); ++i)
    if (methods[i].name == kept && methods[i].possible) decided_ = static_cast<uint8_t>(i);
}

size_t Choice::next() {
  if (const uint8_t method = decided_.load(std::memory_order_acquire); method != undecided) return method;
  std::lock_guard lock(mutex_);
  const Timing& best = best_known();
  const Timing* next = nullptr;
  for (const Timing& timing : timings_)
    if (timing.method.possible && timing.samples < wanted_samples && (!next || timing.samples < next->samples))
      next = &timing;
  if (best.samples == 0 || !next) return static_cast<size_t>(&best - timings_.data());
  const int64_t cost = next->samples > 0 ? next->best - best.best : (feared - 1) * best.best;
  const bool affordable = extra_ + cost <= spent_ / budget;
  return static_cast<size_t>((affordable ? next : &best) - timings_.data());
}

/// The fastest so far; before any measurement what is expected to be.
const Choice::Timing& Choice::best_known() const {
  const Timing* best = nullptr;
  for (const Timing& timing : timings_) {
    if (!timing.method.possible) continue;
    const bool better = best && (timing.best < best->best || (best->samples == 0 && timing.method.expected));
    if (!best || better) best = &timing;
  }
  return *best;
}

void Choice::record(size_t method, int64_t nanoseconds) {
  std::lock_guard lock(mutex_);
  Timing& timing = timings_[method];
  const Timing& known = best_known();
  spent_ += nanoseconds;
  if (&known != &timing && known.samples > 0) extra_ += std::max<int64_t>(0, nanoseconds - known.best);
  ++timing.samples;
  timing.best = std::min(timing.best, nanoseconds);
  int64_t best = INT64_MAX;
  for (const Timing& each : timings_) best = std::min(best, each.best);
  // The first time includes what a library prepares once a size.
  for (Timing& each : timings_)
    if (each.samples >= 2 && each.best / 2 > best) each.method.possible = false;
  settle();
}

void Choice::exclude(size_t method) {
  std::lock_guard lock(mutex_);
  timings_[method].method.possible = false;
  settle();
}

void Choice::settle() {
  const auto left = std::ranges::count_if(timings_, [](const Timing& each) { return each.method.possible; });
  const Timing* best = nullptr;
  for (const Timing& timing : timings_) {
    if (!timing.method.possible) continue;
    if (timing.samples < wanted_samples && left > 1) return;
    if (!best || static_cast<double>(timing.best) < advantage * static_cast<double>(best->best)) best = &timing;
  }
  if (!best || decided_.load(std::memory_order_relaxed) != undecided) return;
  decided_.store(static_cast<uint8_t>(best - timings_.data()), std::memory_order_release);
  if (use_disk_cache_) cache::DiskCache::standard().put(key_, best->method.name);
}

}  // namespace braze::runtime
