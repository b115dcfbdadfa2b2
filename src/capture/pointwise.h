// capture/pointwise.h: writing elementwise formulas for a rule.
#pragma once

#include "capture/call.h"

namespace braze::capture {

/// A number as kernels take it that read it from a tensor of the common type: rounded to that, for f16 and bf16.
inline Operand narrowed(Operand operand, ScalarType dtype) {
  if (!operand.is_number() || operand.number.isComplex()) return operand;
  const auto value = static_cast<float>(operand.number.toDouble());
  if (dtype == ScalarType::Half) operand.number = static_cast<double>(static_cast<c10::Half>(value));
  if (dtype == ScalarType::BFloat16) operand.number = static_cast<double>(static_cast<c10::BFloat16>(value));
  return operand;
}

/// Nodes of one elementwise operator: those whose operands have the result's shape have its layout, the others are
/// contiguous and as small as their operands. Every formula ends with give(), which converts to the result's dtype.
///   Pointwise p(call, x.dtype, {&x});  p.compute_in_float();
///   ir::Value* v = p.in(x);            return p.give(p.op(Op::mul, v, p.op(Op::sigmoid, v)));
class Pointwise {
 public:
  /// `dtype` is the result's. The operands (null: none) are those that decide the layout: no numbers where eager
  /// has a kernel of its own for them. Not valid() if they do not broadcast.
  Pointwise(Call& call, ScalarType dtype, std::initializer_list<const Operand*> operands);
  bool valid() const { return type_ != nullptr; }
  const ir::Type* type() const { return type_; }

  /// Formulas of several steps for f16 and bf16: eager computes them in f32 and rounds once.
  void compute_in_float();
  void compute_in(DType dtype) { compute_ = call_.retyped(type_, dtype); }

  /// Whether ATen's kernel takes the elements in vectors (all but a rest), or one by one because they do not lie
  /// side by side or are too few. Some functions have two forms there, which differ in which of two zeros is the
  /// larger, or in what overflows on the way. Source: vectorized_loop in ATen/native/cpu/Loops.h, of two vectors a
  /// step. Most kernels are built for those of AVX2 alone, as REGISTER_DISPATCH in ATen/native/DispatchStub.h says.
  enum class Vectors : uint8_t { of_avx2, widest };
  bool in_vectors(Vectors vectors = Vectors::of_avx2) const;
  /// Whether vectors leave a rest that is taken one by one, or may where sizes vary.
  bool leaves_rest() const;

  /// The operand, converted to the type of the result and then to that of the computation, not broadcast.
  ir::Value* in(const Operand& operand);
  /// Likewise, as the second operand of products and quotients: a single element of a wider type than f16 or bf16
  /// is not rounded to that. To be called before in(), since it sets the type of the computation.
  ir::Value* in_as_factor(const Operand& operand);
  /// Likewise, but a number for f16 and bf16 is rounded to that type first, as kernels without an f32 form do.
  ir::Value* rounded(const Operand& operand) { return in(narrowed(operand, to_scalar_type(type_->dtype))); }
  /// Likewise, for kernels that take a number in the type of the tensors on the CPU and in f32 on a GPU.
  ir::Value* rounded_on_cpu(const Operand& operand);
  ir::Value* number(const c10::Scalar& value) { return in(Call::operand_of(value)); }

  ir::Value* op(Op op, ir::Value* a) { return node(op, {a}, compute_->dtype); }
  ir::Value* op(Op op, ir::Value* a, ir::Value* b) { return node(op, {a, b}, compute_->dtype); }
  ir::Value* where(ir::Value* condition, ir::Value* a, ir::Value* b) {
    return node(Op::where, {condition, a, b}, compute_->dtype);
  }
  /// A bool: comparisons, tests, and bitwise ops on bools.
  ir::Value* test(Op op, ir::Value* a) { return node(op, {a}, DType::b8); }
  ir::Value* test(Op op, ir::Value* a, ir::Value* b) { return node(op, {a, b}, DType::b8); }
  bool give(ir::Value* value);

 private:
  ir::Value* node(Op op, std::initializer_list<ir::Value*> operands, DType dtype);
  Dim innermost_loop() const;

  Call& call_;
  c10::SmallVector<const Operand*, 3> operands_;
  const ir::Type* type_ = nullptr;
  const ir::Type* compute_ = nullptr;
};

/// Is the number exactly representable range-wise in an integral dtype?
inline bool fits(const c10::Scalar& number, ScalarType dtype) {
  if (number.isFloatingPoint()) return true;
  const int64_t value = number.toLong();
  switch (dtype) {
    case ScalarType::Byte: return value >= 0 && value <= 255;
    case ScalarType::Char: return value >= -128 && value <= 127;
    case ScalarType::Short: return value >= INT16_MIN && value <= INT16_MAX;
    case ScalarType::Int: return value >= INT32_MIN && value <= INT32_MAX;
    default: return true;
  }
}

/// Eager makes the results of some operators by empty_like, which keeps the strides that x has, whatever they are,
/// where x has no elements, and those of dimensions of size 1 where it has.
inline bool lies_as_empty_like(const Operand& x) {
  if (is_empty(x.sizes)) return true;
  // Rows lie as rows, whatever their sizes are: nothing is asked of those that vary.
  if (has_strides_of_rows(x.sizes, x.strides)) return false;
  if (std::ranges::none_of(x.sizes, [](Dim size) { return size == 1; })) return false;
  const Layout layout{x.sizes, x.strides};
  return is_dense(x.sizes, x.strides) && iterator_strides({&layout, 1}, x.sizes) != x.strides;
}

}  // namespace braze::capture
