// runtime/attention_rows_avx2.cpp: weights of attention for processors with AVX2.
#define BRAZE_LANES 8
#include "runtime/attention_rows_kernel.h"

namespace braze::runtime {

const AttentionFunctions attention_avx2 = {weigh, weigh_back, widen, narrow};

}  // namespace braze::runtime
