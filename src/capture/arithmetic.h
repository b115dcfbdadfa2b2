// capture/arithmetic.h: nodes of a rule's own making, whose layout nobody sees.
#pragma once

#include "capture/call.h"

namespace braze::capture {

/// Builds nodes with row-major results; the operands of elementwise ops broadcast. A rule converts the last value
/// to what eager gives, with Call::copy.
///   Arithmetic a(call);
///   ir::Value* inside = a.op(Op::lt, a.along(a.count(size), 0, 2), a.number(DType::i64, limit));
class Arithmetic {
 public:
  explicit Arithmetic(Call& call) : call_(call) {}

  ir::Value* op(Op op, ir::Value* a);
  ir::Value* op(Op op, ir::Value* a, ir::Value* b);  ///< A bool if the op compares.
  ir::Value* where(ir::Value* condition, ir::Value* a, ir::Value* b);
  ir::Value* cast(ir::Value* value, DType dtype) { return call_.cast(value, dtype); }
  ir::Value* number(DType dtype, const c10::Scalar& number);
  ir::Value* reduce(Op op, ir::Value* value, c10::IntArrayRef dims);  ///< Without keepdim.

  ir::Value* reshape(ir::Value* value, c10::IntArrayRef sizes);
  ir::Value* permute(ir::Value* value, c10::IntArrayRef dims);
  ir::Value* expand(ir::Value* value, c10::IntArrayRef sizes);
  ir::Value* slice(ir::Value* value, int64_t dim, int64_t start, int64_t size);
  ir::Value* flip(ir::Value* value, c10::IntArrayRef dims);
  /// `value` with low[k] and high[k] elements `number` around dimension k.
  ir::Value* pad(ir::Value* value, c10::IntArrayRef low, c10::IntArrayRef high, const c10::Scalar& number);
  ir::Value* index_map(ir::Value* value, c10::IntArrayRef origin, c10::IntArrayRef map, c10::IntArrayRef sizes);
  /// A one-dimensional value along dimension `dim` of `rank`, the others being 1.
  ir::Value* along(ir::Value* value, size_t dim, size_t rank);
  ir::Value* count(int64_t size);  ///< 0, 1, 2, ... (i64).
  /// ir::Op::index: integer tensors for the adjacent dimensions from `first` on.
  ir::Value* index(ir::Value* value, int64_t first, std::span<ir::Value* const> indices);

  /// ir::Op::scatter and ir::Op::index_put; `combine` as there.
  ir::Value* scatter(ir::Value* base, int64_t dim, ir::Value* index, ir::Value* source, std::string_view combine);
  ir::Value* index_put(ir::Value* base, int64_t first, std::span<ir::Value* const> indices, ir::Value* source,
                       std::string_view combine);

  /// Numbers that are known now, one-dimensional: a constant of the program.
  ir::Value* constant(std::span<const int64_t> numbers);                   ///< i64.
  ir::Value* constant(std::span<const double> numbers, ScalarType dtype);  ///< Floating.

 private:
  const ir::Type* rows(DType dtype, c10::IntArrayRef sizes);
  Call& call_;
};

/// As Tensor::suggest_memory_format, which also takes dimensions of size 1 into account.
c10::MemoryFormat suggested_format(const Operand& x);

/// The type that eager's kernels for `dtype` compute in: f32 for f16 and bf16.
DType computing_dtype(ScalarType dtype);

}  // namespace braze::capture
