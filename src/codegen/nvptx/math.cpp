#include "codegen/nvptx/math.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include "codegen/math_coefficients.h"

namespace braze::codegen::nvptx {

namespace {

using V = llvm::Value*;

constexpr double kLog2E = 0x1.715476p+0, kLog2ELow = 0x1.4ae0cp-26;  // f32(log2 e), and what the rounding left

V call(const Lanes& l, llvm::Intrinsic::ID id, V x) {
  return l.b.CreateIntrinsic(id, {}, {x});
}

// e**x = 2**n * 2**r with n = round(x * log2 e), which a saturating instruction keeps within -126 and 126: beyond,
// r grows instead, so that the product overflows and underflows of its own accord. The low bits of `shifted` are
// the exponent of 2**n. NaN goes through r.
V exp_f32(const Lanes& l, V x) {
  constexpr double span = 252, magic = 0x1.8p23;
  const V share = call(l, llvm::Intrinsic::nvvm_saturate_f, l.fma(x, l.number(kLog2E / span), l.number(0.5)));
  const V shifted = l.fma(share, l.number(span), l.number(magic + 1));
  const V minus_n = l.sub(l.number(magic + 127), shifted);
  const V r = l.fma(x, l.number(kLog2ELow), l.fma(x, l.number(kLog2E), minus_n));
  const V power = l.from_bits(l.b.CreateShl(l.to_bits(shifted), l.bits(23)));
  return l.mul(call(l, llvm::Intrinsic::nvvm_ex2_approx_ftz_f, r), power);
}

V exp2_f32(const Lanes& l, V x) {
  return call(l, llvm::Intrinsic::nvvm_ex2_approx_f, x);
}

V sigmoid_f32(const Lanes& l, V x) {
  return call(l, llvm::Intrinsic::nvvm_rcp_rn_f, l.add(exp_f32(l, l.neg(x)), l.number(1)));
}

V rsqrt_f32(const Lanes& l, V x) {
  return call(l, llvm::Intrinsic::nvvm_rsqrt_approx_f, x);
}

// Up to 0.7 x times a polynomial, beyond 1 - 2**-Q: both, and one of them taken, cost less than one that is exact
// for all x.
V erf_f32(const Lanes& l, V x) {
  const V a = l.at_most(l.abs(x), l.number(3.95));  // 1 from there on
  const V near = l.mul(x, l.horner(coefficients::erf_near_f32, l.mul(a, a)));
  const V minus_q = l.mul(l.neg(a), l.horner(coefficients::erf_far_f32, a));
  const V far = l.sub(l.number(1), call(l, llvm::Intrinsic::nvvm_ex2_approx_ftz_f, minus_q));
  return l.select(l.less(a, l.number(0.7)), near, l.copysign(far, x));
}

// As in codegen/math_log.cpp: x = 2**e * (1 + f), log(1 + f) = f + tail(f). What is not positive and finite has the
// answer of PTX's approximation, which is right there.
V log_f32(const Lanes& l, V x) {
  llvm::IRBuilderBase& b = l.b;
  constexpr uint64_t sqrt_half = 0x3f3504f3, exponents = 0xff800000;
  constexpr double ln2 = 0x1.62ep-1, ln2_low = 0x1.0bfbe8p-15;
  const V tiny = l.less(x, l.number(0x1p-126));
  const V bits = l.to_bits(l.select(tiny, l.mul(x, l.number(0x1p23)), x));
  const V scaled_e = b.CreateAnd(b.CreateSub(bits, l.bits(sqrt_half)), l.bits(exponents));
  const V f = l.sub(l.from_bits(b.CreateSub(bits, scaled_e)), l.number(1));
  const V e =
      l.fma(b.CreateSIToFP(scaled_e, l.type()), l.number(0x1p-23), l.select(tiny, l.number(-23), l.number(0)));
  const V tail = l.mul(l.mul(f, f), l.fma(f, l.horner(coefficients::log_f32, f), l.number(-0.5)));
  const V result = l.fma(e, l.number(ln2), l.add(f, l.fma(e, l.number(ln2_low), tail)));
  const V ordinary = b.CreateICmpULT(b.CreateSub(l.to_bits(x), l.bits(1)), l.bits(0x7f7fffff));
  return l.select(ordinary, result, call(l, llvm::Intrinsic::nvvm_lg2_approx_f, x));
}

struct Row {
  ir::Op op;
  Unary f32;
};
constexpr Row kRows[] = {
    {ir::Op::exp, exp_f32}, {ir::Op::exp2, exp2_f32}, {ir::Op::sigmoid, sigmoid_f32},
    {ir::Op::erf, erf_f32}, {ir::Op::log, log_f32},   {ir::Op::rsqrt, rsqrt_f32},
};

}  // namespace

Unary device_form(ir::Op op, bool is_double) {
  if (is_double) return nullptr;
  for (const Row& row : kRows)
    if (row.op == op) return row.f32;
  return nullptr;
}

V approximate_quotient(const Lanes& l, V x, V y) {
  return l.mul(x, call(l, llvm::Intrinsic::nvvm_rcp_approx_ftz_f, y));
}

// |x| shrinks by multiples of |y| * 2**k, with k such that each quotient has at most 22 bits: then a product with
// it is exact in an fma. A quotient rounded up is made good by adding once. f32 is computed in f64, where none is
// denormal.
V emit_fmod(llvm::IRBuilderBase& b, V x, V y) {
  if (x->getType()->isFloatTy()) {
    const V wide = emit_fmod(b, b.CreateFPExt(x, b.getDoubleTy()), b.CreateFPExt(y, b.getDoubleTy()));
    return b.CreateFPTrunc(wide, x->getType());
  }
  const Lanes l(b, x->getType());
  const V size = l.abs(y), infinite = l.equal(l.abs(x), l.infinity());
  const V undefined = b.CreateOr(b.CreateOr(infinite, l.equal(y, l.number(0))), l.unordered(x, y));
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::LLVMContext& context = b.getContext();
  auto* loop = llvm::BasicBlock::Create(context, "fmod", before->getParent());
  auto* done = llvm::BasicBlock::Create(context, "fmod.done", before->getParent());
  const V magnitude = l.abs(x);
  // Comparisons with NaN are false: it runs no loop.
  b.CreateCondBr(b.CreateAnd(b.CreateNot(undefined), b.CreateFCmpOGE(magnitude, size)), loop, done);
  b.SetInsertPoint(loop);
  llvm::PHINode* rest = b.CreatePHI(x->getType(), 2);
  rest->addIncoming(magnitude, before);
  const auto exponent = [&](V number) { return b.CreateLShr(l.to_bits(number), l.bits(52)); };
  const V apart = b.CreateSub(b.CreateSub(exponent(rest), exponent(size)), l.bits(20));
  const V power = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, apart, l.bits(0));
  // 2**power as two normal factors.
  const V half = b.CreateLShr(power, l.bits(1));
  const auto two_to = [&](V k) { return l.from_bits(b.CreateShl(b.CreateAdd(k, l.bits(1023)), l.bits(52))); };
  const V step = l.mul(l.mul(size, two_to(half)), two_to(b.CreateSub(power, half)));
  const V quotient = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, l.div(rest, step));
  const V left = l.fma(l.neg(quotient), step, rest);
  const V next = l.select(l.less(left, l.number(0)), l.add(left, step), left);
  rest->addIncoming(next, loop);
  b.CreateCondBr(b.CreateFCmpOGE(next, size), loop, done);
  b.SetInsertPoint(done);
  llvm::PHINode* found = b.CreatePHI(x->getType(), 2);
  found->addIncoming(magnitude, before);
  found->addIncoming(next, loop);
  return l.select(undefined, l.nan(), l.copysign(found, x));
}

