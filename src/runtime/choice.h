// runtime/choice.h: which of several ways to compute the same is fastest on this machine, by measurement.
//
// The best way known runs, and is timed; the others are tried now and then, a few times each, only while what they
// cost more is within a twentieth of the time that all calls have taken. One twice as slow as the best leaves
// early. What comes out is shared by the process and kept on disk through cache::DiskCache.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "support/hash.h"

namespace braze::runtime {

/// Processor and torch version: what measurements hold for. Part of every key.
const Hash128& measured_on();

/// One measurement. Thread-safe.
class Choice {
 public:
  struct Method {
    std::string_view name;  ///< As kept on disk; outlives the choice.
    bool possible = true;
    bool expected = false;  ///< Taken for the best while nothing is measured; at most one.
  };
  /// Decided already if the disk knows `key`. At least one method is possible.
  Choice(const Hash128& key, std::span<const Method> methods, bool use_disk_cache);
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

  bool decided() const { return decided_.load(std::memory_order_acquire) != undecided; }
  /// Index of the method for the next call; to be measured unless decided().
  size_t next();
  /// One call took so long. \pre it succeeded.
  void record(size_t method, int64_t nanoseconds);
  /// The method refused such operands: never again.
  void exclude(size_t method);

 private:
  static constexpr uint8_t undecided = 255;
  struct Timing {
    Method method;
    int samples = 0;
    int64_t best = INT64_MAX;
  };
  void settle();
  const Timing& best_known() const;

  const Hash128 key_;
  const bool use_disk_cache_;
  std::atomic<uint8_t> decided_{undecided};
  std::mutex mutex_;  ///< Protects the rest.
  std::vector<Timing> timings_;
  int64_t spent_ = 0;  ///< Nanoseconds, by all calls so far.
  int64_t extra_ = 0;  ///< Of these, what trials took longer than the best method would have.
};

/// A choice that was made for a number of threads.
struct ThreadedChoice {
  int threads;
  Choice choice;
};

/// The process's choice under `key` and the number of threads; lives as long as the process.
ThreadedChoice& shared_choice(const Hash128& key, std::span<const Choice::Method> methods, int threads,
                              bool use_disk_cache);

}  // namespace braze::runtime
