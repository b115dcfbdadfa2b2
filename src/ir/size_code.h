// ir/size_code.h: expressions over symbols as flat code: what a call evaluates before it runs.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/size.h"

namespace braze::ir {

/// Values of several expressions at once; what they share is computed once. Copies hold no pointer into a table.
class SizeCode {
 public:
  /// \returns the number of the value in the results of run().
  size_t add(Size size);
  size_t result_count() const { return results_.size(); }

  /// \param symbols  the value of every symbol, by slot.
  /// \param results  result_count() values.
  /// \returns false where a value does not fit into 64 bits or a divisor is not positive.
  bool run(std::span<const int64_t> symbols, std::span<int64_t> results) const;

 private:
  struct Instruction {
    enum class Kind : uint8_t { number, symbol, add, multiply, floor_div, mod, max } kind;
    int64_t number;  ///< number: itself; symbol: its slot.
    uint32_t a, b;   ///< Earlier instructions.
  };
  uint32_t emit(Instruction instruction);
  uint32_t value(Size size);
  std::vector<Instruction> code_;
  std::vector<uint32_t> results_;
  std::unordered_map<uint64_t, uint32_t> known_;  ///< Of sizes, by their bits.
};

}  // namespace braze::ir
