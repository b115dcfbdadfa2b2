// codegen/nvptx/emit_loop.cpp: loops that one thread runs, and the arithmetic of their reductions.
//
//   written out  few iterations, or ones that touch registers: each a copy, under a condition where it may not run
//   lanes        a vector loop: its iterations side by side, also through serial loops in it
//   serial       the rest, `unroll` copies at a time, so that their loads are in flight together
#include "codegen/nvptx/emit_loop.h"

#include <algorithm>

#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::BasicBlock;
using llvm::Value;
using loops::Combine;

namespace {

int64_t trips(int64_t begin, int64_t end, int64_t step) {
  return end <= begin ? 0 : (end - begin + step - 1) / step;
}

/// Of the loop that `back` closes its body is copied here as often as it should be. ptxas would copy it again, and
/// the rest of it that hardly runs, and take up to twice as long.
void keep_as_it_is(llvm::BranchInst* back) {
  llvm::LLVMContext& context = back->getContext();
  llvm::MDNode* rule = llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.unroll.disable")});
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, rule});
  loop->replaceOperandWith(0, loop);  // what makes it this loop's
  back->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

}  // namespace

// ---- reductions

Reducer LoopEmitter::reducer(const Reduction& reduction) {
  llvm::SmallVector<DType, 3> types;
  for (const ValueId result : reduction.results) types.push_back(kernel_.types[result]);
  return Reducer(b_, reduction.combine, std::move(types));
}

States LoopEmitter::first_states(const Loop& loop) {
  States states;
  for (const Reduction& reduction : loop.reductions)
    for (size_t lane = 0; lane < lanes_; ++lane) {
      if (reduction.init.empty()) {
        states.push_back(reducer(reduction).identity(1));
        continue;
      }
      State& state = states.emplace_back();
      for (const ValueId init : reduction.init) state.push_back(value(init, lane));
    }
  return states;
}

State LoopEmitter::step(const Reduction& reduction, const State& state, const State& contribution) {
  if (reduction.combine == Combine::serial) return contribution;
  return reducer(reduction).join(state, contribution);
}

void LoopEmitter::define_results(const Loop& loop, const States& states) {
  for (size_t k = 0; k < loop.reductions.size(); ++k)
    for (size_t c = 0; c < loop.reductions[k].results.size(); ++c)
      define(loop.reductions[k].results[c], components(states, k, c));
}

/// Component c of what reduction k has, by lane.
Values LoopEmitter::components(const States& states, size_t k, size_t c) const {
  Values values;
  for (size_t lane = 0; lane < lanes_; ++lane) values.push_back(states[k * lanes_ + lane][c]);
  return values;
}

/// One iteration.
void LoopEmitter::run_body(const Loop& loop, const Linear& variable, States& states) {
  define_number(loop.var, {variable});
  for (size_t k = 0; k < loop.reductions.size(); ++k)
    if (const Reduction& reduction = loop.reductions[k]; reduction.combine == Combine::serial)
      for (size_t c = 0; c < reduction.state.size(); ++c) define(reduction.state[c], components(states, k, c));
  emit_block(loop.body);
  for (size_t k = 0; k < states.size(); ++k) {
    const Reduction& reduction = loop.reductions[k / lanes_];
    State contribution;
    for (const ValueId id : reduction.yielded) contribution.push_back(value(id, k % lanes_));
    states[k] = step(reduction, states[k], contribution);
  }
}

/// `then` changes the states where the condition holds.
void LoopEmitter::guarded_states(Value* condition, States& states, llvm::function_ref<void(States&)> then) {
  Values before;
  for (const State& state : states) before.append(state.begin(), state.end());
  const Values after = when(condition, before, [&] {
    States inside = states;
    then(inside);
    Values found;
    for (const State& state : inside) found.append(state.begin(), state.end());
    return found;
  });
  size_t k = 0;
  for (State& state : states)
    for (Value*& component : state) component = after[k++];
}

// ---- control

Linear LoopEmitter::bound(ValueId value, const Extent& otherwise) {
  return value == loops::none ? extent(otherwise) : number(value, 0);
}

bool LoopEmitter::touches_registers(const Block& block) const {
  return std::ranges::any_of(block, [&](const Stmt& stmt) {
    const bool accesses = stmt.kind == StmtKind::load || stmt.kind == StmtKind::store;
    if (accesses && kernel_.buffers[stmt.buffer].space == loops::Space::registers) return true;
    return touches_registers(stmt.body) || (stmt.loop && touches_registers(stmt.loop->body));
  });
}

