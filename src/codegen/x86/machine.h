// codegen/x86/machine.h: an LLVM module to an object file in memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "target/target.h"

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
template <typename T>
class SmallVectorImpl;
}  // namespace llvm

namespace braze::codegen {

/// LLVM's name for what a target's instruction set belongs to.
std::string_view cpu_name(const Target& target);

/// LLVM's x86 back end for one target. Not thread-safe: one per thread. Modules live in contexts of the caller.
/// Building the first one in a process registers the back end (a few milliseconds).
class Machine {
 public:
  explicit Machine(const Target& target);
  ~Machine();
  Machine(Machine&&) noexcept;

  const Target& target() const { return target_; }
  /// An empty module with this machine's data layout and triple.
  std::unique_ptr<llvm::Module> new_module(llvm::LLVMContext& context, const char* name) const;
  /// Appends an ELF relocatable object, one section a function, position independent. Consumes the module's bodies.
  void object(llvm::Module& module, llvm::SmallVectorImpl<char>& out);
  /// The same as text.
  std::string assembly(llvm::Module& module);

 private:
  Target target_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace braze::codegen
