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
  ir::Value* reduce(Op op, ir::Value* value, DimsRef dims);  ///< Without keepdim.

  ir::Value* reshape(ir::Value* value, DimsRef sizes);
  ir::Value* permute(ir::Value* value, DimsRef dims);
  /// [N, C, ...] as [N, ..., C], as memory has it with channels last, and back.
  ir::Value* channels_behind(ir::Value* value);
  ir::Value* channels_in_front(ir::Value* value);
  ir::Value* expand(ir::Value* value, DimsRef sizes);
  ir::Value* slice(ir::Value* value, int64_t dim, Dim start, Dim size);
  ir::Value* flip(ir::Value* value, DimsRef dims);
  /// `value` with low[k] and high[k] elements `number` around dimension k.
  ir::Value* pad(ir::Value* value, DimsRef low, DimsRef high, const c10::Scalar& number);
  ir::Value* index_map(ir::Value* value, DimsRef origin, DimsRef map, DimsRef sizes);
  /// A one-dimensional value along dimension `dim` of `rank`, the others being 1.
  ir::Value* along(ir::Value* value, size_t dim, size_t rank);
  ir::Value* count(Dim size);  ///< 0, 1, 2, ... (i64).
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
  const ir::Type* rows(DType dtype, DimsRef sizes);
  Call& call_;
};

/// As Tensor::suggest_memory_format, which also takes dimensions of size 1 into account.
c10::MemoryFormat suggested_format(const Operand& x);

/// The format of which x has all strides that matter, contiguous before others (suggest_memory_format_contig in
/// ATen's batch_norm_cpu); of none of them: what is suggested.
c10::MemoryFormat contiguous_format(const Operand& x);

/// The type that eager's kernels for `dtype` compute in: f32 for f16 and bf16.
DType computing_dtype(ScalarType dtype);

}  // namespace braze::capture
