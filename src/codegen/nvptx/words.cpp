#include "codegen/nvptx/words.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/PatternMatch.h>

#include "codegen/types.h"

namespace braze::codegen::nvptx {

using ir::DType;
using llvm::Value;

namespace {

Value* word_of(llvm::IRBuilderBase& b, Value* run, int64_t word) {
  return run->getType()->isVectorTy() ? b.CreateExtractElement(run, static_cast<uint64_t>(word)) : run;
}

/// The word that take_out() made both of, if they are bf16 just taken out of one.
Value* unpaired(Value* low, Value* high) {
  using namespace llvm::PatternMatch;
  Value *first = nullptr, *second = nullptr;
  const bool taken = match(low, m_BitCast(m_Shl(m_Value(first), m_SpecificInt(16)))) &&
                     match(high, m_BitCast(m_And(m_Value(second), m_SpecificInt(0xffff0000))));
  if (!taken) return nullptr;
  const auto *a = llvm::dyn_cast<llvm::Instruction>(first), *c = llvm::dyn_cast<llvm::Instruction>(second);
  return first == second || (a && c && a->isIdenticalTo(c) && !a->mayReadOrWriteMemory()) ? first : nullptr;
}

/// Two elements of 16 bits as one word, the first in the low half.
Value* pair(llvm::IRBuilderBase& b, Value* low, Value* high, DType stored) {
  if (stored == DType::bf16)
    if (Value* word = unpaired(low, high)) return word;
  if (stored == DType::bf16)
    return b.CreateBitCast(b.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {}, {high, low}), b.getInt32Ty());
  const auto bits = [&](Value* value) {
    return b.CreateZExt(to_memory(b, value, ir::compute_dtype(stored), stored), b.getInt32Ty());
  };
  return b.CreateOr(bits(low), b.CreateShl(bits(high), 16));
}

}  // namespace

llvm::Type* run_type(llvm::IRBuilderBase& b, DType stored, int64_t bytes) {
  const int64_t element = ir::byte_size(stored);
  if (element >= 4) return memory_type(b.getContext(), stored, static_cast<unsigned>(bytes / element));
  if (bytes <= 4) return b.getIntNTy(static_cast<unsigned>(8 * bytes));
  return llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(bytes / 4));
}

Value* take_out(llvm::IRBuilderBase& b, Value* run, DType stored, int64_t k) {
  const int64_t element = ir::byte_size(stored);
  if (element >= 4) return from_memory(b, b.CreateExtractElement(run, static_cast<uint64_t>(k)), stored);
  const int64_t a_word = 4 / element;
  Value* word = word_of(b, run, k / a_word);
  const auto shift = static_cast<uint64_t>(8 * element * (k % a_word));
  if (stored == DType::bf16) {
    Value* bits = shift == 0 ? b.CreateShl(word, 16) : b.CreateAnd(word, 0xffff0000);
    return b.CreateBitCast(bits, b.getFloatTy());
  }
  if (shift != 0) word = b.CreateLShr(word, shift);
  return from_memory(b, b.CreateTrunc(word, memory_type(b.getContext(), stored)), stored);
}

Value* put_together(llvm::IRBuilderBase& b, llvm::ArrayRef<Value*> elements, DType stored) {
  const int64_t element = ir::byte_size(stored);
  const DType from = ir::compute_dtype(stored);
  const int64_t bytes = element * static_cast<int64_t>(elements.size());
  llvm::Type* type = run_type(b, stored, bytes);
  Value* run = llvm::PoisonValue::get(type);
  if (element >= 4) {
    for (size_t k = 0; k < elements.size(); ++k)
      run = b.CreateInsertElement(run, to_memory(b, elements[k], from, stored), k);
    return run;
  }
  const auto a_word = static_cast<size_t>(std::min<int64_t>(4, bytes) / element);
  for (size_t first = 0; first < elements.size(); first += a_word) {
    Value* word = nullptr;
    if (element == 2) {
      word = pair(b, elements[first], elements[first + 1], stored);
    } else {
      llvm::Type* whole = b.getIntNTy(static_cast<unsigned>(8 * a_word));
      for (size_t k = 0; k < a_word; ++k) {
        Value* bits = b.CreateShl(b.CreateZExt(to_memory(b, elements[first + k], from, stored), whole), 8 * k);
        word = word ? b.CreateOr(word, bits) : bits;
      }
    }
    if (!type->isVectorTy()) return word;
    run = b.CreateInsertElement(run, word, first / a_word);
  }
  return run;
}

}  // namespace braze::codegen::nvptx
