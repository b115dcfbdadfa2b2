// runtime/by_sizes.h: what was made for sets of values of symbols, of which those used last are kept. For several
// threads at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "support/error.h"

namespace braze::runtime {

template <typename Made>
class BySizes {
 public:
  /// Null: there is none.
  std::shared_ptr<Made> find(std::span<const int64_t> symbols) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return known(symbols);
  }
  void add(std::span<const int64_t> symbols, std::shared_ptr<Made> made) {
    Rows dropped;  // Destroyed without the lock: that may run Python, whose lock others have who wait for this one.
    const std::lock_guard<std::mutex> lock(mutex_);
    put(symbols, std::move(made), dropped);
  }
  /// What there is for these values, else what `make` gives, which one thread at a time runs.
  /// \param check  called before anything is made, without the lock: it may run Python, whose lock another thread
  ///               has that waits for this one's. Throws if nothing may be made.
  template <typename Check, typename Make>
  std::shared_ptr<Made> find_or_make(std::span<const int64_t> symbols, const Check& check, const Make& make) {
    if (std::shared_ptr<Made> one = find(symbols)) return one;
    check();
    Rows dropped;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::shared_ptr<Made> one = known(symbols)) return one;
    std::shared_ptr<Made> made = make();
    put(symbols, made, dropped);
    return made;
  }
  /// What was asked for last.
  std::shared_ptr<Made> latest() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    BRAZE_CHECK(!all_.empty(), "nothing was made for any sizes");
    return all_.front().made;
  }

 private:
  static constexpr size_t most_kept = 64;
  struct Row {
    std::vector<int64_t> symbols;
    std::shared_ptr<Made> made;
  };
  using Rows = std::list<Row>;

  // With the lock held.
  std::shared_ptr<Made> known(std::span<const int64_t> symbols) {
    const auto found =
        std::ranges::find_if(all_, [&](const Row& row) { return std::ranges::equal(row.symbols, symbols); });
    if (found == all_.end()) return nullptr;
    all_.splice(all_.begin(), all_, found);
    return all_.front().made;
  }
  void put(std::span<const int64_t> symbols, std::shared_ptr<Made> made, Rows& dropped) {
    all_.push_front({{symbols.begin(), symbols.end()}, std::move(made)});
    if (all_.size() > most_kept) dropped.splice(dropped.begin(), all_, std::prev(all_.end()));
  }

  mutable std::mutex mutex_;
  Rows all_;  ///< The one used last comes first.
};

}  // namespace braze::runtime
