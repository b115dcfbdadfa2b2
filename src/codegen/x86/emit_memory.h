// codegen/x86/emit_memory.h: loads, stores and atomics.
#pragma once

#include "codegen/x86/emit_index.h"

namespace braze::codegen {

class MemoryEmitter : public IndexEmitter {
 protected:
  using IndexEmitter::IndexEmitter;

  int load_placement(int level, BufferId buffer);
  const llvm::SmallVector<BufferId, 4>& written(const Loop& loop);
  const Slot* repeated(const Index& index);
  llvm::Value* load_repeated(BufferId buffer, const Address& address, const Slot& place, unsigned p,
                             llvm::Value* mask);
  llvm::Value* load_part(BufferId buffer, const Index& index, const Address& address, unsigned p, llvm::Value* mask,
                         llvm::Value* otherwise);
  void prefetch_next_row(BufferId buffer, const Index& index, const Address& address);
  llvm::Value* load_all_or_none(const Stmt& stmt, const Address& address, unsigned p, llvm::Value* otherwise);
  void emit_load(const Stmt& stmt);
  void emit_store(const Stmt& stmt);
  void emit_scalar_store(const Stmt& stmt, const Address& address);
  void store_part(const Stmt& stmt, const Index& index, const Address& address, unsigned p, llvm::Value* value,
                  llvm::Value* mask);
  bool store_is_aligned(const Stmt& stmt);
  void emit_atomic(const Stmt& stmt);
  void atomic_lane(const Stmt& stmt, llvm::Value* pointer, llvm::Value* value);
  void atomic_exchange(const Stmt& stmt, llvm::Value* pointer, llvm::Value* value);

  llvm::DenseMap<const Loop*, llvm::SmallVector<BufferId, 4>> written_;
};

}  // namespace braze::codegen
