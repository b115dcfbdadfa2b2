// codegen/x86/emit_memory.cpp: loads, stores and atomics.
#include "codegen/x86/emit_memory.h"

#include <numeric>

#include "codegen/elementwise.h"
#include "codegen/x86/strided.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::none;

namespace {

/// Elements from lane to lane; 0 if they differ or are not known.
int64_t constant_stride(const Index& index) {
  const bool is_known = index.varying.empty() && index.lane_stride && index.lane_stride->is_constant();
  return is_known ? index.lane_stride->constant : 0;
}

bool is_multiple(const Extent& extent, int64_t of) {
  return extent.constant % of == 0 && (extent.is_constant() || extent.factor % of == 0);
}

llvm::Align element_alignment(const Buffer& buffer) {
  return llvm::Align(std::min<int64_t>(buffer.alignment, ir::byte_size(buffer.dtype)));
}

}  // namespace

// ---- placement of loads

const llvm::SmallVector<BufferId, 4>& MemoryEmitter::written(const Loop& loop) {
  auto [found, is_new] = written_.try_emplace(&loop);
  if (!is_new) return found->second;
  llvm::SmallVector<BufferId, 4> result;
  auto visit = [&](auto& self, const Block& block) -> void {
    for (const Stmt& stmt : block) {
      bool writes =
          stmt.kind == StmtKind::store || stmt.kind == StmtKind::atomic || stmt.kind == StmtKind::transpose;
      if (writes) result.push_back(stmt.buffer);
      if (stmt.loop) self(self, stmt.loop->body);
      self(self, stmt.body);
    }
  };
  visit(visit, loop.body);
  return written_[&loop] = std::move(result);
}

/// As placement(), but not out of a loop that may write what is read.
int MemoryEmitter::load_placement(int level, BufferId buffer) {
  auto shared = [&](BufferId id) { return kernel_.buffers[id].is_parameter && kernel_.buffers[id].may_alias; };
  int at = current();
  for (; at > level && levels_[at].preheader; --at) {
    bool clash = false;
    for (BufferId other : written(*levels_[at].loop)) clash |= other == buffer || (shared(other) && shared(buffer));
    if (clash) break;
  }
  return at;
}

// ---- loads

/// The only term that differs between lanes, if it is a number for several lanes each.
const Slot* MemoryEmitter::repeated(const Index& index) {
  if (index.lane_stride || index.varying.size() != 1 || !(index.varying[0].factor == Extent(1))) return nullptr;
  const Slot& place = slots_[index.varying[0].value];
  return place.repeats > 1 && place.repeats <= 8 && 2 * place.repeats <= lanes().width ? &place : nullptr;
}

/// The elements once, each then put into its lanes.
Value* MemoryEmitter::load_repeated(BufferId buffer, const Address& address, const Slot& place, unsigned p,
                                    Value* mask) {
  const Buffer& from = kernel_.buffers[buffer];
  const int64_t width = lanes().width, count = width / place.repeats;
  Value* pointer = element(buffer, address, p * count);
  pointer = b_.CreateGEP(memory_type(context_, from.dtype), pointer, place.first);
  llvm::Type* type = memory_type(context_, from.dtype, count);
  Value* wanted = nullptr;  // elements that at least one lane is for
  for (int64_t k = 0; mask && k < place.repeats; ++k) {
    llvm::SmallVector<int, 32> lane_of;
    for (int64_t i = 0; i < count; ++i) lane_of.push_back(static_cast<int>(i * place.repeats + k));
    Value* lanes = b_.CreateShuffleVector(mask, lane_of);
    wanted = wanted ? b_.CreateOr(wanted, lanes) : lanes;
  }
  Value* zero = llvm::Constant::getNullValue(type);
  llvm::Instruction* load = nullptr;
  if (wanted)
    load = b_.CreateMaskedLoad(type, pointer, element_alignment(from), wanted, zero);
  else
    load = b_.CreateAlignedLoad(type, pointer, element_alignment(from));
  annotate(load, buffer);
  llvm::SmallVector<int, 64> element_of;
  for (int64_t i = 0; i < width; ++i) element_of.push_back(static_cast<int>(i / place.repeats));
  return b_.CreateShuffleVector(load, element_of);
}

