#include "ir/dtype.h"

#include <array>

#include "support/error.h"

namespace braze::ir {
namespace {

struct Row {
  std::string_view text;
  int64_t bytes;
  DTypeKind kind;
};

constexpr Row rows[] = {
#define X(name, text, bytes, kind) {text, bytes, DTypeKind::kind},
    BRAZE_DTYPES(X)
#undef X
};

const Row& row(DType dtype) {
  return rows[static_cast<size_t>(dtype)];
}

}  // namespace

std::string_view name(DType dtype) {
  return row(dtype).text;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 0; i < std::size(rows); ++i)
    if (rows[i].text == text) return static_cast<DType>(i);
  return std::nullopt;
}

int64_t byte_size(DType dtype) {
  return row(dtype).bytes;
}

DTypeKind kind(DType dtype) {
  return row(dtype).kind;
}

DType compute_dtype(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype;
}

std::string to_string(Device device) {
  constexpr std::string_view names[] = {"cpu", "cuda", "meta"};
  std::string text(names[static_cast<size_t>(device.kind)]);
  if (device.index >= 0) text += ":" + std::to_string(device.index);
  return text;
}

}  // namespace braze::ir
