// codegen/x86/emit_values.cpp: the function of a phase, placement of code, values.
#include "codegen/x86/emit_values.h"

#include <llvm/IR/MDBuilder.h>

#include "codegen/x86/interleave.h"
#include "codegen/x86/machine.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;

void prefetch(llvm::IRBuilder<>& builder, Value* pointer, CacheLevel into) {
  constexpr int read = 0, data = 1;
  builder.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {pointer->getType()},
      {pointer, builder.getInt32(read), builder.getInt32(static_cast<uint32_t>(into)), builder.getInt32(data)});
}

ValueEmitter::ValueEmitter(const Kernel& kernel, const Target& target, llvm::Module& module)
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
}

// ---- the function

void ValueEmitter::begin_function(const std::string& name) {
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

Value* ValueEmitter::buffer_pointer(BufferId id) {
  if (pointers_[id]) return pointers_[id];
  BRAZE_CHECK(kernel_.buffers[id].is_parameter, "buffer %", kernel_.buffers[id].name, " is used before its alloc");
  return pointers_[id] = at_entry([&] {
           Value* slot = b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(0), id);
           llvm::LoadInst* load = b_.CreateLoad(b_.getPtrTy(), slot);
           load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
           return load;
         });
}

Value* ValueEmitter::symbol_value(uint32_t slot) {
  if (symbols_[slot]) return symbols_[slot];
  return symbols_[slot] = at_entry([&] {
           return b_.CreateLoad(b_.getInt64Ty(),
                                b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(2), slot));
         });
}

Value* ValueEmitter::extent_value(const Extent& extent) {
  if (extent.is_constant()) return b_.getInt64(extent.constant);
  Value* symbol = symbol_value(extent.symbol);
  return at_entry(
      [&] { return b_.CreateAdd(b_.CreateMul(symbol, b_.getInt64(extent.factor)), b_.getInt64(extent.constant)); });
}

llvm::AllocaInst* ValueEmitter::stack(llvm::Type* type, uint64_t count, uint64_t alignment) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_, entry_->begin());
  llvm::AllocaInst* memory = b_.CreateAlloca(llvm::ArrayType::get(type, count));
  memory->setAlignment(llvm::Align(alignment));
  return memory;
}

Value* ValueEmitter::scrap() {
  if (!dummy_) dummy_ = stack(b_.getInt64Ty(), 8, 64);
  return dummy_;
}

void ValueEmitter::annotate(llvm::Instruction* access, BufferId id) {
  if (own_scope_[id]) access->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_[id]);
  if (other_scopes_[id]) access->setMetadata(llvm::LLVMContext::MD_noalias, other_scopes_[id]);
}

// ---- placement

bool ValueEmitter::alive(uint64_t token) const {
  if (!token) return false;
  for (const Level& level : levels_)
    if (level.instance == token || level.scope == token) return true;
  return false;
}

int ValueEmitter::placement(int level) const {
  int at = current();
  while (at > level && levels_[at].preheader) --at;
  return at;
}

ValueEmitter::At::At(ValueEmitter& emitter, int level) {
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

llvm::Type* ValueEmitter::type_of(ValueId id, unsigned lanes) {
  return register_type(context_, kernel_.types[id], lanes);
}

Slot& ValueEmitter::slot(ValueId id) {
  if (affines_[id] && !alive(slots_[id].token)) emit_affine(id, *affines_[id]);
  Slot& s = slots_[id];
  BRAZE_CHECK(s.kind != Slot::Kind::unset && alive(s.token), "value ", id, " of kernel @", kernel_.name,
              " is used outside of its block");
  return s;
}

void ValueEmitter::define(ValueId id, Slot::Kind kind, int level, uint64_t token, Parts parts) {
  Slot& s = slots_[id];
  s = Slot{};
  s.kind = kind;
  s.level = level;
  s.token = token;
  s.parts = std::move(parts);
}

Value* ValueEmitter::uniform(ValueId id) {
  Slot& s = slot(id);
  BRAZE_CHECK(s.kind == Slot::Kind::uniform, "value ", id, " of kernel @", kernel_.name,
              " must be the same in all lanes here");
  return s.parts[0];
}

Value* ValueEmitter::spread(Value* scalar) {
  if (lanes().width == 1) return scalar;
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(scalar))
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes().width), constant);
  return b_.CreateVectorSplat(lanes().width, scalar);
}

/// A uniform value as one vector, a linear one as a vector a part.
const Parts& ValueEmitter::vectors(Slot& s) {
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

Value* ValueEmitter::part(ValueId id, unsigned p) {
  Slot& s = slot(id);
  if (lanes().width == 1) return s.parts[s.kind == Slot::Kind::varying ? p : 0];
  const Parts& all = vectors(s);
  return s.kind == Slot::Kind::uniform ? all[0] : all[p];
}

Value* ValueEmitter::any_lane(const Parts& mask) {
  Value* all = mask[0];
  for (size_t p = 1; p < mask.size(); ++p) all = b_.CreateOr(all, mask[p]);
  unsigned width = lanes_of(all);
  if (width == 1) return all;
  return b_.CreateICmpNE(b_.CreateBitCast(all, b_.getIntNTy(width)), b_.getIntN(width, 0));
}

void ValueEmitter::counted_loop(Value* from, Value* to, int64_t step, llvm::function_ref<void(Value*)> body) {
  BasicBlock* entry = b_.GetInsertBlock();
  auto* header = BasicBlock::Create(context_, "tile", function_);
  auto* after = BasicBlock::Create(context_, "tile.done", function_);
  b_.CreateCondBr(b_.CreateICmpSLT(from, to), header, after);
  b_.SetInsertPoint(header);
  llvm::PHINode* variable = b_.CreatePHI(b_.getInt64Ty(), 2);
  variable->addIncoming(from, entry);
  body(variable);
  Value* next = b_.CreateAdd(variable, b_.getInt64(step));
  variable->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), header, after);
  b_.SetInsertPoint(after);
}

}  // namespace braze::codegen
