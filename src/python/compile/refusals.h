// python/compile/refusals.h: captures that came to nothing, by what they were given.
//
// Why: a call with a wrong argument, or one that wants gradients, says nothing about calls with other ones. What
// was given is told apart by a *look*: types, forms of tensors, plain numbers and strings. A look that failed often
// is tried again when the number of its visits has doubled: what it depends on besides may have changed.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

namespace braze::python {

/// Of `values`, any of which may be null, and of the grad mode.
uint64_t look_of(std::span<PyObject* const> values);

class Refusals {
 public:
  bool empty() const { return rows_.empty(); }
  /// Counts a visit: whether a capture is worth trying.
  bool should_try(uint64_t look);
  void failed(uint64_t look);
  void succeeded(uint64_t look);
  void clear() { rows_.clear(); }

 private:
  struct Row {
    uint64_t look;
    uint32_t failures = 0, visits = 0;
  };
  /// The row of the look; beyond a number of them all others share the last.
  Row& row(uint64_t look);

  std::vector<Row> rows_;
};

}  // namespace braze::python
