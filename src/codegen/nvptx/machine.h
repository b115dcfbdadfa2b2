// codegen/nvptx/machine.h: LLVM modules to PTX.
#pragma once

#include <memory>
#include <string>

#include "target/target.h"

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
}  // namespace llvm

namespace braze::codegen::nvptx {

/// LLVM's NVPTX back end for one target. Not thread-safe: one per thread. Modules live in contexts of the caller.
class Machine {
 public:
  explicit Machine(const Target& target);
  ~Machine();
  Machine(Machine&&) noexcept;

  /// An empty module with this machine's data layout and triple.
  std::unique_ptr<llvm::Module> new_module(llvm::LLVMContext& context, const char* name) const;
  /// PTX text. Consumes the module's bodies.
  std::string ptx(llvm::Module& module);

 private:
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace braze::codegen::nvptx
