#include "codegen/x86/interleave.h"

namespace braze::codegen {

llvm::Instruction* Interleave::last() const {
  const llvm::BasicBlock::iterator at = b_.GetInsertPoint();
  return at == b_.GetInsertBlock()->begin() ? nullptr : &*std::prev(at);
}

void Interleave::finish() {
  if (b_.GetInsertBlock() != block_) return;
  begin_part();
  llvm::SmallVector<llvm::SmallVector<llvm::Instruction*, 32>, 8> parts;
  for (size_t p = 0; p + 1 < before_.size(); ++p) {
    auto it = before_[p] ? std::next(before_[p]->getIterator()) : block_->begin();
    const auto end = before_[p + 1] ? std::next(before_[p + 1]->getIterator()) : block_->begin();
    for (parts.emplace_back(); it != end; ++it) parts.back().push_back(&*it);
    if (parts.back().size() != parts[0].size()) return;
  }
  const llvm::BasicBlock::iterator end = b_.GetInsertPoint();
  for (size_t step = 0; step < parts[0].size(); ++step)
    for (const auto& part : parts) part[step]->moveBefore(*block_, end);
}

}  // namespace braze::codegen
