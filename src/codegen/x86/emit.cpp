// codegen/x86/emit.cpp: phases to functions.
#include "codegen/x86/emit.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/x86/emitter.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::Value;

void Emitter::emit_phase(const Loop& loop, const std::string& name) {
  BRAZE_CHECK(loop.begin_value == loops::none && loop.end_value == loops::none && loop.reductions.empty(),
              "a phase's bounds are known at launch and it reduces nothing");
  begin_function(name);
  // The caller counts iterations; the loop runs in values of its variable.
  Value* first = extent_value(loop.begin);
  Value* step = b_.getInt64(loop.step);
  Value* begin = b_.CreateAdd(b_.CreateMul(function_->getArg(3), step), first);
  Value* end = b_.CreateAdd(b_.CreateMul(function_->getArg(4), step), first);
  run_loop(loop, begin, end);
  // Non-temporal stores are weakly ordered: they must be out before another thread is told that the phase is done.
  if (streamed_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  b_.CreateRetVoid();
}

void Emitter::emit_block(const Block& block) {
  for (size_t i = 0; i < block.size(); ++i) {
    const bool is_transpose = block[i].kind == StmtKind::transpose;
    if (is_transpose && i + 2 == block.size() && emit_transposed_copy(block[i], block[i + 1])) return;
    emit_stmt(block[i]);
  }
}

void Emitter::emit_stmt(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::constant: {
      llvm::Constant* value = ir::is_floating(stmt.type) ? number(context_, stmt.type, stmt.number.as_double())
                                                         : integer(context_, stmt.type, stmt.number.as_int());
      return define(stmt.result, Slot::Kind::uniform, 0, levels_[0].scope, {value});
    }
    case StmtKind::scalar: return emit_scalar(stmt);
    case StmtKind::symbol:
      define(stmt.result, Slot::Kind::uniform, 0, levels_[0].scope, {symbol_value(stmt.slot)});
      slots_[stmt.result].is_extent = true;
      return;
    case StmtKind::compute: return emit_compute(stmt);
    case StmtKind::affine: affines_[stmt.result] = &stmt.index; return;
    case StmtKind::load: return emit_load(stmt);
    case StmtKind::store: return emit_store(stmt);
    case StmtKind::atomic: return emit_atomic(stmt);
    case StmtKind::checked: return emit_checked(stmt);
    case StmtKind::alloc: {
      if (pointers_[stmt.buffer]) return;  // a further copy of the body: one piece of stack serves all
      const Buffer& buffer = kernel_.buffers[stmt.buffer];
      constexpr int64_t most = 256 << 10;  // of a thread's stack, which the caller's frames share
      BRAZE_CHECK(buffer.size.is_constant() && buffer.size.constant * ir::byte_size(buffer.dtype) <= most,
                  "alloc of %", buffer.name, " needs a constant size of at most 256 KB");
      uint64_t alignment = std::max<int64_t>(64, buffer.alignment);
      pointers_[stmt.buffer] = stack(memory_type(context_, buffer.dtype), buffer.size.constant, alignment);
      return;
    }
    case StmtKind::loop: return emit_loop(*stmt.loop);
    case StmtKind::branch: return emit_branch(stmt);
    case StmtKind::barrier: return;  // a thread runs a whole iteration: nobody to wait for
    case StmtKind::transpose: return emit_transpose(stmt);
  }
}

void emit(const loops::Kernel& kernel, const Target& target, llvm::Module& module, std::string_view prefix) {
  Emitter emitter(kernel, target, module);
  int phase = 0;
  for (const Stmt& stmt : kernel.body) {
    BRAZE_CHECK(stmt.kind == StmtKind::loop, "a kernel's top-level statements are loops");
    emitter.emit_phase(*stmt.loop, std::string(prefix) + std::to_string(phase++));
  }
}

}  // namespace braze::codegen
