#include "loops/cost.h"

namespace braze::loops {

int vector_instructions(ir::Op op) {
  using ir::Op;
  switch (op) {
    case Op::exp:
    case Op::exp2:
    case Op::sigmoid: return 16;
    case Op::log:
    case Op::log2:
    case Op::log10:
    case Op::expm1:
    case Op::log1p: return 24;
    case Op::erf:
    case Op::tanh: return 32;
    case Op::sin:
    case Op::cos:
    case Op::tan: return 40;
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::sinh:
    case Op::cosh:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::erfc:
    case Op::erfinv:
    case Op::lgamma:
    case Op::digamma:
    case Op::pow:
    case Op::atan2:
    case Op::hypot:
    case Op::nextafter:
    case Op::floor_div:
    case Op::trunc_div:
    case Op::remainder:
    case Op::fmod:
    case Op::gcd: return 64;
    case Op::divisor:
    case Op::probability: return 3;
    default: return 1;
  }
}

bool is_cheap(ir::Op op) {
  return ir::is_elementwise(op) && vector_instructions(op) == 1;
}

}  // namespace braze::loops