/// One part in registers. Lanes off the mask are 0, or `otherwise` if given.
Value* MemoryEmitter::load_part(BufferId buffer, const Index& index, const Address& address, unsigned p,
                                Value* mask, Value* otherwise) {
  const Buffer& from = kernel_.buffers[buffer];
  unsigned width = lanes().width;
  llvm::Type* type = memory_type(context_, from.dtype, width);
  llvm::Align alignment = element_alignment(from);
  int64_t first = static_cast<int64_t>(p) * width;
  Value* zero = llvm::Constant::getNullValue(type);
  llvm::Instruction* load = nullptr;
  Value* loaded;
  if (index.is_strided_by(1)) {
    Value* pointer = element(buffer, address, first);
    load = mask ? static_cast<llvm::Instruction*>(b_.CreateMaskedLoad(type, pointer, alignment, mask, zero))
                : b_.CreateAlignedLoad(type, pointer, alignment);
    loaded = load;
  } else if (index.is_strided_by(-1) && !mask) {
    load = b_.CreateAlignedLoad(type, element(buffer, address, -(first + width - 1)), alignment);
    loaded = b_.CreateVectorReverse(load);
  } else if (const int64_t stride = constant_stride(index); is_short_stride(stride, width)) {
    loaded = load_strided(b_, stride, width, mask, [&](int64_t from_element, Value* own_mask) -> Value* {
      Value* pointer = element(buffer, address, first * stride + from_element);
      load = own_mask
                 ? static_cast<llvm::Instruction*>(b_.CreateMaskedLoad(type, pointer, alignment, own_mask, zero))
                 : b_.CreateAlignedLoad(type, pointer, alignment);
      annotate(load, buffer);
      return load;
    });
  } else if (const Slot* place = repeated(index)) {
    loaded = load_repeated(buffer, address, *place, p, mask);
  } else {
    Value* pointers = part_pointers(buffer, index, address, p);
    Value* all = llvm::Constant::getAllOnesValue(with_lanes(b_.getInt1Ty(), width));
    load = b_.CreateMaskedGather(type, pointers, alignment, mask ? mask : all, zero);
    loaded = load;
  }
  if (load) annotate(load, buffer);
  loaded = from_memory(b_, loaded, from.dtype);
  return otherwise ? b_.CreateSelect(mask, loaded, otherwise) : loaded;
}

/// Where lanes pick elements of a row in any order (`gather`), the processor cannot tell which lines are next: rows
/// that lie in memory are fetched one ahead, as much of the next one as the loop has come through of this one.
void MemoryEmitter::prefetch_next_row(BufferId buffer, const Index& index, const Address& address) {
  const Buffer& from = kernel_.buffers[buffer];
  const Level& here = levels_.back();
  const bool picks = index.varying.size() == 1 && index.varying[0].factor == Extent(1) && !index.lane_stride;
  if (!picks || index.terms.empty() || !here.loop || !here.header || !here.variable || !lanes().mask.empty())
    return;
  const Affine::Term& row = index.terms.back();
  if (!row.factor.is_constant() || slots_[row.value].level >= current()) return;
  constexpr int64_t cached = 1 << 20, most = cached / 16;
  const int64_t line = target_.cache_line, least = 4 * line;
  const int64_t size = ir::byte_size(from.dtype), bytes = row.factor.constant * size;
  const bool is_cached = from.size.is_constant() && from.size.constant > 0 && from.size.constant * size < cached;
  const Extent& end = here.loop->end;
  const bool is_short = end.is_constant() && 2 * end.constant < row.factor.constant;  // Reads little of each row.
  if (bytes < least || bytes > most || is_cached || is_short) return;
  Value* next =
      b_.CreateGEP(memory_type(context_, from.dtype), element(buffer, address, row.factor.constant), here.variable);
  for (int64_t at = 0; at < lanes().width * lanes().parts * size; at += line)
    prefetch(b_, b_.CreateConstGEP1_64(b_.getInt8Ty(), next, at), CacheLevel::first);
}

