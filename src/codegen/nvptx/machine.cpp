#include "codegen/nvptx/machine.h"

#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include "codegen/llvm_files.h"
#include "codegen/llvm_targets.h"

namespace braze::codegen::nvptx {

namespace {
constexpr const char* kTriple = "nvptx64-nvidia-cuda";
constexpr const char* kFeatures =
    "+ptx78";  // the first version that knows sm_90: any driver for such a GPU takes it
}  // namespace

Machine::Machine(const Target& target)
    : machine_(llvm_target(kTriple).createTargetMachine(kTriple, std::string(target.name()), kFeatures,
                                                        llvm::TargetOptions(), std::nullopt, std::nullopt,
                                                        llvm::CodeGenOptLevel::Default, /*JIT=*/false)) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;

std::unique_ptr<llvm::Module> Machine::new_module(llvm::LLVMContext& context, const char* name) const {
  return codegen::new_module(*machine_, context, name);
}

std::string Machine::ptx(llvm::Module& module) {
  return write_assembly(*machine_, module);
}

}  // namespace braze::codegen::nvptx
