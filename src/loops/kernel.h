// loops/kernel.h: the loop IR: what a fused kernel computes, as loop nests over scalars.
//
// A kernel reads and writes buffers through affine indices. Its top-level statements are loops, one per *phase*:
// all of a phase is done before the next begins (one launch, a barrier between). A loop says how it is to be run
// (`Schedule`), never what width: that is the target's. The same IR serves CPU and GPU.
//
//   kernel @row_max(%x: bf16 in, %y: f32 out, #rows) {
//     for %i in 0..#rows parallel {
//       %m = for %j in 0..768 vector reduce max {
//         %a = load %x[768*%i + %j] : f32          // stored as bf16, computed as f32
//         yield %a
//       }
//       store %y[%i], %m
//     }
//   }
//
// Scalars compute in f64, f32, i64, i32, i16, i8, u8 or bool; bf16 and f16 exist only in buffers, and
// between two casts that round. Loop variables and indices are i64. Every value is defined once, before its uses,
// in a block that encloses them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "ir/graph.h"
#include "support/hash.h"
#include "support/lexer.h"

namespace braze::loops {

using ir::DType;
using ir::Number;
using ValueId = uint32_t;
using BufferId = uint32_t;
inline constexpr uint32_t none = ~0u;

/// constant + factor * #symbol. Symbols are integers passed at launch (symbolic sizes, strides, offsets).
struct Extent {
  int64_t constant = 0;
  int64_t factor = 0;
  uint32_t symbol = none;
  Extent() = default;
  Extent(int64_t value) : constant(value) {}  // NOLINT: a number is an extent
  bool is_constant() const { return symbol == none || factor == 0; }
  bool operator==(const Extent&) const = default;
};

/// offset + sum of factor * value, in elements. `value` is a loop variable or any i64 scalar.
struct Affine {
  struct Term {
    Extent factor;
    ValueId value;
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;  ///< No two with the same value.
  Extent offset;
  void add(Extent factor, ValueId value);  ///< Merges constant factors; drops zeros.
  bool operator==(const Affine&) const = default;
};

enum class Access : uint8_t { in, out, inout };
enum class Space : uint8_t { global, local, shared, registers };  ///< `local`: of one thread; `shared`: of a block.

/// Bytes that memory which braze plans begins at a multiple of, whatever the target: the widest vector of any. The
/// text leaves this alignment out.
inline constexpr int64_t planned_alignment = 64;

struct Buffer {
  std::string name;
  DType dtype = DType::f32;    ///< How it is stored.
  Access access = Access::in;  ///< For parameters.
  Space space = Space::global;
  bool may_alias = true;  ///< false only where the planner proved that no other parameter overlaps it.
  int64_t alignment = planned_alignment;  ///< Bytes that the first element's address is a multiple of (at least).
  bool is_exact = false;                  ///< That is all: it is a multiple of no more, whatever memory is given.
  Extent size;                            ///< Elements; for parameters 0 means unknown.
  bool is_parameter = true;               ///< false: made by an Alloc.
};

/// A number passed at launch: `x + 1` and `x + 2` are one kernel.
struct Scalar {
  std::string name;
  DType dtype = DType::f32;
};

/// How two partial states of a reduction join. State and contribution are tuples:
///   sum prod max min any all   (x)            -> (x)                NaN wins in max and min
///   argmax argmin              (x, index)     -> (x, index)         first among equals; NaN counts as extreme
///   serial                     any            -> the same           no joining: state is handed from step to step
enum class Combine : uint8_t { sum, prod, max, min, any, all, argmax, argmin, serial };
int contribution_size(Combine combine);  ///< -1 for serial.
int state_size(Combine combine);         ///< -1 for serial.

struct Stmt;
using Block = std::vector<Stmt>;

struct Reduction {
  Combine combine = Combine::sum;
  std::vector<ValueId> init;     ///< serial: the first state; the others start from their identity.
  std::vector<ValueId> state;    ///< serial: the state as the body sees it.
  std::vector<ValueId> yielded;  ///< What one iteration contributes; defined in the loop's body.
  std::vector<ValueId> results;  ///< The final state; defined by the loop.
};

/// How a loop runs. Several can hold: a flat pointwise kernel is one loop, parallel and vector.
struct Schedule {
  bool parallel = false;  ///< CPU: split over threads; GPU: grid. Top-level loops only.
  bool vector = false;    ///< Lanes of the target run successive iterations; at most one loop of a nest.
  int32_t unroll = 1;     ///< Copies of the body (and of accumulators), on top of `vector`.
  int64_t grain = 1;      ///< Fewest iterations worth a thread, for `parallel`.
  enum class Bind : uint8_t { none, block, warp, thread } bind = Bind::none;  ///< GPU: what runs an iteration.
  int32_t cluster = 1;  ///< GPU, of a loop bound to `block`: so many blocks run an iteration together.
};

/// On a GPU a top-level loop bound to `block` is the grid. In it, loops bound to `warp` share their iterations out
/// over the warps of a block, one each; loops bound to `thread` theirs over the threads of the block, or of the
/// warp that they stand in. What stands outside of them is done by every thread alike, and stored by the first; the
/// result of a reduction over threads is known to all of them. A buffer in `registers` is spread over the threads:
/// each element is touched by one of them.
///
/// With `cluster=N` the threads of N blocks run an iteration as if they were those of one: loops bound to `thread`
/// share their iterations out over all of them. Such blocks have neither warps' loops nor buffers in `shared`.
struct Loop {
  ValueId var = none;
  Extent begin, end;                             ///< Half open.
  int64_t step = 1;                              ///< > 0. A tile loop steps by the tile.
  ValueId begin_value = none, end_value = none;  ///< If set, i64 scalars used instead of begin/end.
  Schedule schedule;
  std::vector<Reduction> reductions;
  Block body;
};

enum class StmtKind : uint8_t {
  constant,   // %r = constant NUMBER : type
  scalar,     // %r = scalar $name                            a Scalar of the kernel
  symbol,     // %r = symbol #name                            a symbol as an i64 value
  compute,    // %r = OP %a, %b : type                        OP is an elementwise row of ir/ops.def
  affine,     // %r = affine 4*%i + %j + 1                    an index as an i64 value
  load,       // %r = load %buf[affine] (if %p else %q) : type   `if`: lanes where %p is false are not read
  store,      // store %buf[affine], %v (if %p) (stream)         stream: non-temporal
  atomic,     // atomic add|max|min %buf[affine], %v (if %p)
  checked,    // %r = checked %i, extent                      %i if 0 <= %i < extent; else status is set and 0 given
  alloc,      // alloc %buf: f32[size] local                  lives to the end of the block
  loop,       // for ...
  branch,     // if %p { ... }
  barrier,    // barrier                                       all threads of the block wait for each other
  transpose,  // transpose %tile, %buf[affine], rows=R step=S, cols=C step=T valid=%r,%c
              //   tile[c*R + r] = buf[affine + r*S + c*T]; on CPU in registers
};

/// What the status is set to by a computation that checks its operand; 0: the op checks nothing.
constexpr int64_t status_of(ir::Op op) {
  switch (op) {
    case ir::Op::divisor: return -1;
    case ir::Op::probability: return -2;
    case ir::Op::expected: return -3;
    default: return 0;
  }
}

enum class AtomicOp : uint8_t { add, max, min };

struct Stmt {
  StmtKind kind = StmtKind::constant;
  ir::Op op = ir::Op::add;  ///< compute.
  DType type = DType::f32;  ///< Of the result; of a compute's operands where they differ see Kernel::types.
  ValueId result = none;
  std::vector<ValueId> args;  ///< compute operands; store/atomic: {value}; checked: {index}.
  Number number;              ///< constant.
  uint32_t slot = 0;          ///< scalar: which Scalar; symbol: which symbol.
  BufferId buffer = none;     ///< load, store, atomic, alloc, transpose (destination).
  Affine index;               ///< load, store, atomic, affine, transpose (source).
  ValueId predicate = none;   ///< load, store, atomic, branch.
  ValueId otherwise = none;   ///< load with a predicate.
  Extent extent;              ///< checked.
  bool stream = false;        ///< store: bypass the cache.
  AtomicOp atomic = AtomicOp::add;
  std::vector<BufferId> sources;  ///< transpose {from}.
  std::vector<int64_t> shape;     ///< transpose {R, S, C, T}.
  std::vector<Extent> sizes;      ///< transpose: {S}, where it is a symbol's.
  std::vector<ValueId> valid;     ///< transpose: rows and columns present, or empty for all.
  std::unique_ptr<Loop> loop;     ///< loop.
  Block body;                     ///< branch.
};

struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;  ///< Parameters first, in the order of the launch's pointers; then allocs.
  std::vector<Scalar> scalars;
  std::vector<std::string> symbols;
  std::vector<DType> types;  ///< Of every ValueId.
  bool narrow = false;       ///< Every index and loop variable fits into 32 bits: they may be computed in these.
  Block body;

