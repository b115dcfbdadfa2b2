// codegen/nvptx/emit.cpp: phases to kernel functions.
#include "codegen/nvptx/emit.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/elementwise.h"
#include "codegen/nvptx/emitter.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::Value;

GpuPhase Emitter::emit_phase(const Loop& loop, const std::string& name) {
  BRAZE_CHECK(loop.begin_value == loops::none && loop.end_value == loops::none && loop.reductions.empty() &&
                  loop.begin == Extent(0) && (loop.step == 1 || loop.end.is_constant()),
              "blocks are counted from 0 to a number known at launch");
  // What is bound to nothing is little: a constant, say. One thread does it.
  const bool blocks = loop.schedule.bind == loops::Schedule::Bind::block;
  GpuPhase phase;
  phase.entry = name;
  phase.threads = blocks ? threads_of(loop) : static_cast<uint32_t>(kWarp);
  phase.blocks = blocks ? loop.end : Extent(1);
  if (blocks && loop.step != 1) phase.blocks = Extent((loop.end.constant + loop.step - 1) / loop.step);
  phase.cluster = static_cast<uint32_t>(loop.schedule.cluster);
  begin_function(name, phase.threads, phase.cluster);
  if (blocks) {
    MaybeRange range;
    if (loop.end.is_constant()) range = Range{0, std::max<int64_t>(0, phase.blocks.constant - 1)};
    Value* number = b_.CreateIntrinsic(cluster_ > 1 ? llvm::Intrinsic::nvvm_read_ptx_sreg_clusterid_x
                                                    : llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                       {}, {});
    Linear variable;
    variable.add(Linear(Base{number, range}), loop.step);
    define_number(loop.var, {variable});
    emit_block(loop.body);
    // Shared memory that others may still read goes with its block.
    if (cluster_ > 1) cluster_barrier();
    phase.blocks.constant *= cluster_, phase.blocks.factor *= cluster_;
  } else {
    when(b_.CreateICmpEQ(thread_, b_.getInt32(0)), [&] {
      scope_ = Scope::thread;
      emit_loop(loop);
    });
  }
  b_.CreateRetVoid();
  BRAZE_CHECK(shared_.bytes() <= target_.gpu.shared_bytes, "a block has ", target_.gpu.shared_bytes,
              " bytes of shared memory, ", shared_.bytes(), " are wanted");
  phase.shared_bytes = static_cast<uint32_t>(shared_.bytes());
  return phase;
}

void Emitter::emit_block(const Block& block) {
  for (const Stmt& stmt : block) emit_stmt(stmt);
}

void Emitter::emit_stmt(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::constant:
      if (is_number(stmt.result)) return define_number(stmt.result, {Linear(stmt.number.as_int())});
      return define(stmt.result,
                    {ir::is_floating(stmt.type) ? codegen::number(context_, stmt.type, stmt.number.as_double())
                                                : codegen::integer(context_, stmt.type, stmt.number.as_int())});
    case StmtKind::scalar: return emit_scalar(stmt);
    case StmtKind::symbol:
      return define_number(stmt.result, {extent([&] {
                             Extent symbol;
                             symbol.factor = 1;
                             symbol.symbol = stmt.slot;
                             return symbol;
                           }())});
    case StmtKind::compute: return emit_compute(stmt);
    case StmtKind::affine: {
      llvm::SmallVector<Linear, 1> numbers;
      for (size_t lane = 0, count = lanes_of(stmt.index); lane < count; ++lane)
        numbers.push_back(linear(stmt.index, lane));
      return define_number(stmt.result, std::move(numbers));
    }
    case StmtKind::load: return emit_load(stmt);
    case StmtKind::store: return emit_store(stmt);
    case StmtKind::atomic: return emit_atomic(stmt);
    case StmtKind::checked: return emit_checked(stmt);
    case StmtKind::alloc: return emit_alloc(stmt);
    case StmtKind::loop: return emit_loop(*stmt.loop);
    case StmtKind::branch: return emit_branch(stmt);
    case StmtKind::barrier: return barrier();
    case StmtKind::transpose: BRAZE_CHECK(false, "no loops for a GPU contain this statement");
  }
}

Emission emit(const loops::Kernel& kernel, const Target& target, llvm::Module& module, std::string_view prefix,
              bool aligned) {
  Emitter emitter(kernel, target, module, aligned);
  Emission emission;
  for (const Stmt& stmt : kernel.body) {
    BRAZE_CHECK(stmt.kind == StmtKind::loop, "a kernel's top-level statements are loops");
    emission.phases.push_back(
        emitter.emit_phase(*stmt.loop, concat(prefix, static_cast<int>(emission.phases.size()))));
  }
  emission.alignments = emitter.alignments();
  return emission;
}

}  // namespace braze::codegen::nvptx
