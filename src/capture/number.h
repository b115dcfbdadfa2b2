// capture/number.h: numbers that inputs decide, where eager has a Python float.
//
// Such a number is a tracer without dimensions, of f64 and marked as a wrapped number: it takes part in arithmetic
// as a Python float does, and arithmetic among numbers gives numbers (Recorder::deliver). An operator that wants a
// plain number, as the `alpha` of add, is given the tracer as c10::SymFloat, which rules take as an operand. Who
// asks such a number for its value ends the graph.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace braze::capture {

/// The one element of `tensor`, as a number. The tensor may be written to afterwards.
at::Tensor to_number(const at::Tensor& tensor);
/// A tracer that stands for a number, and whose value the trace does not know.
bool is_number(const at::Tensor& tensor);

c10::SymFloat to_sym_float(const at::Tensor& number);
/// A node of a c10::SymFloat that operators may take as a number of the trace.
class HasNumber {
 public:
  virtual ~HasNumber() = default;
  /// Undefined: it is known, and no number of the trace.
  virtual at::Tensor number_of_trace() const = 0;
};
/// The number behind an argument of an operator; undefined if it is none.
at::Tensor number_behind(const c10::IValue& value);

}  // namespace braze::capture
