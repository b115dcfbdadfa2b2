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
class TileEmitter::Transpose {
 public:
  Transpose(TileEmitter& emitter, const Transposed& to, const Stmt& stmt)
      : e_(emitter),
        b_(emitter.b_),
        to_(to),
        source_(stmt.sources[0]),
        bytes_(ir::byte_size(emitter.kernel_.buffers[source_].dtype)),
        all_rows_(stmt.shape[0]),
        all_columns_(stmt.shape[2]),
        column_step_(stmt.shape[3]),
        row_step_(loops::row_step(stmt)),
        side_(square_side(emitter.target_, emitter.kernel_.buffers[source_].dtype)) {
    const DType dtype = e_.kernel_.buffers[source_].dtype;
    // Shuffles of narrow floats are not to be taken for arithmetic.
    type_ = bytes_ < 4 ? b_.getIntNTy(8 * bytes_) : memory_type(e_.context_, dtype);
    from_ = e_.element(source_, e_.address(source_, e_.analyse(stmt.index)), 0);
  }

  void emit(Value* rows, Value* columns) {
    Value* zero = b_.getInt64(0);
    if (row_step_ == Extent(1)) return emit_lines(rows, columns);
    if (column_step_ != 1 || all_rows_ < side_ || all_columns_ < side_)
      return elementwise(zero, rows, zero, columns);
    // Squares of bytes are transposed side by side, as many as fill a vector.
    wide_ = side_;
    while (2 * wide_ <= std::min(all_columns_, e_.target_.vector_bytes / bytes_)) wide_ *= 2;
    Value *full_rows = whole(rows, side_), *full_columns = whole(columns, side_),
          *wide_columns = whole(columns, wide_);
    squares(full_rows, zero, wide_columns, wide_);
    if (wide_ != side_) squares(full_rows, wide_columns, full_columns, side_);
    elementwise(zero, full_rows, full_columns, columns);
    elementwise(full_rows, rows, zero, columns);
  }

 private:
  Value* place(Value* base, Value* i, const Extent& step_i, Value* j, const Extent& step_j) {
    Value* x = b_.CreateMul(i, e_.extent_value(step_i));
    Value* y = b_.CreateMul(j, e_.extent_value(step_j));
    return b_.CreateGEP(type_, base, b_.CreateAdd(x, y));
  }
  Value* source(Value* r, Value* c) { return place(from_, r, row_step_, c, column_step_); }
  Value* target(Value* r, Value* c) { return place(to_.pointer, c, to_.pitch, r, 1); }
  llvm::Align alignment(BufferId buffer) const {
    return llvm::Align(std::min(e_.kernel_.buffers[buffer].alignment, bytes_));
  }
  llvm::LoadInst* load(Value* pointer, int64_t lanes) {
    llvm::LoadInst* loaded = b_.CreateAlignedLoad(with_lanes(type_, lanes), pointer, alignment(source_));
    e_.annotate(loaded, source_);
    return loaded;
  }
  llvm::StoreInst* store(Value* value, Value* pointer) {
    llvm::StoreInst* stored = b_.CreateAlignedStore(value, pointer, alignment(to_.buffer));
    e_.annotate(stored, to_.buffer);
    return stored;
  }
  Value* whole(Value* n, int64_t step) { return b_.CreateSub(n, b_.CreateURem(n, b_.getInt64(step))); }

  void elementwise(Value* r0, Value* r1, Value* c0, Value* c1) {
    e_.counted_loop(c0, c1, 1, [&](Value* c) {
      e_.counted_loop(r0, r1, 1, [&](Value* r) { store(load(source(r, c), 1), target(r, c)); });
    });
  }

  /// Rows lie in memory as in the tile.
  void emit_lines(Value* rows, Value* columns) {
    const int64_t step = side_ > all_rows_ ? std::max<int64_t>(1, all_rows_) : side_;
    Value *zero = b_.getInt64(0), *full = whole(rows, step);
    e_.counted_loop(zero, columns, 1, [&](Value* c) {
      e_.counted_loop(zero, full, step, [&](Value* r) { store(load(source(r, c), step), target(r, c)); });
    });
    elementwise(full, rows, zero, columns);
  }

  void squares(Value* rows, Value* first, Value* last, int64_t width) {
    e_.counted_loop(first, last, width, [&](Value* c) {
      e_.counted_loop(b_.getInt64(0), rows, side_, [&](Value* r) { square(r, c, width); });
    });
  }

  void square(Value* r, Value* c, int64_t width) {
    if (width == wide_) {
      Value* before = b_.CreateMul(b_.CreateUDiv(c, b_.getInt64(wide_)), b_.getInt64(all_rows_ / side_));
      prefetch(b_.CreateAdd(before, b_.CreateUDiv(r, b_.getInt64(side_))));
    }
    Rows block;
    for (int64_t i = 0; i < side_; ++i) block.push_back(load(source(b_.CreateAdd(r, b_.getInt64(i)), c), width));
    block = transpose_rows(b_, std::move(block));
    for (int64_t i = 0; i < width; ++i) {
      Value* column = piece(b_, block[i % side_], i / side_ * side_, side_);
      llvm::StoreInst* stored = store(column, target(r, b_.CreateAdd(c, b_.getInt64(i))));
      if (!to_.stream) continue;
      stored->setAlignment(llvm::Align(e_.target_.vector_bytes));
      llvm::Metadata* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
      stored->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(e_.context_, one));
      e_.streamed_ = true;
    }
  }

  /// Each row lies in pages of its own, where no hardware prefetcher finds the next tile. Its lines are asked for
  /// row by row, a few with each square, into the second cache: in the first one, rows a power of two apart would
  /// share too few places.
  void prefetch(Value* square) {
    const int64_t line = e_.target_.cache_line / bytes_, lines = all_columns_ / line, share = side_ * wide_ / line;
    if (all_columns_ % line != 0 || share == 0 || (lines % share != 0 && share % lines != 0)) return;
    for (int64_t i = 0; i < share; ++i) {
      Value *row, *column;
      if (share % lines == 0) {
        row = b_.CreateAdd(b_.CreateMul(square, b_.getInt64(share / lines)), b_.getInt64(all_rows_ + i / lines));
        column = b_.getInt64(i % lines * line);
      } else {
        Value* squares = b_.getInt64(lines / share);  // to a row
        row = b_.CreateAdd(b_.CreateUDiv(square, squares), b_.getInt64(all_rows_));
        column = b_.CreateMul(b_.CreateURem(square, squares), b_.getInt64(share * line));
        column = b_.CreateAdd(column, b_.getInt64(i * line));
      }
      codegen::prefetch(b_, place(from_, row, row_step_, column, 1), CacheLevel::second);
    }
  }

  TileEmitter& e_;
  llvm::IRBuilder<>& b_;
  const Transposed& to_;
  const BufferId source_;
  const int64_t bytes_;  ///< Of an element.
  const int64_t all_rows_, all_columns_, column_step_;
  const Extent row_step_;
  const int64_t side_;  ///< Of a square.
  int64_t wide_ = 0;    ///< Columns of the squares that are transposed side by side.
  llvm::Type* type_;
  Value* from_;
};

void TileEmitter::transpose_into(const Transposed& to, const Stmt& stmt, Value* rows, Value* columns) {
  BRAZE_CHECK(lanes().width == 1, "a transpose cannot stand in a vector loop");
  Transpose(*this, to, stmt).emit(rows, columns);
}

}  // namespace braze::codegen
