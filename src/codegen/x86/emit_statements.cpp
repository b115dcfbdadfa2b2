// codegen/x86/emit_statements.cpp: the statements that are neither memory nor loops.
#include "codegen/x86/emit_statements.h"

#include "codegen/elementwise.h"
#include "codegen/x86/interleave.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;

StatementEmitter::StatementEmitter(const Kernel& kernel, const Target& target, llvm::Module& module)
    : TileEmitter(kernel, target, module) {
  for (const Stmt& stmt : kernel.body) note_checked(stmt.loop->body);
}

void StatementEmitter::note_checked(const Block& block) {
  for (const Stmt& stmt : block) {
    if (stmt.kind == StmtKind::checked) ordinals_.try_emplace(&stmt, ordinals_.size());
    if (stmt.loop) note_checked(stmt.loop->body);
    note_checked(stmt.body);
  }
}

void StatementEmitter::emit_scalar(const Stmt& stmt) {
  Value*& value = scalars_[stmt.slot];
  if (!value) {
    value = at_entry([&] {
      Value* address = b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(1), stmt.slot);
      return from_memory(b_, b_.CreateLoad(memory_type(context_, stmt.type), address), stmt.type);
    });
  }
  define(stmt.result, Slot::Kind::uniform, 0, levels_[0].scope, {value});
}

/// Quotient or remainder of a linear value by a constant, as splitting an index into coordinates takes them: one
/// scalar division for all lanes, and 32-bit arithmetic for what the lanes add, in place of 64-bit divisions lane
/// by lane.
bool StatementEmitter::emit_linear_division(const Stmt& stmt) {
  bool quotient = stmt.op == ir::Op::floor_div;
  if ((!quotient && stmt.op != ir::Op::remainder) || !is_uniform(stmt.args[1])) return false;
  Slot& index = slot(stmt.args[0]);
  auto* divisor = llvm::dyn_cast<llvm::ConstantInt>(uniform(stmt.args[1]));
  constexpr int64_t limit = 1 << 30;
  if (index.kind != Slot::Kind::linear || !divisor) return false;
  int64_t d = divisor->getSExtValue();
  if (d <= 0 || d >= limit) return false;

  unsigned width = lanes().width, parts = lanes().parts;
  At at(*this, placement(index.level));
  Value* first = emit_elementwise(b_, ir::Op::floor_div, DType::i64, {index.parts[0], divisor});
  Value* rest = b_.CreateTrunc(b_.CreateSub(index.parts[0], b_.CreateMul(first, divisor)), b_.getInt32Ty());
  llvm::Constant* by = integer(context_, DType::i32, d, width);
  llvm::Type* wide = with_lanes(b_.getInt64Ty(), width);
  Parts results;
  for (unsigned p = 0; p < parts; ++p) {
    llvm::SmallVector<llvm::Constant*, 16> steps;
    for (unsigned i = 0; i < width; ++i) steps.push_back(b_.getInt32(p * width + i));
    Value* numerator = b_.CreateAdd(spread(rest), llvm::ConstantVector::get(steps));
    bool at_most_one = d >= int64_t{width} * parts;  // the lanes reach the next multiple, no further
    Value* more =
        at_most_one ? b_.CreateZExt(b_.CreateICmpSGE(numerator, by), by->getType()) : b_.CreateUDiv(numerator, by);
    results.push_back(quotient ? b_.CreateAdd(spread(first), b_.CreateZExt(more, wide))
                               : b_.CreateZExt(b_.CreateSub(numerator, b_.CreateMul(more, by)), wide));
  }
  define(stmt.result, Slot::Kind::varying, placement(index.level), at.token(), std::move(results));
  const bool starts_whole = index.induction && index.level == current() && levels_.back().aligned && width % d == 0;
  if (quotient && starts_whole && index.shift % d == 0) {
    slots_[stmt.result].repeats = d;
    slots_[stmt.result].first = first;
  }
  return true;
}

