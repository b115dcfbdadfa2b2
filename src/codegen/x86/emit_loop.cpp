// codegen/x86/emit_loop.cpp: loops: segments, unrolling, vector lanes and their tails, reductions.
#include "codegen/x86/emit_loop.h"

#include <bit>
#include <numeric>

#include "support/error.h"

namespace braze::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::Combine;
using loops::none;

namespace {

std::optional<int64_t> known(const Value* value) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant ? std::optional(constant->getSExtValue()) : std::nullopt;
}

std::optional<int64_t> trip_count(const Value* from, const Value* to, int64_t stride) {
  auto first = known(from), last = known(to);
  if (from == to) return 0;
  if (!first || !last) return std::nullopt;
  return std::max<int64_t>(0, (*last - *first + stride - 1) / stride);
}

bool in_order(const Reduction& reduction) {
  return reduction.combine == Combine::serial;
}

/// Each component of each state, in place.
template <typename Visit>
void for_each_component(Accumulators& states, Visit&& visit) {
  for (auto& of_reduction : states)
    for (State& state : of_reduction)
      for (Value*& component : state) visit(component);
}

/// Copies of a body of `weight` instructions that are worth having, at most `wanted`.
unsigned worthwhile_copies(int wanted, int weight) {
  constexpr int budget = 60;
  return std::max(1, std::min(wanted, budget / std::max(1, weight)));
}

/// A body so long that a mask in every step costs less than a second copy of it for the tail.
bool is_heavy(int weight) {
  return weight >= 24;
}

}  // namespace

// ---- states of reductions

Reducer LoopEmitter::reducer(const Reduction& reduction) {
  llvm::SmallVector<DType, 3> types;
  for (ValueId id : reduction.results) types.push_back(kernel_.types[id]);
  return Reducer(b_, reduction.combine, std::move(types));
}

/// What a reduction starts from, in lanes as outside of its loop.
State LoopEmitter::first_state(const Reduction& reduction, unsigned p) {
  if (!in_order(reduction)) return reducer(reduction).identity(lanes().width);
  State state;
  for (ValueId id : reduction.init) state.push_back(part(id, p));
  return state;
}

Accumulators LoopEmitter::first_states(const Loop& loop) {
  Accumulators states(loop.reductions.size());
  for (size_t r = 0; r < states.size(); ++r)
    for (unsigned p = 0; p < lanes().parts; ++p) states[r].push_back(first_state(loop.reductions[r], p));
  return states;
}

Accumulators LoopEmitter::identities(const Loop& loop, unsigned copies, unsigned width) {
  Accumulators states(loop.reductions.size());
  for (size_t r = 0; r < states.size(); ++r)
    for (unsigned c = 0; c < copies; ++c) states[r].push_back(reducer(loop.reductions[r]).identity(width));
  return states;
}

/// Joins copies pairwise until `keep` are left.
void LoopEmitter::fold(const Loop& loop, Accumulators& states, unsigned keep) {
  for (size_t r = 0; r < states.size(); ++r) {
    if (in_order(loop.reductions[r])) continue;
    Reducer arithmetic = reducer(loop.reductions[r]);
    auto& copies = states[r];
    while (copies.size() > keep) {
      unsigned groups = copies.size() / keep, half = (groups + 1) / 2 * keep;
      for (unsigned i = half; i < copies.size(); ++i)
        copies[i - half] = arithmetic.join(copies[i - half], copies[i]);
      copies.resize(half);
    }
  }
}

// ---- bodies and segments

void LoopEmitter::set_variable(const Loop& loop, Value* variable, int64_t shift, bool vector) {
  Value* value = shift ? b_.CreateAdd(variable, b_.getInt64(shift)) : variable;
  define(loop.var, vector ? Slot::Kind::linear : Slot::Kind::uniform, current(), levels_.back().scope, {value});
  slots_[loop.var].induction = levels_.back().loop == &loop;
  slots_[loop.var].shift = shift;
  const bool from_zero_on = loop.begin_value == none ? loop.begin.is_constant() && loop.begin.constant >= 0
                                                     : slots_[loop.begin_value].counts;
  slots_[loop.var].counts = !vector && from_zero_on;
}