// Payne and Hanek 1983. x = m * 2**s with an integer m. Of the bits of 2/pi those are taken that, times m * 2**s,
// are worth less than 4: 96 of them leave the quotient's fraction with more than 64 exact bits.
LargeAngle reduce_large(const Lanes& l, V x) {
  llvm::IRBuilderBase& b = l.b;
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  llvm::Type *i32 = b.getInt32Ty(), *i64 = b.getInt64Ty();
  // 32 zeros, then 2/pi.
  static constexpr uint32_t words[] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                       0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};
  const char* name = "two_over_pi";
  llvm::GlobalVariable* table = module.getNamedGlobal(name);
  if (!table) {
    llvm::Constant* contents = llvm::ConstantDataArray::get(b.getContext(), words);
    constexpr unsigned constant_memory = 4;
    table = new llvm::GlobalVariable(module, contents->getType(), true, llvm::GlobalValue::InternalLinkage,
                                     contents, name, nullptr, llvm::GlobalValue::NotThreadLocal, constant_memory);
  }
  const V bits = l.to_bits(x);
  const V biased = b.CreateAnd(b.CreateLShr(bits, 23), b.getInt32(255));
  // s = biased - 150; the bit of weight 2 is number s - 1 behind the point, which the table has at 32 + s - 2.
  // (What is infinite reads on to the last word, and is NaN in the end.)
  const V position =
      b.CreateSub(b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, biased, b.getInt32(254)), b.getInt32(150 - 30));
  const V first = b.CreateLShr(position, 5), shift = b.CreateAnd(position, b.getInt32(31));
  V word[4];
  for (uint32_t k = 0; k < 4; ++k) {
    const V place =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.CreateAdd(first, b.getInt32(k)), b.getInt32(7));
    word[k] = b.CreateLoad(i32, b.CreateGEP(i32, table, b.CreateZExt(place, i64)));
  }
  const auto window = [&](int k) {
    const V part = b.CreateIntrinsic(llvm::Intrinsic::fshl, {i32}, {word[k], word[k + 1], shift});
    return b.CreateZExt(part, i64);
  };
  const V high = b.CreateOr(b.CreateShl(window(0), 32), window(1));
  const V mantissa = b.CreateZExt(b.CreateOr(b.CreateAnd(bits, b.getInt32(0x7fffff)), b.getInt32(0x800000)), i64);
  const V product = b.CreateAdd(b.CreateMul(mantissa, high), b.CreateLShr(b.CreateMul(mantissa, window(2)), 32));
  // The nearest quarter turn, and the signed rest in units of 2**-62 of one.
  const V quarter = b.CreateLShr(b.CreateAdd(product, b.getInt64(uint64_t{1} << 61)), 62);
  const V rest = b.CreateSub(product, b.CreateShl(quarter, 62));
  constexpr double kHalfPi = 0x1.921fb54442d18p+0;
  V angle = b.CreateFMul(b.CreateSIToFP(rest, b.getDoubleTy()),
                         llvm::ConstantFP::get(b.getDoubleTy(), kHalfPi * 0x1p-62));
  const V negative = l.less(x, l.number(0));
  angle = b.CreateSelect(negative, b.CreateFNeg(angle), angle);
  V turns = b.CreateTrunc(quarter, i32);
  turns = b.CreateSelect(negative, b.CreateNeg(turns), turns);
  V r = b.CreateFPTrunc(angle, l.type());
  const V low = b.CreateFPTrunc(b.CreateFSub(angle, b.CreateFPExt(r, b.getDoubleTy())), l.type());
  r = l.select(l.less(l.abs(x), l.infinity()), r, l.nan());
  return {turns, r, low};
}

}  // namespace braze::codegen::nvptx
