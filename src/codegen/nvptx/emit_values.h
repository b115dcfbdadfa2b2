// codegen/nvptx/emit_values.h: the state of emitting one phase, and the values that its code computes with.
//
//   slots      What each value of the kernel is: one scalar, or one a lane of the vector loop that runs; integers
//              of 64 bits are sums (linear.h).
//   scope      Who executes what is emitted now: all threads of the block alike, a warp, or each thread for itself.
//   registers  Buffers spread over threads have a variable for each element that a thread has: loops that touch
//              them are written out, so that an element is known by the constant part of its index.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <vector>

#include "codegen/loop_names.h"
#include "codegen/nvptx/emit.h"
#include "codegen/nvptx/linear.h"
#include "codegen/reduce.h"

namespace braze::codegen::nvptx {

constexpr int64_t kWarp = 32;    // lanes of a shuffle, whatever loops are made for
constexpr int64_t kWidest = 16;  // bytes that one instruction loads or stores (PTX ISA)

using Values = llvm::SmallVector<llvm::Value*, 4>;  ///< One, or one a lane.

/// A value of the kernel: one of the two lists is filled, with one entry or one a lane.
struct Slot {
  Values values;
  llvm::SmallVector<Linear, 1> numbers;  ///< i64.
  size_t lanes() const { return std::max(values.size(), numbers.size()); }
};

/// The states of a loop's reductions: of each, one, or one a lane.
using States = llvm::SmallVector<State, 2>;

/// Shared memory of a block, handed out from its beginning.
class SharedLayout {
 public:
  int64_t take(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += (bytes + kWidest - 1) / kWidest * kWidest;
    return offset;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

/// The function of a phase, and the values that are in scope. What emits accesses, statements and loops are classes
/// of their own on top of it, one a header: emit_memory.h, emit_statements.h, emit_loop.h, emitter.h.
class ValueEmitter {
 protected:
  enum class Scope : uint8_t { block, warp, thread };
  struct RegisterRun {
    size_t elements = 0, elements_a_part = 1;
    llvm::SmallVector<llvm::Value*, 4> parts;  ///< Variables, or places in shared memory.
    bool shared = false;
  };

  ValueEmitter(const Kernel& kernel, const Target& target, llvm::Module& module, bool aligned);
  ~ValueEmitter() = default;

  /// All statements of a block, of whatever kind.
  virtual void emit_block(const Block& block) = 0;

  /// \param cluster  Blocks of `threads` threads each that run an iteration together.
  void begin_function(const std::string& name, uint32_t threads, uint32_t cluster);
  llvm::Type* type_of(ValueId id);
  bool is_number(ValueId id) const { return kernel_.types[id] == DType::i64; }
  size_t lanes_of_value(ValueId id) const { return slots_[id].lanes(); }
  llvm::Value* value(ValueId id, size_t lane);  ///< i64 values are i64 then.
  Linear number(ValueId id, size_t lane) const;
  void define(ValueId id, Values values);  ///< i64 values get no bounds.
  void define_number(ValueId id, llvm::SmallVector<Linear, 1> numbers);
  Linear linear(const Affine& affine, size_t lane);
  Linear extent(const Extent& extent);
  size_t lanes_of(const Affine& affine) const;
  /// Emits `then` only where the condition holds.
  void when(llvm::Value* condition, llvm::function_ref<void()> then);
  /// The same; values are those of `then`, or `otherwise` where it was skipped.
  Values when(llvm::Value* condition, const Values& otherwise, llvm::function_ref<Values()> then);
  llvm::Value* is_first();  ///< This thread stores for all that run the same now; null: each for itself.
  void barrier();
  void cluster_barrier();
  llvm::Value* shared_array(int64_t bytes);

  const Kernel& kernel_;
  const Target& target_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  const bool aligned_;
  std::vector<uint32_t> alignments_;

  // Of the phase that is emitted.
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<llvm::Value*> pointers_;                             ///< By buffer.
  std::map<std::pair<BufferId, int64_t>, RegisterRun> registers_;  ///< By buffer and constant part of the index.
  int64_t register_words_ = 0;                                     ///< That a thread has left for them.
  llvm::GlobalVariable* shared_memory_ = nullptr;
  SharedLayout shared_;
  uint32_t threads_ = 0;  ///< Of a block.
  uint32_t cluster_ = 1;  ///< Blocks.
  llvm::Value *thread_ = nullptr, *lane_ = nullptr,
              *warp_ = nullptr;            ///< i32: numbers in the block, the warp, the block.
  llvm::Value* cluster_thread_ = nullptr;  ///< i32: the thread's number in the cluster.
  Scope scope_ = Scope::block;
  size_t lanes_ = 1;  ///< Of the vector loop that runs.
  int repeated_ = 0;  ///< Serial loops around what is emitted, within the block's.
};

}  // namespace braze::codegen::nvptx