void LoopEmitter::run_body(const Loop& loop, Accumulators& states, unsigned first, bool masked) {
  bool vector = lanes().width > 1;
  auto bind = [&](ValueId id, Parts parts) { define_here(id, vector, std::move(parts)); };
  auto component = [&](size_t r, size_t k) {
    Parts parts;
    for (unsigned p = 0; p < lanes().parts; ++p) parts.push_back(states[r][first + p][k]);
    return parts;
  };
  for (size_t r = 0; r < states.size(); ++r) {
    const Reduction& reduction = loop.reductions[r];
    if (reduction.combine != Combine::serial) continue;
    for (size_t k = 0; k < reduction.state.size(); ++k) bind(reduction.state[k], component(r, k));
  }
  emit_block(loop.body);
  for (size_t r = 0; r < states.size(); ++r) {
    const Reduction& reduction = loop.reductions[r];
    for (unsigned p = 0; p < lanes().parts; ++p) {
      State& state = states[r][first + p];
      State values;
      for (size_t k = 0; k < reduction.yielded.size(); ++k) {
        const ValueId yielded = reduction.yielded[k];
        Value* value = part(yielded, p);
        if (!in_order(reduction))
          value = convert(b_, value, kernel_.types[yielded], kernel_.types[reduction.results[k]]);
        values.push_back(value);
      }
      State joined = in_order(reduction) ? values : reducer(reduction).join(state, values);
      for (size_t k = 0; k < state.size(); ++k)
        state[k] = masked ? b_.CreateSelect(lanes().mask[p], joined[k], state[k]) : joined[k];
    }
  }
}

void LoopEmitter::step_odometers(Level& level, BasicBlock* latch) {
  Value *zero = b_.getInt64(0), *one = b_.getInt64(1);
  for (Level::Odometer& of : level.odometers) {
    Value* step = one;
    for (const Level::Odometer& other : level.odometers)
      if (other.quotient == of.numerator) step = b_.CreateZExt(other.carries, b_.getInt64Ty());
    Value* next = b_.CreateAdd(of.remainder, step);
    of.carries = b_.CreateICmpEQ(next, of.divisor);
    of.remainder->addIncoming(b_.CreateSelect(of.carries, zero, next), latch);
    of.quotient->addIncoming(b_.CreateAdd(of.quotient, b_.CreateZExt(of.carries, b_.getInt64Ty())), latch);
  }
}

/// Runs `body` for variable = from, from + stride, ... < to, carrying `states` along.
void LoopEmitter::run_segment(Value* from, Value* to, int64_t stride, Accumulators& states,
                              llvm::function_ref<void(Value*, Accumulators&)> body, Trips trips) {
  auto count = trip_count(from, to, stride);
  if (count == 0) return;
  int own = current();
  auto begin = [&](Value* variable, BasicBlock* header, llvm::Instruction* entry) {
    Level& level = levels_[own];
    level.scope = new_token();
    level.from = from;
    level.variable = variable;
    level.header = header;
    level.entry = entry;
    level.stride = stride;
    level.derived.clear();
    level.odometers.clear();
  };
  if (count == 1) {
    begin(from, nullptr, nullptr);
    return body(from, states);
  }

  bool once = trips == Trips::at_most_one;
  BasicBlock* entry = b_.GetInsertBlock();
  auto* header = BasicBlock::Create(context_, "loop", function_);
  auto* after = BasicBlock::Create(context_, "after", function_);
  bool enters = count || trips == Trips::at_least_one;
  if (enters)
    b_.CreateBr(header);
  else
    b_.CreateCondBr(b_.CreateICmpSLT(from, to), header, after);
  b_.SetInsertPoint(header);
  Accumulators initial = states;
  llvm::SmallVector<llvm::PHINode*, 8> carried;
  llvm::PHINode* variable = nullptr;
  if (once) {
    begin(from, nullptr, nullptr);
  } else {
    variable = b_.CreatePHI(b_.getInt64Ty(), 2);
    variable->addIncoming(from, entry);
    for_each_component(states, [&](Value*& component) {
      llvm::PHINode* phi = b_.CreatePHI(component->getType(), 2);
      phi->addIncoming(component, entry);
      carried.push_back(phi);
      component = phi;
    });
    begin(variable, header, entry->getTerminator());
  }
  body(once ? from : variable, states);

  BasicBlock* latch = b_.GetInsertBlock();
  if (once) {
    b_.CreateBr(after);
  } else {
    for (const Level::Derived& d : levels_[own].derived) {
      Value* step = b_.CreateMul(extent_value(d.factor), b_.getInt64(stride));
      d.phi->addIncoming(b_.CreateAdd(d.phi, step), latch);
    }
    step_odometers(levels_[own], latch);
    Value* next = b_.CreateAdd(variable, b_.getInt64(stride));
    variable->addIncoming(next, latch);
    b_.CreateCondBr(b_.CreateICmpSLT(next, to), header, after);
    size_t i = 0;
    for_each_component(states, [&](Value*& component) { carried[i++]->addIncoming(component, latch); });
  }
  b_.SetInsertPoint(after);
  if (enters) return;
  llvm::SmallVector<Value*, 8> before;
  for_each_component(initial, [&](Value*& component) { before.push_back(component); });
  size_t i = 0;
  for_each_component(states, [&](Value*& component) {
    llvm::PHINode* phi = b_.CreatePHI(component->getType(), 2);
    phi->addIncoming(before[i++], entry);
    phi->addIncoming(component, latch);
    component = phi;
  });
}