/// Quotient or remainder of what is known not to be negative: rounding down needs no correction.
bool StatementEmitter::emit_counted_division(const Stmt& stmt) {
  const bool quotient = stmt.op == ir::Op::floor_div;
  if ((!quotient && stmt.op != ir::Op::remainder) || stmt.type != DType::i64) return false;
  const Slot& numerator = slot(stmt.args[0]);
  if (!numerator.counts || !is_uniform(stmt.args[1])) return false;
  const auto* divisor = llvm::dyn_cast<llvm::ConstantInt>(uniform(stmt.args[1]));
  if (!divisor && slots_[stmt.args[1]].is_extent) return emit_division_by_size(stmt);
  if (!divisor || !divisor->getValue().isStrictlyPositive()) return false;
  const int place = placement(numerator.level);
  if (place < current() && alive(slots_[stmt.result].token)) return true;
  At at(*this, place);
  Value* by = uniform(stmt.args[1]);
  Value* result = quotient ? b_.CreateUDiv(numerator.parts[0], by) : b_.CreateURem(numerator.parts[0], by);
  define(stmt.result, Slot::Kind::uniform, place, at.token(), {result});
  slots_[stmt.result].counts = true;
  return true;
}

/// Likewise by a size that the launch passes, as rows are taken apart into coordinates: above 0 where there are
/// rows (loops::Extents::divisor; what a program divides by has gone through Op::divisor). A division would take as
/// long as a short row.
bool StatementEmitter::emit_division_by_size(const Stmt& stmt) {
  const bool quotient = stmt.op == ir::Op::floor_div;
  const Slot numerator = slot(stmt.args[0]);
  const int level = numerator.level;
  Value* of = numerator.parts[0];
  if (const Level::Odometer* found = odometer(numerator, stmt.args[1])) {
    define(stmt.result, Slot::Kind::uniform, level, levels_[level].scope,
           {quotient ? found->quotient : found->remainder});
  } else {
    const int place = placement(level);
    if (place < current() && alive(slots_[stmt.result].token)) return true;
    At at(*this, place);
    Value* by = above_zero(uniform(stmt.args[1]));
    define(stmt.result, Slot::Kind::uniform, place, at.token(),
           {quotient ? b_.CreateUDiv(of, by) : b_.CreateURem(of, by)});
  }
  slots_[stmt.result].counts = true;
  return true;
}

Value* StatementEmitter::above_zero(Value* size) {
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, size, b_.getInt64(1));
}

const Level::Odometer* StatementEmitter::odometer(const Slot& numerator, ValueId divisor) {
  Level& level = levels_[numerator.level];
  const Slot& by = slot(divisor);
  if (!level.header || level.stride != 1 || by.level >= numerator.level) return nullptr;
  Value *of = numerator.parts[0], *size = by.parts[0];
  Value* first = nullptr;
  if (numerator.induction && of == level.variable) first = level.from;
  for (const Level::Odometer& known : level.odometers) {
    if (known.numerator == of && known.size == size) return &known;
    if (known.quotient == of) first = known.first;
  }
  if (!first) return nullptr;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(level.entry);
  Value* safe = above_zero(size);
  Value *quotient = b_.CreateUDiv(first, safe), *remainder = b_.CreateURem(first, safe);
  b_.SetInsertPoint(level.header, level.header->begin());
  Level::Odometer made{of,      size, safe, b_.CreatePHI(b_.getInt64Ty(), 2), b_.CreatePHI(b_.getInt64Ty(), 2),
                       quotient};
  made.quotient->addIncoming(quotient, level.entry->getParent());
  made.remainder->addIncoming(remainder, level.entry->getParent());
  level.odometers.push_back(made);
  return &level.odometers.back();
}