/// One part under a predicate that all lanes share: read from elsewhere if it is false. Loads under a mask take
/// part in no prefetching: twice the time for what lies in memory.
Value* MemoryEmitter::load_all_or_none(const Stmt& stmt, const Address& address, unsigned p, Value* otherwise) {
  const Buffer& from = kernel_.buffers[stmt.buffer];
  const unsigned width = lanes().width;
  Value* is_read = uniform(stmt.predicate);
  Value* pointer = element(stmt.buffer, address, static_cast<int64_t>(p) * width);
  pointer = b_.CreateSelect(is_read, pointer, scrap());
  Value* loaded = b_.CreateAlignedLoad(memory_type(context_, from.dtype, width), pointer, element_alignment(from));
  return b_.CreateSelect(is_read, from_memory(b_, loaded, from.dtype), otherwise);
}

void MemoryEmitter::emit_load(const Stmt& stmt) {
  const Buffer& from = kernel_.buffers[stmt.buffer];
  DType registers = ir::compute_dtype(from.dtype);
  Index index = analyse(stmt.index);
  int level = index.level;
  bool varying = !index.is_uniform();
  if (stmt.predicate != none) {
    for (ValueId id : {stmt.predicate, stmt.otherwise}) {
      level = std::max(level, slot(id).level);
      varying |= !is_uniform(id);
    }
  }
  int place = load_placement(level, stmt.buffer);
  if (place < current() && alive(slots_[stmt.result].token)) return;
  Address at_element = address(stmt.buffer, index);

  if (!varying) {
    At at(*this, place);
    Value* pointer = element(stmt.buffer, at_element, 0);
    // Where the predicate is false something harmless is read instead: no branch.
    if (stmt.predicate != none) pointer = b_.CreateSelect(uniform(stmt.predicate), pointer, scrap());
    llvm::LoadInst* load =
        b_.CreateAlignedLoad(memory_type(context_, from.dtype), pointer, element_alignment(from));
    if (stmt.predicate == none) annotate(load, stmt.buffer);
    Value* value = from_memory(b_, load, from.dtype);
    if (stmt.predicate != none) value = b_.CreateSelect(uniform(stmt.predicate), value, uniform(stmt.otherwise));
    value = convert(b_, value, registers, stmt.type);
    return define(stmt.result, Slot::Kind::uniform, place, at.token(), {value});
  }

  At at(*this, place);
  const bool all_or_none = stmt.predicate != none && is_uniform(stmt.predicate) && index.is_strided_by(1) &&
                           levels_[place].lanes.mask.empty();
  Parts results;
  prefetch_next_row(stmt.buffer, index, at_element);
  for (unsigned p = 0; p < lanes().parts; ++p) {
    Value* otherwise = stmt.otherwise == none ? nullptr : part(stmt.otherwise, p);
    Value* value =
        all_or_none ? load_all_or_none(stmt, at_element, p, otherwise)
                    : load_part(stmt.buffer, index, at_element, p, lane_mask(place, p, stmt.predicate), otherwise);
    results.push_back(convert(b_, value, registers, stmt.type));
  }
  define(stmt.result, Slot::Kind::varying, place, at.token(), std::move(results));
}

// ---- stores

/// A non-temporal store must be aligned to the whole vector.
bool MemoryEmitter::store_is_aligned(const Stmt& stmt) {
  if (lanes().width == 1 || !levels_.back().aligned || !lanes().mask.empty()) return false;
  const Buffer& to = kernel_.buffers[stmt.buffer];
  int64_t width = lanes().width;
  if (to.alignment < std::min<int64_t>(64, width * ir::byte_size(to.dtype))) return false;
  Index index = analyse(stmt.index);
  if (!index.is_strided_by(1) || !is_multiple(index.offset, width)) return false;
  for (const Affine::Term& term : index.terms) {
    const Slot& s = slots_[term.value];
    bool is_lane_variable = s.kind == Slot::Kind::linear && s.induction && s.level == current();
    if (!is_lane_variable && !is_multiple(term.factor, width)) return false;
  }
  return true;
}

