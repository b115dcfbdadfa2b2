// capture/types.h: PyTorch's element types, devices and numbers in the graph's words.
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "capture/dim.h"
#include "ir/graph.h"

namespace braze::capture {

inline ir::DType to_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Double: return ir::DType::f64;
    case c10::ScalarType::Float: return ir::DType::f32;
    case c10::ScalarType::BFloat16: return ir::DType::bf16;
    case c10::ScalarType::Half: return ir::DType::f16;
    case c10::ScalarType::Long: return ir::DType::i64;
    case c10::ScalarType::Int: return ir::DType::i32;
    case c10::ScalarType::Short: return ir::DType::i16;
    case c10::ScalarType::Char: return ir::DType::i8;
    case c10::ScalarType::Byte: return ir::DType::u8;
    case c10::ScalarType::Bool: return ir::DType::b8;
    case c10::ScalarType::ComplexFloat: return ir::DType::c64;
    case c10::ScalarType::ComplexDouble: return ir::DType::c128;
    default: return ir::DType::other;
  }
}

inline bool is_kernel_dtype(c10::ScalarType type) {
  return ir::is_kernel_dtype(to_dtype(type));
}

inline ir::Device to_device(c10::Device device) {
  const auto kind = device.is_cuda()   ? ir::DeviceKind::cuda
                    : device.is_meta() ? ir::DeviceKind::meta
                                       : ir::DeviceKind::cpu;
  return {kind, kind == ir::DeviceKind::cpu ? int8_t{-1} : static_cast<int8_t>(device.index())};
}

inline std::span<const int64_t> to_span(c10::IntArrayRef values) {
  return {values.data(), values.size()};
}

inline c10::IntArrayRef to_ref(std::span<const int64_t> values) {
  return {values.data(), values.size()};
}

inline DimsRef to_ref(const ir::SizeSpan& sizes) {
  return sizes;
}

/// Types of a graph, whose sizes and strides may be expressions.
inline const ir::Type* type_in(ir::Graph& graph, ir::DType dtype, ir::Device device, DimsRef sizes,
                               DimsRef strides) {
  if (sizes.is_numbers() && strides.is_numbers())
    return graph.type(dtype, device, to_span(sizes.numbers()), to_span(strides.numbers()));
  return graph.symbolic_type(dtype, device, sizes.symbolic(), strides.symbolic());
}

/// Row-major.
inline const ir::Type* rows_in(ir::Graph& graph, ir::DType dtype, ir::Device device, DimsRef sizes) {
  if (sizes.is_numbers()) return graph.contiguous_type(dtype, device, to_span(sizes.numbers()));
  return graph.symbolic_type(dtype, device, sizes.symbolic(), ir::contiguous_strides(sizes.symbolic()));
}

/// `scalar` as an element of `dtype` enters arithmetic: what eager's kernels convert it to first. Numbers for f16
/// and bf16 are rounded to f32 only, the type that those kernels compute in.
inline ir::Number to_number(const c10::Scalar& scalar, ir::DType dtype) {
  switch (ir::kind(dtype)) {
    case ir::DTypeKind::floating: {
      const double value = scalar.toDouble();
      return ir::Number::of(dtype == ir::DType::f64 ? value : static_cast<double>(static_cast<float>(value)));
    }
    case ir::DTypeKind::boolean: return ir::Number::of_int(scalar.toBool());
    default: break;
  }
  const int64_t value = scalar.toLong();
  switch (dtype) {  // wrapped, as a tensor of one element that is cast
    case ir::DType::u8: return ir::Number::of_int(static_cast<uint8_t>(value));
    case ir::DType::i8: return ir::Number::of_int(static_cast<int8_t>(value));
    case ir::DType::i16: return ir::Number::of_int(static_cast<int16_t>(value));
    case ir::DType::i32: return ir::Number::of_int(static_cast<int32_t>(value));
    default: return ir::Number::of_int(value);
  }
}

}  // namespace braze::capture
