#include "codegen/x86/machine.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Triple.h>

#include "codegen/llvm_targets.h"
#include "support/error.h"

namespace braze::codegen {

namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

llvm::TargetMachine* create(const Target& target) {
  llvm::TargetOptions options;
  options.FunctionSections = true;  // object_linker takes what a kernel's phases reach
  options.TrapUnreachable = false;
  // Less: the default level takes a quarter longer and makes no better code of straight vector IR.
  return llvm_target(kTriple).createTargetMachine(kTriple, std::string(cpu_name(target)), "", options,
                                                  llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                  llvm::CodeGenOptLevel::Less, /*JIT=*/false);
}

void run(llvm::TargetMachine& machine, llvm::Module& module, llvm::raw_pwrite_stream& out,
         llvm::CodeGenFileType type) {
  llvm::legacy::PassManager passes;
  const bool failed = machine.addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true);
  BRAZE_CHECK(!failed, "LLVM cannot write this kind of file");
  passes.run(module);
}

}  // namespace

std::string_view cpu_name(const Target& target) {
  return target.isa == Isa::avx512 ? "x86-64-v4" : "x86-64-v3";
}

Machine::Machine(const Target& target) : target_(target), machine_(create(target)) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;

std::unique_ptr<llvm::Module> Machine::new_module(llvm::LLVMContext& context, const char* name) const {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setDataLayout(machine_->createDataLayout());
  module->setTargetTriple(kTriple);
  module->setPICLevel(llvm::PICLevel::BigPIC);
  return module;
}

void Machine::object(llvm::Module& module, llvm::SmallVectorImpl<char>& out) {
  llvm::raw_svector_ostream stream(out);
  run(*machine_, module, stream, llvm::CodeGenFileType::ObjectFile);
}

std::string Machine::assembly(llvm::Module& module) {
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  run(*machine_, module, stream, llvm::CodeGenFileType::AssemblyFile);
  return std::string(text.data(), text.size());
}

}  // namespace braze::codegen
