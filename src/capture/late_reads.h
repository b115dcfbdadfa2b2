// capture/late_reads.h: what the backward of a function has read of the program around it when it was recorded.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace braze::capture {

/// Numbers and texts that it reads by name. Eager reads them when the backward runs, a capture when the forward
/// does.
class LateReads {
 public:
  virtual ~LateReads() = default;
  /// As they are when a forward has run.
  class Values {
   public:
    virtual ~Values() = default;
    /// Before its backward: what to raise where one of them is another by now, of which the recorded backward knows
    /// nothing. Empty: none is.
    virtual std::string difference() const = 0;
  };
  virtual std::unique_ptr<const Values> read() const = 0;
};

using ReadValues = std::vector<std::unique_ptr<const LateReads::Values>>;

/// Of several functions. Not under a node's lock: it asks Python.
inline std::string difference(const ReadValues& all) {
  std::string changed;
  for (size_t k = 0; k < all.size() && changed.empty(); ++k) changed = all[k]->difference();
  return changed;
}

}  // namespace braze::capture
