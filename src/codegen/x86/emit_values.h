// codegen/x86/emit_values.h: the state of emitting one phase, and the values that its code computes with.
//
// Three ideas carry it:
//   lanes     Inside a vector loop a value is `parts` vectors of `width` lanes (parts = unroll copies); a value that
//             is the same in all lanes stays one scalar and is spread where first needed. A loop's variable is
//             `linear`: lane 0's number, the others following.
//   levels    Every loop and branch is a level. What depends only on outer levels is emitted in front of the loop,
//             in its preheader, which runs only if the loop does. Code does not move out of branches.
//   segments  A loop runs as segments (aligning prologue, main part, tail), each a loop of its own over the same
//             body.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <optional>
#include <vector>

#include "codegen/loop_names.h"
#include "codegen/reduce.h"
#include "codegen/types.h"
#include "target/target.h"

namespace braze::codegen {

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
  uint64_t token = 0;      ///< Of the code region that holds it; see ValueEmitter::alive.
  Parts parts;             ///< uniform: one scalar; linear: lane 0 of part 0; varying: all.
  bool counts = false;     ///< uniform: not negative, as a loop variable and what divisions make of it.
  bool is_extent = false;  ///< uniform: what a launch passes of a size, and nothing else.
  bool induction = false;  ///< A loop variable: the segment's variable plus `shift`.
  int64_t shift = 0;
  int64_t repeats = 0;           ///< varying: so many lanes have each number, from lane 0 on; 0: nothing is known,
  llvm::Value* first = nullptr;  ///< the number in lane 0, from which lane to lane it is the same or one more.
  Parts spread;                  ///< The same as vectors, once wanted.
  uint64_t spread_token = 0;
};

enum class CacheLevel : uint8_t { second = 2, first = 3 };  ///< As llvm.prefetch counts them.
/// Asks for the line that `pointer` lies in, to be read.
void prefetch(llvm::IRBuilder<>& builder, llvm::Value* pointer, CacheLevel into);

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

  /// `numerator` divided by what the loop does not change, kept up to date without dividing: the numerator is the
  /// variable, which a step moves on by one, or another one's quotient, which goes on where that one's remainder
  /// begins anew.
  struct Odometer {
    llvm::Value *numerator, *size, *divisor;  ///< The divisor is the size, and 1 where that is 0.
    llvm::PHINode *quotient, *remainder;
    llvm::Value* first;              ///< The quotient where the segment begins.
    llvm::Value* carries = nullptr;  ///< At the end of a step: the quotient goes on by one.
  };
  llvm::SmallVector<Odometer, 2> odometers;  ///< Those whose quotients others divide come first.
};

/// The function of a phase, where code is placed in it, and the values that are in scope. What emits indices,
/// accesses, statements and loops are classes of their own on top of it, one a header: emit_index.h, emit_memory.h,
/// emit_tile.h, emit_statements.h, emit_loop.h, emitter.h.
class ValueEmitter {
 protected:
  ValueEmitter(const Kernel& kernel, const Target& target, llvm::Module& module);
  ~ValueEmitter() = default;

  /// All statements of a block, of whatever kind.
  virtual void emit_block(const Block& block) = 0;
  /// The value of an affine statement, which is used in place until a number is wanted.
  virtual void emit_affine(ValueId id, const Affine& affine) = 0;

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
    At(ValueEmitter& emitter, int level);
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
  llvm::Value* any_lane(const Parts& mask);
  llvm::Value* scrap();  ///< A vector's worth of stack that skipped accesses are sent to.
  /// for i = from; i < to; i += step. Its body is no level: code hoisted from it goes in front of the level's loop.
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
  llvm::Value* dummy_ = nullptr;  ///< A vector's worth of stack that skipped accesses are sent to.
  uint64_t tokens_ = 0;
  bool streamed_ = false;  ///< Some store goes past the caches.
};

}  // namespace braze::codegen
