// codegen/elementwise.cpp: see elementwise.h.
#include "codegen/elementwise.h"

#include <llvm/IR/Intrinsics.h>

#include "codegen/device.h"
#include "codegen/math.h"
#include "codegen/nvptx/math.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen {

using ir::Op;
using llvm::Value;

namespace {

Value* zero_of(const Value* value) {
  return llvm::Constant::getNullValue(value->getType());
}

Value* unary_intrinsic(llvm::IRBuilderBase& b, llvm::Intrinsic::ID id, Value* x) {
  return b.CreateUnaryIntrinsic(id, x);
}

Value* fabs(llvm::IRBuilderBase& b, Value* x) {
  return unary_intrinsic(b, llvm::Intrinsic::fabs, x);
}

// ---- integer division

struct Division {
  Value *quotient, *remainder;  ///< Truncated; both 0 where the divisor is 0.
};

/// x86 traps on a zero divisor and on the smallest integer over -1, in lanes that do not count as well: every
/// divisor is made harmless first. Up to 32 bits the division is done in floating point, which vectors have and
/// which is exact: two quotients that truncate differently are further apart than the rounding.
Division divide(llvm::IRBuilderBase& b, DType type, Value* x, Value* y) {
  unsigned lanes = lanes_of(x);
  llvm::LLVMContext& context = b.getContext();
  auto* constant = llvm::dyn_cast<llvm::Constant>(y);
  llvm::Constant* unique = constant && lanes > 1 ? constant->getSplatValue() : constant;
  auto* divisor = llvm::dyn_cast_or_null<llvm::ConstantInt>(unique);
  bool harmless = divisor && !divisor->isZero() && !divisor->isMinusOne();
  if (!is_signed(type)) {
    Value* is_zero = b.CreateICmpEQ(y, zero_of(y));
    Value* safe = harmless ? y : b.CreateSelect(is_zero, integer(context, type, 1, lanes), y);
    Value* quotient = b.CreateUDiv(x, safe);
    if (!harmless) quotient = b.CreateSelect(is_zero, zero_of(x), quotient);
    Value* remainder = b.CreateSub(x, b.CreateMul(quotient, y));
    return {quotient, harmless ? remainder : b.CreateSelect(is_zero, zero_of(x), remainder)};
  }
  if (harmless) {
    Value* quotient = b.CreateSDiv(x, y);
    return {quotient, b.CreateSub(x, b.CreateMul(quotient, y))};
  }
  Value* is_zero = b.CreateICmpEQ(y, zero_of(y));
  Value* is_minus_one = b.CreateICmpEQ(y, integer(context, type, -1, lanes));
  Value* safe = b.CreateSelect(b.CreateOr(is_zero, is_minus_one), integer(context, type, 1, lanes), y);
  Value* quotient;
  if (lanes > 1 && ir::byte_size(type) <= 4) {
    DType through = ir::byte_size(type) <= 2 ? DType::f32 : DType::f64;
    quotient = b.CreateFDiv(convert(b, x, type, through), convert(b, safe, type, through));
    quotient = convert(b, quotient, through, type);
  } else {
    quotient = b.CreateSDiv(x, safe);
  }
  quotient = b.CreateSelect(is_minus_one, b.CreateNeg(x), quotient);
  quotient = b.CreateSelect(is_zero, zero_of(x), quotient);
  Value* remainder = b.CreateSub(x, b.CreateMul(quotient, y));
  return {quotient, b.CreateSelect(is_zero, zero_of(x), remainder)};
}

/// Where a truncated division differs from a floored one: a remainder whose sign is not the divisor's.
Value* rounds_down(llvm::IRBuilderBase& b, Value* remainder, Value* y) {
  Value* signs_differ = b.CreateICmpSLT(b.CreateXor(remainder, y), zero_of(y));
  return b.CreateAnd(b.CreateICmpNE(remainder, zero_of(remainder)), signs_differ);
}

Value* emit_integer_division(llvm::IRBuilderBase& b, Op op, DType type, Value* x, Value* y) {
  Division d = divide(b, type, x, y);
  if (op == Op::trunc_div) return d.quotient;
  if (op == Op::fmod) return d.remainder;
  bool floor = op == Op::floor_div;
  if (!is_signed(type)) return floor ? d.quotient : d.remainder;
  Value* down = rounds_down(b, d.remainder, y);
  if (floor) return b.CreateAdd(d.quotient, b.CreateSExt(down, x->getType()));
  return b.CreateAdd(d.remainder, b.CreateSelect(down, y, zero_of(y)));
}

// ---- floating division

/// As C's fmod. What PTX calls a remainder is not exact.
Value* exact_remainder(llvm::IRBuilderBase& b, Value* x, Value* y) {
  return is_for_gpu(b) ? nvptx::emit_fmod(b, x, y) : b.CreateFRem(x, y);
}

Value* opposite_nonzero(llvm::IRBuilderBase& b, Value* mod, Value* y) {
  Value* nonzero = b.CreateFCmpUNE(mod, zero_of(mod));
  Value* signs = b.CreateXor(b.CreateFCmpOLT(mod, zero_of(mod)), b.CreateFCmpOLT(y, zero_of(y)));
  return b.CreateAnd(nonzero, signs);
}

/// Python's float floor division, as c10::div_floor_floating: from the exact remainder, so that 1 // 0.1 is 9.
Value* emit_float_floor_div(llvm::IRBuilderBase& b, Value* x, Value* y) {
  llvm::Constant* zero = llvm::Constant::getNullValue(x->getType());
  llvm::Constant* one = llvm::ConstantFP::get(x->getType(), 1.0);
  Value* mod = exact_remainder(b, x, y);
  Value* quotient = b.CreateFDiv(b.CreateFSub(x, mod), y);
  quotient = b.CreateSelect(opposite_nonzero(b, mod, y), b.CreateFSub(quotient, one), quotient);
  Value* floored = unary_intrinsic(b, llvm::Intrinsic::floor, quotient);
  Value* above = b.CreateFCmpOGT(b.CreateFSub(quotient, floored), llvm::ConstantFP::get(x->getType(), 0.5));
  floored = b.CreateSelect(above, b.CreateFAdd(floored, one), floored);
  Value* plain = b.CreateFDiv(x, y);
  Value* signed_zero = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, plain);
  Value* result = b.CreateSelect(b.CreateFCmpUNE(quotient, zero), floored, signed_zero);
  return b.CreateSelect(b.CreateFCmpOEQ(y, zero), plain, result);
}

