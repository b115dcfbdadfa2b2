// codegen/nvptx/emit_memory.cpp: loads and stores.
//
// What neighbouring lanes of a vector loop touch moves in accesses of up to 128 bits, as far as the address is
// known to be aligned. A constant part of an index becomes the offset in the instruction.
#include "codegen/nvptx/emit_memory.h"

#include <algorithm>
#include <bit>

#include "codegen/nvptx/words.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::Value;
using loops::Space;

namespace {}  // namespace

Value* MemoryEmitter::buffer_pointer(BufferId id) {
  BRAZE_CHECK(pointers_[id], "buffer %", kernel_.buffers[id].name, " is used before its alloc");
  return pointers_[id];
}

int64_t MemoryEmitter::known_alignment(BufferId id, const Linear& index, int64_t wanted) {
  const Buffer& buffer = kernel_.buffers[id];
  const int64_t element = ir::byte_size(buffer.dtype);
  int64_t known = std::min(wanted, index.multiple() * element);
  if (!buffer.is_parameter) return known;
  if (known > buffer.alignment && (!aligned_ || buffer.is_exact)) known = buffer.alignment;
  if (known > element) alignments_[id] = std::max(alignments_[id], static_cast<uint32_t>(known));
  return known;
}

MemoryEmitter::Place MemoryEmitter::place(BufferId id, const Linear& index, int64_t wanted) {
  llvm::Type* element = memory_type(context_, kernel_.buffers[id].dtype);
  Linear varying = index;
  varying.constant = 0;
  Value* pointer = buffer_pointer(id);
  if (!varying.is_constant())
    pointer = b_.CreateGEP(element, pointer, materialise_wide(b_, varying, kernel_.narrow));
  if (index.constant != 0) pointer = b_.CreateGEP(element, pointer, b_.getInt64(index.constant));
  return {pointer, llvm::Align(static_cast<uint64_t>(wanted))};
}

bool MemoryEmitter::are_neighbours(const Affine& index, size_t lanes) {
  const Linear first = linear(index, 0);
  for (size_t lane = 1; lane < lanes; ++lane) {
    const Linear other = linear(index, lane);
    if (other.constant != first.constant + static_cast<int64_t>(lane) || !other.same_terms(first)) return false;
  }
  return true;
}

void MemoryEmitter::annotate(llvm::LoadInst* load, BufferId id) {
  // Nothing writes it while the phase runs: it may come through the read-only path, and out of order.
  const Buffer& buffer = kernel_.buffers[id];
  if (buffer.is_parameter && buffer.access == loops::Access::in && !buffer.may_alias)
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
}

Value* MemoryEmitter::load_one(BufferId id, const Linear& index) {
  const Buffer& buffer = kernel_.buffers[id];
  if (buffer.space == Space::registers) return load_registers(id, index, 1)[0];
  const Place from = place(id, index, ir::byte_size(buffer.dtype));
  auto* load = b_.CreateAlignedLoad(memory_type(context_, buffer.dtype), from.pointer, from.alignment);
  annotate(load, id);
  return from_memory(b_, load, buffer.dtype);
}

void MemoryEmitter::store_one(BufferId id, const Linear& index, Value* value) {
  const Buffer& buffer = kernel_.buffers[id];
  if (buffer.space == Space::registers) return store_registers(id, index, {value});
  const Place to = place(id, index, ir::byte_size(buffer.dtype));
  Value* stored = to_memory(b_, value, ir::compute_dtype(buffer.dtype), buffer.dtype);
  b_.CreateAlignedStore(stored, to.pointer, to.alignment);
}

Values MemoryEmitter::load_run(BufferId id, const Linear& first, size_t lanes) {
  const Buffer& buffer = kernel_.buffers[id];
  if (buffer.space == Space::registers) return load_registers(id, first, lanes);
  const int64_t element = ir::byte_size(buffer.dtype), alignment = known_alignment(id, first, kWidest);
  Values values;
  Linear index = first;
  for (auto left = static_cast<int64_t>(lanes) * element; left > 0;) {
    const int64_t bytes = std::min(alignment, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(left))));
    if (bytes <= element) {
      values.push_back(load_one(id, index));
      index.constant += 1, left -= element;
      continue;
    }
    const Place from = place(id, index, bytes);
    auto* load = b_.CreateAlignedLoad(run_type(b_, buffer.dtype, bytes), from.pointer, from.alignment);
    annotate(load, id);
    for (int64_t k = 0; k < bytes / element; ++k) values.push_back(take_out(b_, load, buffer.dtype, k));
    index.constant += bytes / element, left -= bytes;
  }
  return values;
}

