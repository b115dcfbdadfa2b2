#include "codegen/llvm_targets.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>

#include <mutex>

#include "support/error.h"

// The back ends' registration functions; the header that declares them wants every target of LLVM.
extern "C" void LLVMInitializeX86TargetInfo();
extern "C" void LLVMInitializeX86Target();
extern "C" void LLVMInitializeX86TargetMC();
extern "C" void LLVMInitializeX86AsmPrinter();
extern "C" void LLVMInitializeNVPTXTargetInfo();
extern "C" void LLVMInitializeNVPTXTarget();
extern "C" void LLVMInitializeNVPTXTargetMC();
extern "C" void LLVMInitializeNVPTXAsmPrinter();

namespace braze::codegen {

namespace {

/// Parts of LLVM's code generation that only cost time here, by the names of their command-line switches.
constexpr const char* kSwitchedOff[] = {
    "disable-constant-hoisting",         // vectors are broadcast from memory; it also crashes (LLVM 19.1)
    "disable-lsr",                       // the emitter has stepped its pointers already; ptxas does it for GPUs
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

}  // namespace

const llvm::Target& llvm_target(const char* triple) {
  // LLVM's registry is process-wide and must be filled once.
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    switch_off_what_is_not_needed();
  });
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  BRAZE_CHECK(target, "LLVM has no back end for ", triple, ": ", error);
  return *target;
}

}  // namespace braze::codegen
