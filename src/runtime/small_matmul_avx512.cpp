// runtime/small_matmul_avx512.cpp: small products for processors with AVX512.
#define BRAZE_LANES 16
#include "runtime/small_matmul_kernel.h"

namespace braze::runtime {

void small_matmul_avx512(const SmallMatmul& product, int64_t begin, int64_t end) {
  columns(product, begin, end);
}

}  // namespace braze::runtime
