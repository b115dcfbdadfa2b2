// Types and numbers: what a value is, and exact constants.
#include <bit>

#include "ir/graph.h"

namespace braze::ir {

int64_t Type::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

bool Type::is_contiguous() const {
  // As PyTorch sees it: the stride of a dimension of one element does not matter, nor any of an empty tensor.
  int64_t expected = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    if (sizes[k] == 0) return true;
    if (sizes[k] != 1 && strides[k] != expected) return numel() == 0;
    expected *= sizes[k];
  }
  return true;
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[k] = step;
    // Saturates: such a type is refused when a graph makes it.
    if (sizes[k] > 1 && __builtin_mul_overflow(step, sizes[k], &step)) step = INT64_MAX;
  }
  return strides;
}

bool Number::same_bits(const Number& other) const {
  if (floating != other.floating) return false;
  return floating ? std::bit_cast<uint64_t>(f) == std::bit_cast<uint64_t>(other.f) : i == other.i;
}

Number round_to(Number value, DType dtype) {
  const DType compute = compute_dtype(dtype);
  if (is_floating(compute)) {
    if (compute == DType::f64) return Number::of(value.as_double());
    // An integer goes to f32 at once: by way of f64 it would be rounded twice.
    return Number::of(value.floating ? static_cast<float>(value.f) : static_cast<float>(value.i));
  }
  if (!is_native(dtype)) return value;
  if (dtype == DType::b8) return Number::of_int(value.floating ? value.f != 0 : value.i != 0);
  const int64_t wide = value.as_int();
  switch (dtype) {
    case DType::i32: return Number::of_int(static_cast<int32_t>(wide));
    case DType::i16: return Number::of_int(static_cast<int16_t>(wide));
    case DType::i8: return Number::of_int(static_cast<int8_t>(wide));
    case DType::u8: return Number::of_int(static_cast<uint8_t>(wide));
    default: return Number::of_int(wide);
  }
}

}  // namespace braze::ir
