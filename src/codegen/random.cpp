#include "codegen/random.h"

#include "codegen/types.h"

namespace braze::codegen {

using llvm::Value;

namespace {

/// The 64-bit product of 32-bit lanes and a constant.
Words multiply_wide(llvm::IRBuilderBase& b, Value* x, uint32_t by) {
  llvm::Type* wide = with_lanes(b.getInt64Ty(), lanes_of(x));
  Value* product = b.CreateMul(b.CreateZExt(x, wide), llvm::ConstantInt::get(wide, by));
  return {b.CreateTrunc(product, x->getType()), b.CreateTrunc(b.CreateLShr(product, 32), x->getType())};
}

Words halves(llvm::IRBuilderBase& b, Value* x) {
  llvm::Type* narrow = with_lanes(b.getInt32Ty(), lanes_of(x));
  return {b.CreateTrunc(x, narrow), b.CreateTrunc(b.CreateLShr(x, 32), narrow)};
}

}  // namespace

Words philox(llvm::IRBuilderBase& b, Value* seed, Value* counter) {
  auto [k0, k1] = halves(b, seed);
  auto [c0, c1] = halves(b, counter);
  llvm::Type* word = c0->getType();
  Value* c2 = llvm::Constant::getNullValue(word);
  Value* c3 = c2;
  for (int round = 0; round < 10; ++round) {
    auto [low0, high0] = multiply_wide(b, c0, 0xD2511F53);
    auto [low1, high1] = multiply_wide(b, c2, 0xCD9E8D57);
    c0 = b.CreateXor(b.CreateXor(high1, c1), k0);
    c2 = b.CreateXor(b.CreateXor(high0, c3), k1);
    c1 = low1;
    c3 = low0;
    k0 = b.CreateAdd(k0, llvm::ConstantInt::get(k0->getType(), 0x9E3779B9));
    k1 = b.CreateAdd(k1, llvm::ConstantInt::get(k1->getType(), 0xBB67AE85));
  }
  return {c0, c1};
}

Value* random_number(llvm::IRBuilderBase& b, DType type, Words words) {
  if (type == DType::i32) return words.low;
  unsigned lanes = lanes_of(words.low);
  llvm::Type* result = register_type(b.getContext(), type, lanes);
  if (type == DType::f32)
    return b.CreateFMul(b.CreateUIToFP(b.CreateLShr(words.low, 8), result), llvm::ConstantFP::get(result, 0x1p-24));
  llvm::Type* wide = with_lanes(b.getInt64Ty(), lanes);
  Value* bits = b.CreateOr(b.CreateShl(b.CreateZExt(words.high, wide), 32), b.CreateZExt(words.low, wide));
  if (type == DType::i64) return bits;
  return b.CreateFMul(b.CreateUIToFP(b.CreateLShr(bits, 11), result), llvm::ConstantFP::get(result, 0x1p-53));
}

}  // namespace braze::codegen
