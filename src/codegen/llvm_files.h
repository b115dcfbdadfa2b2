// codegen/llvm_files.h: modules for a machine of LLVM's, and what it makes of them.
#pragma once

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
template <typename T>
class SmallVectorImpl;
}  // namespace llvm

namespace braze::codegen {

/// An empty module with the machine's data layout and triple.
std::unique_ptr<llvm::Module> new_module(const llvm::TargetMachine& machine, llvm::LLVMContext& context,
                                         const char* name);
/// Appends an object file. Consumes the module's bodies.
void write_object(llvm::TargetMachine& machine, llvm::Module& module, llvm::SmallVectorImpl<char>& out);
/// The same as text: of x86 assembly, of a GPU PTX.
std::string write_assembly(llvm::TargetMachine& machine, llvm::Module& module);

}  // namespace braze::codegen
