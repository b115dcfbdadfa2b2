// codegen/x86/emit.cpp: phases to functions, placement of code, and the statements that are neither memory nor
// loops.
#include "codegen/x86/emit.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include "codegen/elementwise.h"
#include "codegen/random.h"
#include "codegen/x86/emitter.h"
#include "codegen/x86/interleave.h"
#include "codegen/x86/machine.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;

Emitter::Emitter(const Kernel& kernel, const Target& target, llvm::Module& module)
    : kernel_(kernel), target_(target), module_(module), context_(module.getContext()), b_(context_) {
  // mul and add of separate ops may become one fma: closer to the exact result. Nothing else is relaxed.
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);

  // Scopes say which accesses cannot meet: those of a buffer with one, and all others.
  llvm::MDBuilder metadata(context_);
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain("braze");
  own_scope_.resize(kernel.buffers.size());
  other_scopes_.resize(kernel.buffers.size());
  llvm::SmallVector<llvm::Metadata*, 8> all;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    if (kernel.buffers[i].is_parameter && kernel.buffers[i].may_alias) continue;
    llvm::MDNode* scope = metadata.createAnonymousAliasScope(domain);
    own_scope_[i] = llvm::MDNode::get(context_, scope);
    all.push_back(scope);
  }
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    llvm::SmallVector<llvm::Metadata*, 8> others;
    for (llvm::Metadata* scope : all)
      if (!own_scope_[i] || own_scope_[i]->getOperand(0) != scope) others.push_back(scope);
    if (!others.empty()) other_scopes_[i] = llvm::MDNode::get(context_, others);
  }
  launch_scopes_ = all.empty() ? nullptr : llvm::MDNode::get(context_, all);
  for (const Stmt& stmt : kernel.body) note_checked(stmt.loop->body);
}

void Emitter::note_checked(const Block& block) {
  for (const Stmt& stmt : block) {
    if (stmt.kind == StmtKind::checked) ordinals_.try_emplace(&stmt, ordinals_.size());
    if (stmt.loop) {
      for (const Reduction& reduction : stmt.loop->reductions)
        if (reduction.combiner) note_checked(*reduction.combiner);
      note_checked(stmt.loop->body);
    }
    note_checked(stmt.body);
  }
}

// ---- the function

void Emitter::begin_function(const std::string& name) {
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, i64, i64, pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  for (unsigned i : {0u, 1u, 2u}) {
    function_->addParamAttr(i, llvm::Attribute::NoAlias);
    function_->addParamAttr(i, llvm::Attribute::ReadOnly);
  }
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  std::string bits = std::to_string(8 * target_.vector_bytes);
  function_->addFnAttr("target-cpu", llvm::StringRef(cpu_name(target_)));
  // x86-64-v4 prefers 256 bits, for the sake of CPUs that AVX-512 slowed down.
  function_->addFnAttr("prefer-vector-width", bits);
  function_->addFnAttr("min-legal-vector-width", bits);

  entry_ = BasicBlock::Create(context_, "entry", function_);
  auto* body = BasicBlock::Create(context_, "body", function_);
  b_.SetInsertPoint(entry_);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);

  slots_.assign(kernel_.types.size(), {});
  affines_.assign(kernel_.types.size(), nullptr);
  pointers_.assign(kernel_.buffers.size(), nullptr);
  symbols_.assign(kernel_.symbols.size(), nullptr);
  scalars_.assign(kernel_.scalars.size(), nullptr);
  dummy_ = nullptr;
  streamed_ = false;
  levels_.clear();
  Level& level = levels_.emplace_back();
  level.instance = new_token();
  level.scope = new_token();
}

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

Value* Emitter::buffer_pointer(BufferId id) {
  if (pointers_[id]) return pointers_[id];
  BRAZE_CHECK(kernel_.buffers[id].is_parameter, "buffer %", kernel_.buffers[id].name, " is used before its alloc");
  return pointers_[id] = at_entry([&] {
           Value* slot = b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(0), id);
           llvm::LoadInst* load = b_.CreateLoad(b_.getPtrTy(), slot);
           load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
           return load;
         });
}

Value* Emitter::symbol_value(uint32_t slot) {
  if (symbols_[slot]) return symbols_[slot];
  return symbols_[slot] = at_entry([&] {
           return b_.CreateLoad(b_.getInt64Ty(),
                                b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(2), slot));
         });
}

