// ir/shape_env.h: decisions about sizes: proved, or taken for the example and guarded.
//
//   ShapeEnv env;
//   Size n = env.create_symbol("n", 8, {.range = {2, SizeRange::infinity}});
//   env.decide(equal(n, 1), "model.py:3")           // false, proved: n is at least 2
//   env.decide(at_least(n, 5), "model.py:4")        // true, for 8; guard: n >= 5
//   env.decide(at_least(n, 4), "model.py:9")        // true, proved by that guard
//
// Named after, and like, PyTorch's torch.fx.experimental.symbolic_shapes.ShapeEnv. Rules of capture, passes and
// lowering ask nothing about sizes but through it, so that what a program relies on is what its guards say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/size.h"
#include "ir/size_code.h"
#include "ir/size_table.h"

namespace braze::ir {

/// An expression compared with 0.
struct SizeTest {
  enum class Kind : uint8_t { equal, differs, at_least } kind;
  Size left;
};
SizeTest equal(Size a, Size b);
SizeTest differs(Size a, Size b);
SizeTest at_least(Size a, Size b);  ///< a >= b
SizeTest at_most(Size a, Size b);
SizeTest less(Size a, Size b);
SizeTest greater(Size a, Size b);
SizeTest negation(const SizeTest& test);
/// "n*m >= k + 1"
std::string to_text(const SizeTest& test);

class ShapeEnv {
 public:
  struct Guard {
    SizeTest test;
    std::string why;  ///< Who asked first, for people.
  };

  SizeTable& table() { return table_; }
  /// `example` satisfies `facts`.
  Size create_symbol(std::string_view name, int64_t example, SymbolFacts facts = {});

  /// The answer for all values that the guards so far let through; nullopt if it depends or is not known.
  std::optional<bool> prove(const SizeTest& test);
  /// The answer for the examples. If it is not proved, a guard says that it is so.
  bool decide(const SizeTest& test, std::string_view why);
  /// The size as a number: that of the examples, guarded.
  int64_t specialise(Size size, std::string_view why);
  /// What the caller promises (bounds by mark_dynamic, torch._check): no guard. Throws UserError if the examples
  /// break it.
  void assume(const SizeTest& test);

  /// Its value for the examples.
  int64_t example(Size size) const;
  Size simplify(Size size) { return table_.simplify(size); }
  const std::vector<Guard>& guards() const { return guards_; }
  /// The first guard that these values of the symbols break; nullopt: none.
  std::optional<size_t> broken(std::span<const int64_t> symbols) const;

 private:
  SizeTest canonical(const SizeTest& test);
  void learn(const SizeTest& test);
  void learn_range(Size left, SizeRange range);
  bool solve(Size left);

  SizeTable table_;
  std::vector<int64_t> examples_;
  std::vector<Guard> guards_;
  SizeCode guard_code_;
  std::set<uint32_t> never_zero_;  ///< Ids of expressions that are guarded to differ from 0.
};

}  // namespace braze::ir
