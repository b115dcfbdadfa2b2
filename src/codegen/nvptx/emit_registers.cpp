// codegen/nvptx/emit_registers.cpp: buffers that are spread over the threads, each element touched by one of them.
//
// What a thread has of them are runs of neighbours, known by the constant part of their index. They are variables,
// two elements of 16 bits in one, as long as there are registers; then a place in shared memory that no other
// thread touches, laid out so that a warp's accesses of 128 bits fill whole lines.
#include <algorithm>
#include <bit>

#include "codegen/nvptx/emit_memory.h"
#include "codegen/nvptx/words.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::Value;

namespace {
constexpr int64_t kWord = 4;  // bytes of a register
}

/// The runs' parts, `bytes` each: what one access to shared memory moves, or one variable holds.
MemoryEmitter::RegisterRun& MemoryEmitter::register_run(BufferId id, const Linear& first, size_t elements) {
  RegisterRun& run = registers_[{id, first.constant}];
  if (!run.parts.empty()) {
    BRAZE_CHECK(run.elements == elements, "%", kernel_.buffers[id].name, " is touched in runs of one length");
    return run;
  }
  const DType stored = kernel_.buffers[id].dtype;
  const int64_t element = ir::byte_size(stored), bytes = element * static_cast<int64_t>(elements);
  const int64_t words = (bytes + kWord - 1) / kWord;
  const auto widest = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(bytes, kWidest))));
  const int64_t room = target_.gpu.shared_bytes - shared_.bytes() - target_.gpu.scratch_bytes;
  run.elements = elements;
  // Where all who use it come after: whoever asks first may be in a part that only some threads take.
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  run.shared = register_words_ < words && bytes % widest == 0 && bytes * threads_ <= room;
  if (run.shared) {
    run.elements_a_part = static_cast<size_t>(widest / element);
    auto* thread = llvm::cast<llvm::Instruction>(thread_);
    b_.SetInsertPoint(thread->getParent(), std::next(thread->getIterator()));
    for (int64_t done = 0; done < bytes; done += widest) {
      Value* offset = b_.CreateMul(thread_, b_.getInt32(static_cast<uint32_t>(widest)));
      run.parts.push_back(b_.CreateGEP(b_.getInt8Ty(), shared_array(widest * threads_), offset));
    }
    return run;
  }
  register_words_ -= words;
  // Small elements share a word.
  run.elements_a_part = element < kWord && bytes % kWord == 0 ? static_cast<size_t>(kWord / element) : 1;
  llvm::Type* type =
      run.elements_a_part > 1 ? static_cast<llvm::Type*>(b_.getInt32Ty()) : register_type(context_, stored);
  b_.SetInsertPoint(entry_, entry_->begin());
  for (size_t k = 0; k < elements; k += run.elements_a_part) run.parts.push_back(b_.CreateAlloca(type));
  return run;
}

Values MemoryEmitter::load_registers(BufferId id, const Linear& first, size_t elements) {
  const DType stored = kernel_.buffers[id].dtype;
  const RegisterRun& run = register_run(id, first, elements);
  const auto bytes = static_cast<int64_t>(run.elements_a_part) * ir::byte_size(stored);
  Values values;
  for (Value* part : run.parts) {
    if (run.elements_a_part == 1) {
      Value* one =
          b_.CreateLoad(run.shared ? memory_type(context_, stored) : register_type(context_, stored), part);
      values.push_back(run.shared ? from_memory(b_, one, stored) : one);
      continue;
    }
    Value* whole =
        b_.CreateAlignedLoad(run_type(b_, stored, bytes), part, llvm::Align(static_cast<uint64_t>(bytes)));
    for (size_t k = 0; k < run.elements_a_part; ++k)
      values.push_back(take_out(b_, whole, stored, static_cast<int64_t>(k)));
  }
  return values;
}

void MemoryEmitter::store_registers(BufferId id, const Linear& first, const Values& values) {
  const DType stored = kernel_.buffers[id].dtype;
  const RegisterRun& run = register_run(id, first, values.size());
  const auto bytes = static_cast<int64_t>(run.elements_a_part) * ir::byte_size(stored);
  size_t next = 0;
  for (Value* part : run.parts) {
    const auto piece = llvm::ArrayRef(values).slice(next, run.elements_a_part);
    next += run.elements_a_part;
    if (run.elements_a_part == 1)
      b_.CreateStore(run.shared ? to_memory(b_, piece[0], ir::compute_dtype(stored), stored) : piece[0], part);
    else
      b_.CreateAlignedStore(put_together(b_, piece, stored), part, llvm::Align(static_cast<uint64_t>(bytes)));
  }
}

}  // namespace braze::codegen::nvptx
