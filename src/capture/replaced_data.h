// capture/replaced_data.h: tensors from outside that are given another memory, by `tensor.data = other`.
//
// The tensor itself stays as it is while the trace lasts: what stands for it becomes another view, and the gate has
// every operator read that. Views of its memory that were made before go on being views of the old one.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace braze::capture {

class Recorder;

class ReplacedData {
 public:
  enum class Outcome : uint8_t {
    refused,
    same,   ///< It is what the tensor has already.
    other,  ///< From here on the tensor stands for that memory; what runs the program sets the tensor's own.
  };
  /// Only where nobody can see more of it than the elements: the geometry stays, and it is no view that autograd
  /// knows. Of a tensor whose own counter of versions has not moved.
  Outcome replace(Recorder& recorder, const at::Tensor& real, const at::Tensor& data);
  /// The tensor, or what stands for it.
  bool contains(const at::Tensor& tensor) const;
  bool is_empty() const { return replaced_.empty(); }
  /// Before an operator: throws UserError where it may not be.
  void check(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) const;

 private:
  const bool wants_gradients_ = at::GradMode::is_enabled();  ///< When the trace began.
  /// And what stands for each, both only compared: the recorder holds them.
  std::vector<std::pair<const c10::TensorImpl*, const c10::TensorImpl*>> replaced_;
};

/// Of the gate of this thread: null where there is none.
ReplacedData* replaced_data();

}  // namespace braze::capture
