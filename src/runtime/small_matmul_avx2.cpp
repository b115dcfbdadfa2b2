// runtime/small_matmul_avx2.cpp: small products for processors with AVX2.
#define BRAZE_LANES 8
#include "runtime/small_matmul_kernel.h"

namespace braze::runtime {

void small_matmul_avx2(const SmallMatmul& product, int64_t begin, int64_t end) {
  columns(product, begin, end);
}

}  // namespace braze::runtime
