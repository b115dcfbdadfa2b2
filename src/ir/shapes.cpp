#include "ir/shapes.h"

#include <algorithm>

#include "ir/shape_env.h"

namespace braze::ir {

namespace {

template <typename T>
std::vector<T> reduced_of(std::span<const T> sizes, std::span<const int64_t> dims, bool keepdim) {
  std::vector<T> result;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (std::ranges::find(dims, static_cast<int64_t>(k)) == dims.end())
      result.push_back(sizes[k]);
    else if (keepdim)
      result.push_back(1);
  }
  return result;
}

// Times any element's bytes, and a vector more, this is still far from the end of int64_t.
constexpr int64_t most_elements = int64_t{1} << 47;

}  // namespace

std::optional<Sizes> broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Sizes sizes(a.begin(), a.end());
  const size_t offset = a.size() - b.size();
  for (size_t k = 0; k < b.size(); ++k) {
    int64_t& size = sizes[offset + k];
    if (size == 1)
      size = b[k];
    else if (b[k] != 1 && b[k] != size)
      return std::nullopt;
  }
  return sizes;
}

std::optional<SymbolicSizes> broadcast(std::span<const Size> a, std::span<const Size> b, const SizeRules& rules) {
  if (a.size() < b.size()) std::swap(a, b);
  SymbolicSizes sizes(a.begin(), a.end());
  const size_t offset = a.size() - b.size();
  for (size_t k = 0; k < b.size(); ++k) {
    Size& size = sizes[offset + k];
    if (size == b[k] || b[k] == 1) continue;
    if (size == 1)
      size = b[k];
    else if (rules.equal(size, b[k]))
      size = size.is_constant() ? size : b[k];
    else if (rules.equal(size, 1))
      size = b[k];
    else if (!rules.equal(b[k], 1))
      return std::nullopt;
  }
  return sizes;
}

Sizes reduced(std::span<const int64_t> sizes, std::span<const int64_t> dims, bool keepdim) {
  return reduced_of(sizes, dims, keepdim);
}
SymbolicSizes reduced(std::span<const Size> sizes, std::span<const int64_t> dims, bool keepdim) {
  return reduced_of(sizes, dims, keepdim);
}

bool ascending_dims(std::span<const int64_t> dims, int64_t rank) {
  int64_t above = -1;
  for (const int64_t dim : dims) {
    if (dim <= above || dim >= rank) return false;
    above = dim;
  }
  return true;
}

bool is_addressable(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t count = 1, span = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] <= 1) continue;
    int64_t reach = 0;
    const bool overflow = __builtin_mul_overflow(count, sizes[k], &count) ||
                          __builtin_mul_overflow(sizes[k] - 1, strides[k], &reach) ||
                          __builtin_add_overflow(span, reach < 0 ? -reach : reach, &span);
    if (overflow || count > most_elements || span > most_elements) return false;
  }
  return true;
}

}  // namespace braze::ir
