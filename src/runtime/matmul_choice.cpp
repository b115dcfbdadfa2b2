#include "runtime/matmul_choice.h"

#include <algorithm>
#include <array>
#include <bit>

namespace braze::runtime {

namespace {

constexpr std::string_view names[matmul_method_count] = {"aten", "onednn", "rows", "panels", "packed"};

/// The four highest bits of a size stay.
int64_t rounded(int64_t size) {
  const int low_bits = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(size))) - 4);
  return size >> low_bits << low_bits;
}

}  // namespace

std::string_view name(MatmulMethod method) {
  return names[static_cast<size_t>(method)];
}

Hash128 MatmulShape::bucket(MatmulMethods methods) const {
  Hasher hasher;
  hasher.add("matmul choice 4").add(methods.to_ulong());
  for (int64_t size : {batch, m, n, k}) hasher.add(rounded(size));
  return hasher.add(a_transposed).add(b_transposed).add(bias).finish();
}

ThreadedChoice& matmul_choice(const MatmulShape& shape, MatmulMethods methods, int threads, bool use_disk_cache) {
  std::array<Choice::Method, matmul_method_count> all;
  for (size_t i = 0; i < all.size(); ++i) all[i] = {names[i], methods[i]};
  return shared_choice(shape.bucket(methods), all, threads, use_disk_cache);
}

}  // namespace braze::runtime