LoopEmitter::OpenLoop LoopEmitter::open_loop(const Loop& loop, Value* guard, const Accumulators& initial) {
  OpenLoop open;
  open.initial = initial;
  auto* preheader = BasicBlock::Create(context_, "preheader", function_);
  auto* start = BasicBlock::Create(context_, "start", function_);
  open.done = BasicBlock::Create(context_, "done", function_);
  if (guard) {
    open.before = b_.GetInsertBlock();
    b_.CreateCondBr(guard, preheader, open.done);
  } else {
    b_.CreateBr(preheader);
  }
  b_.SetInsertPoint(preheader);
  b_.CreateBr(start);
  b_.SetInsertPoint(start);
  Level level;
  level.loop = &loop;
  level.preheader = preheader;
  level.instance = new_token();
  level.scope = new_token();
  level.lanes = lanes();
  levels_.push_back(std::move(level));
  return open;
}

void LoopEmitter::close_loop(const OpenLoop& open, Accumulators& states) {
  levels_.pop_back();
  BasicBlock* last = b_.GetInsertBlock();
  b_.CreateBr(open.done);
  b_.SetInsertPoint(open.done);
  if (!open.before) return;
  llvm::SmallVector<Value*, 8> before;
  Accumulators initial = open.initial;
  for_each_component(initial, [&](Value*& component) { before.push_back(component); });
  size_t i = 0;
  for_each_component(states, [&](Value*& component) {
    llvm::PHINode* phi = b_.CreatePHI(component->getType(), 2);
    phi->addIncoming(before[i++], open.before);
    phi->addIncoming(component, last);
    component = phi;
  });
}

// ---- loops

/// What divides the number of a loop's iterations, whatever the launch passes.
int64_t LoopEmitter::divisor_of_length(const Loop& loop) {
  const bool counted = loop.begin_value == none && loop.end_value == none && loop.step == 1;
  if (!counted || loop.begin != Extent(0)) return 1;
  return loop.end.is_constant() ? loop.end.constant : std::gcd(loop.end.constant, loop.end.factor);
}

void LoopEmitter::emit_loop(const Loop& loop) {
  auto bound = [&](const Extent& extent, ValueId value) -> Value* {
    if (value == none) return extent_value(extent);
    return is_uniform(value) ? uniform(value) : nullptr;
  };
  Value* begin = bound(loop.begin, loop.begin_value);
  Value* end = bound(loop.end, loop.end_value);
  if (begin && end) return run_loop(loop, begin, end, divisor_of_length(loop));
  Accumulators states = first_states(loop);
  run_ragged(loop, states);
}

