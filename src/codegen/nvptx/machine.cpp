#include "codegen/nvptx/machine.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include "codegen/llvm_targets.h"
#include "support/error.h"

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
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setDataLayout(machine_->createDataLayout());
  module->setTargetTriple(kTriple);
  return module;
}

std::string Machine::ptx(llvm::Module& module) {
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  const bool failed = machine_->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile,
                                                    /*DisableVerify=*/true);
  BRAZE_CHECK(!failed, "LLVM cannot write PTX");
  passes.run(module);
  return std::string(text.data(), text.size());
}

}  // namespace braze::codegen::nvptx
