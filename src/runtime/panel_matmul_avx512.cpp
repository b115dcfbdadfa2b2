// runtime/panel_matmul_avx512.cpp: products by panels for processors with AVX512.
#define BRAZE_LANES 16
#include "runtime/panel_matmul_kernel.h"

namespace braze::runtime {

const PanelFunctions panel_matmul_avx512 = {width, multiply_panel, pack_panels};

}  // namespace braze::runtime
