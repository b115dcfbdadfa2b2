// codegen/nvptx/emit_threads.cpp: loops over the warps and threads of a block.
//
// What the threads of a warp have found is joined by shuffles: in each round a thread joins its state with that of
// the thread whose number differs in one bit, so that all end with the same bits. Warps write theirs to shared
// memory and meet; then each of them joins all of it in the same way. So do the blocks of a cluster, whose threads
// read each other's shared memory (PTX ISA, "mapa").
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <bit>

#include "codegen/nvptx/emitter.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::Value;
using Bind = loops::Schedule::Bind;

namespace {

/// The most threads that loops directly in a block ask for.
int64_t widest(const Block& block) {
  int64_t threads = 1;
  for (const Stmt& stmt : block) {
    threads = std::max(threads, widest(stmt.body));
    if (!stmt.loop) continue;
    const Loop& loop = *stmt.loop;
    if (loop.schedule.bind == Bind::none)
      threads = std::max(threads, widest(loop.body));
    else
      threads = std::max(threads, loop.end.constant * (loop.schedule.bind == Bind::warp ? kWarp : 1));
  }
  return threads;
}

}  // namespace

uint32_t Emitter::threads_of(const Loop& phase) const {
  const int64_t threads = (widest(phase.body) + phase.schedule.cluster - 1) / phase.schedule.cluster;
  const int64_t whole_warps = (threads + kWarp - 1) / kWarp * kWarp;
  return static_cast<uint32_t>(std::min(whole_warps, target_.gpu.most_threads));
}

void Emitter::emit_bound(const Loop& loop) {
  const bool over_warps = loop.schedule.bind == Bind::warp, of_block = scope_ == Scope::block;
  BRAZE_CHECK(of_block || (!over_warps && scope_ == Scope::warp), "a loop over threads stands in another one");
  BRAZE_CHECK(!over_warps || cluster_ == 1, "the warps of a cluster share no loop");
  const int64_t runners = over_warps ? threads_ / kWarp : of_block ? threads_ * cluster_ : kWarp;
  const int64_t count = loop.end.constant;
  Value* number = over_warps ? warp_ : of_block ? cluster_thread_ : lane_;
  const Scope outer = scope_;
  scope_ = over_warps ? Scope::warp : Scope::thread;
  // A state that nothing was added to is none: it is neither joined nor counted.
  States states = first_states(loop);
  const auto one = [&](const Linear& variable, States& inside) { run_body(loop, variable, inside); };
  const Linear mine(Base{number, Range{0, std::min(runners, count) - 1}});
  if (count == runners) {
    one(mine, states);
  } else if (count < runners) {
    guarded_states(b_.CreateICmpULT(number, b_.getInt32(static_cast<uint32_t>(count))), states,
                   [&](States& inside) { one(mine, inside); });
  } else {
    ++repeated_;
    run_while(number, b_.getInt32(static_cast<uint32_t>(count)), runners, {nullptr, Range{0, count - 1}}, true,
              states, one);
    --repeated_;
  }
  scope_ = outer;
  for (size_t k = 0; k < states.size(); ++k)
    states[k] = join_threads(loop.reductions[k], std::move(states[k]), std::min(runners, count), of_block);
  define_results(loop, states);
}

Value* Emitter::shuffle(Value* value, unsigned distance) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getScalarSizeInBits();
  const auto swap = [&](Value* word) {
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                              {b_.getInt32(~0u), word, b_.getInt32(distance), b_.getInt32(kWarp - 1)});
  };
  if (bits < 32) return b_.CreateTrunc(swap(b_.CreateZExt(value, b_.getInt32Ty())), type);
  if (bits == 32) return b_.CreateBitCast(swap(b_.CreateBitCast(value, b_.getInt32Ty())), type);
  Value* whole = b_.CreateBitCast(value, b_.getInt64Ty());
  Value* low = swap(b_.CreateTrunc(whole, b_.getInt32Ty()));
  Value* high = swap(b_.CreateTrunc(b_.CreateLShr(whole, 32), b_.getInt32Ty()));
  Value* joined =
      b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()), b_.CreateShl(b_.CreateZExt(high, b_.getInt64Ty()), 32));
  return b_.CreateBitCast(joined, type);
}

