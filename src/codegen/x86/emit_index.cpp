// codegen/x86/emit_index.cpp: what is constant in an index goes into instructions, the rest to the outermost level.
#include "codegen/x86/emit_index.h"

#include <numeric>

namespace braze::codegen {

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
}  // namespace

/// Adds factor * affine to `out`, looking through affine statements; false if that is not affine with Extent
/// factors.
bool IndexEmitter::flatten(const Affine& affine, const Extent& factor, Affine& out) {
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

Index IndexEmitter::analyse(const Affine& affine) {
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
Value* IndexEmitter::derived(int level, const Extent& factor) {
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
Value* IndexEmitter::scaled(const Affine::Term& term, int64_t& displacement) {
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
Value* IndexEmitter::index_sum(const Index& index, int64_t& displacement) {
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
Value* IndexEmitter::lane_offsets(const Index& index, unsigned p) {
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

Address IndexEmitter::address(BufferId buffer, const Index& index) {
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

Value* IndexEmitter::element(BufferId buffer, const Address& address, int64_t offset) {
  offset += address.displacement;
  if (!offset) return address.pointer;
  return b_.CreateConstGEP1_64(memory_type(context_, kernel_.buffers[buffer].dtype), address.pointer, offset);
}

/// A pointer a lane, for gathers and scatters.
Value* IndexEmitter::part_pointers(BufferId buffer, const Index& index, const Address& address, unsigned p) {
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

/// Which lanes of part p count: the level's mask and the predicate; null for all.
Value* IndexEmitter::lane_mask(int level, unsigned p, ValueId predicate) {
  const Parts& outer = levels_[level].lanes.mask;
  Value* mask = outer.empty() ? nullptr : outer[p];
  if (predicate == none) return mask;
  Value* own = part(predicate, p);
  return mask ? b_.CreateAnd(mask, own) : own;
}

void IndexEmitter::emit_affine(ValueId id, const Affine& affine) {
  Index index = analyse(affine);
  int place = placement(index.level);
  int64_t displacement = 0;
  Value* sum = index_sum(index, displacement);
  if (index.is_uniform() || index.is_strided_by(1)) {
    At at(*this, place);
    sum = b_.CreateAdd(sum, b_.getInt64(displacement));
    define(id, index.is_uniform() ? Slot::Kind::uniform : Slot::Kind::linear, place, at.token(), {sum});
    slots_[id].is_extent = index.is_uniform() && index.terms.empty();
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

}  // namespace braze::codegen
