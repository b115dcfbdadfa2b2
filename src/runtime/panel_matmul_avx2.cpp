// runtime/panel_matmul_avx2.cpp: products by panels for processors with AVX2.
#define BRAZE_LANES 8
#include "runtime/panel_matmul_kernel.h"

namespace braze::runtime {

const PanelFunctions panel_matmul_avx2 = {width, multiply_panel, pack_panels};

}  // namespace braze::runtime