void LoopEmitter::run_loop(const Loop& loop, Value* begin, Value* end, int64_t divisor) {
  Accumulators states = first_states(loop);
  auto count = trip_count(begin, end, loop.step);
  bool vector = loop.schedule.vector && lanes().width == 1 && count != 1 && can_vectorise(loop);
  if (count == 1 && !vector) {
    set_variable(loop, begin, 0, false);
    if (llvm::isa<llvm::Constant>(begin)) define(loop.var, Slot::Kind::uniform, 0, levels_[0].scope, {begin});
    run_body(loop, states, 0, false);
  } else if (count != 0) {
    // Hoisted code may only run if the loop does: the whole of it stands behind this guard.
    OpenLoop open = open_loop(loop, count ? nullptr : b_.CreateICmpSLT(begin, end), states);
    if (vector)
      run_vector(loop, begin, end, states, divisor);
    else
      run_scalar(loop, begin, end, states);
    close_loop(open, states);
  }
  for (size_t r = 0; r < states.size(); ++r) {
    for (size_t k = 0; k < loop.reductions[r].results.size(); ++k) {
      Parts parts;
      for (const State& state : states[r]) parts.push_back(state[k]);
      define_here(loop.reductions[r].results[k], lanes().width > 1, std::move(parts));
    }
  }
}

/// One iteration after another, in as many lanes as there are around the loop; unroll copies of the body a step,
/// with accumulators of their own.
void LoopEmitter::run_scalar(const Loop& loop, Value* begin, Value* end, Accumulators& states) {
  unsigned parts = lanes().parts;
  auto count = trip_count(begin, end, loop.step);
  if (count && is_small_window(loop, *count)) {
    return run_segment(begin, end, loop.step * *count, states, [&](Value* variable, Accumulators& carried) {
      for (int64_t c = 0; c < *count; ++c) {
        if (c) levels_.back().scope = new_token();
        set_variable(loop, variable, c * loop.step, false);
        run_body(loop, carried, 0, false);
      }
    });
  }
  unsigned copies = worthwhile_copies(loop.schedule.unroll, weight_of(loop.body) * static_cast<int>(parts));
  if (count) copies = std::min<int64_t>(copies, *count);
  auto run_copies = [&](unsigned n, Accumulators& carried, Value* variable) {
    for (unsigned c = 0; c < n; ++c) {
      if (c) levels_.back().scope = new_token();
      set_variable(loop, variable, c * loop.step, false);
      // Reductions in order have one state that goes from copy to copy; the others one each.
      Accumulators view(carried.size());
      auto first = [&](size_t r) { return in_order(loop.reductions[r]) ? 0 : c * parts; };
      for (size_t r = 0; r < view.size(); ++r)
        view[r].assign(carried[r].begin() + first(r), carried[r].begin() + first(r) + parts);
      run_body(loop, view, 0, false);
      for (size_t r = 0; r < view.size(); ++r) llvm::copy(view[r], carried[r].begin() + first(r));
    }
  };
  Value* main_end = begin;
  if (copies > 1) {
    Value* length = b_.CreateSub(end, begin);
    if (loop.step > 1)
      length = b_.CreateUDiv(b_.CreateAdd(length, b_.getInt64(loop.step - 1)), b_.getInt64(loop.step));
    Value* whole = b_.CreateSub(length, b_.CreateURem(length, b_.getInt64(copies)));
    main_end = b_.CreateAdd(begin, b_.CreateMul(whole, b_.getInt64(loop.step)));
    for (size_t r = 0; r < states.size(); ++r)
      for (unsigned c = parts; !in_order(loop.reductions[r]) && c < copies * parts; ++c)
        states[r].push_back(reducer(loop.reductions[r]).identity(lanes().width));
    run_segment(begin, main_end, loop.step * copies, states,
                [&](Value* variable, Accumulators& carried) { run_copies(copies, carried, variable); });
    fold(loop, states, parts);
  }
  run_segment(
      main_end, end, loop.step, states,
      [&](Value* variable, Accumulators& carried) { run_copies(1, carried, variable); },
      copies > 1 ? Trips::any : Trips::at_least_one);
}