  uint32_t parameter_count() const;
  ValueId add_value(DType type) {
    types.push_back(type);
    return static_cast<ValueId>(types.size() - 1);
  }
};

/// Appends statements to a block of a kernel; each returns the value it defines.
class Builder {
 public:
  Builder(Kernel& kernel, Block& block) : kernel_(kernel), block_(&block) {}
  Block& block() { return *block_; }

  ValueId constant(DType type, Number number);
  ValueId scalar(uint32_t slot);
  ValueId symbol(uint32_t slot);
  /// The result type follows from the op: bool for tests and comparisons, `type` for cast, else the operands'.
  ValueId compute(ir::Op op, std::vector<ValueId> args);
  ValueId cast(ValueId value, DType type);  ///< `value` itself if it has that type.
  ValueId affine(Affine index);             ///< The value itself if the index is just one value.
  /// Loads in the buffer's compute type.
  ValueId load(BufferId buffer, Affine index, ValueId predicate = none, ValueId otherwise = none);
  void store(BufferId buffer, Affine index, ValueId value, ValueId predicate = none, bool stream = false);
  ValueId checked(ValueId index, Extent extent);
  BufferId alloc(std::string name, DType dtype, Extent size, Space space = Space::local);
  /// Appends a loop; fill `body` through a Builder of its own. The reference lasts until the block next grows.
  Loop& loop(Extent begin, Extent end, Schedule schedule = {}, int64_t step = 1);

 private:
  Stmt& append(StmtKind kind, DType type, bool has_result);
  Kernel& kernel_;
  Block* block_;
};

/// Some index or value is checked when it runs: its status must be looked at before anything relies on it.
bool has_checks(const Kernel& kernel);

/// Text. print -> parse -> print gives the same text; values are renumbered in order of definition.
std::string print(const Kernel& kernel);
std::unique_ptr<Kernel> parse_kernel(std::string_view text);  ///< Throws UserError with line and column.
std::unique_ptr<Kernel> parse_kernel(Lexer& lexer);           ///< Likewise, up to the end of the kernel.
/// Definitions before uses, types, one vector loop per nest, reductions' arity. Throws InternalError.
void verify(const Kernel& kernel);
/// Equal for kernels that differ only in names of the kernel, values, buffers and scalars.
Hash128 structural_hash(const Kernel& kernel);

}  // namespace braze::loops
