// codegen/types.cpp: see types.h.
#include "codegen/types.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/device.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::Value;

llvm::Type* with_lanes(llvm::Type* type, unsigned lanes) {
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, lanes);
}

unsigned lanes_of(const Value* value) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? vector->getNumElements() : 1;
}

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype, unsigned lanes) {
  switch (dtype) {
    case DType::f64: return with_lanes(llvm::Type::getDoubleTy(context), lanes);
    case DType::f32:
    case DType::bf16:
    case DType::f16: return with_lanes(llvm::Type::getFloatTy(context), lanes);
    case DType::b8: return with_lanes(llvm::Type::getInt1Ty(context), lanes);
    default: break;
  }
  BRAZE_CHECK(ir::is_integral(dtype), "no register holds ", ir::name(dtype));
  return with_lanes(llvm::Type::getIntNTy(context, 8 * ir::byte_size(dtype)), lanes);
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype, unsigned lanes) {
  switch (dtype) {
    case DType::bf16:
    case DType::f16: return with_lanes(llvm::Type::getInt16Ty(context), lanes);
    case DType::b8: return with_lanes(llvm::Type::getInt8Ty(context), lanes);
    default: return register_type(context, dtype, lanes);
  }
}

bool is_signed(DType dtype) {
  return dtype != DType::u8 && dtype != DType::b8;
}

llvm::Constant* number(llvm::LLVMContext& context, DType dtype, double value, unsigned lanes) {
  if (!ir::is_floating(dtype)) return integer(context, dtype, static_cast<int64_t>(value), lanes);
  return llvm::ConstantFP::get(register_type(context, dtype, lanes), value);
}

llvm::Constant* integer(llvm::LLVMContext& context, DType dtype, int64_t value, unsigned lanes) {
  if (ir::is_floating(dtype)) return number(context, dtype, static_cast<double>(value), lanes);
  if (dtype == DType::b8) value = value != 0;
  return llvm::ConstantInt::get(register_type(context, dtype, lanes), static_cast<uint64_t>(value), false);
}

namespace {

llvm::Type* like(const Value* value, llvm::Type* element) {
  return with_lanes(element, lanes_of(value));
}

/// float -> the 16 bits of the nearest bf16, ties to even. NaN becomes the quiet NaN 0x7fc0, as in c10::BFloat16.
Value* to_bf16_bits(llvm::IRBuilderBase& b, Value* value) {
  if (is_for_gpu(b))
    return b.CreateBitCast(b.CreateIntrinsic(llvm::Intrinsic::nvvm_f2bf16_rn, {}, {value}), b.getInt16Ty());
  llvm::Type* wide = like(value, b.getInt32Ty());
  llvm::Type* narrow = like(value, b.getInt16Ty());
  Value* bits = b.CreateBitCast(value, wide);
  Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), llvm::ConstantInt::get(wide, 1));
  Value* rounded = b.CreateLShr(b.CreateAdd(b.CreateAdd(bits, odd), llvm::ConstantInt::get(wide, 0x7fff)), 16);
  Value* is_nan = b.CreateFCmpUNO(value, value);
  return b.CreateTrunc(b.CreateSelect(is_nan, llvm::ConstantInt::get(wide, 0x7fc0), rounded), narrow);
}

Value* from_bf16_bits(llvm::IRBuilderBase& b, Value* bits) {
  Value* wide = b.CreateZExt(bits, like(bits, b.getInt32Ty()));
  return b.CreateBitCast(b.CreateShl(wide, 16), like(bits, b.getFloatTy()));
}

Value* to_f16_bits(llvm::IRBuilderBase& b, Value* value) {
  return b.CreateBitCast(b.CreateFPTrunc(value, like(value, b.getHalfTy())), like(value, b.getInt16Ty()));
}

Value* from_f16_bits(llvm::IRBuilderBase& b, Value* bits) {
  return b.CreateFPExt(b.CreateBitCast(bits, like(bits, b.getHalfTy())), like(bits, b.getFloatTy()));
}

Value* float_to_int(llvm::IRBuilderBase& b, Value* value, DType to) {
  llvm::Type* result = register_type(b.getContext(), to, lanes_of(value));
  if (ir::byte_size(to) >= 4) return b.CreateFPToSI(value, result);
  // Through 32 bits, as compilers do for C: 300.0 to u8 gives 44, not a saturated 255. ATen takes f64 to u8 by i64.
  const bool by_i64 = to == DType::u8 && value->getType()->getScalarType()->isDoubleTy();
  llvm::Type* between = by_i64 ? b.getInt64Ty() : b.getInt32Ty();
  return b.CreateTrunc(b.CreateFPToSI(value, like(value, between)), result);
}

Value* int_to_float(llvm::IRBuilderBase& b, Value* value, DType from, DType to) {
  llvm::Type* result = register_type(b.getContext(), to, lanes_of(value));
  if (ir::byte_size(from) < 4) {
    llvm::Type* wide = like(value, b.getInt32Ty());
    value = is_signed(from) ? b.CreateSExt(value, wide) : b.CreateZExt(value, wide);
  }
  return b.CreateSIToFP(value, result);
}

}  // namespace

Value* convert(llvm::IRBuilderBase& b, Value* value, DType from, DType to) {
  if (from == to) return value;
  llvm::LLVMContext& context = b.getContext();
  unsigned lanes = lanes_of(value);
  llvm::Type* result = register_type(context, to, lanes);

  if (to == DType::b8) {
    Value* zero = llvm::Constant::getNullValue(value->getType());
    return ir::is_floating(from) ? b.CreateFCmpUNE(value, zero) : b.CreateICmpNE(value, zero);
  }
  if (ir::is_floating(to)) {
    if (from == DType::b8)
      value = b.CreateSelect(value, number(context, to, 1, lanes), number(context, to, 0, lanes));
    else if (!ir::is_floating(from))
      value = int_to_float(b, value, from, to);
    else if (value->getType() != result)
      value = b.CreateFPCast(value, result);
    if (to == DType::bf16) return from_bf16_bits(b, to_bf16_bits(b, value));
    if (to == DType::f16) return from_f16_bits(b, to_f16_bits(b, value));
    return value;
  }
  if (ir::is_floating(from)) return float_to_int(b, value, to);
  return b.CreateIntCast(value, result, is_signed(from));
}

Value* from_memory(llvm::IRBuilderBase& b, Value* value, DType stored) {
  if (stored == DType::bf16) return from_bf16_bits(b, value);
  if (stored == DType::f16) return from_f16_bits(b, value);
  if (stored == DType::b8) return b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  return value;
}

Value* to_memory(llvm::IRBuilderBase& b, Value* value, DType from, DType stored) {
  if (stored == DType::bf16) return to_bf16_bits(b, convert(b, value, from, DType::f32));
  if (stored == DType::f16) return to_f16_bits(b, convert(b, value, from, DType::f32));
  if (stored == DType::b8)
    return b.CreateZExt(convert(b, value, from, DType::b8), memory_type(b.getContext(), stored, lanes_of(value)));
  return convert(b, value, from, stored);
}

}  // namespace braze::codegen
