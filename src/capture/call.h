// capture/call.h: one call of an operator, as its rule sees it: arguments in, nodes and results out.
#pragma once

#include "capture/recorder.h"
#include "capture/shapes.h"
#include "capture/types.h"

namespace braze::capture {

using c10::ScalarType;
using ir::DType;
using ir::Op;

/// A tensor or number that takes part in arithmetic.
struct Operand {
  ir::Value* value = nullptr;  ///< Null: `number`.
  c10::Scalar number;
  ScalarType dtype = ScalarType::Undefined;
  Rank rank = Rank::dimensioned;
  Sizes sizes, strides;
  bool is_mask = false;  ///< Taken as it is, where other operands are converted to a common type.

  bool is_number() const { return value == nullptr; }
};

class Call {
 public:
  Call(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments)
      : recorder(recorder), entry(entry), arguments(arguments) {}

  // ---- arguments, by their place in the functional schema
  const c10::IValue& arg(size_t i) const { return arguments[i]; }
  bool has(size_t i) const;  ///< Given: not None, not an undefined tensor.
  const at::Tensor& tensor(size_t i) const { return arguments[i].toTensor(); }
  int64_t integer(size_t i) const { return arguments[i].toInt(); }
  Dim dim(size_t i) const;  ///< A size among the arguments.
  bool flag(size_t i) const { return arguments[i].toBool(); }
  double real(size_t i) const { return arguments[i].toScalar().toDouble(); }
  c10::Scalar number(size_t i) const { return arguments[i].toScalar(); }
  Sizes ints(size_t i) const;     ///< A list of sizes; one integer is a list of one; None is empty.
  Places places(size_t i) const;  ///< Likewise, of dimensions: numbers.
  std::optional<ScalarType> dtype(size_t i) const;  ///< None: nullopt.
  /// A tensor or number. Nullopt if no kernel computes with it (complex, sparse, ...).
  std::optional<Operand> operand(size_t i);
  std::optional<Operand> operand_of(const at::Tensor& tensor);
  static Operand operand_of(const c10::Scalar& number);

  /// Of the tensors among the arguments. False: they are on several, and no kernel reads them all.
  bool settle_device();

  // ---- building
  ir::Graph& graph() { return recorder.graph(); }
  c10::Device device() const { return device_.value_or(c10::Device(c10::kCPU)); }
  /// Of what is made from nothing.
  void set_device(c10::Device device) { device_ = device; }
  const ir::Type* type(ScalarType dtype, DimsRef sizes, DimsRef strides) {
    return recorder.type(dtype, device(), sizes, strides);
  }
  const ir::Type* contiguous(ScalarType dtype, DimsRef sizes);
  /// `like` with another element type.
  const ir::Type* retyped(const ir::Type* like, DType dtype);
  ir::Value* scalar(ScalarType dtype, const c10::Scalar& number);
  /// The operand as elements of `dtype`, not broadcast. A number becomes a scalar node.
  ir::Value* as(const Operand& operand, ScalarType dtype);
  ir::Value* cast(ir::Value* value, DType dtype);
  /// A copy in the layout of `type`.
  ir::Value* copy(ir::Value* value, const ir::Type* type);
  ir::Value* node(Op op, std::initializer_list<ir::Value*> operands, const ir::Type* type,
                  std::initializer_list<ir::Attr> attrs = {});
  /// A node was made of what the device's code generator cannot compute: the rule does not count.
  bool lacks_code() const { return lacks_code_; }
  /// A value of `type` whose elements are all `number`.
  ir::Value* full(const ir::Type* type, const c10::Scalar& number);

  // ---- results, in order
  bool give(ir::Value* value);          ///< In memory of its own. True, to end a rule with.
  bool give_tensor(c10::IValue value);  ///< Ready made: views, lists, numbers.
  /// The geometry that the result is written into, if it is written into a tensor of these sizes.
  const ir::Type* target(DimsRef sizes) const;

  struct Result {
    ir::Value* value;
    c10::IValue ready;
  };
  Recorder& recorder;
  const OpEntry& entry;
  std::span<const c10::IValue> arguments;
  c10::SmallVector<Result, 3> results;

 private:
  /// On the device of the call: a number that lies on the CPU as a tensor is one there.
  ir::Value* moved(const at::Tensor& tensor);
  bool lacks_code_ = false;
  std::optional<c10::Device> device_;
};

ScalarType to_scalar_type(DType dtype);

/// promote() over operands.
ScalarType promoted(std::span<const Operand> operands);
ScalarType promoted(std::initializer_list<const Operand*> operands);
/// The element type for functions that turn integers into floats.
ScalarType floating(ScalarType dtype);

/// Sizes and strides that TensorIterator gives a fresh result of these operands (null: none), which it converts to
/// the type that it computes in before it looks at how they lie. Nullopt if they do not broadcast.
struct Geometry {
  Sizes sizes, strides;
};
std::optional<Geometry> broadcast(std::initializer_list<const Operand*> operands, ScalarType common);

}  // namespace braze::capture