Value* emit_float_division(llvm::IRBuilderBase& b, Op op, Value* x, Value* y) {
  if (op == Op::floor_div) return emit_float_floor_div(b, x, y);
  if (op == Op::trunc_div) return unary_intrinsic(b, llvm::Intrinsic::trunc, b.CreateFDiv(x, y));
  Value* mod = exact_remainder(b, x, y);
  if (op == Op::fmod) return mod;
  return b.CreateSelect(opposite_nonzero(b, mod, y), b.CreateFAdd(mod, y), mod);
}

// ---- integers

/// x ** y with wrap-around by squaring; a negative power of anything but 1 and -1 is 0, as in PyTorch.
Value* emit_integer_pow(llvm::IRBuilderBase& b, DType type, Value* x, Value* y) {
  llvm::LLVMContext& context = b.getContext();
  unsigned lanes = lanes_of(x);
  llvm::Type* register_ = x->getType();
  llvm::BasicBlock* entry = b.GetInsertBlock();
  llvm::Function* function = entry->getParent();
  auto* loop = llvm::BasicBlock::Create(context, "pow", function);
  auto* done = llvm::BasicBlock::Create(context, "pow.done", function);
  Value* one = integer(context, type, 1, lanes);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* result = b.CreatePHI(register_, 2);
  llvm::PHINode* base = b.CreatePHI(register_, 2);
  llvm::PHINode* exponent = b.CreatePHI(register_, 2);
  Value* is_odd = b.CreateICmpNE(b.CreateAnd(exponent, one), zero_of(x));
  Value* next_result = b.CreateSelect(is_odd, b.CreateMul(result, base), result);
  Value* next_base = b.CreateMul(base, base);
  Value* next_exponent = b.CreateLShr(exponent, one);
  Value* left = b.CreateICmpNE(next_exponent, zero_of(x));
  if (lanes > 1) left = b.CreateOrReduce(left);
  for (auto [phi, first, next] :
       {std::tuple{result, one, next_result}, {base, x, next_base}, {exponent, y, next_exponent}}) {
    phi->addIncoming(first, entry);
    phi->addIncoming(next, loop);
  }
  b.CreateCondBr(left, loop, done);
  b.SetInsertPoint(done);
  if (!is_signed(type)) return next_result;
  Value* is_one = b.CreateICmpEQ(x, one);
  Value* is_minus_one = b.CreateICmpEQ(x, integer(context, type, -1, lanes));
  Value* y_is_odd = b.CreateICmpNE(b.CreateAnd(y, one), zero_of(y));
  Value* alternating = b.CreateSelect(y_is_odd, integer(context, type, -1, lanes), one);
  Value* negative = b.CreateSelect(is_one, one, b.CreateSelect(is_minus_one, alternating, zero_of(x)));
  return b.CreateSelect(b.CreateICmpSLT(y, zero_of(y)), negative, next_result);
}

