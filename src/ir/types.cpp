// Types and numbers: what a value is, and exact constants.
#include <algorithm>
#include <bit>

#include "ir/graph.h"

namespace braze::ir {

int64_t Type::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

Size Type::symbolic_numel() const {
  if (sizes.is_constant()) return numel();
  Size count = 1;
  for (const Size size : sizes.symbolic()) count = count * size;
  return count;
}

bool Type::is_contiguous() const {
  if (!sizes.is_constant() || !strides.is_constant())
    return std::ranges::equal(strides.symbolic(), contiguous_strides(sizes.symbolic()));
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

std::vector<Size> contiguous_strides(std::span<const Size> sizes) {
  std::vector<Size> strides(sizes.size());
  if (std::ranges::all_of(sizes, &Size::is_constant)) {
    const std::vector<int64_t> numbers =
        contiguous_strides({reinterpret_cast<const int64_t*>(sizes.data()), sizes.size()});
    std::ranges::copy(numbers, strides.begin());
    return strides;
  }
  Size step = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[k] = step;
    if (sizes[k] != 0) step = step * sizes[k];
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
  if (!is_kernel_dtype(dtype)) return value;
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
