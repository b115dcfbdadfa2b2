#include "codegen/machine.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Triple.h>

#include <mutex>

#include "support/error.h"

// The back end's registration functions; the header that declares them wants every target of LLVM.
extern "C" void LLVMInitializeX86TargetInfo();
extern "C" void LLVMInitializeX86Target();
extern "C" void LLVMInitializeX86TargetMC();
extern "C" void LLVMInitializeX86AsmPrinter();

namespace braze::codegen {

namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

/// Parts of LLVM's code generation that only cost time here, by the names of their command-line switches.
constexpr const char* kSwitchedOff[] = {
    "disable-constant-hoisting",         // vectors are broadcast from memory; it also crashes (LLVM 19.1)
    "disable-lsr",                       // the emitter has stepped its pointers already
    "disable-mergeicmps",                // no chains of memory comparisons
    "disable-partial-libcall-inlining",  // no calls of sqrt
    "disable-replace-with-vec-lib",      // inline math instead
};

void switch_off_what_is_not_needed() {
  const llvm::StringMap<llvm::cl::Option*>& options = llvm::cl::getRegisteredOptions();
  for (const char* name : kSwitchedOff) {
    const auto found = options.find(name);
    BRAZE_CHECK(found != options.end(), "this LLVM has no switch ", name);
    static_cast<llvm::cl::opt<bool>*>(found->second)->setValue(true);
  }
}

const llvm::Target& back_end() {
  // LLVM's registry is process-wide and must be filled once.
  static std::once_flag once;
  static const llvm::Target* target = nullptr;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    switch_off_what_is_not_needed();
    std::string error;
    target = llvm::TargetRegistry::lookupTarget(kTriple, error);
    BRAZE_CHECK(target, "LLVM has no x86 back end: ", error);
  });
  return *target;
}

llvm::TargetMachine* create(const Target& target) {
  llvm::TargetOptions options;
  options.FunctionSections = true;  // object_linker takes what a kernel's phases reach
  options.TrapUnreachable = false;
  // Less: the default level takes a quarter longer and makes no better code of straight vector IR.
  return back_end().createTargetMachine(kTriple, std::string(cpu_name(target)), "", options, llvm::Reloc::PIC_,
                                        llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less, /*JIT=*/false);
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