/// Euclid's algorithm over magnitudes, until all lanes are through. As in eager the smallest integer is its own
/// magnitude, and remainders have the sign that C gives them.
Value* emit_gcd(llvm::IRBuilderBase& b, DType type, Value* x, Value* y) {
  llvm::LLVMContext& context = b.getContext();
  if (is_signed(type)) {
    x = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse());
    y = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, y, b.getFalse());
  }
  llvm::BasicBlock* entry = b.GetInsertBlock();
  llvm::Function* function = entry->getParent();
  auto* loop = llvm::BasicBlock::Create(context, "gcd", function);
  auto* done = llvm::BasicBlock::Create(context, "gcd.done", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* divisor = b.CreatePHI(x->getType(), 2);
  llvm::PHINode* result = b.CreatePHI(x->getType(), 2);
  Value* remainder = divide(b, type, result, divisor).remainder;
  Value* next_result = b.CreateSelect(b.CreateICmpEQ(divisor, zero_of(x)), result, divisor);
  Value* left = b.CreateICmpNE(remainder, zero_of(x));
  if (lanes_of(x) > 1) left = b.CreateOrReduce(left);
  divisor->addIncoming(x, entry);
  result->addIncoming(y, entry);
  divisor->addIncoming(remainder, b.GetInsertBlock());
  result->addIncoming(next_result, b.GetInsertBlock());
  b.CreateCondBr(left, loop, done);
  b.SetInsertPoint(done);
  return next_result;
}

/// Shifts by the width or more (or by a negative count) give 0, or copies of the sign: x86 alone would disagree
/// between scalars and vectors.
Value* emit_shift(llvm::IRBuilderBase& b, Op op, DType type, Value* x, Value* y) {
  unsigned bits = 8 * ir::byte_size(type);
  unsigned lanes = lanes_of(x);
  Value* outside = b.CreateICmpUGE(y, integer(b.getContext(), type, bits, lanes));
  if (op == Op::shift_left) {
    Value* count = b.CreateSelect(outside, zero_of(y), y);
    return b.CreateSelect(outside, zero_of(x), b.CreateShl(x, count));
  }
  Value* count = b.CreateSelect(outside, integer(b.getContext(), type, bits - 1, lanes), y);
  if (is_signed(type)) return b.CreateAShr(x, count);
  return b.CreateSelect(outside, zero_of(x), b.CreateLShr(x, count));
}

// ---- comparisons and tests

