// codegen/emit_tile.cpp: tiles in registers: transposes and small matrix products.
#include <numeric>

#include "codegen/elementwise.h"
#include "codegen/emitter.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::none;

/// for i = from; i < to; i += step. Its body is no level: code hoisted from it goes in front of the level's loop.
void Emitter::counted_loop(Value* from, Value* to, int64_t step, llvm::function_ref<void(Value*)> body) {
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

// ---- transpose

namespace {

using Rows = llvm::SmallVector<Value*, 16>;

/// The elements of two vectors picked by 128-bit pieces: for each piece of the result, which piece of a (0..n-1) or
/// b (n..2n-1), `per` elements each.
Value* shuffle_pieces(llvm::IRBuilderBase& b, Value* x, Value* y, llvm::ArrayRef<int> pieces, int per) {
  llvm::SmallVector<int, 16> mask;
  for (int piece : pieces)
    for (int i = 0; i < per; ++i) mask.push_back(piece * per + i);
  return b.CreateShuffleVector(x, y, mask);
}

/// unpcklps and its like: within each 128 bits, groups of `size` elements of x and y in turn, from the low or high
/// half.
Value* unpack(llvm::IRBuilderBase& b, Value* x, Value* y, int per, int size, bool high) {
  int lanes = lanes_of(x);
  llvm::SmallVector<int, 16> mask;
  for (int piece = 0; piece < lanes; piece += per)
    for (int group = 0; group < per / (2 * size); ++group)
      for (int source : {0, lanes})
        for (int i = 0; i < size; ++i) mask.push_back(source + piece + (high ? per / 2 : 0) + group * size + i);
  return b.CreateShuffleVector(x, y, mask);
}

/// Transposes as many rows as each has elements, 4 or 8 bytes each: within 128-bit pieces by unpacking, then the
/// pieces.
Rows transpose_rows(llvm::IRBuilderBase& b, Rows rows) {
  int size = rows.size();
  int per = 128 / rows[0]->getType()->getScalarSizeInBits();
  for (int i = 0; i < size; i += 2) {
    Value *x = rows[i], *y = rows[i + 1];
    rows[i] = unpack(b, x, y, per, 1, false);
    rows[i + 1] = unpack(b, x, y, per, 1, true);
  }
  if (per == 4) {
    for (int i = 0; i < size; i += 4) {
      Value *x = rows[i], *y = rows[i + 1], *z = rows[i + 2], *w = rows[i + 3];
      rows[i] = unpack(b, x, z, per, 2, false);
      rows[i + 1] = unpack(b, x, z, per, 2, true);
      rows[i + 2] = unpack(b, y, w, per, 2, false);
      rows[i + 3] = unpack(b, y, w, per, 2, true);
    }
  }
  // rows[g * per + j], piece l, now holds column l * per + j of rows g * per and following.
  Rows columns(size);
  for (int j = 0; j < per; ++j) {
    auto row = [&](int g) { return rows[g * per + j]; };
    if (size / per == 2) {
      columns[j] = shuffle_pieces(b, row(0), row(1), {0, 2}, per);
      columns[per + j] = shuffle_pieces(b, row(0), row(1), {1, 3}, per);
      continue;
    }
    Value* even_low = shuffle_pieces(b, row(0), row(1), {0, 2, 4, 6}, per);
    Value* odd_low = shuffle_pieces(b, row(0), row(1), {1, 3, 5, 7}, per);
    Value* even_high = shuffle_pieces(b, row(2), row(3), {0, 2, 4, 6}, per);
    Value* odd_high = shuffle_pieces(b, row(2), row(3), {1, 3, 5, 7}, per);
    columns[j] = shuffle_pieces(b, even_low, even_high, {0, 2, 4, 6}, per);
    columns[2 * per + j] = shuffle_pieces(b, even_low, even_high, {1, 3, 5, 7}, per);
    columns[per + j] = shuffle_pieces(b, odd_low, odd_high, {0, 2, 4, 6}, per);
    columns[3 * per + j] = shuffle_pieces(b, odd_low, odd_high, {1, 3, 5, 7}, per);
  }
  return columns;
}

}  // namespace

/// tile[c*R + r] = buf[at + r*S + c*T]. Square blocks in registers where c runs through memory, whole vectors where
/// r does; what is left over goes element by element.
void Emitter::emit_transpose(const Stmt& stmt) {
  BRAZE_CHECK(lanes().width == 1, "a transpose cannot stand in a vector loop");
  BufferId source = stmt.sources[0];
  DType dtype = kernel_.buffers[source].dtype;
  int64_t R = stmt.shape[0], S = stmt.shape[1], C = stmt.shape[2], T = stmt.shape[3];
  llvm::Type* type = memory_type(context_, dtype);
  llvm::Align alignment(std::min(kernel_.buffers[source].alignment, ir::byte_size(dtype)));
  Value* from = element(source, address(source, analyse(stmt.index)), 0);
  Value* to = buffer_pointer(stmt.buffer);
  Value* rows = stmt.valid.empty() ? b_.getInt64(R) : uniform(stmt.valid[0]);
  Value* columns = stmt.valid.empty() ? b_.getInt64(C) : uniform(stmt.valid[1]);
  auto at = [&](Value* base, Value* i, int64_t by, Value* j, int64_t by_other) {
    Value* offset = b_.CreateAdd(b_.CreateMul(i, b_.getInt64(by)), b_.CreateMul(j, b_.getInt64(by_other)));
    return b_.CreateGEP(type, base, offset);
  };
  auto whole = [&](Value* count, int64_t block) {
    return b_.CreateSub(count, b_.CreateURem(count, b_.getInt64(block)));
  };
  auto load = [&](Value* pointer, int64_t width) {
    llvm::LoadInst* loaded = b_.CreateAlignedLoad(with_lanes(type, width), pointer, alignment);
    annotate(loaded, source);
    return loaded;
  };
  auto store = [&](Value* value, Value* pointer) {
    annotate(b_.CreateAlignedStore(value, pointer, llvm::Align(ir::byte_size(dtype))), stmt.buffer);
  };
  auto prefetch = [&](Value* pointer) {
    constexpr int read = 0, second_level_cache = 2, data = 1;
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()},
                       {pointer, b_.getInt32(read), b_.getInt32(second_level_cache), b_.getInt32(data)});
  };
  auto elementwise = [&](Value* r0, Value* r1, Value* c0, Value* c1) {
    counted_loop(c0, c1, 1, [&](Value* c) {
      counted_loop(r0, r1, 1, [&](Value* r) { store(load(at(from, r, S, c, T), 1), at(to, c, R, r, 1)); });
    });
  };

  int64_t width = target_.vector_bytes() / ir::byte_size(dtype);
  Value* zero = b_.getInt64(0);
  if (S == 1) {  // rows lie in memory as in the tile
    if (width > R) width = std::max<int64_t>(1, R);
    Value* full = whole(rows, width);
    counted_loop(zero, columns, 1, [&](Value* c) {
      counted_loop(zero, full, width,
                   [&](Value* r) { store(load(at(from, r, S, c, T), width), at(to, c, R, r, 1)); });
    });
    return elementwise(full, rows, zero, columns);
  }
  if (T != 1 || ir::byte_size(dtype) < 4 || R < width || C < width) return elementwise(zero, rows, zero, columns);

  Value* full_rows = whole(rows, width);
  Value* full_columns = whole(columns, width);
  counted_loop(zero, full_rows, width, [&](Value* r) {
    counted_loop(zero, full_columns, width, [&](Value* c) {
      Rows block;
      // Each row lies in a page of its own, where no hardware prefetcher finds the next tile: ask for its rows now.
      for (int64_t i = 0; i < width; ++i) prefetch(at(from, b_.CreateAdd(r, b_.getInt64(i + R)), S, c, T));
      for (int64_t i = 0; i < width; ++i)
        block.push_back(load(at(from, b_.CreateAdd(r, b_.getInt64(i)), S, c, T), width));
      block = transpose_rows(b_, std::move(block));
      for (int64_t i = 0; i < width; ++i) store(block[i], at(to, b_.CreateAdd(c, b_.getInt64(i)), R, r, 1));
    });
  });
  elementwise(zero, full_rows, full_columns, columns);
  elementwise(full_rows, rows, zero, columns);
}

