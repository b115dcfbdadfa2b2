#include "capture/pointwise.h"

#include <ATen/TensorIterator.h>

#include <algorithm>

namespace braze::capture {

Pointwise::Pointwise(Call& call, ScalarType dtype, std::initializer_list<const Operand*> operands) : call_(call) {
  Promotion promotion;  // Tests, whose results are bools, compare in it.
  for (const Operand* operand : operands)
    if (operand) {
      promotion.add(operand->dtype, operand->rank);
      operands_.push_back(operand);
    }
  const auto geometry = broadcast(operands, dtype == ScalarType::Bool ? promotion.result() : dtype);
  if (!geometry) return;
  const ir::Type* target = call.target(geometry->sizes);
  type_ = target ? call.retyped(target, to_dtype(dtype)) : call.type(dtype, geometry->sizes, geometry->strides);
  compute_ = type_;
  // Kernels for f16 and bf16 take a number in full, and compute with it in f32.
  const bool has_number = std::ranges::any_of(
      operands_, [](const Operand* operand) { return operand->rank == Rank::number && !operand->is_number(); });
  if (has_number && (type_->dtype == DType::f16 || type_->dtype == DType::bf16)) compute_in_float();
}

/// How many elements of the result and of the operands lie side by side. One operand may be a single element for
/// all of them: a number, or one of a row or column that is broadcast.
Dim Pointwise::innermost_loop() const {
  const DimsRef sizes = type_->sizes, strides = type_->strides;
  Places dims;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] != 1) dims.push_back(static_cast<int64_t>(k));
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  const auto is_repeated = [&](const Operand& operand, int64_t dim) {
    const auto mine = dim - static_cast<int64_t>(sizes.size() - operand.sizes.size());
    return mine < 0 || operand.sizes[mine] == 1 || operand.strides[mine] == 0;
  };
  const Operand* repeated = nullptr;
  Dim length = 1;
  for (const int64_t dim : dims) {
    if (strides[dim] != length) break;
    const bool all = std::ranges::all_of(operands_, [&](const Operand* operand) {
      if (is_repeated(*operand, dim)) {
        if (length == 1 && !repeated) repeated = operand;
        return operand == repeated;
      }
      const auto mine = dim - static_cast<int64_t>(sizes.size() - operand->sizes.size());
      return operand != repeated && operand->strides[mine] == length;
    });
    if (!all) break;
    length *= sizes[dim];
  }
  return length;
}

bool Pointwise::in_vectors(Vectors vectors) const {
  if (type_->device.kind != ir::DeviceKind::cpu) return false;
  static const std::string capability = at::get_cpu_capability();
  const bool is_wide = capability == "AVX512";
  const int64_t bytes = is_wide && vectors == Vectors::widest ? 64 : is_wide || capability == "AVX2" ? 32 : 0;
  return bytes > 0 && innermost_loop() * ir::byte_size(type_->dtype) >= 2 * bytes;
}

bool Pointwise::leaves_rest() const {
  const Dim length = innermost_loop();
  if (!length.is_number()) return true;
  const int64_t number = length;
  // Threads share out long rows, each with a rest of its own.
  return number * ir::byte_size(type_->dtype) % 64 != 0 || number >= at::internal::GRAIN_SIZE;
}

void Pointwise::compute_in_float() {
  compute_in(ir::compute_dtype(type_->dtype));
}

ir::Value* Pointwise::in(const Operand& operand) {
  if (!operand.is_number()) {
    const bool is_as_it_is = type_->dtype == DType::b8 || operand.rank == Rank::number;
    ir::Value* converted = is_as_it_is ? operand.value : call_.cast(operand.value, type_->dtype);
    return call_.cast(converted, compute_->dtype);
  }
  return call_.graph().create(Op::scalar, {}, {{"value", to_number(operand.number, compute_->dtype)}},
                              type_in(call_.graph(), compute_->dtype, compute_->device, {}, {}));
}

ir::Value* Pointwise::rounded_on_cpu(const Operand& operand) {
  if (type_->device.kind != ir::DeviceKind::cpu || operand.rank != Rank::number) return in(operand);
  if (operand.is_number()) return in(narrowed(operand, to_scalar_type(type_->dtype)));
  return call_.cast(call_.cast(operand.value, type_->dtype), compute_->dtype);
}

ir::Value* Pointwise::in_as_factor(const Operand& operand) {
  const bool half = type_->dtype == DType::f16 || type_->dtype == DType::bf16;
  if (!half || operand.rank != Rank::zero_dim) return in(operand);
  compute_in_float();
  return call_.cast(operand.value, compute_->dtype);
}

ir::Value* Pointwise::node(Op op, std::initializer_list<ir::Value*> operands, DType dtype) {
  Sizes sizes;
  for (const ir::Value* operand : operands) broadcast_into(sizes, to_ref(operand->type->sizes));
  const bool whole = DimsRef(sizes) == to_ref(type_->sizes);
  return call_.node(op, operands,
                    whole ? call_.retyped(compute_, dtype) : call_.contiguous(to_scalar_type(dtype), sizes));
}

bool Pointwise::give(ir::Value* value) {
  return call_.give(value->type == type_ ? value : call_.graph().create(Op::cast, {value}, {}, type_));
}

}  // namespace braze::capture
