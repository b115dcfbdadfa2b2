#include "codegen/x86/machine.h"

#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include "codegen/llvm_files.h"
#include "codegen/llvm_targets.h"

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

}  // namespace

std::string_view cpu_name(const Target& target) {
  return target.isa == Isa::avx512 ? "x86-64-v4" : "x86-64-v3";
}

Machine::Machine(const Target& target) : target_(target), machine_(create(target)) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;

std::unique_ptr<llvm::Module> Machine::new_module(llvm::LLVMContext& context, const char* name) const {
  auto module = codegen::new_module(*machine_, context, name);
  module->setPICLevel(llvm::PICLevel::BigPIC);
  return module;
}

void Machine::object(llvm::Module& module, llvm::SmallVectorImpl<char>& out) {
  write_object(*machine_, module, out);
}

std::string Machine::assembly(llvm::Module& module) {
  return write_assembly(*machine_, module);
}

}  // namespace braze::codegen