void MemoryEmitter::emit_scalar_store(const Stmt& stmt, const Address& address) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  Value* pointer = element(stmt.buffer, address, 0);
  Value* value = to_memory(b_, uniform(stmt.args[0]), kernel_.types[stmt.args[0]], to.dtype);
  if (stmt.predicate != none) pointer = b_.CreateSelect(uniform(stmt.predicate), pointer, scrap());
  llvm::StoreInst* store = b_.CreateAlignedStore(value, pointer, element_alignment(to));
  if (stmt.predicate == none) annotate(store, stmt.buffer);
}

void MemoryEmitter::store_part(const Stmt& stmt, const Index& index, const Address& address, unsigned p,
                               Value* value, Value* mask) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  unsigned width = lanes().width;
  int64_t first = static_cast<int64_t>(p) * width;
  llvm::Align alignment = element_alignment(to);
  llvm::Instruction* store;
  if (index.is_strided_by(1)) {
    Value* pointer = element(stmt.buffer, address, first);
    if (mask) {
      store = b_.CreateMaskedStore(value, pointer, alignment, mask);
    } else if (stmt.stream && store_is_aligned(stmt)) {
      llvm::Align whole(std::min<int64_t>(64, width * ir::byte_size(to.dtype)));
      store = b_.CreateAlignedStore(value, pointer, whole);
      llvm::Metadata* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
      store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, one));
      streamed_ = true;
    } else {
      store = b_.CreateAlignedStore(value, pointer, alignment);
    }
  } else if (index.is_strided_by(-1) && !mask) {
    Value* pointer = element(stmt.buffer, address, -(first + width - 1));
    store = b_.CreateAlignedStore(b_.CreateVectorReverse(value), pointer, alignment);
  } else {
    // Lanes are written in order, so that of several to one place the last one stays.
    Value* all = llvm::Constant::getAllOnesValue(with_lanes(b_.getInt1Ty(), width));
    store =
        b_.CreateMaskedScatter(value, part_pointers(stmt.buffer, index, address, p), alignment, mask ? mask : all);
  }
  annotate(store, stmt.buffer);
}

void MemoryEmitter::emit_store(const Stmt& stmt) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  Index index = analyse(stmt.index);
  Address at_element = address(stmt.buffer, index);
  bool varying =
      !index.is_uniform() || !is_uniform(stmt.args[0]) || (stmt.predicate != none && !is_uniform(stmt.predicate));
  if (!varying) return emit_scalar_store(stmt, at_element);
  for (unsigned p = 0; p < lanes().parts; ++p) {
    Value* value = to_memory(b_, part(stmt.args[0], p), kernel_.types[stmt.args[0]], to.dtype);
    store_part(stmt, index, at_element, p, value, lane_mask(current(), p, stmt.predicate));
  }
}

// ---- atomics

/// Combines in registers and exchanges until no other thread came between: what x86 has no instruction for.
void MemoryEmitter::atomic_exchange(const Stmt& stmt, Value* pointer, Value* value) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  DType registers = ir::compute_dtype(to.dtype);
  llvm::Type* memory = memory_type(context_, to.dtype);
  llvm::Type* bits = b_.getIntNTy(8 * ir::byte_size(to.dtype));
  Value* first = b_.CreateAlignedLoad(bits, pointer, llvm::Align(ir::byte_size(to.dtype)));
  BasicBlock* entry = b_.GetInsertBlock();
  auto* retry = BasicBlock::Create(context_, "atomic", function_);
  auto* done = BasicBlock::Create(context_, "atomic.done", function_);
  b_.CreateBr(retry);
  b_.SetInsertPoint(retry);
  llvm::PHINode* seen = b_.CreatePHI(bits, 2);
  seen->addIncoming(first, entry);
  Value* old = from_memory(b_, b_.CreateBitCast(seen, memory), to.dtype);
  Value* combined = stmt.atomic == loops::AtomicOp::add ? emit_elementwise(b_, ir::Op::add, registers, {old, value})
                    : stmt.atomic == loops::AtomicOp::max ? emit_maximum(b_, registers, value, old)
                                                          : emit_minimum(b_, registers, value, old);
  Value* next = b_.CreateBitCast(to_memory(b_, combined, registers, to.dtype), bits);
  auto relaxed = llvm::AtomicOrdering::Monotonic;
  Value* result = b_.CreateAtomicCmpXchg(pointer, seen, next, llvm::MaybeAlign(), relaxed, relaxed);
  seen->addIncoming(b_.CreateExtractValue(result, 0), retry);
  b_.CreateCondBr(b_.CreateExtractValue(result, 1), done, retry);
  b_.SetInsertPoint(done);
}

