// runtime/attention_rows_avx512.cpp: weights of attention for processors with AVX512.
#define BRAZE_LANES 16
#include "runtime/attention_rows_kernel.h"

namespace braze::runtime {

const AttentionFunctions attention_avx512 = {weigh, weigh_back, widen, narrow};

}  // namespace braze::runtime