/// Elements from..to, `width` a step under a mask, into states of one part. `aligned`: `from` is a multiple of it.
void LoopEmitter::vector_tail(const Loop& loop, Value* from, Value* to, Accumulators& states, unsigned width,
                              Trips trips, bool aligned) {
  // Masks as wide as the elements they mask; of short rows, where lanes are few, no wider than the count.
  llvm::Type* lane = b_.getIntNTy(std::min<unsigned>(64, 8 * target_.vector_bytes / width));
  llvm::SmallVector<llvm::Constant*, 16> numbers;
  for (unsigned i = 0; i < width; ++i) numbers.push_back(llvm::ConstantInt::get(lane, i));
  auto left = trip_count(from, to, 1);
  bool whole = left && *left % width == 0;
  run_segment(
      from, to, width, states,
      [&](Value* variable, Accumulators& carried) {
        levels_.back().lanes = LaneSet{width, 1, {}};
        levels_.back().aligned = aligned;
        if (!whole) {
          Value* rest = b_.CreateSub(to, variable);
          rest = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, rest, b_.getInt64(width));
          Value* mask = b_.CreateICmpSLT(llvm::ConstantVector::get(numbers), spread(b_.CreateTrunc(rest, lane)));
          levels_.back().lanes.mask = {mask};
        }
        set_variable(loop, variable, 0, true);
        run_body(loop, carried, 0, !whole);
      },
      trips);
}

/// Joins the lanes of states of one part.
void LoopEmitter::finish_vector(const Loop& loop, Accumulators& vectors, Accumulators& states) {
  for (size_t r = 0; r < vectors.size(); ++r)
    states[r] = {reducer(loop.reductions[r]).horizontal(std::move(vectors[r][0]))};
}

/// Successive iterations in the lanes of vectors: a prologue up to an aligned element if that pays, a main part
/// without masks, a tail. States are vectors inside, scalars before and after.
/// \param divisor  divides their number, if that is not known.
void LoopEmitter::run_vector(const Loop& loop, Value* begin, Value* end, Accumulators& states, int64_t divisor) {
  int weight = weight_of(loop.body);
  unsigned width = width_of(loop), parts = worthwhile_copies(loop.schedule.unroll, weight);
  auto count = trip_count(begin, end, 1);
  if (count) {
    // A short loop in narrower vectors rather than under a mask.
    while (width > 2 && *count < width && *count <= width / 2) width /= 2;
    parts = std::max<int64_t>(1, std::min<int64_t>(parts, *count / width));
    divisor = *count;
  }
  // Rather somewhat fewer copies than a tail.
  for (unsigned fewer = parts; divisor % width == 0 && 2 * fewer >= parts && fewer > 0; --fewer)
    if (divisor / width % fewer == 0) {
      parts = fewer;
      break;
    }
  if (width < 2) return run_scalar(loop, begin, end, states);
  bool scalar_tail = tail_is_scalar(loop);
  int64_t stride = static_cast<int64_t>(width) * parts;
  auto first = known(begin);
  bool aligned = first && *first % width == 0;
  Value* main_begin = begin;
  Accumulators vectors = identities(loop, 1, width);

  bool has_tail = divisor % width != 0 || (!count && divisor % stride != 0);
  if (target_.isa == Isa::avx512 && parts == 1 && has_tail && is_heavy(weight) && !wants_alignment(loop)) {
    vector_tail(loop, begin, end, vectors, width, Trips::at_least_one, aligned);
    levels_.back().lanes = LaneSet{};
    return finish_vector(loop, vectors, states);
  }
  if (wants_alignment(loop) && !first && !scalar_tail && current() == 1) {
    // Threads are given chunks that begin anywhere.
    Value* up = b_.CreateAnd(b_.CreateAdd(begin, b_.getInt64(width - 1)), b_.getInt64(-int64_t{width}));
    main_begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, up, end);
    vector_tail(loop, begin, main_begin, vectors, width, Trips::at_most_one);
    aligned = true;
  }

  // Steps of all copies may be known to leave nothing where their number is not.
  const bool is_whole = !count && !has_tail && main_begin == begin;
  Value* main_end = end;
  if (!is_whole) {
    Value* length = b_.CreateSub(end, main_begin);
    main_end = b_.CreateAdd(main_begin, b_.CreateSub(length, b_.CreateURem(length, b_.getInt64(stride))));
  }
  Accumulators more = identities(loop, parts - 1, width);
  for (size_t r = 0; r < vectors.size(); ++r) vectors[r].append(more[r].begin(), more[r].end());
  const auto run_main = [&](Value* variable, Accumulators& carried) {
    levels_.back().lanes = LaneSet{width, parts, {}};
    levels_.back().aligned = aligned;
    set_variable(loop, variable, 0, true);
    run_body(loop, carried, 0, false);
  };
  run_segment(main_begin, main_end, stride, vectors, run_main, is_whole ? Trips::at_least_one : Trips::any);
  levels_.back().lanes = LaneSet{};
  fold(loop, vectors, 1);
  if (is_whole) return finish_vector(loop, vectors, states);

  if (count && *count >= width && has_tail && may_run_twice(loop) && !wants_alignment(loop)) {
    const auto run_whole = [&](Value* from, Value* to) {
      run_segment(from, to, width, states, [&](Value* variable, Accumulators& carried) {
        levels_.back().lanes = LaneSet{width, 1, {}};
        levels_.back().aligned = false;
        set_variable(loop, variable, 0, true);
        run_body(loop, carried, 0, false);
      });
      levels_.back().lanes = LaneSet{};
    };
    Value* last = b_.CreateSub(end, b_.getInt64(width));
    run_whole(main_end, last);  // the last step may overlap with the next one too
    return run_whole(last, end);
  }
  if (!scalar_tail) {
    vector_tail(loop, main_end, end, vectors, width, parts == 1 ? Trips::at_most_one : Trips::any, aligned);
    levels_.back().lanes = LaneSet{};
  }
  finish_vector(loop, vectors, states);
  if (!scalar_tail) return;
  run_segment(main_end, end, 1, states, [&](Value* variable, Accumulators& carried) {
    set_variable(loop, variable, 0, false);
    run_body(loop, carried, 0, false);
  });
}

