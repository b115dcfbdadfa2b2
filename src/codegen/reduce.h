// codegen/reduce.h: the arithmetic of reductions: identities, one more contribution, two partial states joined.
//
// A state is one LLVM value a component, all of the same number of lanes. `serial` has no arithmetic of its own
// and is each target's.
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
  /// Two states, or a state and one more contribution, lane by lane.
  State join(const State& left, const State& right) const;
  /// All lanes of a vector state joined, as scalars.
  State horizontal(State state) const;

 private:
  State join_extreme_index(const State& left, const State& right) const;

  llvm::IRBuilderBase& b_;
  loops::Combine combine_;
  llvm::SmallVector<ir::DType, 3> types_;
};

}  // namespace braze::codegen