/// `value` is of the buffer's register type.
void MemoryEmitter::atomic_lane(const Stmt& stmt, Value* pointer, Value* value) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  if (ir::is_integral(to.dtype) && stmt.atomic == loops::AtomicOp::add) {
    b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, pointer, value, llvm::MaybeAlign(),
                       llvm::AtomicOrdering::Monotonic);
    return;
  }
  atomic_exchange(stmt, pointer, value);
}

void MemoryEmitter::emit_atomic(const Stmt& stmt) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  DType registers = ir::compute_dtype(to.dtype);
  Index index = analyse(stmt.index);
  Address at_element = address(stmt.buffer, index);
  unsigned width = lanes().width;
  if (width == 1) {
    Value* value = convert(b_, uniform(stmt.args[0]), kernel_.types[stmt.args[0]], registers);
    Value* pointer = element(stmt.buffer, at_element, 0);
    if (stmt.predicate == none) return atomic_lane(stmt, pointer, value);
    auto* then = BasicBlock::Create(context_, "then", function_);
    auto* done = BasicBlock::Create(context_, "endif", function_);
    b_.CreateCondBr(uniform(stmt.predicate), then, done);
    b_.SetInsertPoint(then);
    atomic_lane(stmt, pointer, value);
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
    return;
  }
  // Lanes one after the other, through the stack: x86 has no vector atomics.
  llvm::Type* register_ = register_type(context_, registers);
  for (unsigned p = 0; p < lanes().parts; ++p) {
    Value* value = convert(b_, part(stmt.args[0], p), kernel_.types[stmt.args[0]], registers);
    Value* pointers = part_pointers(stmt.buffer, index, at_element, p);
    Value* mask = lane_mask(current(), p, stmt.predicate);
    BRAZE_CHECK(registers != DType::b8, "atomics on bool are not supported");
    Value* value_memory = stack(register_, width, 64);
    Value* pointer_memory = stack(b_.getPtrTy(), width, 64);
    Value* mask_memory = mask ? stack(b_.getInt8Ty(), width, 64) : nullptr;
    b_.CreateStore(value, value_memory);
    b_.CreateStore(pointers, pointer_memory);
    if (mask) b_.CreateStore(b_.CreateZExt(mask, with_lanes(b_.getInt8Ty(), width)), mask_memory);
    counted_loop(b_.getInt64(0), b_.getInt64(width), 1, [&](Value* lane) {
      BasicBlock* done = nullptr;
      if (mask) {
        Value* counts = b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), mask_memory, lane));
        auto* then = BasicBlock::Create(context_, "lane", function_);
        done = BasicBlock::Create(context_, "lane.done", function_);
        b_.CreateCondBr(b_.CreateICmpNE(counts, b_.getInt8(0)), then, done);
        b_.SetInsertPoint(then);
      }
      Value* pointer = b_.CreateLoad(b_.getPtrTy(), b_.CreateGEP(b_.getPtrTy(), pointer_memory, lane));
      atomic_lane(stmt, pointer, b_.CreateLoad(register_, b_.CreateGEP(register_, value_memory, lane)));
      if (mask) {
        b_.CreateBr(done);
        b_.SetInsertPoint(done);
      }
    });
  }
}

}  // namespace braze::codegen
