// ir/dtype.h: element types and devices, as the graph and the loops see them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace braze::ir {

// name, printed text, bytes, kind. `other` stands for anything that only ATen understands (complex, quantised).
#define BRAZE_DTYPES(X)        \
  X(f64, "f64", 8, floating)   \
  X(f32, "f32", 4, floating)   \
  X(bf16, "bf16", 2, floating) \
  X(f16, "f16", 2, floating)   \
  X(i64, "i64", 8, integral)   \
  X(i32, "i32", 4, integral)   \
  X(i16, "i16", 2, integral)   \
  X(i8, "i8", 1, integral)     \
  X(u8, "u8", 1, integral)     \
  X(b8, "bool", 1, boolean)    \
  X(c64, "c64", 8, opaque)     \
  X(c128, "c128", 16, opaque)  \
  X(other, "other", 1, opaque)

enum class DTypeKind : uint8_t { floating, integral, boolean, opaque };

enum class DType : uint8_t {
#define X(name, text, bytes, kind) name,
  BRAZE_DTYPES(X)
#undef X
};

std::string_view name(DType dtype);                  ///< "f32", "bool", ...
std::optional<DType> parse_dtype(std::string_view);  ///< The reverse of name().
int64_t byte_size(DType dtype);
DTypeKind kind(DType dtype);
inline bool is_floating(DType d) {
  return kind(d) == DTypeKind::floating;
}
inline bool is_integral(DType d) {
  return kind(d) == DTypeKind::integral;
}
/// Kernels compute with it: everything but complex and `other`.
inline bool is_kernel_dtype(DType d) {
  return kind(d) != DTypeKind::opaque;
}
/// The type that arithmetic on `dtype` is done in: f32 for bf16 and f16, otherwise itself.
DType compute_dtype(DType dtype);

enum class DeviceKind : uint8_t { cpu, cuda, meta };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int8_t index = -1;  ///< -1: the current device of that kind.
  bool operator==(const Device&) const = default;
};
std::string to_string(Device device);  ///< "cpu", "cuda:0"

}  // namespace braze::ir
