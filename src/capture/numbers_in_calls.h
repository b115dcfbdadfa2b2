// capture/numbers_in_calls.h: numbers that inputs decide (capture/number.h), as plain arguments of operators.
//
//   F.elu(x, alpha=n / 8)           a number in the schema: rules take it as an operand, library calls as
//                                   wrapped($1)
//   F.layer_norm(x, d, eps=1e-5*n)  a double: PyTorch's parser asks for its value, and the value that it got is
//                                   known by its bits, and becomes the number again, before the operator is called
//
// Whoever else asks for the value of such a number makes the program one for this value.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "capture/dim.h"

namespace braze::capture {

/// CallPayload::Slot::element, where the argument is the number that the operand holds.
constexpr int32_t kNumberSlot = -2;

/// A size where the operator's schema says that it takes an int, or a list of ints: rules and library calls take it
/// as any other size, and C++ code of PyTorch's wants the value.
bool has_size_as_integer(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments);
/// Lists of ints have numbers only: nothing else takes them apart where the tracer does not.
void fix_lists_of_integers(const c10::OperatorHandle& op, std::span<c10::IValue> arguments);

/// A number whose value in this call is known.
struct NumberInCall {
  double value;
  std::function<void()> fix;  ///< Makes the program one for this value.
  std::string name;           ///< Of the operator that it is an argument of: "aten::elu".
  /// What it is of the graph's symbols, if it is: significand / divisor / divisor.
  std::optional<std::pair<ir::Size, ir::Size>> quotient = {};
};
c10::SymFloat to_sym_float(const at::Tensor& number, NumberInCall call);
/// The node of such a float in what PyTorch can cast to Python: it casts no floats but Python's own.
c10::SymInt node_as_int(const c10::SymFloat& number);

/// Such a number is the argument.
bool can_be_fixed(const c10::IValue& value);
/// Its value in this call, for who asks for what does not depend on it; nullopt if it is no such number.
std::optional<double> example_behind(const c10::IValue& value);

/// What it is of the graph's symbols; nullopt if it is no such number.
std::optional<std::pair<ir::Size, ir::Size>> quotient_behind(const c10::IValue& value);

/// Thrown where the value of such a number, or of a size, is asked for within a rule: the call is none that the
/// rule knows.
struct NumberWanted {};
class WithinRule {
 public:
  WithinRule() : outer_(std::exchange(current_, true)) {}
  ~WithinRule() { current_ = outer_; }
  WithinRule(const WithinRule&) = delete;
  WithinRule& operator=(const WithinRule&) = delete;
  static bool current() { return current_; }
  static bool refuses_sizes();

 private:
  static thread_local bool current_;
  bool outer_;
};
/// Rules that ask for a size are told it, and the program is one for this size; or they are refused.
class SizesForRules {
 public:
  explicit SizesForRules(bool refused) : outer_(std::exchange(refused_, refused)) {}
  ~SizesForRules() { refused_ = outer_; }
  SizesForRules(const SizesForRules&) = delete;
  SizesForRules& operator=(const SizesForRules&) = delete;

 private:
  friend class WithinRule;
  static thread_local bool refused_;
  bool outer_;
};
inline bool WithinRule::refuses_sizes() {
  return current_ && SizesForRules::refused_;
}

/// What PyTorch's parser has made of such numbers, on their way to an operator of this thread.
class ParsedNumbers {
 public:
  /// Until fix(): who asks outside of operators is the parser.
  static void expect();
  /// Likewise of sizes, where the operator's schema says that it takes ints. \param in_lists  the caller has lists
  /// among the arguments with sizes in them.
  static void expect_integers(std::string name, bool in_lists);
  /// The parser asks for a size: it may be told this call's.
  static bool asks_for_integer(Dim size);
  /// What the parser has asked for becomes the number again. Those that are not found are fixed.
  static void put(const c10::OperatorHandle& op, std::span<c10::IValue> arguments);
  /// Those that no operator was given: their values were seen otherwise.
  static void fix();
  static void forget();

  /// An operator runs: who asks now is no parser.
  class OperatorScope {
   public:
    OperatorScope();
    ~OperatorScope();
    OperatorScope(const OperatorScope&) = delete;
    OperatorScope& operator=(const OperatorScope&) = delete;
    bool is_outermost() const;
  };
};

}  // namespace braze::capture