/// The states of `lanes` neighbouring threads, a power of two, joined in all of them.
State Emitter::join_lanes(const Reduction& reduction, State state, unsigned lanes) {
  for (unsigned distance = lanes / 2; distance > 0; distance /= 2) {
    State other;
    for (Value* component : state) other.push_back(shuffle(component, distance));
    state = reducer(reduction).join(state, other);
  }
  return state;
}

State Emitter::join_threads(const Reduction& reduction, State state, int64_t threads, bool of_block) {
  BRAZE_CHECK(reduction.init.empty(), "threads join no states of serial reductions");
  // Threads that ran no iteration hold identities.
  state = join_lanes(reduction, std::move(state), kWarp);
  if (!of_block) return state;
  // Any block of a cluster may hold the most of these threads.
  if (threads_ > kWarp) state = join_block(reduction, std::move(state), std::min<int64_t>(threads, threads_));
  return cluster_ > 1 ? join_cluster(reduction, std::move(state)) : state;
}

/// The states of the warps of `threads` threads, joined in all threads of the block.
State Emitter::join_block(const Reduction& reduction, State state, int64_t threads) {
  const int64_t warps = (threads + kWarp - 1) / kWarp;
  if (repeated_ > 0) barrier();  // before what the last round left is overwritten
  llvm::SmallVector<Value*, 3> arrays;
  llvm::SmallVector<llvm::Type*, 3> types;
  for (size_t c = 0; c < state.size(); ++c) {
    const DType type = kernel_.types[reduction.results[c]];
    types.push_back(memory_type(context_, type));
    arrays.push_back(shared_array(warps * ir::byte_size(type)));
    when(b_.CreateAnd(b_.CreateICmpEQ(lane_, b_.getInt32(0)),
                      b_.CreateICmpULT(warp_, b_.getInt32(static_cast<uint32_t>(warps)))),
         [&] { b_.CreateStore(to_memory(b_, state[c], type, type), b_.CreateGEP(types[c], arrays[c], warp_)); });
  }
  barrier();
  // Groups of as many lanes as there are warps do the same, each from the start.
  const auto group = static_cast<unsigned>(std::bit_ceil(static_cast<uint64_t>(warps)));
  Value* place = b_.CreateAnd(lane_, b_.getInt32(group - 1));
  const State identity = reducer(reduction).identity(1);
  State found;
  for (size_t c = 0; c < state.size(); ++c) {
    const DType type = kernel_.types[reduction.results[c]];
    const auto load = [&] {
      return Values{from_memory(b_, b_.CreateLoad(types[c], b_.CreateGEP(types[c], arrays[c], place)), type)};
    };
    found.push_back(group == warps ? load()[0]
                                   : when(b_.CreateICmpULT(place, b_.getInt32(static_cast<uint32_t>(warps))),
                                          {identity[c]}, load)[0]);
  }
  return join_lanes(reduction, std::move(found), group);
}

/// The states of the blocks of the cluster, each the same in all threads of its block, joined in all threads.
State Emitter::join_cluster(const Reduction& reduction, State state) {
  BRAZE_CHECK(std::has_single_bit(cluster_) && cluster_ <= kWarp, "a cluster of ", cluster_, " blocks");
  if (repeated_ > 0) cluster_barrier();  // before what the last round left is overwritten
  llvm::SmallVector<Value*, 3> places;
  for (size_t c = 0; c < state.size(); ++c) {
    const DType type = kernel_.types[reduction.results[c]];
    places.push_back(shared_array(ir::byte_size(type)));
    when(b_.CreateICmpEQ(thread_, b_.getInt32(0)),
         [&] { b_.CreateStore(to_memory(b_, state[c], type, type), places[c]); });
  }
  cluster_barrier();
  Value* rank = b_.CreateAnd(lane_, b_.getInt32(cluster_ - 1));
  State found;
  for (size_t c = 0; c < state.size(); ++c) {
    const DType type = kernel_.types[reduction.results[c]];
    // As a generic address: one in shared memory is taken for the block's own.
    Value* generic = b_.CreateAddrSpaceCast(places[c], b_.getPtrTy());
    Value* its = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa, {}, {generic, rank});
    found.push_back(from_memory(b_, b_.CreateLoad(memory_type(context_, type), its), type));
  }
  return join_lanes(reduction, std::move(found), cluster_);
}

}  // namespace braze::codegen::nvptx
