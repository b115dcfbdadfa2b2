// python/compile/specialisation_cache.h: the specialisations of one place, a function's calls or a segment of a
// frame.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "python/compile/specialisation.h"
#include "runtime/profiler_range.h"
#include "support/error.h"

namespace braze::python {

class SpecialisationCache {
 public:
  using Entry = std::shared_ptr<Specialisation>;

  /// The first that fits and whose guards hold, which comes first from now on; null if there is none.
  /// \param fits    whether a specialisation can be asked at all; cheap.
  /// \param call    gives what its guards are asked with; called when the first one fits.
  /// \param values  become those of its guards.
  template <typename Fits, typename GetCall, typename PyObjects>
  Entry find(Fits&& fits, GetCall&& call, PyObjects& values) {
    std::optional<runtime::ProfilerRange> range;
    if (!entries_.empty() && runtime::is_profiled()) [[unlikely]]
      range.emplace(concat("braze::guards ", entries_.front()->name));
    for (size_t i = 0; i < entries_.size(); ++i) {
      Specialisation& one = *entries_[i];
      if (!fits(one)) continue;
      values.resize(one.guards.wanted());
      if (one.check(call(), values.data()) != guards::GuardProgram::ok) continue;
      if (i > 0) std::rotate(entries_.begin(), entries_.begin() + i, entries_.begin() + i + 1);
      return entries_.front();
    }
    return nullptr;
  }

  void add(Entry one) { entries_.insert(entries_.begin(), std::move(one)); }
  void clear() { entries_.clear(); }
  /// Programs whose tensors or objects have died will never be replayed again.
  void drop_dead() {
    dropped_ += std::erase_if(entries_, [](const Entry& one) { return one->guards.is_dead(); });
  }
  /// How many had died.
  size_t dropped() const { return dropped_; }
  /// No further captures: where each call replaces a tensor, they come to an end as well.
  bool is_full(size_t limit) const {
    constexpr size_t most_dropped = 8;  // Of recompile limits.
    return entries_.size() >= limit || dropped_ >= most_dropped * limit;
  }

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  /// The one used last comes first.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  const Specialisation& front() const { return *entries_.front(); }
  const Specialisation& back() const { return *entries_.back(); }

 private:
  std::vector<Entry> entries_;
  size_t dropped_ = 0;
};

}  // namespace braze::python
