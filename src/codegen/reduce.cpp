// codegen/reduce.cpp: see reduce.h.
#include "codegen/reduce.h"

#include <limits>

#include "codegen/elementwise.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen {

using ir::Op;
using llvm::Value;
using loops::Combine;

namespace {

/// Below (sign -1) or above (+1) every number of the type.
llvm::Constant* extreme(llvm::LLVMContext& context, DType type, int sign, unsigned lanes) {
  if (ir::is_floating(type)) return number(context, type, sign * std::numeric_limits<double>::infinity(), lanes);
  if (type == DType::b8) return integer(context, type, sign > 0, lanes);
  unsigned bits = 8 * ir::byte_size(type);
  if (!is_signed(type)) return integer(context, type, sign > 0 ? (int64_t{1} << bits) - 1 : 0, lanes);
  int64_t largest = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return integer(context, type, sign > 0 ? largest : -largest - 1, lanes);
}

}  // namespace

State Reducer::identity(unsigned lanes) const {
  llvm::LLVMContext& context = b_.getContext();
  auto all = [&](double value) {
    State state;
    for (DType type : types_) state.push_back(number(context, type, value, lanes));
    return state;
  };
  switch (combine_) {
    case Combine::sum:
    case Combine::any: return all(0);
    case Combine::prod:
    case Combine::all: return all(1);
    case Combine::max: return {extreme(context, types_[0], -1, lanes)};
    case Combine::min: return {extreme(context, types_[0], 1, lanes)};
    // An index above all others marks an empty state: anything equal to the extreme value still takes its place.
    case Combine::argmax: return {extreme(context, types_[0], -1, lanes), extreme(context, types_[1], 1, lanes)};
    case Combine::argmin: return {extreme(context, types_[0], 1, lanes), extreme(context, types_[1], 1, lanes)};
    case Combine::serial: break;
  }
  BRAZE_CHECK(false, "a serial reduction has no identity");
}

/// Takes right's where it is more extreme, or as extreme with a smaller index. NaN is the most extreme.
State Reducer::join_extreme_index(const State& left, const State& right) const {
  DType type = types_[0];
  bool largest = combine_ == Combine::argmax;
  Value *a = left[0], *x = right[0];
  Value* smaller_index = b_.CreateICmpSLT(right[1], left[1]);
  Value *better, *same;
  if (ir::is_floating(type)) {
    // Unordered-or-better, then not where `a` is NaN already.
    Value* better_or_nan = largest ? b_.CreateFCmpUGT(x, a) : b_.CreateFCmpULT(x, a);
    Value* a_is_nan = b_.CreateFCmpUNO(a, a);
    better = b_.CreateAnd(better_or_nan, b_.CreateNot(a_is_nan));
    same = b_.CreateOr(b_.CreateFCmpOEQ(x, a), b_.CreateAnd(a_is_nan, b_.CreateFCmpUNO(x, x)));
  } else {
    better = emit_elementwise(b_, largest ? Op::gt : Op::lt, type, {x, a});
    same = b_.CreateICmpEQ(x, a);
  }
  Value* take = b_.CreateOr(better, b_.CreateAnd(same, smaller_index));
  return {b_.CreateSelect(take, x, a), b_.CreateSelect(take, right[1], left[1])};
}

State Reducer::join(const State& left, const State& right) const {
  switch (combine_) {
    case Combine::sum: return {emit_elementwise(b_, Op::add, types_[0], {left[0], right[0]})};
    case Combine::prod: return {emit_elementwise(b_, Op::mul, types_[0], {left[0], right[0]})};
    case Combine::max: return {emit_maximum(b_, types_[0], right[0], left[0])};
    case Combine::min: return {emit_minimum(b_, types_[0], right[0], left[0])};
    case Combine::any: return {b_.CreateOr(left[0], right[0])};
    case Combine::all: return {b_.CreateAnd(left[0], right[0])};
    case Combine::argmax:
    case Combine::argmin: return join_extreme_index(left, right);
    case Combine::serial: break;
  }
  BRAZE_CHECK(false, "a serial reduction joins no states");
}

State Reducer::horizontal(State state) const {
  unsigned lanes = lanes_of(state[0]);
  // NaN is looked for in all lanes at once, beside the halvings rather than in each.
  const bool is_extreme = (combine_ == Combine::max || combine_ == Combine::min) && ir::is_floating(types_[0]);
  Value* any_nan = is_extreme && lanes > 1 ? b_.CreateOrReduce(b_.CreateFCmpUNO(state[0], state[0])) : nullptr;
  for (; lanes > 1; lanes /= 2) {
    llvm::SmallVector<int, 64> low, high;
    for (unsigned i = 0; i < lanes / 2; ++i) {
      low.push_back(i);
      high.push_back(i + lanes / 2);
    }
    State lower, upper;
    for (Value* component : state) {
      // Two lanes are joined as scalars: vectors of one lane are not used.
      lower.push_back(lanes == 2 ? b_.CreateExtractElement(component, uint64_t{0})
                                 : b_.CreateShuffleVector(component, low));
      upper.push_back(lanes == 2 ? b_.CreateExtractElement(component, uint64_t{1})
                                 : b_.CreateShuffleVector(component, high));
    }
    if (is_extreme) {
      Value *x = upper[0], *y = lower[0];
      state = {b_.CreateSelect(combine_ == Combine::max ? b_.CreateFCmpOGT(x, y) : b_.CreateFCmpOLT(x, y), x, y)};
    } else {
      state = join(lower, upper);
    }
  }
  if (any_nan) state = {b_.CreateSelect(any_nan, llvm::ConstantFP::getNaN(state[0]->getType()), state[0])};
  return state;
}

}  // namespace braze::codegen