/// A loop inside a vector loop whose bounds differ between lanes: all lanes go on, those that are through masked
/// off, until the last one is.
void LoopEmitter::run_ragged(const Loop& loop, Accumulators& states) {
  unsigned width = lanes().width, parts = lanes().parts;
  Parts begins, ends;
  Value* most = nullptr;
  for (unsigned p = 0; p < parts; ++p) {
    auto bound = [&](const Extent& extent, ValueId value) {
      return value == none ? spread(extent_value(extent)) : part(value, p);
    };
    begins.push_back(bound(loop.begin, loop.begin_value));
    ends.push_back(bound(loop.end, loop.end_value));
    Value* length = b_.CreateSub(ends[p], begins[p]);
    Value* zero = llvm::Constant::getNullValue(length->getType());
    Value* runs = b_.CreateICmpSGT(length, zero);
    if (!lanes().mask.empty()) runs = b_.CreateAnd(runs, lanes().mask[p]);
    length = b_.CreateSelect(runs, length, zero);
    most = most ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, most, length) : length;
  }
  most = b_.CreateIntMaxReduce(most, true);
  OpenLoop open = open_loop(loop, b_.CreateICmpSGT(most, b_.getInt64(0)), states);
  run_segment(b_.getInt64(0), most, loop.step, states, [&](Value* done, Accumulators& carried) {
    LaneSet outer = levels_[current() - 1].lanes;
    Parts variables, mask;
    for (unsigned p = 0; p < parts; ++p) {
      variables.push_back(b_.CreateAdd(begins[p], b_.CreateVectorSplat(width, done)));
      mask.push_back(b_.CreateICmpSLT(variables[p], ends[p]));
      if (!outer.mask.empty()) mask[p] = b_.CreateAnd(mask[p], outer.mask[p]);
    }
    levels_.back().lanes.mask = std::move(mask);
    define_here(loop.var, true, std::move(variables));
    run_body(loop, carried, 0, true);
  });
  close_loop(open, states);
  for (size_t r = 0; r < states.size(); ++r) {
    for (size_t k = 0; k < loop.reductions[r].results.size(); ++k) {
      Parts result;
      for (const State& state : states[r]) result.push_back(state[k]);
      define_here(loop.reductions[r].results[k], true, std::move(result));
    }
  }
}

}  // namespace braze::codegen
