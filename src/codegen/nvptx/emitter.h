// codegen/nvptx/emitter.h: the state of emitting one phase; shared by the emit*.cpp files.
//
//   slots      What each value of the kernel is: one scalar, or one a lane of the vector loop that runs; integers
//   of
//              64 bits are sums (linear.h).
//   scope      Who executes what is emitted now: all threads of the block alike, a warp, or each thread for itself.
//   registers  Buffers spread over threads have a variable for each element that a thread has: loops that touch
//   them
//              are written out, so that an element is known by the constant part of its index.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <vector>

#include "codegen/nvptx/emit.h"
#include "codegen/nvptx/linear.h"
#include "codegen/reduce.h"

namespace braze::codegen::nvptx {

using ir::DType;
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

constexpr int64_t kWarp = 32;             // lanes of a shuffle, whatever loops are made for
constexpr int64_t kRowScratch = 4 << 10;  // bytes of shared memory left for the joins between warps

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
    constexpr int64_t whole = 16;  // the widest access
    const int64_t offset = bytes_;
    bytes_ += (bytes + whole - 1) / whole * whole;
    return offset;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

class Emitter {
 public:
  Emitter(const Kernel& kernel, const Target& target, llvm::Module& module, bool aligned);
  GpuPhase emit_phase(const Loop& loop, const std::string& name);
  std::vector<uint32_t> alignments() const { return alignments_; }

 private:
  enum class Scope : uint8_t { block, warp, thread };

  // ---- emit.cpp: the function, values, statements
  void begin_function(const std::string& name, uint32_t threads);
  void number_checks(const Block& block);
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
  llvm::Value* shared_array(int64_t bytes);

  void emit_block(const Block& block);
  void emit_stmt(const Stmt& stmt);
  void emit_scalar(const Stmt& stmt);
  void emit_compute(const Stmt& stmt);
  bool emit_number(const Stmt& stmt);
  void emit_checked(const Stmt& stmt);
  void emit_value_check(const Stmt& stmt);
  void set_status(llvm::Value* bad, int64_t status);
  void emit_random(const Stmt& stmt);
  void emit_branch(const Stmt& stmt);
  void emit_alloc(const Stmt& stmt);

  // ---- emit_memory.cpp
  struct Place {
    llvm::Value* pointer;
    llvm::Align alignment;  ///< That it is known to have.
  };
  llvm::Value* buffer_pointer(BufferId id);
  /// The element; its address is also known to be a multiple of `wanted` bytes if the result says so.
  Place place(BufferId id, const Linear& index, int64_t wanted);
  int64_t known_alignment(BufferId id, const Linear& index, int64_t wanted);
  bool are_neighbours(const Affine& index, size_t lanes);
  llvm::Value* load_one(BufferId id, const Linear& index);
  Values load_run(BufferId id, const Linear& first, size_t lanes);
  void store_one(BufferId id, const Linear& index, llvm::Value* value);
  void store_run(BufferId id, const Linear& first, const Values& values);
  void annotate(llvm::LoadInst* load, BufferId id);
  void emit_load(const Stmt& stmt);
  void emit_store(const Stmt& stmt);
  void emit_atomic(const Stmt& stmt);

  // ---- emit_registers.cpp
  struct RegisterRun {
    size_t elements = 0, elements_a_part = 1;
    llvm::SmallVector<llvm::Value*, 4> parts;  ///< Variables, or places in shared memory.
    bool shared = false;
  };
  RegisterRun& register_run(BufferId id, const Linear& first, size_t elements);
  Values load_registers(BufferId id, const Linear& first, size_t elements);
  void store_registers(BufferId id, const Linear& first, const Values& values);

  // ---- emit_loop.cpp
  /// Runs an iteration for a value of the loop's variable; takes and gives the states of its reductions.
  using Body = llvm::function_ref<void(const Linear& variable, States& states)>;
  void emit_loop(const Loop& loop);
  void emit_serial(const Loop& loop, States& states);
  void emit_written_out(const Loop& loop, const Linear& begin, const Linear& end, int64_t least, int64_t most,
                        States& states);
  void emit_lanes(const Loop& loop, States& states);
  /// while (variable < limit) body, variable += stride. Returns the variable's last value.
  /// \param facts  What is known of the variable.
  llvm::Value* run_while(llvm::Value* from, llvm::Value* limit, int64_t stride, const Base& facts,
                         bool at_least_once, States& states, Body body);
  void run_body(const Loop& loop, const Linear& variable, States& states);
  void guarded_states(llvm::Value* condition, States& states, llvm::function_ref<void(States&)> then);
  Linear bound(ValueId value, const Extent& extent);
  bool touches_registers(const Block& block) const;
  bool runs_in_lanes(const Loop& loop) const;
  bool is_straight(const Block& block) const;
  Reducer reducer(const Reduction& reduction);
  States first_states(const Loop& loop);
  State step(const Reduction& reduction, const State& state, const State& contribution);
  void define_results(const Loop& loop, const States& states);
  Values components(const States& states, size_t reduction, size_t component) const;

  // ---- emit_threads.cpp
  uint32_t threads_of(const Loop& phase) const;
  void emit_bound(const Loop& loop);
  State join_threads(const Reduction& reduction, State state, int64_t threads, bool of_block);
  State join_lanes(const Reduction& reduction, State state, unsigned lanes);
  llvm::Value* shuffle(llvm::Value* value, unsigned distance);

  const Kernel& kernel_;
  const Target& target_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  const bool aligned_;
  std::vector<uint32_t> alignments_;
  llvm::DenseMap<const Stmt*, int64_t> checks_;  ///< Numbers of checked statements, in order of the text.

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
  llvm::Value *thread_ = nullptr, *lane_ = nullptr,
              *warp_ = nullptr;  ///< i32: numbers in the block, the warp, the block.
  Scope scope_ = Scope::block;
  size_t lanes_ = 1;  ///< Of the vector loop that runs.
  int repeated_ = 0;  ///< Serial loops around what is emitted, within the block's.
};

}  // namespace braze::codegen::nvptx
