#include "runtime/matmul_choice.h"

#include <cpuid.h>

#include <array>

#include "support/size_bucket.h"

namespace braze::runtime {

namespace {

constexpr std::string_view names[matmul_method_count] = {"aten", "onednn", "rows", "panels", "packed"};

/// So many are multiplied fastest with the right operand as it lies.
int64_t few_rows() {
  return is_intel() ? 4 : 12;
}

}  // namespace

bool is_intel() {
  static const bool intel = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
  }();
  return intel;
}

std::string_view name(MatmulMethod method) {
  return names[static_cast<size_t>(method)];
}

Hash128 MatmulShape::bucket(MatmulMethods methods) const {
  Hasher hasher;
  hasher.add("matmul choice 4").add(methods.to_ulong());
  for (int64_t size : {batch, m, n, k}) hasher.add(size_bucket(size));
  return hasher.add(a_transposed).add(b_transposed).add(bias).finish();
}

MatmulMethod MatmulShape::expected(MatmulMethods methods, bool packs) const {
  const auto possible = [&](MatmulMethod method) { return methods[static_cast<size_t>(method)]; };
  // Measured: from four rows to sixty-four, panels that need not be made are read fastest.
  if (packs && m >= 4 && m <= 64) return MatmulMethod::panels;
  if (m <= few_rows() && possible(MatmulMethod::rows)) return MatmulMethod::rows;
  if (is_intel()) return MatmulMethod::aten;
  for (const MatmulMethod method : {MatmulMethod::packed, MatmulMethod::panels, MatmulMethod::onednn})
    if (possible(method)) return method;
  return MatmulMethod::aten;
}

ThreadedChoice& matmul_choice(const MatmulShape& shape, MatmulMethods methods, int threads, bool use_disk_cache) {
  std::array<Choice::Method, matmul_method_count> all;
  const MatmulMethod expected = shape.expected(methods);
  for (size_t i = 0; i < all.size(); ++i) all[i] = {names[i], methods[i], i == static_cast<size_t>(expected)};
  return shared_choice(shape.bucket(methods), all, threads, use_disk_cache);
}

}  // namespace braze::runtime
