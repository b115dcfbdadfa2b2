#include "codegen/llvm_files.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>

#include "support/error.h"

namespace braze::codegen {

namespace {

void write(llvm::TargetMachine& machine, llvm::Module& module, llvm::SmallVectorImpl<char>& out,
           llvm::CodeGenFileType type) {
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager passes;
  const bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true);
  BRAZE_CHECK(!failed, "LLVM cannot write this kind of file");
  passes.run(module);
}

}  // namespace

std::unique_ptr<llvm::Module> new_module(const llvm::TargetMachine& machine, llvm::LLVMContext& context,
                                         const char* name) {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  return module;
}

void write_object(llvm::TargetMachine& machine, llvm::Module& module, llvm::SmallVectorImpl<char>& out) {
  write(machine, module, out, llvm::CodeGenFileType::ObjectFile);
}

std::string write_assembly(llvm::TargetMachine& machine, llvm::Module& module) {
  llvm::SmallVector<char, 0> text;
  write(machine, module, text, llvm::CodeGenFileType::AssemblyFile);
  return std::string(text.data(), text.size());
}

}  // namespace braze::codegen
