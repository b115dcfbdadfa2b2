// capture/registry.h: what is known about each operator, decided once when its kernel is registered.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <span>

#include "ir/graph.h"

namespace braze::capture {

class Call;
struct RuleRow;

/// Records one call as IR nodes or views. False, before anything was written: this call is not one of those that
/// the rule knows (or eager raises), so the operator becomes a `call` node, or raises from PyTorch's own checks.
using Rule = bool (*)(Call& call, const RuleRow& row);

/// One row of a rule table: an operator's functional form. Its in-place form (`name_`) and its out= forms are
/// derived.
struct RuleRow {
  std::string_view name;  ///< "add.Tensor": without namespace, with overload.
  Rule rule;
  ir::Op op = ir::Op::input;  ///< For rules shared by several operators.
  int variant = 0;            ///< Likewise.
};

/// The tables, by topic: rules_*.cpp.
std::span<const RuleRow> pointwise_rules();
std::span<const RuleRow> special_rules();
std::span<const RuleRow> activation_rules();
std::span<const RuleRow> loss_rules();
std::span<const RuleRow> view_rules();
std::span<const RuleRow> bits_rules();
std::span<const RuleRow> copy_rules();
std::span<const RuleRow> reduction_rules();
std::span<const RuleRow> scan_rules();
std::span<const RuleRow> matmul_rules();
std::span<const RuleRow> window_rules();
std::span<const RuleRow> normalisation_rules();
std::span<const RuleRow> batch_norm_rules();
std::span<const RuleRow> factory_rules();
std::span<const RuleRow> indexing_rules();
std::span<const RuleRow> structure_rules();
std::span<const RuleRow> padding_rules();
std::span<const RuleRow> update_rules();
std::span<const RuleRow> pooling_rules();
/// Of PyTorch's backward formulas: activations, normalisations, and what gives parts of a tensor their place in the
/// whole; losses; poolings.
std::span<const RuleRow> backward_rules();
std::span<const RuleRow> loss_backward_rules();
std::span<const RuleRow> pooling_backward_rules();
std::span<const RuleRow> resampling_rules();
std::span<const RuleRow> host_rules();

/// One operator of the dispatcher. Lives until the process ends: kernels point to it.
struct OpEntry {
  enum class Mode : uint8_t {
    functional,
    in_place,  ///< Like the functional form; the result is written into argument 0.
    out,       ///< Like the functional form; results are written into the last `outs` arguments.
  };
  explicit OpEntry(c10::OperatorHandle op) : op(std::move(op)) {}

  c10::OperatorHandle op;
  const RuleRow* rule = nullptr;
  Mode mode = Mode::functional;
  uint32_t arguments = 0, returns = 0, outs = 0;
  bool random = false;  ///< Draws from a generator.
  bool dynamic =
      false;  ///< The data decides the shapes of its results, or it returns a Python value made from data.
  bool passes = false;      ///< Not of the user's program (profiling): runs as if nothing were traced.
  bool writes = false;      ///< Some argument, by its schema.
  bool moves_view = false;  ///< In place on the tensor's sizes and strides, not on its elements (t_, squeeze_).
  bool pure = false;        ///< Writes nothing, draws nothing.
  bool mixes = false;       ///< Takes numbers of the CPU, as tensors without dimensions, beside tensors of a GPU.
};

/// It draws from a generator. Backward operators have PyTorch's tag for that, too, but are given the state of what
/// the forward drew.
bool draws_numbers(const c10::OperatorHandle& op);

/// Arguments that an operator writes: by its schema, and by a table where schemas lie (batch norm's statistics).
bool is_written(const OpEntry& entry, size_t argument, std::span<const c10::IValue> arguments);
/// The operator may write an argument of which its schema does not say so.
bool may_write_unsaid(const c10::OperatorHandle& op);

}  // namespace braze::capture
