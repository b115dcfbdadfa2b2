// codegen/reduce.h: the arithmetic of reductions: identities, one more contribution, two partial states joined.
//
// A state is one LLVM value a component, all of the same number of lanes. `serial` and `custom` have no arithmetic
// of their own and are each target's.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>

#include "loops/kernel.h"

namespace braze::codegen {

using State = llvm::SmallVector<llvm::Value*, 3>;

class Reducer {
 public:
  /// \param types  of the state's components.
  Reducer(llvm::IRBuilderBase& builder, loops::Combine combine, llvm::SmallVector<ir::DType, 3> types)
      : b_(builder), combine_(combine), types_(std::move(types)) {}

  State identity(unsigned lanes) const;
  /// `state` and one more contribution, lane by lane.
  State step(const State& state, llvm::ArrayRef<llvm::Value*> contribution) const;
  State join(const State& left, const State& right) const;
  /// All lanes of a vector state joined, as scalars.
  State horizontal(State state) const;

 private:
  State join_extreme_index(const State& left, const State& right) const;
  State join_welford(const State& left, const State& right) const;
  State online_softmax(const State& left, llvm::Value* maximum, llvm::Value* sum) const;
  llvm::Value* exp_of_difference(llvm::Value* x, llvm::Value* maximum) const;

  llvm::IRBuilderBase& b_;
  loops::Combine combine_;
  llvm::SmallVector<ir::DType, 3> types_;
};

}  // namespace braze::codegen
