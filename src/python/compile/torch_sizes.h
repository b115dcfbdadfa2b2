// python/compile/torch_sizes.h: sizes and numbers of one run that are symbols of its trace.
#pragma once

#include <Python.h>

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/trace.h"
#include "python/compile/compiled_function.h"
#include "python/compile/drawn_numbers.h"
#include "python/compile/size_history.h"
#include "python/guards/guard.h"
#include "python/interpreter/watch/scalar_world.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::python {

/// What earlier captures have found that is no size.
class FoundBefore : public interpreter::SizeWorld {
 public:
  /// \param history  null: nothing is known of earlier captures.
  explicit FoundBefore(SizeHistory* history) : history_(history) {}

  bool stay_numbers() const override { return history_ && history_->stays_numbers(); }
  bool is_replaced(PyObject* object, const guards::Source* source) override {
    return history_ && history_->note_object(guards::to_text(source), object);
  }

 protected:
  SizeHistory* const history_;
};

class TorchSizes final : public FoundBefore, public interpreter::ScalarWorld {
 public:
  using DerivedNumber = interpreter::DerivedNumber;
  /// \param history  of sizes; null: none varies.
  TorchSizes(capture::Tracer& tracer, guards::GuardSet& guards, SizeHistory* history, Dynamic dynamic)
      : FoundBefore(history), tracer_(tracer), guards_(guards), dynamic_(dynamic) {}

  ~TorchSizes() override;
  TorchSizes(const TorchSizes&) = delete;
  TorchSizes& operator=(const TorchSizes&) = delete;

  bool has_sizes() const override;
  PyObject* tracer_of(PyObject* tensor) const override;
  std::optional<ir::Size> length_of(PyObject* tensor) const override;
  PyObject* behind_tracer(PyObject* tracer) const override;
  void settle(PyObject* tensor) override;
  interpreter::Ref to_symbolic(ir::Size size) const override;
  interpreter::Ref to_number(ir::Size size, PyObject* beside) const override;
  bool holds_sizes(PyObject* tensor) const override;
  bool is_number(PyObject* tensor) const override;
  std::optional<ir::Size> from_symbolic(PyObject* object) const override;
  int64_t value_of(ir::Size size) const override;
  bool decide(const ir::SizeTest& test) override;
  std::optional<ir::Size> vary_number(PyObject* number, const guards::Source* source) override;
  interpreter::Ref select(PyObject* tensor, int64_t dim, ir::Size index) override;
  DerivedNumber vary_float(PyObject* number, const guards::Source* source) override;
  std::optional<ir::Size> derive(const DerivedNumber& derived, PyObject* value) override;
  interpreter::Ref to_number(const DerivedNumber& derived, PyObject* value, PyObject* beside) override;
  interpreter::Ref to_scalar(const DerivedNumber& derived, PyObject* value, PyObject* beside,
                             std::string_view name) override;
  bool is_operator_object(PyObject* callable) const override;
  std::string_view operator_of_tensors(PyObject* operator_object) const override;
  void expect_integers(std::string_view name, bool in_lists) override;
  interpreter::Parameter parameter(std::string_view name, size_t place, std::string_view keyword) const override;
  interpreter::Ref element(PyObject* number, const ir::Size* size, const DerivedNumber& derived,
                           interpreter::ElementType type) override;
  interpreter::Ref stack(const std::vector<interpreter::Ref>& parts) override;
  interpreter::Ref other_of_its_type(PyObject* tensor) override;
  void settle_scalars() override;
  interpreter::Ref value_of(const guards::Derived& derived) const override;
  void decide(const DerivedNumber& derived, PyObject* value) override;

  /// Sizes of what a call or frame is given may turn out to vary: by its marks, or since there was a capture
  /// before.
  bool may_vary(std::span<PyObject* const> given) const;
  /// Of a tensor that is an argument of the graph: its sizes and strides are expressions.
  bool varies(const guards::Source* source) const { return varied_sources_.contains(source); }
  /// What a symbol stands for that is no size of a tensor: a number that was read, or that is computed of others.
  struct SymbolNumber {
    const guards::Source* source = nullptr;
    DerivedNumber derived = nullptr;
    guards::DerivedPart part = guards::DerivedPart::whole;
  };
  /// In the order of the symbols.
  const std::vector<SymbolNumber>& numbers() const { return numbers_; }
  /// Where the floats are read that vary, by their numbers.
  const std::vector<const guards::Source*>& floats() const { return floats_; }
  /// An argument of the graph that stands for such a float, or for what is computed of some.
  struct FloatArgument {
    size_t place;  ///< Among the graph's arguments.
    DerivedNumber derived;
    at::Tensor example, tracer;
  };
  /// By place.
  const std::vector<FloatArgument>& float_arguments() const { return float_arguments_; }
  /// A tensor has become an argument of the graph.
  void note_argument() { ++tensor_arguments_; }
  /// What was decided of numbers that are computed.
  const std::vector<guards::DerivedTest>& tests() const { return tests_; }

  /// The sizes of an argument may be symbols, and are none yet.
  bool may_learn(PyObject* tensor) const { return history_ && !tracers_.contains(tensor); }
  /// Adds the guards on such an argument, before the tracer knows it.
  bool learn(PyObject* tensor, const guards::Source* source, const std::string& name);
  /// When the tracer knows it.
  void keep_tracer(PyObject* tensor, const guards::Source* source);

 private:
  /// What the float is of symbols: the first / the second / the second.
  std::optional<std::pair<ir::Size, ir::Size>> quotient_of(const DerivedNumber& derived, PyObject* value);
  at::Tensor number_of(const DerivedNumber& derived, PyObject* value, PyObject* beside);
  at::Tensor float_argument(const DerivedNumber& derived, double value);
  std::optional<ir::Size> symbol_of(const DerivedNumber& derived, guards::DerivedPart part, PyObject* value);

  capture::Tracer& tracer_;
  guards::GuardSet& guards_;
  const Dynamic dynamic_;
  std::unordered_map<PyObject*, guards::Ref> tracers_;  ///< Of tensors whose sizes vary.
  std::unordered_set<const guards::Source*> varied_sources_;
  std::vector<SymbolNumber> numbers_;
  std::vector<guards::DerivedTest> tests_;
  std::vector<const guards::Source*> floats_;
  std::vector<double> float_values_;  ///< In this call.
  DrawnNumbers draws_{history_};
  std::vector<FloatArgument> float_arguments_;
  size_t tensor_arguments_ = 0;
  std::map<std::pair<std::string, guards::DerivedPart>, ir::Size> derived_;  ///< Symbols, by what they are.
};

}  // namespace braze::python
