// codegen/x86/emit_memory.cpp: indices to addresses, loads, stores and atomics.
#include <numeric>

#include "codegen/elementwise.h"
#include "codegen/x86/emitter.h"
#include "codegen/x86/strided.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::none;

namespace {

std::optional<Extent> product(const Extent& a, const Extent& b) {
  if (!a.is_constant() && !b.is_constant()) return std::nullopt;
  const Extent& symbolic = a.is_constant() ? b : a;
  int64_t by = a.is_constant() ? a.constant : b.constant;
  Extent result = symbolic;
  result.constant *= by;
  result.factor *= by;
  return result;
}

std::optional<Extent> sum(const Extent& a, const Extent& b) {
  if (!a.is_constant() && !b.is_constant() && a.symbol != b.symbol) return std::nullopt;
  Extent result = a.is_constant() ? b : a;
  result.constant = a.constant + b.constant;
  if (!a.is_constant() && !b.is_constant()) result.factor = a.factor + b.factor;
  return result;
}

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

// ---- indices

/// Adds factor * affine to `out`, looking through affine statements; false if that is not affine with Extent
/// factors.
bool Emitter::flatten(const Affine& affine, const Extent& factor, Affine& out) {
  auto offset = product(factor, affine.offset);
  if (offset) offset = sum(out.offset, *offset);
  if (!offset) return false;
  out.offset = *offset;
  for (const Affine::Term& term : affine.terms) {
    auto scaled_factor = product(factor, term.factor);
    if (!scaled_factor) return false;
    if (const Affine* inner = affines_[term.value]) {
      Affine with = out;
      if (flatten(*inner, *scaled_factor, with)) {
        out = std::move(with);
        continue;
      }
    }
    // A factor names one symbol: two ways to a value by different ones stay apart.
    const auto same =
        llvm::find_if(out.terms, [&](const Affine::Term& other) { return other.value == term.value; });
    if (same != out.terms.end() && !sum(same->factor, *scaled_factor)) return false;
    out.add(*scaled_factor, term.value);
  }
  return true;
}

Index Emitter::analyse(const Affine& affine) {
  Affine flat;
  if (!flatten(affine, 1, flat)) flat = affine;
  Index index;
  index.offset = flat.offset;
  for (const Affine::Term& term : flat.terms) {
    Slot& s = slot(term.value);
    index.level = std::max(index.level, s.level);
    if (s.kind == Slot::Kind::varying || (s.kind == Slot::Kind::linear && index.lane_stride)) {
      index.varying.push_back(term);
      continue;
    }
    if (s.kind == Slot::Kind::linear) index.lane_stride = term.factor;
    index.terms.push_back(term);
  }
  std::stable_sort(index.terms.begin(), index.terms.end(), [&](const Affine::Term& a, const Affine::Term& b) {
    return slots_[a.value].level < slots_[b.value].level;
  });
  return index;
}

/// factor * the running segment's variable of a level, kept up to date by an addition a step.
Value* Emitter::derived(int level, const Extent& factor) {
  Level& of = levels_[level];
  if (factor == Extent(1)) return of.variable;
  for (const Level::Derived& d : of.derived)
    if (d.factor == factor) return d.value;
  Value* by = extent_value(factor);
  if (!of.header) {
    At at(*this, placement(level));
    return b_.CreateMul(of.variable, by);
  }
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(of.entry);
  Value* first = b_.CreateMul(of.from, by);
  b_.SetInsertPoint(of.header, of.header->begin());
  llvm::PHINode* phi = b_.CreatePHI(b_.getInt64Ty(), 2);
  phi->addIncoming(first, of.entry->getParent());
  of.derived.push_back({factor, phi, phi});
  return phi;
}

/// A term's value in lane 0, at its level. What is constant in it goes to `displacement`.
Value* Emitter::scaled(const Affine::Term& term, int64_t& displacement) {
  Slot& s = slot(term.value);
  if (!s.induction) {
    At at(*this, placement(s.level));
    if (term.factor == Extent(1)) return s.parts[0];
    return b_.CreateMul(s.parts[0], extent_value(term.factor));
  }
  Value* value = derived(s.level, term.factor);
  if (!s.shift) return value;
  if (term.factor.is_constant()) {
    displacement += term.factor.constant * s.shift;
    return value;
  }
  At at(*this, placement(s.level));
  return b_.CreateAdd(value, b_.CreateMul(extent_value(term.factor), b_.getInt64(s.shift)));
}

/// The index in lane 0, without `displacement`.
Value* Emitter::index_sum(const Index& index, int64_t& displacement) {
  Value* total = b_.getInt64(0);
  if (index.offset.is_constant())
    displacement += index.offset.constant;
  else
    total = extent_value(index.offset);
  for (const Affine::Term& term : index.terms) {
    Value* value = scaled(term, displacement);
    At at(*this, placement(slots_[term.value].level));
    total = b_.CreateAdd(total, value);
  }
  return total;
}

/// What lanes of part p add to lane 0 of part 0: i32 where it surely fits, because gathers take twice as many of
/// those.
Value* Emitter::lane_offsets(const Index& index, unsigned p) {
  unsigned width = lanes().width;
  Value* total = nullptr;
  if (index.lane_stride && index.lane_stride->is_constant()) {
    llvm::SmallVector<llvm::Constant*, 16> steps;
    for (unsigned i = 0; i < width; ++i)
      steps.push_back(b_.getInt64(index.lane_stride->constant * static_cast<int64_t>(p * width + i)));
    total = llvm::ConstantVector::get(steps);
  } else if (index.lane_stride) {
    llvm::SmallVector<llvm::Constant*, 16> steps;
    for (unsigned i = 0; i < width; ++i) steps.push_back(b_.getInt64(p * width + i));
    total = b_.CreateMul(llvm::ConstantVector::get(steps), spread(extent_value(*index.lane_stride)));
  }
  for (const Affine::Term& term : index.varying) {
    Value* value = part(term.value, p);
    if (!(term.factor == Extent(1))) value = b_.CreateMul(value, spread(extent_value(term.factor)));
    total = total ? b_.CreateAdd(total, value) : value;
  }
  return total ? total : llvm::Constant::getNullValue(with_lanes(b_.getInt64Ty(), width));
}

Address Emitter::address(BufferId buffer, const Index& index) {
  Value* pointer = buffer_pointer(buffer);
  llvm::Type* type = memory_type(context_, kernel_.buffers[buffer].dtype);
  int64_t displacement = 0;
  if (index.offset.is_constant()) {
    displacement = index.offset.constant;
  } else {
    Value* offset = extent_value(index.offset);
    At at(*this, placement(0));
    pointer = b_.CreateGEP(type, pointer, offset);
  }
  // Level by level, so that each part of the sum is added outside of the loops that do not change it.
  for (size_t i = 0; i < index.terms.size();) {
    int level = slots_[index.terms[i].value].level;
    Value* total = nullptr;
    for (; i < index.terms.size() && slots_[index.terms[i].value].level == level; ++i) {
      Value* value = scaled(index.terms[i], displacement);
      At at(*this, placement(level));
      total = total ? b_.CreateAdd(total, value) : value;
    }
    At at(*this, placement(level));
    pointer = b_.CreateGEP(type, pointer, total);
  }
  return {pointer, displacement};
}

Value* Emitter::element(BufferId buffer, const Address& address, int64_t offset) {
  offset += address.displacement;
  if (!offset) return address.pointer;
  return b_.CreateConstGEP1_64(memory_type(context_, kernel_.buffers[buffer].dtype), address.pointer, offset);
}

/// A pointer a lane, for gathers and scatters.
Value* Emitter::part_pointers(BufferId buffer, const Index& index, const Address& address, unsigned p) {
  const Buffer& of = kernel_.buffers[buffer];
  Value* offsets = lane_offsets(index, p);
  constexpr int64_t limit = int64_t{1} << 30;
  bool constant_and_small = llvm::isa<llvm::Constant>(offsets) && index.lane_stride &&
                            std::abs(index.lane_stride->constant) < limit / 256;
  // With a known size, offsets of the varying terms alone need not be small when other terms are added: only where
  // nothing else is.
  bool whole_and_small = index.terms.empty() && index.offset.is_constant() && of.size.is_constant() &&
                         of.size.constant > 0 && of.size.constant < limit && std::abs(address.displacement) < limit;
  if (constant_and_small || whole_and_small)
    offsets = b_.CreateTrunc(offsets, with_lanes(b_.getInt32Ty(), lanes_of(offsets)));
  return b_.CreateGEP(memory_type(context_, of.dtype), element(buffer, address, 0), offsets);
}

// ---- placement of loads

const llvm::SmallVector<BufferId, 4>& Emitter::written(const Loop& loop) {
  auto [found, is_new] = written_.try_emplace(&loop);
  if (!is_new) return found->second;
  llvm::SmallVector<BufferId, 4> result;
  auto visit = [&](auto& self, const Block& block) -> void {
    for (const Stmt& stmt : block) {
      bool writes = stmt.kind == StmtKind::store || stmt.kind == StmtKind::atomic ||
                    stmt.kind == StmtKind::transpose || stmt.kind == StmtKind::dot;
      if (writes) result.push_back(stmt.buffer);
      if (stmt.loop) self(self, stmt.loop->body);
      self(self, stmt.body);
    }
  };
  visit(visit, loop.body);
  return written_[&loop] = std::move(result);
}

/// As placement(), but not out of a loop that may write what is read.
int Emitter::load_placement(int level, BufferId buffer) {
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

/// Which lanes of part p count: the level's mask and the predicate; null for all.
Value* Emitter::lane_mask(int level, unsigned p, ValueId predicate) {
  const Parts& outer = levels_[level].lanes.mask;
  Value* mask = outer.empty() ? nullptr : outer[p];
  if (predicate == none) return mask;
  Value* own = part(predicate, p);
  return mask ? b_.CreateAnd(mask, own) : own;
}

/// The only term that differs between lanes, if it is a number for several lanes each.
const Slot* Emitter::repeated(const Index& index) {
  if (index.lane_stride || index.varying.size() != 1 || !(index.varying[0].factor == Extent(1))) return nullptr;
  const Slot& place = slots_[index.varying[0].value];
  return place.repeats > 1 && place.repeats <= 8 && 2 * place.repeats <= lanes().width ? &place : nullptr;
}

/// The elements once, each then put into its lanes.
Value* Emitter::load_repeated(BufferId buffer, const Address& address, const Slot& place, unsigned p, Value* mask) {
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
Value* Emitter::load_part(BufferId buffer, const Index& index, const Address& address, unsigned p, Value* mask,
                          Value* otherwise) {
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

/// One part under a predicate that all lanes share: read from elsewhere if it is false. Loads under a mask take
/// part in no prefetching: twice the time for what lies in memory.
Value* Emitter::load_all_or_none(const Stmt& stmt, const Address& address, unsigned p, Value* otherwise) {
  const Buffer& from = kernel_.buffers[stmt.buffer];
  const unsigned width = lanes().width;
  Value* is_read = uniform(stmt.predicate);
  Value* pointer = element(stmt.buffer, address, static_cast<int64_t>(p) * width);
  pointer = b_.CreateSelect(is_read, pointer, scrap());
  Value* loaded = b_.CreateAlignedLoad(memory_type(context_, from.dtype, width), pointer, element_alignment(from));
  return b_.CreateSelect(is_read, from_memory(b_, loaded, from.dtype), otherwise);
}

void Emitter::emit_load(const Stmt& stmt) {
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
bool Emitter::store_is_aligned(const Stmt& stmt) {
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

void Emitter::emit_scalar_store(const Stmt& stmt, const Address& address) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  Value* pointer = element(stmt.buffer, address, 0);
  Value* value = to_memory(b_, uniform(stmt.args[0]), kernel_.types[stmt.args[0]], to.dtype);
  if (stmt.predicate != none) pointer = b_.CreateSelect(uniform(stmt.predicate), pointer, scrap());
  llvm::StoreInst* store = b_.CreateAlignedStore(value, pointer, element_alignment(to));
  if (stmt.predicate == none) annotate(store, stmt.buffer);
}

void Emitter::store_part(const Stmt& stmt, const Index& index, const Address& address, unsigned p, Value* value,
                         Value* mask) {
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

void Emitter::emit_store(const Stmt& stmt) {
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
void Emitter::atomic_exchange(const Stmt& stmt, Value* pointer, Value* value) {
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
void Emitter::atomic_lane(const Stmt& stmt, Value* pointer, Value* value) {
  const Buffer& to = kernel_.buffers[stmt.buffer];
  if (ir::is_integral(to.dtype) && stmt.atomic == loops::AtomicOp::add) {
    b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, pointer, value, llvm::MaybeAlign(),
                       llvm::AtomicOrdering::Monotonic);
    return;
  }
  atomic_exchange(stmt, pointer, value);
}

void Emitter::emit_atomic(const Stmt& stmt) {
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