void StatementEmitter::emit_compute(const Stmt& stmt) {
  if (emit_linear_division(stmt) || emit_counted_division(stmt)) return;
  if (loops::status_of(stmt.op) != 0) return emit_value_check(stmt);
  int level = 0;
  bool varying = false;
  for (ValueId arg : stmt.args) {
    Slot& s = slot(arg);
    level = std::max(level, s.level);
    varying |= s.kind != Slot::Kind::uniform;
  }
  DType operand = kernel_.types[stmt.args[stmt.op == ir::Op::where ? 1 : 0]];
  int place = adds_blocks(stmt.op, operand) ? current() : placement(level);
  if (place < current() && alive(slots_[stmt.result].token)) return;  // hoisted by an earlier copy of the body
  unsigned count = varying ? levels_[place].lanes.parts : 1;
  llvm::SmallVector<Parts, 4> args(count);
  for (unsigned p = 0; p < count; ++p)
    for (ValueId arg : stmt.args) args[p].push_back(varying ? part(arg, p) : uniform(arg));
  At at(*this, place);
  Parts results;
  Interleave interleave(b_);
  for (unsigned p = 0; p < count; ++p) {
    if (p) interleave.begin_part();
    Value* result = stmt.op == ir::Op::cast ? convert(b_, args[p][0], operand, kernel_.types[stmt.result])
                                            : emit_elementwise(b_, stmt.op, operand, args[p]);
    results.push_back(result);
  }
  interleave.finish();
  define(stmt.result, varying ? Slot::Kind::varying : Slot::Kind::uniform, place, at.token(), std::move(results));
}

/// The status is written without a branch: the ordinary case writes to a scrap of stack, so that code around it
/// stays one block.
void StatementEmitter::emit_checked(const Stmt& stmt) {
  bool varying = !is_uniform(stmt.args[0]);
  Value* extent = extent_value(stmt.extent);
  unsigned count = varying ? lanes().parts : 1;
  Parts results, bad;
  for (unsigned p = 0; p < count; ++p) {
    Value* index = varying ? part(stmt.args[0], p) : uniform(stmt.args[0]);
    Value* outside = b_.CreateICmpUGE(index, varying ? spread(extent) : extent);
    results.push_back(b_.CreateSelect(outside, llvm::Constant::getNullValue(index->getType()), index));
    bool masked = varying && !lanes().mask.empty();
    bad.push_back(masked ? b_.CreateAnd(outside, lanes().mask[p]) : outside);
  }
  set_status(bad, 1 + ordinals_.lookup(&stmt));
  define_here(stmt.result, varying, std::move(results));
}

void StatementEmitter::set_status(const Parts& bad, int64_t status) {
  Value* to = b_.CreateSelect(any_lane(bad), function_->getArg(5), scrap());
  llvm::StoreInst* store = b_.CreateStore(b_.getInt64(status), to);
  if (launch_scopes_) store->setMetadata(llvm::LLVMContext::MD_noalias, launch_scopes_);
}

/// Passes its operand on, here and not further out: what a skipped iteration would have read is nobody's error.
void StatementEmitter::emit_value_check(const Stmt& stmt) {
  const bool varying = !is_uniform(stmt.args[0]);
  const unsigned count = varying ? lanes().parts : 1;
  Parts results, bad;
  for (unsigned p = 0; p < count; ++p) {
    Value* value = varying ? part(stmt.args[0], p) : uniform(stmt.args[0]);
    Value* fails = fails_check(b_, stmt.op, value);
    bad.push_back(varying && !lanes().mask.empty() ? b_.CreateAnd(fails, lanes().mask[p]) : fails);
    results.push_back(value);
  }
  set_status(bad, loops::status_of(stmt.op));
  define_here(stmt.result, varying, std::move(results));
}

void StatementEmitter::emit_branch(const Stmt& stmt) {
  Level inner;
  inner.lanes = lanes();
  Value* condition;
  if (is_uniform(stmt.predicate)) {
    condition = uniform(stmt.predicate);
  } else {
    inner.lanes.mask.clear();
    for (unsigned p = 0; p < lanes().parts; ++p)
      inner.lanes.mask.push_back(lane_mask(current(), p, stmt.predicate));
    condition = any_lane(inner.lanes.mask);
  }
  inner.scope = new_token();
  auto* then = BasicBlock::Create(context_, "then", function_);
  auto* done = BasicBlock::Create(context_, "endif", function_);
  b_.CreateCondBr(condition, then, done);
  b_.SetInsertPoint(then);
  levels_.push_back(std::move(inner));
  emit_block(stmt.body);
  levels_.pop_back();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

}  // namespace braze::codegen