// ---- dot

/// c[i*ldc + j] += a[i*lda + p] * b[p*ldb + j] over p, i < m, j < n: blocks of c stay in registers while p runs.
void Emitter::emit_dot(const Stmt& stmt) {
  BRAZE_CHECK(lanes().width == 1, "a dot cannot stand in a vector loop");
  int64_t m = stmt.shape[0], n = stmt.shape[1], k = stmt.shape[2];
  int64_t lda = stmt.shape[3], ldb = stmt.shape[4], ldc = stmt.shape[5];
  struct Operand {
    BufferId buffer;
    Value* pointer;
    DType dtype;
    llvm::Type* type;
  };
  auto operand = [&](BufferId id, const Affine& index) {
    DType dtype = kernel_.buffers[id].dtype;
    return Operand{id, element(id, address(id, analyse(index)), 0), dtype, memory_type(context_, dtype)};
  };
  Operand a = operand(stmt.sources[0], stmt.source_indices[0]);
  Operand b = operand(stmt.sources[1], stmt.source_indices[1]);
  Operand c = operand(stmt.buffer, stmt.index);
  DType compute = ir::compute_dtype(c.dtype);
  BRAZE_CHECK(compute != DType::b8, "dot on bool");

  // Two vectors by as many rows as leave registers for b and a broadcast of a.
  int64_t width = target_.vector_bytes() / ir::byte_size(compute);
  int64_t block_rows = target_.vector_registers() == 32 ? 8 : 4;
  constexpr int64_t block_vectors = 2;

  auto at = [&](const Operand& o, Value* i, int64_t ld, Value* j, int64_t di, int64_t dj) {
    Value* row = b_.CreateMul(b_.CreateAdd(i, b_.getInt64(di)), b_.getInt64(ld));
    return b_.CreateGEP(o.type, o.pointer, b_.CreateAdd(b_.CreateAdd(row, j), b_.getInt64(dj)));
  };
  auto alignment = [&](const Operand& o) {
    return llvm::Align(std::min(kernel_.buffers[o.buffer].alignment, ir::byte_size(o.dtype)));
  };
  auto mask_of = [&](int64_t left) -> Value* {
    if (left >= width) return nullptr;
    llvm::SmallVector<llvm::Constant*, 16> bits;
    for (int64_t i = 0; i < width; ++i) bits.push_back(b_.getInt1(i < left));
    return llvm::ConstantVector::get(bits);
  };
  auto load = [&](const Operand& o, Value* pointer, int64_t lanes, Value* mask) {
    llvm::Type* type = with_lanes(o.type, lanes);
    llvm::Instruction* loaded = mask ? static_cast<llvm::Instruction*>(b_.CreateMaskedLoad(
                                           type, pointer, alignment(o), mask, llvm::Constant::getNullValue(type)))
                                     : b_.CreateAlignedLoad(type, pointer, alignment(o));
    annotate(loaded, o.buffer);
    return convert(b_, from_memory(b_, loaded, o.dtype), ir::compute_dtype(o.dtype), compute);
  };

  auto block = [&](Value* i, int64_t rows, Value* j, int64_t columns) {
    int64_t vectors = (columns + width - 1) / width;
    llvm::SmallVector<Value*, 32> sums;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        sums.push_back(load(c, at(c, i, ldc, j, r, v * width), width, mask_of(columns - v * width)));
    BasicBlock* entry = b_.GetInsertBlock();
    auto* loop = BasicBlock::Create(context_, "dot", function_);
    auto* done = BasicBlock::Create(context_, "dot.done", function_);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* p = b_.CreatePHI(b_.getInt64Ty(), 2);
    p->addIncoming(b_.getInt64(0), entry);
    llvm::SmallVector<llvm::PHINode*, 32> carried;
    for (Value* sum : sums) {
      carried.push_back(b_.CreatePHI(sum->getType(), 2));
      carried.back()->addIncoming(sum, entry);
    }
    llvm::SmallVector<Value*, 4> row;
    for (int64_t v = 0; v < vectors; ++v)
      row.push_back(load(b, at(b, p, ldb, j, 0, v * width), width, mask_of(columns - v * width)));
    for (int64_t r = 0; r < rows; ++r) {
      Value* x = b_.CreateVectorSplat(width, load(a, at(a, i, lda, p, r, 0), 1, nullptr));
      for (int64_t v = 0; v < vectors; ++v) {
        Value*& sum = sums[r * vectors + v];
        Value* product = emit_elementwise(b_, ir::Op::mul, compute, {x, row[v]});
        sum = emit_elementwise(b_, ir::Op::add, compute, {carried[r * vectors + v], product});
      }
    }
    Value* next = b_.CreateAdd(p, b_.getInt64(1));
    p->addIncoming(next, loop);
    for (size_t s = 0; s < sums.size(); ++s) carried[s]->addIncoming(sums[s], loop);
    b_.CreateCondBr(b_.CreateICmpSLT(next, b_.getInt64(k)), loop, done);
    b_.SetInsertPoint(done);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t v = 0; v < vectors; ++v) {
        Value* value = to_memory(b_, sums[r * vectors + v], compute, c.dtype);
        Value* pointer = at(c, i, ldc, j, r, v * width);
        Value* mask = mask_of(columns - v * width);
        llvm::Instruction* store =
            mask ? static_cast<llvm::Instruction*>(b_.CreateMaskedStore(value, pointer, alignment(c), mask))
                 : b_.CreateAlignedStore(value, pointer, alignment(c));
        annotate(store, c.buffer);
      }
    }
  };
  int64_t block_columns = block_vectors * width;
  auto row_of_blocks = [&](Value* i, int64_t rows) {
    int64_t whole = n / block_columns * block_columns;
    counted_loop(b_.getInt64(0), b_.getInt64(whole), block_columns,
                 [&](Value* j) { block(i, rows, j, block_columns); });
    if (n > whole) block(i, rows, b_.getInt64(whole), n - whole);
  };
  int64_t whole = m / block_rows * block_rows;
  counted_loop(b_.getInt64(0), b_.getInt64(whole), block_rows, [&](Value* i) { row_of_blocks(i, block_rows); });
  if (m > whole) row_of_blocks(b_.getInt64(whole), m - whole);
}

}  // namespace braze::codegen