void LoopEmitter::emit_loop(const Loop& loop) {
  if (loop.schedule.bind != loops::Schedule::Bind::none) return emit_bound(loop);
  States states = first_states(loop);
  runs_in_lanes(loop) ? emit_lanes(loop, states) : emit_serial(loop, states);
  define_results(loop, states);
}

/// Copies of the body have accumulators of their own: shorter chains, which round less and wait less for each
/// other. As long as there are few: more would take the registers of other threads (bf16 columns were 10 % slower).
bool LoopEmitter::accumulates_apart(const Loop& loop, const States& states, int64_t copies) {
  constexpr size_t most = 16;
  size_t values = 0;
  for (const State& state : states) values += state.size();
  return loop.schedule.unroll > 1 && values * static_cast<size_t>(copies) <= most &&
         std::ranges::all_of(loop.reductions, [](const Reduction& reduction) {
           return reduction.init.empty() && reduction.combine != Combine::serial;
         });
}

void LoopEmitter::emit_serial(const Loop& loop, States& states) {
  const Linear begin = bound(loop.begin_value, loop.begin), end = bound(loop.end_value, loop.end);
  const MaybeRange from = begin.range(), to = end.range();
  const bool registers = touches_registers(loop.body);
  bool leaves_rest = true;    // After as many rounds of copies as there are.
  constexpr int64_t few = 4;  // copies that cost less than the loop around them
  int64_t copies = std::max<int64_t>(1, loop.schedule.unroll);
  if (loop.schedule.vector) copies = std::max<int64_t>(copies, few);
  if (from && to) {
    // Bounds of the difference, where begin and end have terms in common.
    Linear length = end;
    length.add(begin, -1);
    const Range lengths = length.range().value_or(Range{to->low - from->high, to->high - from->low});
    const int64_t least = trips(0, lengths.low, loop.step), most = trips(0, lengths.high, loop.step);
    const bool one_block = std::ranges::none_of(loop.body, [](const Stmt& stmt) { return stmt.loop != nullptr; });
    if (registers || most <= copies || (most <= few && one_block))
      return emit_written_out(loop, begin, end, least, most, states);
    leaves_rest = copies == 1 || least != most || most % copies != 0;
  }
  BRAZE_CHECK(!registers, "elements in registers are reached by loops of known length only");

  ++repeated_;
  MaybeRange range;
  if (from && to) range = Range{from->low, std::max(from->low, to->high - 1)};
  Value* first = materialise(b_, begin, kernel_.narrow);
  Value* limit = materialise(b_, end, kernel_.narrow);
  // The variable may step past its end by the stride; it must hold that too.
  const int64_t slack = loop.step * (copies + 1);
  const bool narrow = first->getType()->isIntegerTy(32) && limit->getType()->isIntegerTy(32) &&
                      (kernel_.narrow || (to && to->high < INT32_MAX - slack));
  llvm::Type* type = narrow ? b_.getInt32Ty() : b_.getInt64Ty();
  first = b_.CreateSExt(first, type), limit = b_.CreateSExt(limit, type);
  // What it starts at and steps by says what it is a multiple of.
  const int64_t multiple = std::min(begin.multiple(), Linear(loop.step).multiple());
  const auto one = [&](const Linear& variable, States& inside) { run_body(loop, variable, inside); };
  if (copies > 1) {
    const int64_t reach = (copies - 1) * loop.step;
    Value* last_whole = b_.CreateSub(limit, llvm::ConstantInt::getSigned(type, reach), "", false, true);
    const size_t count = states.size();
    States all = states;  // A copy's after another's, or one for all.
    if (accumulates_apart(loop, states, copies))
      for (int64_t copy = 1; copy < copies; ++copy) all.append(first_states(loop));
    first = run_while(first, last_whole, copies * loop.step, {nullptr, range, multiple}, false, all,
                      [&](const Linear& variable, States& inside) {
                        for (int64_t copy = 0; copy < copies; ++copy) {
                          const size_t place = inside.size() > count ? copy * count : 0;
                          Linear its = variable;
                          its.constant += copy * loop.step;
                          States mine(inside.begin() + place, inside.begin() + place + count);
                          run_body(loop, its, mine);
                          std::ranges::copy(mine, inside.begin() + place);
                        }
                      });
    for (size_t k = 0; k < all.size(); ++k)
      states[k % count] = k < count ? all[k] : step(loop.reductions[k % count / lanes_], states[k % count], all[k]);
  }
  if (leaves_rest) run_while(first, limit, loop.step, {nullptr, range, multiple}, false, states, one);
  --repeated_;
}