Value* Emitter::extent_value(const Extent& extent) {
  if (extent.is_constant()) return b_.getInt64(extent.constant);
  Value* symbol = symbol_value(extent.symbol);
  return at_entry(
      [&] { return b_.CreateAdd(b_.CreateMul(symbol, b_.getInt64(extent.factor)), b_.getInt64(extent.constant)); });
}

llvm::AllocaInst* Emitter::stack(llvm::Type* type, uint64_t count, uint64_t alignment) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_, entry_->begin());
  llvm::AllocaInst* memory = b_.CreateAlloca(llvm::ArrayType::get(type, count));
  memory->setAlignment(llvm::Align(alignment));
  return memory;
}

Value* Emitter::scrap() {
  if (!dummy_) dummy_ = stack(b_.getInt64Ty(), 8, 64);
  return dummy_;
}

void Emitter::annotate(llvm::Instruction* access, BufferId id) {
  if (own_scope_[id]) access->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_[id]);
  if (other_scopes_[id]) access->setMetadata(llvm::LLVMContext::MD_noalias, other_scopes_[id]);
}

// ---- placement

bool Emitter::alive(uint64_t token) const {
  if (!token) return false;
  for (const Level& level : levels_)
    if (level.instance == token || level.scope == token) return true;
  return false;
}

int Emitter::placement(int level) const {
  int at = current();
  while (at > level && levels_[at].preheader) --at;
  return at;
}

Emitter::At::At(Emitter& emitter, int level) {
  if (level == emitter.current()) {
    token_ = emitter.levels_[level].scope;
    return;
  }
  const Level& inner = emitter.levels_[level + 1];
  guard_.emplace(emitter.b_);
  emitter.b_.SetInsertPoint(inner.preheader->getTerminator());
  token_ = inner.instance;
}

// ---- values

llvm::Type* Emitter::type_of(ValueId id, unsigned lanes) {
  return register_type(context_, kernel_.types[id], lanes);
}

Slot& Emitter::slot(ValueId id) {
  if (affines_[id] && !alive(slots_[id].token)) emit_affine(id, *affines_[id]);
  Slot& s = slots_[id];
  BRAZE_CHECK(s.kind != Slot::Kind::unset && alive(s.token), "value ", id, " of kernel @", kernel_.name,
              " is used outside of its block");
  return s;
}

void Emitter::define(ValueId id, Slot::Kind kind, int level, uint64_t token, Parts parts) {
  Slot& s = slots_[id];
  s = Slot{};
  s.kind = kind;
  s.level = level;
  s.token = token;
  s.parts = std::move(parts);
}

Value* Emitter::uniform(ValueId id) {
  Slot& s = slot(id);
  BRAZE_CHECK(s.kind == Slot::Kind::uniform, "value ", id, " of kernel @", kernel_.name,
              " must be the same in all lanes here");
  return s.parts[0];
}

Value* Emitter::spread(Value* scalar) {
  if (lanes().width == 1) return scalar;
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(scalar))
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes().width), constant);
  return b_.CreateVectorSplat(lanes().width, scalar);
}

/// A uniform value as one vector, a linear one as a vector a part.
const Parts& Emitter::vectors(Slot& s) {
  if (s.kind == Slot::Kind::varying) return s.parts;
  unsigned count = s.kind == Slot::Kind::linear ? lanes().parts : 1;
  if (alive(s.spread_token) && s.spread.size() == count && lanes_of(s.spread[0]) == lanes().width) return s.spread;
  At at(*this, placement(s.level));
  s.spread_token = at.token();
  s.spread.clear();
  Value* first = spread(s.parts[0]);
  if (s.kind == Slot::Kind::uniform) {
    s.spread.push_back(first);
    return s.spread;
  }
  for (unsigned p = 0; p < count; ++p) {
    llvm::SmallVector<llvm::Constant*, 16> steps;
    for (unsigned i = 0; i < lanes().width; ++i) steps.push_back(b_.getInt64(p * lanes().width + i));
    s.spread.push_back(b_.CreateAdd(first, llvm::ConstantVector::get(steps)));
  }
  return s.spread;
}

