// capture/ask_shapes.h: what a call of an operator without a rule gives: PyTorch's Meta kernels tell, or the
// operator itself on zeros.
#pragma once

#include <unordered_map>

#include "capture/recorder.h"

namespace braze::capture {

/// What expressions are while shapes are asked for: their values for the example, or for other values of the
/// symbols.
class SizesAt {
 public:
  SizesAt() = default;  ///< Of the example.
  explicit SizesAt(std::span<const int64_t> symbols) : symbols_(symbols) {}

  int64_t operator()(Dim dim) const;
  Places operator()(DimsRef dims) const;
  /// An argument with such sizes as numbers.
  c10::IValue operator()(const c10::IValue& value) const;

 private:
  std::optional<std::span<const int64_t>> symbols_;
};

struct Form {
  Sizes sizes, strides;
};

struct Shapes {
  torch::jit::Stack results;           ///< Meta tensors where tensors come back.
  std::vector<c10::IValue> arguments;  ///< The arguments as meta tensors, resized if the operator did that.
  /// Of those tensors whose sizes or strides are expressions: which (capture/guess_shapes.h).
  std::unordered_map<const c10::TensorImpl*, Form> forms = {};
};

/// A value read by the operator as a plain number stays in the payload; anything else is an operand.
bool is_operand(const at::Tensor& tensor);
bool uses_default_generator(const OpEntry& entry, std::span<const c10::IValue> arguments);
/// The elements of arguments decide the shape of the result, and the call does not say what it is.
bool is_dynamic(const OpEntry& entry, std::span<const c10::IValue> arguments);
/// The elements of one argument decide the shape, and are known: no input decides them.
bool has_known_shape(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments);

/// \param recorder  null: of no trace, and no value is read.
Shapes ask_shapes(Recorder* recorder, const OpEntry& entry, std::span<const c10::IValue> arguments,
                  const SizesAt& at = {});

}  // namespace braze::capture