void LoopEmitter::emit_written_out(const Loop& loop, const Linear& begin, const Linear& end, int64_t least,
                                   int64_t most, States& states) {
  for (int64_t trip = 0; trip < most; ++trip) {
    Linear variable = begin;
    variable.constant += trip * loop.step;
    const auto run = [&](States& inside) { run_body(loop, variable, inside); };
    if (trip < least) {
      run(states);
      continue;
    }
    Value *mine = materialise_wide(b_, variable, kernel_.narrow),
          *limit = materialise_wide(b_, end, kernel_.narrow);
    guarded_states(b_.CreateICmpSLT(mine, limit), states, run);
  }
}

Value* LoopEmitter::run_while(Value* from, Value* limit, int64_t stride, const Base& facts, bool at_least_once,
                              States& states, Body body) {
  BasicBlock* before = b_.GetInsertBlock();
  auto* inside = BasicBlock::Create(context_, "loop", function_);
  auto* after = BasicBlock::Create(context_, "done", function_);
  at_least_once ? b_.CreateBr(inside) : b_.CreateCondBr(b_.CreateICmpSLT(from, limit), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* variable = b_.CreatePHI(from->getType(), 2);
  variable->addIncoming(from, before);
  States running;
  llvm::SmallVector<llvm::PHINode*, 4> phis;
  for (const State& state : states) {
    State& mine = running.emplace_back();
    for (Value* component : state) {
      llvm::PHINode* phi = b_.CreatePHI(component->getType(), 2);
      phi->addIncoming(component, before);
      phis.push_back(phi);
      mine.push_back(phi);
    }
  }
  body(Linear(Base{variable, facts.range, facts.multiple}), running);
  Value* next = b_.CreateAdd(variable, llvm::ConstantInt::getSigned(variable->getType(), stride), "", false, true);
  BasicBlock* last = b_.GetInsertBlock();
  variable->addIncoming(next, last);
  size_t k = 0;
  for (const State& state : running)
    for (Value* component : state) phis[k++]->addIncoming(component, last);
  keep_as_it_is(b_.CreateCondBr(b_.CreateICmpSLT(next, limit), inside, after));

  b_.SetInsertPoint(after);
  const auto merged = [&](Value* skipped, Value* found) -> Value* {
    llvm::PHINode* phi = b_.CreatePHI(found->getType(), 2);
    if (!at_least_once) phi->addIncoming(skipped, before);
    phi->addIncoming(found, last);
    return phi;
  };
  Value* end = merged(from, next);
  for (size_t r = 0; r < states.size(); ++r)
    for (size_t c = 0; c < states[r].size(); ++c) states[r][c] = merged(states[r][c], running[r][c]);
  return end;
}

// ---- lanes

/// All iterations can be side by side: their number is known, and no statement in them may go different ways.
bool LoopEmitter::runs_in_lanes(const Loop& loop) const {
  if (!loop.schedule.vector || loop.begin_value != loops::none || loop.end_value != loops::none) return false;
  if (!loop.begin.is_constant() || !loop.end.is_constant()) return false;
  if (trips(loop.begin.constant, loop.end.constant, loop.step) > kWidest) return false;  // elements of a byte
  const bool joins = std::ranges::all_of(
      loop.reductions, [](const Reduction& reduction) { return reduction.combine != Combine::serial; });
  return lanes_ == 1 && joins && is_straight(loop.body);
}

/// All lanes go the same way through it: loops in it have bounds that no lane decides on.
bool LoopEmitter::is_straight(const Block& block) const {
  const auto same = [&](ValueId bound) { return bound == loops::none || lanes_of_value(bound) == 1; };
  return std::ranges::none_of(block, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::loop)
      return stmt.kind == StmtKind::branch || stmt.kind == StmtKind::alloc || stmt.kind == StmtKind::barrier;
    const Loop& loop = *stmt.loop;
    return loop.schedule.bind != loops::Schedule::Bind::none || loop.schedule.vector || !same(loop.begin_value) ||
           !same(loop.end_value) || !is_straight(loop.body);
  });
}

void LoopEmitter::emit_lanes(const Loop& loop, States& states) {
  llvm::SmallVector<Linear, 1> variable;
  for (int64_t v = loop.begin.constant; v < loop.end.constant; v += loop.step) variable.push_back(Linear(v));
  const size_t count = variable.size();
  if (count == 0) return;
  lanes_ = count;
  define_number(loop.var, std::move(variable));
  emit_block(loop.body);
  lanes_ = 1;
  for (size_t k = 0; k < states.size(); ++k)
    for (size_t lane = 0; lane < count; ++lane) {
      State contribution;
      for (const ValueId id : loop.reductions[k].yielded) contribution.push_back(value(id, lane));
      states[k] = step(loop.reductions[k], states[k], contribution);
    }
}

}  // namespace braze::codegen::nvptx
