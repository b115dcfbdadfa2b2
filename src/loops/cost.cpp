#include "loops/cost.h"

namespace braze::loops {

bool is_cheap(ir::Op op) {
  return ir::is_elementwise(op) && ir::info(op).vector_instructions == 1;
}

}  // namespace braze::loops