llvm::CmpInst::Predicate predicate(Op op, DType type) {
  using P = llvm::CmpInst;
  struct Row {
    Op op;
    P::Predicate floating, with_sign, without;
  };
  static constexpr Row rows[] = {
      {Op::eq, P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {Op::ne, P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {Op::lt, P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {Op::le, P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {Op::gt, P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {Op::ge, P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  for (const Row& row : rows)
    if (row.op == op) return ir::is_floating(type) ? row.floating : is_signed(type) ? row.with_sign : row.without;
  BRAZE_CHECK(false, ir::info(op).name, " is no comparison");
}

Value* emit_sign(llvm::IRBuilderBase& b, DType type, Value* x) {
  unsigned lanes = lanes_of(x);
  llvm::LLVMContext& context = b.getContext();
  if (!is_signed(type)) return type == DType::b8 ? x : b.CreateZExt(b.CreateICmpNE(x, zero_of(x)), x->getType());
  Value* positive = b.CreateCmp(predicate(Op::gt, type), x, zero_of(x));
  Value* negative = b.CreateCmp(predicate(Op::lt, type), x, zero_of(x));
  Value* below = b.CreateSelect(negative, integer(context, type, -1, lanes), zero_of(x));
  return b.CreateSelect(positive, integer(context, type, 1, lanes), below);
}

Value* emit_bool(llvm::IRBuilderBase& b, Op op, llvm::ArrayRef<Value*> args) {
  switch (op) {
    case Op::add:
    case Op::maximum:
    case Op::bitwise_or: return b.CreateOr(args[0], args[1]);
    case Op::mul:
    case Op::minimum:
    case Op::bitwise_and: return b.CreateAnd(args[0], args[1]);
    case Op::sub:
    case Op::bitwise_xor: return b.CreateXor(args[0], args[1]);
    case Op::pow: return b.CreateOr(args[0], b.CreateNot(args[1]));
    case Op::bitwise_not:
    case Op::logical_not: return b.CreateNot(args[0]);
    case Op::isnan:
    case Op::isinf:
    case Op::signbit: return zero_of(args[0]);
    case Op::neg:
    case Op::abs:
    case Op::sign:
    case Op::relu: return args[0];
    default: BRAZE_CHECK(false, ir::info(op).name, " has no meaning on bool");
  }
}

Value* emit_integer(llvm::IRBuilderBase& b, Op op, DType type, llvm::ArrayRef<Value*> args) {
  Value* x = args[0];
  Value* y = args.size() > 1 ? args[1] : nullptr;
  switch (op) {
    case Op::neg: return b.CreateNeg(x);
    case Op::abs: return is_signed(type) ? b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse()) : x;
    case Op::sign: return emit_sign(b, type, x);
    case Op::relu: return emit_maximum(b, type, x, zero_of(x));
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc: return x;
    case Op::isnan:
    case Op::isinf: return llvm::Constant::getNullValue(register_type(b.getContext(), DType::b8, lanes_of(x)));
    case Op::signbit:
      if (is_signed(type)) return b.CreateICmpSLT(x, zero_of(x));
      return llvm::Constant::getNullValue(register_type(b.getContext(), DType::b8, lanes_of(x)));
    case Op::logical_not: return b.CreateICmpEQ(x, zero_of(x));
    case Op::bitwise_not: return b.CreateNot(x);
    case Op::add: return b.CreateAdd(x, y);
    case Op::sub: return b.CreateSub(x, y);
    case Op::mul: return b.CreateMul(x, y);
    case Op::floor_div:
    case Op::trunc_div:
    case Op::remainder:
    case Op::fmod: return emit_integer_division(b, op, type, x, y);
    case Op::pow: return emit_integer_pow(b, type, x, y);
    case Op::gcd: return emit_gcd(b, type, x, y);
    case Op::bitwise_and: return b.CreateAnd(x, y);
    case Op::bitwise_or: return b.CreateOr(x, y);
    case Op::bitwise_xor: return b.CreateXor(x, y);
    case Op::shift_left:
    case Op::shift_right: return emit_shift(b, op, type, x, y);
    default: BRAZE_CHECK(false, ir::info(op).name, " has no meaning on ", ir::name(type));
  }
}

/// The larger or smaller of two floats as CUDA's max and min have it, by which eager's kernels choose: 0 is above
/// -0, relu's too. NaN stays.
Value* extreme_on_gpu(llvm::IRBuilderBase& b, bool larger, Value* x, Value* y) {
  if (!x->getType()->getScalarType()->isDoubleTy())
    return b.CreateBinaryIntrinsic(larger ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, x, y);
  // There is no instruction for doubles that keeps NaN.
  Value* number = b.CreateBinaryIntrinsic(larger ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum, x, y);
  number = b.CreateSelect(b.CreateFCmpUNO(y, y), y, number);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, number);
}

Value* emit_float(llvm::IRBuilderBase& b, Op op, DType type, llvm::ArrayRef<Value*> args) {
  Value* x = args[0];
  Value* y = args.size() > 1 ? args[1] : nullptr;
  switch (op) {
    case Op::neg: return b.CreateFNeg(x);
    case Op::abs: return fabs(b, x);
    case Op::sign: return emit_sign(b, type, x);
    case Op::sqrt: return unary_intrinsic(b, llvm::Intrinsic::sqrt, x);
    case Op::reciprocal: return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), x);
    // 0 > x ? 0 : x is one x86 max, keeps NaN and -0.
    case Op::relu:
      if (is_for_gpu(b)) return extreme_on_gpu(b, true, x, zero_of(x));
      return b.CreateSelect(b.CreateFCmpOGT(zero_of(x), x), zero_of(x), x);
    case Op::floor: return unary_intrinsic(b, llvm::Intrinsic::floor, x);
    case Op::ceil: return unary_intrinsic(b, llvm::Intrinsic::ceil, x);
    case Op::round: return unary_intrinsic(b, llvm::Intrinsic::roundeven, x);
    case Op::trunc: return unary_intrinsic(b, llvm::Intrinsic::trunc, x);
    case Op::isnan: return b.CreateFCmpUNO(x, x);
    case Op::isinf: return b.CreateFCmpOEQ(fabs(b, x), llvm::ConstantFP::getInfinity(x->getType()));
    case Op::signbit: {
      llvm::Type* bits = x->getType()->getWithNewType(b.getIntNTy(x->getType()->getScalarSizeInBits()));
      Value* integer = b.CreateBitCast(x, bits);
      return b.CreateICmpSLT(integer, zero_of(integer));
    }
    case Op::logical_not: return b.CreateFCmpOEQ(x, zero_of(x));
    case Op::add: return b.CreateFAdd(x, y);
    case Op::sub: return b.CreateFSub(x, y);
    case Op::mul: return b.CreateFMul(x, y);
    case Op::div: return b.CreateFDiv(x, y);
    case Op::copysign: return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, y);
    case Op::floor_div:
    case Op::trunc_div:
    case Op::remainder:
    case Op::fmod: return emit_float_division(b, op, x, y);
    default: break;
  }
  // Their error compensation must not be contracted in ways they did not ask for.
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  return emit_math(b, op, args);
}

}  // namespace

Value* fails_check(llvm::IRBuilderBase& b, Op op, Value* x) {
  if (op == Op::divisor) return b.CreateICmpEQ(x, zero_of(x));
  if (op == Op::expected) return b.CreateNot(x);
  BRAZE_CHECK(op == Op::probability, ir::info(op).name, " checks nothing");
  Value* from_zero = b.CreateFCmpOGE(x, zero_of(x));
  return b.CreateNot(b.CreateAnd(from_zero, b.CreateFCmpOLE(x, llvm::ConstantFP::get(x->getType(), 1.0))));
}

bool adds_blocks(Op op, DType type) {
  if (ir::is_floating(type)) return math_adds_blocks(op, type == DType::f64);
  return (op == Op::pow || op == Op::gcd) && type != DType::b8;
}

Value* emit_maximum(llvm::IRBuilderBase& b, DType type, Value* fresh, Value* sticky) {
  if (type == DType::b8) return b.CreateOr(fresh, sticky);
  if (!ir::is_floating(type))
    return b.CreateBinaryIntrinsic(is_signed(type) ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, fresh, sticky);
  if (is_for_gpu(b)) return extreme_on_gpu(b, true, fresh, sticky);
  // fresh > sticky ? fresh : sticky is one x86 max and gives `sticky` where unordered.
  Value* larger = b.CreateSelect(b.CreateFCmpOGT(fresh, sticky), fresh, sticky);
  return b.CreateSelect(b.CreateFCmpUNO(fresh, fresh), fresh, larger);
}

Value* emit_minimum(llvm::IRBuilderBase& b, DType type, Value* fresh, Value* sticky) {
  if (type == DType::b8) return b.CreateAnd(fresh, sticky);
  if (!ir::is_floating(type))
    return b.CreateBinaryIntrinsic(is_signed(type) ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, fresh, sticky);
  if (is_for_gpu(b)) return extreme_on_gpu(b, false, fresh, sticky);
  Value* smaller = b.CreateSelect(b.CreateFCmpOLT(fresh, sticky), fresh, sticky);
  return b.CreateSelect(b.CreateFCmpUNO(fresh, fresh), fresh, smaller);
}

Value* emit_elementwise(llvm::IRBuilderBase& b, Op op, DType type, llvm::ArrayRef<Value*> args) {
  if (op == Op::where) return b.CreateSelect(args[0], args[1], args[2]);
  if (ir::info(op).kind == ir::OpKind::Compare) return b.CreateCmp(predicate(op, type), args[0], args[1]);
  if (op == Op::maximum && type != DType::b8) return emit_maximum(b, type, args[0], args[1]);
  if (op == Op::minimum && type != DType::b8) return emit_minimum(b, type, args[0], args[1]);
  if (type == DType::b8) return emit_bool(b, op, args);
  Value* result = ir::is_floating(type) ? emit_float(b, op, type, args) : emit_integer(b, op, type, args);
  // bf16 and f16 values live in float registers but hold only what those types hold.
  if (ir::info(op).kind == ir::OpKind::UnaryTest) return result;
  return type == DType::bf16 || type == DType::f16 ? convert(b, result, DType::f32, type) : result;
}

}  // namespace braze::codegen
