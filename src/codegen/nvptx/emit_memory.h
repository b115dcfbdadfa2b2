// codegen/nvptx/emit_memory.h: loads, stores and atomics; buffers that are spread over the threads.
#pragma once

#include "codegen/nvptx/emit_values.h"

namespace braze::codegen::nvptx {

class MemoryEmitter : public ValueEmitter {
 protected:
  using ValueEmitter::ValueEmitter;

  struct Place {
    llvm::Value* pointer;
    llvm::Align alignment;  ///< That it is known to have.
  };
  llvm::Value* buffer_pointer(BufferId id);
  /// The element; its address is also known to be a multiple of `wanted` bytes if the result says so.
  Place place(BufferId id, const Linear& index, int64_t wanted);
  int64_t known_alignment(BufferId id, const Linear& index, int64_t wanted);
  bool are_neighbours(const Affine& index, size_t lanes);
  llvm::Value* load_one(BufferId id, const Linear& index);
  Values load_run(BufferId id, const Linear& first, size_t lanes);
  void store_one(BufferId id, const Linear& index, llvm::Value* value);
  void store_run(BufferId id, const Linear& first, const Values& values);
  void annotate(llvm::LoadInst* load, BufferId id);
  void emit_load(const Stmt& stmt);
  void emit_store(const Stmt& stmt);
  void emit_atomic(const Stmt& stmt);

  // ---- emit_registers.cpp
  RegisterRun& register_run(BufferId id, const Linear& first, size_t elements);
  Values load_registers(BufferId id, const Linear& first, size_t elements);
  void store_registers(BufferId id, const Linear& first, const Values& values);
};

}  // namespace braze::codegen::nvptx