void MemoryEmitter::store_run(BufferId id, const Linear& first, const Values& values) {
  const Buffer& buffer = kernel_.buffers[id];
  if (buffer.space == Space::registers) return store_registers(id, first, values);
  const int64_t element = ir::byte_size(buffer.dtype), alignment = known_alignment(id, first, kWidest);
  Linear index = first;
  for (size_t done = 0; done < values.size();) {
    const auto left = static_cast<uint64_t>(values.size() - done) * static_cast<uint64_t>(element);
    const int64_t bytes = std::min(alignment, static_cast<int64_t>(std::bit_floor(left)));
    if (bytes <= element) {
      store_one(id, index, values[done++]);
      index.constant += 1;
      continue;
    }
    const Place to = place(id, index, bytes);
    const auto count = static_cast<size_t>(bytes / element);
    b_.CreateAlignedStore(put_together(b_, llvm::ArrayRef(values).slice(done, count), buffer.dtype), to.pointer,
                          to.alignment);
    index.constant += bytes / element, done += count;
  }
}

void MemoryEmitter::emit_load(const Stmt& stmt) {
  size_t lanes = lanes_of(stmt.index);
  const size_t answers = stmt.predicate == loops::none ? 1 : lanes_of_value(stmt.predicate);
  const auto load_all = [&]() -> Values {
    if (lanes > 1 && are_neighbours(stmt.index, lanes)) return load_run(stmt.buffer, linear(stmt.index, 0), lanes);
    Values values;
    for (size_t lane = 0; lane < lanes; ++lane) values.push_back(load_one(stmt.buffer, linear(stmt.index, lane)));
    return values;
  };
  if (stmt.predicate == loops::none) return define(stmt.result, load_all());
  if (answers == 1) {
    lanes = std::max(lanes, lanes_of_value(stmt.otherwise));
    Values otherwise;
    for (size_t lane = 0; lane < lanes; ++lane) otherwise.push_back(value(stmt.otherwise, lane));
    return define(stmt.result, when(value(stmt.predicate, 0), otherwise, load_all));
  }
  Values values;
  for (size_t lane = 0; lane < answers; ++lane) {
    const Linear index = linear(stmt.index, lane);
    values.push_back(when(value(stmt.predicate, lane), {value(stmt.otherwise, lane)},
                          [&] { return Values{load_one(stmt.buffer, index)}; })[0]);
  }
  define(stmt.result, std::move(values));
}

void MemoryEmitter::emit_store(const Stmt& stmt) {
  const Space space = kernel_.buffers[stmt.buffer].space;
  const bool own = space == Space::registers || space == Space::local;
  const size_t answers = stmt.predicate == loops::none ? 1 : lanes_of_value(stmt.predicate);
  const size_t lanes = std::max({lanes_of(stmt.index), lanes_of_value(stmt.args[0]), answers});
  const auto store_all = [&] {
    if (answers > 1) {
      for (size_t lane = 0; lane < lanes; ++lane)
        when(value(stmt.predicate, lane),
             [&] { store_one(stmt.buffer, linear(stmt.index, lane), value(stmt.args[0], lane)); });
      return;
    }
    const auto store_lanes = [&] {
      if (lanes > 1 && are_neighbours(stmt.index, lanes)) {
        Values values;
        for (size_t lane = 0; lane < lanes; ++lane) values.push_back(value(stmt.args[0], lane));
        return store_run(stmt.buffer, linear(stmt.index, 0), values);
      }
      for (size_t lane = 0; lane < lanes; ++lane)
        store_one(stmt.buffer, linear(stmt.index, lane), value(stmt.args[0], lane));
    };
    if (stmt.predicate == loops::none) return store_lanes();
    when(value(stmt.predicate, 0), store_lanes);
  };
  Value* first = own ? nullptr : is_first();
  first ? when(first, store_all) : store_all();
}

void MemoryEmitter::emit_atomic(const Stmt& stmt) {
  const DType type = kernel_.buffers[stmt.buffer].dtype;
  using Op = llvm::AtomicRMWInst::BinOp;
  const Op op = stmt.atomic == loops::AtomicOp::add   ? (ir::is_floating(type) ? Op::FAdd : Op::Add)
                : stmt.atomic == loops::AtomicOp::max ? Op::Max
                                                      : Op::Min;
  const bool sized = type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64;
  BRAZE_CHECK(sized && (!ir::is_floating(type) || stmt.atomic == loops::AtomicOp::add),
              "no atomic operation of PTX does this to ", ir::name(type));
  const size_t answers = stmt.predicate == loops::none ? 1 : lanes_of_value(stmt.predicate);
  const size_t lanes = std::max({lanes_of(stmt.index), lanes_of_value(stmt.args[0]), answers});
  const auto one = [&](size_t lane) {
    const Place to = place(stmt.buffer, linear(stmt.index, lane), ir::byte_size(type));
    b_.CreateAtomicRMW(op, to.pointer, value(stmt.args[0], lane), to.alignment, llvm::AtomicOrdering::Monotonic);
  };
  const auto all = [&] {
    for (size_t lane = 0; lane < lanes; ++lane)
      stmt.predicate == loops::none ? one(lane) : when(value(stmt.predicate, lane), [&] { one(lane); });
  };
  Value* first = is_first();
  first ? when(first, all) : all();
}

}  // namespace braze::codegen::nvptx
