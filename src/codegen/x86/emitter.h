// codegen/x86/emitter.h: the state of emitting one phase; shared by the emit*.cpp files.
//
// Three ideas carry it:
//   lanes   Inside a vector loop a value is `parts` vectors of `width` lanes (parts = unroll copies); a value that
//   is the
//           same in all lanes stays one scalar and is spread where first needed. A loop's variable is `linear`:
//           lane 0's number, the others following.
//   levels  Every loop and branch is a level. What depends only on outer levels is emitted in front of the loop, in
//   its
//           preheader, which runs only if the loop does. Code does not move out of branches.
//   segments  A loop runs as segments (aligning prologue, main part, tail), each a loop of its own over the same
//   body.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <optional>
#include <vector>

#include "codegen/reduce.h"
#include "codegen/types.h"
#include "loops/kernel.h"
#include "target/target.h"

namespace braze::codegen {

using loops::Affine;
using loops::Block;
using loops::Buffer;
using loops::BufferId;
using loops::Extent;
using loops::Kernel;
using loops::Loop;
using loops::Reduction;
using loops::Stmt;
using loops::StmtKind;
using loops::ValueId;

using Parts = llvm::SmallVector<llvm::Value*, 4>;  ///< One value a part.

/// How many lanes run at once. Outside of vector loops: one lane, one part, no mask.
struct LaneSet {
  unsigned width = 1;
  unsigned parts = 1;
  Parts mask;  ///< Empty, or which lanes count, a part each. At least one lane of all counts.
};

/// A value of the kernel while it is in scope.
struct Slot {
  enum class Kind : uint8_t { unset, uniform, varying, linear };
  Kind kind = Kind::unset;
  int level = 0;           ///< It depends on nothing inside deeper levels.
  uint64_t token = 0;      ///< Of the code region that holds it; see Emitter::alive.
  Parts parts;             ///< uniform: one scalar; linear: lane 0 of part 0; varying: all.
  bool counts = false;     ///< uniform: not negative, as a loop variable and what divisions make of it.
  bool induction = false;  ///< A loop variable: the segment's variable plus `shift`.
  int64_t shift = 0;
  int64_t repeats = 0;           ///< varying: so many lanes have each number, from lane 0 on; 0: nothing is known,
  llvm::Value* first = nullptr;  ///< the number in lane 0, from which lane to lane it is the same or one more.
  Parts spread;                  ///< The same as vectors, once wanted.
  uint64_t spread_token = 0;
};

/// A loop or branch that is being emitted. Level 0 is the function.
struct Level {
  const Loop* loop = nullptr;             ///< Null: a branch or the function.
  llvm::BasicBlock* preheader = nullptr;  ///< Of a loop: hoisted code goes before its terminator.
  uint64_t instance = 0;                  ///< Region of the preheader.
  uint64_t scope = 0;                     ///< Region of the body; renewed for each copy of it.
  LaneSet lanes;
  bool aligned = false;  ///< The vector loop's variable is a multiple of the width.

  struct Derived {
    Extent factor;
    llvm::Value* value;
    llvm::PHINode* phi;
  };
  llvm::Value* from = nullptr;         ///< The running segment's first value of the variable,
  llvm::Value* variable = nullptr;     ///< its present one,
  llvm::BasicBlock* header = nullptr;  ///< null if the segment runs once,
  llvm::Instruction* entry = nullptr;  ///< and the jump into it.
  int64_t stride = 0;
  llvm::SmallVector<Derived, 4> derived;  ///< factor * variable, stepped by additions.
};

/// An index taken apart by how its terms differ between lanes.
struct Index {
  llvm::SmallVector<Affine::Term, 4> terms;  ///< Uniform ones and the linear one's lane 0, outermost level first.
  llvm::SmallVector<Affine::Term, 2> varying;
  std::optional<Extent> lane_stride;  ///< Elements from lane to lane through the linear term.
  Extent offset;
  int level = 0;
  bool is_uniform() const { return varying.empty() && !lane_stride; }
  bool is_strided_by(int64_t n) const {
    return varying.empty() && lane_stride && lane_stride->is_constant() && lane_stride->constant == n;
  }
};

/// Address of lane 0 of part 0, less `displacement` elements that fold into the instruction.
struct Address {
  llvm::Value* pointer;
  int64_t displacement;
};

/// States of a loop's reductions: [reduction][copy and part].
using Accumulators = llvm::SmallVector<llvm::SmallVector<State, 4>, 2>;

class Emitter {
 public:
  Emitter(const Kernel& kernel, const Target& target, llvm::Module& module);
  void emit_phase(const Loop& loop, const std::string& name);