Value* Emitter::part(ValueId id, unsigned p) {
  Slot& s = slot(id);
  if (lanes().width == 1) return s.parts[s.kind == Slot::Kind::varying ? p : 0];
  const Parts& all = vectors(s);
  return s.kind == Slot::Kind::uniform ? all[0] : all[p];
}

Value* Emitter::any_lane(const Parts& mask) {
  Value* all = mask[0];
  for (size_t p = 1; p < mask.size(); ++p) all = b_.CreateOr(all, mask[p]);
  unsigned width = lanes_of(all);
  if (width == 1) return all;
  return b_.CreateICmpNE(b_.CreateBitCast(all, b_.getIntNTy(width)), b_.getIntN(width, 0));
}

// ---- statements

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
      return define(stmt.result, Slot::Kind::uniform, 0, levels_[0].scope, {symbol_value(stmt.slot)});
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
    case StmtKind::random: return emit_random(stmt);
    case StmtKind::dot: return emit_dot(stmt);
    case StmtKind::tmpl: BRAZE_CHECK(false, "template ", stmt.text, " is not lowered");
  }
}

void Emitter::emit_scalar(const Stmt& stmt) {
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
bool Emitter::emit_linear_division(const Stmt& stmt) {
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
bool Emitter::emit_counted_division(const Stmt& stmt) {
  const bool quotient = stmt.op == ir::Op::floor_div;
  if ((!quotient && stmt.op != ir::Op::remainder) || stmt.type != DType::i64) return false;
  const Slot& numerator = slot(stmt.args[0]);
  if (!numerator.counts || !is_uniform(stmt.args[1])) return false;
  const auto* divisor = llvm::dyn_cast<llvm::ConstantInt>(uniform(stmt.args[1]));
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

void Emitter::emit_compute(const Stmt& stmt) {
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

void Emitter::emit_affine(ValueId id, const Affine& affine) {
  Index index = analyse(affine);
  int place = placement(index.level);
  int64_t displacement = 0;
  Value* sum = index_sum(index, displacement);
  if (index.is_uniform() || index.is_strided_by(1)) {
    At at(*this, place);
    sum = b_.CreateAdd(sum, b_.getInt64(displacement));
    define(id, index.is_uniform() ? Slot::Kind::uniform : Slot::Kind::linear, place, at.token(), {sum});
    slots_[id].counts = index.is_uniform() && index.offset.is_constant() && index.offset.constant >= 0 &&
                        llvm::all_of(index.terms, [&](const Affine::Term& term) {
                          return slots_[term.value].counts && term.factor.is_constant() && term.factor.constant > 0;
                        });
    return;
  }
  Parts offsets, parts;
  for (unsigned p = 0; p < levels_[place].lanes.parts; ++p) offsets.push_back(lane_offsets(index, p));
  At at(*this, place);
  Value* base = spread(b_.CreateAdd(sum, b_.getInt64(displacement)));
  for (Value* offset : offsets) parts.push_back(b_.CreateAdd(base, offset));
  define(id, Slot::Kind::varying, place, at.token(), std::move(parts));
}

/// The status is written without a branch: the ordinary case writes to a scrap of stack, so that code around it
/// stays one block.
void Emitter::emit_checked(const Stmt& stmt) {
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

void Emitter::set_status(const Parts& bad, int64_t status) {
  Value* to = b_.CreateSelect(any_lane(bad), function_->getArg(5), scrap());
  llvm::StoreInst* store = b_.CreateStore(b_.getInt64(status), to);
  if (launch_scopes_) store->setMetadata(llvm::LLVMContext::MD_noalias, launch_scopes_);
}

/// Passes its operand on, here and not further out: what a skipped iteration would have read is nobody's error.
void Emitter::emit_value_check(const Stmt& stmt) {
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

void Emitter::emit_branch(const Stmt& stmt) {
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

// ---- random numbers

void Emitter::emit_random(const Stmt& stmt) {
  bool varying = !is_uniform(stmt.args[0]) || !is_uniform(stmt.args[1]);
  Parts results;
  for (unsigned p = 0; p < (varying ? lanes().parts : 1); ++p) {
    Value* seed = varying ? part(stmt.args[0], p) : uniform(stmt.args[0]);
    Value* counter = varying ? part(stmt.args[1], p) : uniform(stmt.args[1]);
    results.push_back(random_number(b_, stmt.type, philox(b_, seed, counter)));
  }
  define_here(stmt.result, varying, std::move(results));
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
