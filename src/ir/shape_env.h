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
#include <span>
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
  const SizeTable& table() const { return table_; }
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

  /// Its value for the examples: also a hint where either choice would be right, which needs no guard.
  int64_t example(Size size) const;
  std::span<const int64_t> examples() const { return examples_; }  ///< By slot.
  /// What create_symbol() was told of the symbol; the table may know more by now.
  const SymbolFacts& declared(uint32_t slot) const { return declared_[slot]; }
  Size simplify(Size size) { return table_.simplify(size); }
  const std::vector<Guard>& guards() const { return guards_; }
  /// The first guard that these values of the symbols break; nullopt: none.
  std::optional<size_t> broken(std::span<const int64_t> symbols) const;

 private:
  SizeTest canonical(const SizeTest& test);
  std::optional<bool> prove_by_operands(Size left);
  void learn(const SizeTest& test);
  void learn_range(Size left, SizeRange range);
  bool solve(Size left);

  SizeTable table_;
  std::vector<int64_t> examples_;
  std::vector<SymbolFacts> declared_;
  std::vector<Guard> guards_;
  SizeCode guard_code_;
  std::set<uint32_t> never_zero_;  ///< Ids of expressions that are guarded to differ from 0.
};

/// What rules ask about sizes. Numbers are compared at once; about expressions a ShapeEnv is asked. Every answer
/// `true` may be relied on. When rules only prove, `false` says that the opposite holds, or that it is not known:
/// ask for what allows something, not for what forbids it.
class SizeRules {
 public:
  /// Of numbers alone.
  SizeRules() = default;
  static SizeRules proving(ShapeEnv* env) { return {env, std::nullopt}; }
  /// What is not proved is decided for the examples, and guarded; `false` may be relied on too.
  static SizeRules deciding(ShapeEnv* env, std::string_view why) { return {env, why}; }

  bool equal(Size a, Size b) const {
    return a == b || (!(a.is_constant() && b.is_constant()) && ask(ir::equal(a, b)));
  }
  bool equal(std::span<const Size> a, std::span<const Size> b) const;
  bool at_least(Size a, Size b) const {
    return a.is_constant() && b.is_constant() ? a.constant() >= b.constant() : ask(ir::at_least(a, b));
  }
  bool at_most(Size a, Size b) const { return at_least(b, a); }
  bool less(Size a, Size b) const { return at_least(b, a + 1); }
  bool differs(Size a, Size b) const {
    return a != b && ((a.is_constant() && b.is_constant()) || ask(ir::differs(a, b)));
  }
  bool answer(const SizeTest& test) const { return ask(test); }
  /// For choices that are both right: the value for the examples.
  int64_t hint(Size size) const;

 private:
  SizeRules(ShapeEnv* env, std::optional<std::string_view> why) : env_(env), why_(why) {}
  bool ask(const SizeTest& test) const;
  ShapeEnv* env_ = nullptr;
  std::optional<std::string_view> why_;  ///< None: prove only.
};

}  // namespace braze::ir