 private:
  // ---- emit.cpp: function frame, placement, values
  void begin_function(const std::string& name);
  llvm::Type* type_of(ValueId id, unsigned lanes = 1);
  int current() const { return static_cast<int>(levels_.size()) - 1; }
  const LaneSet& lanes() const { return levels_.back().lanes; }
  uint64_t new_token() { return ++tokens_; }
  bool alive(uint64_t token) const;
  /// The outermost level not above `level` that code may be moved to from here.
  int placement(int level) const;
  /// While it lives the builder is at `level` (a placement()).
  class At {
   public:
    At(Emitter& emitter, int level);
    uint64_t token() const { return token_; }

   private:
    std::optional<llvm::IRBuilderBase::InsertPointGuard> guard_;  ///< Only if moved: code here may add blocks.
    uint64_t token_;
  };
  /// Runs `make` in the function's entry block.
  template <typename Make>
  auto at_entry(Make&& make) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_->getTerminator());
    return make();
  }
  llvm::Value* buffer_pointer(BufferId id);
  llvm::Value* extent_value(const Extent& extent);
  llvm::Value* symbol_value(uint32_t slot);
  llvm::AllocaInst* stack(llvm::Type* type, uint64_t count, uint64_t alignment);
  void annotate(llvm::Instruction* access, BufferId id);

  Slot& slot(ValueId id);
  void define(ValueId id, Slot::Kind kind, int level, uint64_t token, Parts parts);
  void define_here(ValueId id, bool varying, Parts parts) {
    define(id, varying ? Slot::Kind::varying : Slot::Kind::uniform, current(), levels_.back().scope,
           std::move(parts));
  }
  bool is_uniform(ValueId id) { return slot(id).kind == Slot::Kind::uniform; }
  llvm::Value* uniform(ValueId id);           ///< The scalar; the value must be uniform.
  llvm::Value* part(ValueId id, unsigned p);  ///< A vector (a scalar where the width is 1).
  llvm::Value* spread(llvm::Value* scalar);
  const Parts& vectors(Slot& s);

  void emit_block(const Block& block);
  void emit_stmt(const Stmt& stmt);
  void emit_compute(const Stmt& stmt);
  bool emit_linear_division(const Stmt& stmt);
  bool emit_counted_division(const Stmt& stmt);
  void emit_checked(const Stmt& stmt);
  void emit_value_check(const Stmt& stmt);
  void set_status(const Parts& bad, int64_t status);  ///< If any lane is bad.
  void emit_branch(const Stmt& stmt);
  void emit_scalar(const Stmt& stmt);
  void emit_random(const Stmt& stmt);
  void emit_affine(ValueId id, const Affine& affine);
  llvm::Value* any_lane(const Parts& mask);
  void note_checked(const Block& block);

  // ---- emit_memory.cpp
  Index analyse(const Affine& affine);
  bool flatten(const Affine& affine, const Extent& factor, Affine& out);
  llvm::Value* scaled(const Affine::Term& term, int64_t& displacement);
  llvm::Value* derived(int level, const Extent& factor);
  llvm::Value* index_sum(const Index& index, int64_t& displacement);
  llvm::Value* lane_offsets(const Index& index, unsigned p);
  Address address(BufferId buffer, const Index& index);
  llvm::Value* element(BufferId buffer, const Address& address, int64_t offset);
  llvm::Value* part_pointers(BufferId buffer, const Index& index, const Address& address, unsigned p);
  int load_placement(int level, BufferId buffer);
  const llvm::SmallVector<BufferId, 4>& written(const Loop& loop);
  llvm::Value* lane_mask(int level, unsigned p, ValueId predicate);
  const Slot* repeated(const Index& index);
  llvm::Value* load_repeated(BufferId buffer, const Address& address, const Slot& place, unsigned p,
                             llvm::Value* mask);
  llvm::Value* load_part(BufferId buffer, const Index& index, const Address& address, unsigned p, llvm::Value* mask,
                         llvm::Value* otherwise);
  llvm::Value* load_all_or_none(const Stmt& stmt, const Address& address, unsigned p, llvm::Value* otherwise);
  void emit_load(const Stmt& stmt);
  void emit_store(const Stmt& stmt);
  void emit_scalar_store(const Stmt& stmt, const Address& address);
  void store_part(const Stmt& stmt, const Index& index, const Address& address, unsigned p, llvm::Value* value,
                  llvm::Value* mask);
  bool store_is_aligned(const Stmt& stmt);
  void emit_atomic(const Stmt& stmt);
  void atomic_lane(const Stmt& stmt, llvm::Value* pointer, llvm::Value* value);
  void atomic_exchange(const Stmt& stmt, llvm::Value* pointer, llvm::Value* value);
  llvm::Value* scrap();

  // ---- emit_loop.cpp
  void emit_loop(const Loop& loop);
  void run_loop(const Loop& loop, llvm::Value* begin, llvm::Value* end);
  void run_scalar(const Loop& loop, llvm::Value* begin, llvm::Value* end, Accumulators& states);
  void run_vector(const Loop& loop, llvm::Value* begin, llvm::Value* end, Accumulators& states);
  void run_ragged(const Loop& loop, Accumulators& states);
  /// Opens a level for a loop; if `guard` it is skipped (and `states` kept) unless the guard holds.
  struct OpenLoop {
    llvm::BasicBlock* before = nullptr;
    llvm::BasicBlock* done = nullptr;
    Accumulators initial;
  };
  OpenLoop open_loop(const Loop& loop, llvm::Value* guard, const Accumulators& initial);
  void close_loop(const OpenLoop& open, Accumulators& states);
  enum class Trips : uint8_t { any, at_least_one, at_most_one };  ///< How often a segment runs, if that is known.
  void run_segment(llvm::Value* from, llvm::Value* to, int64_t stride, Accumulators& states,
                   llvm::function_ref<void(llvm::Value*, Accumulators&)> body, Trips trips = Trips::any);
  /// One copy of the body; `states` from `first` on (as many as there are parts) take its contributions.
  void run_body(const Loop& loop, Accumulators& states, unsigned first, bool masked);
  void set_variable(const Loop& loop, llvm::Value* variable, int64_t shift, bool vector);
  void vector_tail(const Loop& loop, llvm::Value* from, llvm::Value* to, Accumulators& states, unsigned width,
                   Trips trips, bool aligned = false);
  void finish_vector(const Loop& loop, Accumulators& vectors, Accumulators& states);
  Reducer reducer(const Reduction& reduction);
  State first_state(const Reduction& reduction, unsigned part);
  Accumulators first_states(const Loop& loop);
  Accumulators identities(const Loop& loop, unsigned copies, unsigned width);
  void fold(const Loop& loop, Accumulators& states, unsigned keep);
  bool can_vectorise(const Loop& loop) const;
  unsigned width_of(const Loop& loop) const;
  int weight_of(const Block& block) const;
  bool wants_alignment(const Loop& loop);
  bool tail_is_scalar(const Loop& loop) const;
  bool may_run_twice(const Loop& loop) const;
  bool is_small_window(const Loop& loop, int64_t count) const;

  // ---- emit_tile.cpp
  /// Where a transpose goes: element (r, c) to pointer[c*pitch + r].
  struct Transposed {
    BufferId buffer;
    llvm::Value* pointer;
    Extent pitch;
    bool stream;  ///< Past the cache; everything is aligned to whole vectors then.
  };
  void emit_transpose(const Stmt& stmt);
  bool emit_transposed_copy(const Stmt& stmt, const Stmt& next);
  void transpose_into(const Transposed& to, const Stmt& stmt, llvm::Value* rows, llvm::Value* columns);
  int64_t step_of(ValueId id);
  void emit_dot(const Stmt& stmt);
  void counted_loop(llvm::Value* from, llvm::Value* to, int64_t step, llvm::function_ref<void(llvm::Value*)> body);

  const Kernel& kernel_;
  const Target& target_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;
  std::vector<Level> levels_;
  std::vector<Slot> slots_;
  std::vector<const Affine*> affines_;  ///< Of values that an affine statement defines: used in place.
  std::vector<llvm::Value*> pointers_, symbols_, scalars_;
  std::vector<llvm::MDNode*> own_scope_, other_scopes_;
  llvm::MDNode* launch_scopes_ = nullptr;
  llvm::DenseMap<const Stmt*, int64_t> ordinals_;  ///< Of checked statements, in order of the text.
  llvm::DenseMap<const Loop*, llvm::SmallVector<BufferId, 4>> written_;
  llvm::Value* dummy_ = nullptr;  ///< A vector's worth of stack that skipped accesses are sent to.
  uint64_t tokens_ = 0;
  bool streamed_ = false;
};

}  // namespace braze::codegen
