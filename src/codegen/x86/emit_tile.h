// codegen/x86/emit_tile.h: tiles in registers: transposes.
#pragma once

#include "codegen/x86/emit_memory.h"

namespace braze::codegen {

class TileEmitter : public MemoryEmitter {
 protected:
  using MemoryEmitter::MemoryEmitter;

  /// Where a transpose goes: element (r, c) to pointer[c*pitch + r].
  struct Transposed {
    BufferId buffer;
    llvm::Value* pointer;
    Extent pitch;
    bool stream;  ///< Past the cache; everything is aligned to whole vectors then.
  };
  class Transpose;
  void emit_transpose(const Stmt& stmt);
  bool emit_transposed_copy(const Stmt& stmt, const Stmt& next);
  void transpose_into(const Transposed& to, const Stmt& stmt, llvm::Value* rows, llvm::Value* columns);
  int64_t step_of(ValueId id);
};

}  // namespace braze::codegen
