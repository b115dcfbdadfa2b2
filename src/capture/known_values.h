// capture/known_values.h: values of tensors while a trace is recorded, for Python code, or a shape, that depends on
// them.
//
// Those that no input of the trace decides are known beside being recorded; others are computed from the example
// inputs, and the trace is frozen to them.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "capture/registry.h"
#include "ir/graph.h"

namespace braze::capture {

class Recorder;

class KnownValues {
 public:
  explicit KnownValues(Recorder& recorder) : recorder_(recorder) {}
  KnownValues(const KnownValues&) = delete;
  KnownValues& operator=(const KnownValues&) = delete;

  /// The value, on the CPU, if no input decides it and it is small: exact, and free. Undefined otherwise.
  at::Tensor find(const at::Tensor& tensor);
  /// No input decides it.
  void keep(const ir::Value* value, const at::Tensor& real);
  void follow(const OpEntry& entry, std::span<const c10::IValue> arguments, Call& call);

  /// The value, computed from the example inputs, with a warning that it is frozen (none if no input decides it).
  at::Tensor materialize(const at::Tensor& tensor, std::string_view what);
  /// What read a value last that inputs decide: `what` of materialize(). Empty: nothing has.
  const std::string& last_read() const { return last_read_; }

 private:
  void warn_frozen(std::string_view what);
  at::Tensor evaluate(ir::Value* value);

  Recorder& recorder_;
  std::unordered_map<const ir::Value*, at::Tensor> values_;
  std::string last_read_;
};

}  // namespace braze::capture
