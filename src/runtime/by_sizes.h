// runtime/by_sizes.h: what was made for sets of values of symbols, of which those used last are kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

namespace braze::runtime {

template <typename Made>
class BySizes {
 public:
  /// Null: there is none.
  std::shared_ptr<Made> find(std::span<const int64_t> symbols) {
    const auto found =
        std::ranges::find_if(all_, [&](const One& one) { return std::ranges::equal(one.symbols, symbols); });
    if (found == all_.end()) return nullptr;
    all_.splice(all_.begin(), all_, found);
    return all_.front().made;
  }
  void add(std::span<const int64_t> symbols, std::shared_ptr<Made> made) {
    all_.push_front({{symbols.begin(), symbols.end()}, std::move(made)});
    if (all_.size() > most_kept) all_.pop_back();
  }
  /// What was asked for last; null: there is none.
  std::shared_ptr<Made> latest() const { return all_.empty() ? nullptr : all_.front().made; }

 private:
  static constexpr size_t most_kept = 64;
  struct One {
    std::vector<int64_t> symbols;
    std::shared_ptr<Made> made;
  };
  std::list<One> all_;  ///< The one used last comes first.
};

}  // namespace braze::runtime
