// codegen/x86/emit_tile.cpp: tiles in registers: transposes and small matrix products.
#include "codegen/x86/emit_tile.h"

#include <numeric>

#include "codegen/elementwise.h"
#include "loops/transposes.h"
#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::none;

// ---- transpose

namespace {

using Rows = llvm::SmallVector<Value*, 32>;

/// The elements of two vectors picked by 128-bit pieces: for each piece of the result, which piece of a (0..n-1) or
/// b (n..2n-1), `per` elements each.
Value* shuffle_pieces(llvm::IRBuilderBase& b, Value* x, Value* y, llvm::ArrayRef<int> pieces, int per) {
  llvm::SmallVector<int, 32> mask;
  for (int piece : pieces)
    for (int i = 0; i < per; ++i) mask.push_back(piece * per + i);
  return b.CreateShuffleVector(x, y, mask);
}

/// unpcklps and its like: within each 128 bits, groups of `size` elements of x and y in turn, from the low or high
/// half.
Value* unpack(llvm::IRBuilderBase& b, Value* x, Value* y, int per, int size, bool high) {
  int lanes = lanes_of(x);
  llvm::SmallVector<int, 32> mask;
  for (int piece = 0; piece < lanes; piece += per)
    for (int group = 0; group < per / (2 * size); ++group)
      for (int source : {0, lanes})
        for (int i = 0; i < size; ++i) mask.push_back(source + piece + (high ? per / 2 : 0) + group * size + i);
  return b.CreateShuffleVector(x, y, mask);
}

/// Transposes as many rows as each has elements: within 128-bit pieces by unpacking, then the pieces. As many rows
/// as a piece has elements may be longer: then piece l of result j is column l * rows + j.
Rows transpose_rows(llvm::IRBuilderBase& b, Rows rows) {
  const int size = rows.size();
  const int per = 128 / rows[0]->getType()->getScalarSizeInBits();
  for (int group = 1; group < per; group *= 2) {
    Rows next(size);
    for (int i = 0; i < size; i += 2 * group)
      for (int j = 0; j < group; ++j) {
        next[i + 2 * j] = unpack(b, rows[i + j], rows[i + group + j], per, group, false);
        next[i + 2 * j + 1] = unpack(b, rows[i + j], rows[i + group + j], per, group, true);
      }
    rows = std::move(next);
  }
  // rows[g * per + j], piece l, now holds column l * per + j of rows g * per and following.
  if (size == per) return rows;
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

/// How many statements use a buffer, its allocation aside.
int uses(const Block& block, BufferId buffer) {
  int total = 0;
  for (const Stmt& stmt : block) {
    total += stmt.kind != StmtKind::alloc && (stmt.buffer == buffer || llvm::is_contained(stmt.sources, buffer));
    if (stmt.loop) total += uses(stmt.loop->body, buffer);
    total += uses(stmt.body, buffer);
  }
  return total;
}

/// Elements along a side of the square that is transposed in registers: those of a vector, or of bytes, where as
/// many vectors would not fit into the registers, of 128 bits.
int64_t square_side(const Target& target, DType dtype) {
  return ir::byte_size(dtype) == 1 ? 16 : target.vector_bytes / ir::byte_size(dtype);
}

/// Elements [first, first + count) of a vector.
Value* piece(llvm::IRBuilderBase& b, Value* vector, int64_t first, int64_t count) {
  if (lanes_of(vector) == count) return vector;
  llvm::SmallVector<int, 32> mask(count);
  std::iota(mask.begin(), mask.end(), static_cast<int>(first));
  return b.CreateShuffleVector(vector, mask);
}

}  // namespace

/// tile[c*R + r] = buf[at + r*S + c*T].
void TileEmitter::emit_transpose(const Stmt& stmt) {
  Value* rows = stmt.valid.empty() ? b_.getInt64(stmt.shape[0]) : uniform(stmt.valid[0]);
  Value* columns = stmt.valid.empty() ? b_.getInt64(stmt.shape[2]) : uniform(stmt.valid[1]);
  transpose_into({stmt.buffer, buffer_pointer(stmt.buffer), stmt.shape[0], false}, stmt, rows, columns);
}

/// A transpose into a tile and the loops that only copy the tile on, as one: registers are stored where the loops
/// would, a vector at a time. False, and nothing written, if it is not that.
bool TileEmitter::emit_transposed_copy(const Stmt& stmt, const Stmt& next) {
  const int64_t R = stmt.shape[0], C = stmt.shape[2];
  const DType dtype = kernel_.buffers[stmt.buffer].dtype;
  const int64_t side = square_side(target_, dtype), vector = target_.vector_bytes;
  // Pieces of a cache line are better put together in the tile; two halves follow each other closely enough.
  if (side * ir::byte_size(dtype) != vector || loops::row_step(stmt) == Extent(1) || stmt.shape[3] != 1)
    return false;
  if (R % side != 0 || C % side != 0) return false;
  const auto plain = [](const Loop& loop) {
    return loop.begin_value != none && loop.end_value != none && loop.step == 1 && loop.reductions.empty();
  };
  if (next.kind != StmtKind::loop || !plain(*next.loop) || next.loop->body.size() != 1) return false;
  const Loop& along = *next.loop;
  if (along.body[0].kind != StmtKind::loop) return false;
  const Loop& across = *along.body[0].loop;
  if (!plain(across) || across.body.size() != 2) return false;
  const Stmt &load = across.body[0], &store = across.body[1];
  if (load.kind != StmtKind::load || load.buffer != stmt.buffer || load.predicate != none) return false;
  if (store.kind != StmtKind::store || store.predicate != none || store.args[0] != load.result) return false;
  const Buffer& out = kernel_.buffers[store.buffer];
  if (out.dtype != dtype || uses(kernel_.body, stmt.buffer) != 2) return false;

  // The loops must run over the tile: load tile[R*(along - its begin) + across - its begin].
  Affine rest;
  if (!flatten(load.index, 1, rest)) return false;
  Affine begin;
  begin.add(R, along.begin_value);
  begin.add(1, across.begin_value);
  rest.add(-R, along.var);
  rest.add(-1, across.var);
  if (!flatten(begin, 1, rest) || !rest.terms.empty() || !(rest.offset == Extent(0))) return false;

  Affine flat, first;
  if (!flatten(store.index, 1, flat)) return false;
  first.offset = flat.offset;
  Extent pitch, contiguous;
  for (const Affine::Term& term : flat.terms) {
    const bool is_along = term.value == along.var, is_across = term.value == across.var;
    if (is_along) pitch = term.factor;
    if (is_across) contiguous = term.factor;
    first.add(term.factor, is_along ? along.begin_value : is_across ? across.begin_value : term.value);
  }
  if (contiguous != Extent(1) || pitch == Extent(0)) return false;

  const Index index = analyse(first);
  const auto is_multiple = [side](const Extent& extent) {
    return extent.constant % side == 0 && (extent.is_constant() || extent.factor % side == 0);
  };
  bool is_aligned = out.alignment >= vector && is_multiple(pitch) && index.offset.is_constant() &&
                    index.offset.constant % side == 0;
  for (const Affine::Term& term : index.terms)
    is_aligned &= term.factor.is_constant() && term.factor.constant * step_of(term.value) % side == 0;
  Value* to = element(store.buffer, address(store.buffer, index), 0);
  const auto length = [&](const Loop& loop) {
    return b_.CreateSub(uniform(loop.end_value), uniform(loop.begin_value));
  };
  transpose_into({store.buffer, to, pitch, store.stream && is_aligned}, stmt, length(across), length(along));
  return true;
}

/// What a value is always a multiple of, so far as its loop tells.
int64_t TileEmitter::step_of(ValueId id) {
  for (const Level& level : levels_)
    if (level.loop && level.loop->var == id && level.loop->begin_value == none && level.loop->begin == Extent(0))
      return level.loop->step;
  return 1;
}

/// to[c*pitch + r] = from[r*S + c*T] for r < rows, c < columns: squares in registers where c runs through memory,
/// whole vectors where r does; what is left over goes element by element.
void TileEmitter::transpose_into(const Transposed& to, const Stmt& stmt, Value* rows, Value* columns) {
  BRAZE_CHECK(lanes().width == 1, "a transpose cannot stand in a vector loop");
  const BufferId source = stmt.sources[0];
  const DType dtype = kernel_.buffers[source].dtype;
  const int64_t R = stmt.shape[0], C = stmt.shape[2], T = stmt.shape[3];
  const Extent S = loops::row_step(stmt);
  const int64_t bytes = ir::byte_size(dtype);
  // Shuffles of narrow floats are not to be taken for arithmetic.
  llvm::Type* type = bytes < 4 ? b_.getIntNTy(8 * bytes) : memory_type(context_, dtype);
  Value* from = element(source, address(source, analyse(stmt.index)), 0);
  const auto alignment = [&](BufferId buffer) {
    return llvm::Align(std::min(kernel_.buffers[buffer].alignment, bytes));
  };

  auto at = [&](Value* base, Value* i, const Extent& step_i, Value* j, const Extent& step_j) {
    Value* x = b_.CreateMul(i, extent_value(step_i));
    Value* y = b_.CreateMul(j, extent_value(step_j));
    return b_.CreateGEP(type, base, b_.CreateAdd(x, y));
  };
  auto load = [&](Value* pointer, int64_t lanes) {
    llvm::LoadInst* loaded = b_.CreateAlignedLoad(with_lanes(type, lanes), pointer, alignment(source));
    annotate(loaded, source);
    return loaded;
  };
  auto store = [&](Value* value, Value* pointer) {
    llvm::StoreInst* stored = b_.CreateAlignedStore(value, pointer, alignment(to.buffer));
    annotate(stored, to.buffer);
    return stored;
  };
  auto whole = [&](Value* n, int64_t step) { return b_.CreateSub(n, b_.CreateURem(n, b_.getInt64(step))); };
  auto elementwise = [&](Value* r0, Value* r1, Value* c0, Value* c1) {
    counted_loop(c0, c1, 1, [&](Value* c) {
      counted_loop(r0, r1, 1,
                   [&](Value* r) { store(load(at(from, r, S, c, T), 1), at(to.pointer, c, to.pitch, r, 1)); });
    });
  };

  int64_t side = square_side(target_, dtype);
  Value* zero = b_.getInt64(0);
  if (S == Extent(1)) {  // rows lie in memory as in the tile
    if (side > R) side = std::max<int64_t>(1, R);
    Value* full = whole(rows, side);
    counted_loop(zero, columns, 1, [&](Value* c) {
      counted_loop(zero, full, side,
                   [&](Value* r) { store(load(at(from, r, S, c, T), side), at(to.pointer, c, to.pitch, r, 1)); });
    });
    return elementwise(full, rows, zero, columns);
  }
  if (T != 1 || R < side || C < side) return elementwise(zero, rows, zero, columns);

  // Each row lies in pages of its own, where no hardware prefetcher finds the next tile. Its lines are asked for
  // row by row, a few with each square, into the second cache: in the first one, rows a power of two apart would
  // share too few places.
  // Squares of bytes are transposed side by side, as many as fill a vector.
  int64_t wide = side;
  while (2 * wide <= std::min(C, target_.vector_bytes / bytes)) wide *= 2;
  const int64_t line = target_.cache_line / bytes, lines = C / line, share = side * wide / line;
  auto prefetch = [&](Value* square) {
    constexpr int read = 0, second_level_cache = 2, data = 1;
    if (C % line != 0 || share == 0 || (lines % share != 0 && share % lines != 0)) return;
    for (int64_t i = 0; i < share; ++i) {
      Value *row, *column;
      if (share % lines == 0) {
        row = b_.CreateAdd(b_.CreateMul(square, b_.getInt64(share / lines)), b_.getInt64(R + i / lines));
        column = b_.getInt64(i % lines * line);
      } else {
        Value* squares = b_.getInt64(lines / share);  // to a row
        row = b_.CreateAdd(b_.CreateUDiv(square, squares), b_.getInt64(R));
        column = b_.CreateMul(b_.CreateURem(square, squares), b_.getInt64(share * line));
        column = b_.CreateAdd(column, b_.getInt64(i * line));
      }
      Value* pointer = at(from, row, S, column, 1);
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()},
                         {pointer, b_.getInt32(read), b_.getInt32(second_level_cache), b_.getInt32(data)});
    }
  };
  Value* full_rows = whole(rows, side);
  Value* full_columns = whole(columns, side);
  Value* wide_columns = whole(columns, wide);
  auto squares = [&](Value* r, Value* c, int64_t width) {
    if (width == wide) {
      Value* before = b_.CreateMul(b_.CreateUDiv(c, b_.getInt64(wide)), b_.getInt64(R / side));
      prefetch(b_.CreateAdd(before, b_.CreateUDiv(r, b_.getInt64(side))));
    }
    Rows block;
    for (int64_t i = 0; i < side; ++i)
      block.push_back(load(at(from, b_.CreateAdd(r, b_.getInt64(i)), S, c, T), width));
    block = transpose_rows(b_, std::move(block));
    for (int64_t i = 0; i < width; ++i) {
      Value* column = piece(b_, block[i % side], i / side * side, side);
      llvm::StoreInst* stored = store(column, at(to.pointer, b_.CreateAdd(c, b_.getInt64(i)), to.pitch, r, 1));
      if (!to.stream) continue;
      stored->setAlignment(llvm::Align(target_.vector_bytes));
      llvm::Metadata* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
      stored->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, one));
      streamed_ = true;
    }
  };
  auto region = [&](Value* first, Value* last, int64_t width) {
    counted_loop(first, last, width,
                 [&](Value* c) { counted_loop(zero, full_rows, side, [&](Value* r) { squares(r, c, width); }); });
  };
  region(zero, wide_columns, wide);
  if (wide != side) region(wide_columns, full_columns, side);
  elementwise(zero, full_rows, full_columns, columns);
  elementwise(full_rows, rows, zero, columns);
}

}  // namespace braze::codegen
