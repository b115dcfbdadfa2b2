#include "codegen/back_end.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/x86/blob.h"
#include "codegen/x86/emit.h"
#include "codegen/x86/loader.h"
#include "codegen/x86/machine.h"
#include "codegen/x86/object_linker.h"
#include "support/error.h"
#include "support/switches.h"

namespace braze::codegen::x86 {

namespace {

using loops::Kernel;

std::string phase_prefix(size_t kernel) {
  return concat("k", kernel, "_");
}

class Maker final : public BlobMaker {
 public:
  explicit Maker(const Target& target) : machine_(target) {}

  /// One module for all of them: half of what a small kernel costs is LLVM setting up its passes for a module.
  std::vector<std::string> make(std::span<const Kernel* const> kernels, PhaseTimes& times) override {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module;
    {
      PhaseTimer timer(&times, "codegen/emit");
      module = emit_module(context, kernels);
    }
    PhaseTimer timer(&times, "codegen/machine");
    llvm::SmallVector<char, 0> object;
    machine_.object(*module, object);
    std::vector<std::string> blobs;
    for (size_t k = 0; k < kernels.size(); ++k) {
      std::vector<PhaseFacts> phases = phase_facts(*kernels[k]);
      std::vector<std::string> roots;
      for (size_t i = 0; i < phases.size(); ++i) roots.push_back(concat(phase_prefix(k), i));
      blobs.push_back(write_blob(link_object({object.data(), object.size()}, roots), std::move(phases)));
    }
    return blobs;
  }
  std::string llvm_ir(const Kernel& kernel) override {
    llvm::LLVMContext context;
    const auto module = emit_module(context, {{&kernel}});
    std::string text;
    llvm::raw_string_ostream out(text);
    module->print(out, nullptr);
    return text;
  }
  std::string machine_code(const Kernel&) override { return ""; }
  std::string assembly(const Kernel& kernel) override {
    llvm::LLVMContext context;
    const auto module = emit_module(context, {{&kernel}});
    return machine_.assembly(*module);
  }

 private:
  std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, std::span<const Kernel* const> kernels) {
    auto module = machine_.new_module(context, kernels[0]->name.c_str());
    for (size_t k = 0; k < kernels.size(); ++k) emit(*kernels[k], machine_.target(), *module, phase_prefix(k));
    if (switches::text(switches::verify) == "1") {
      std::string complaint;
      llvm::raw_string_ostream text(complaint);
      BRAZE_CHECK(!llvm::verifyModule(*module, &text), "wrong LLVM IR: ", complaint);
    }
    return module;
  }

  Machine machine_;
};

class Loader final : public BlobLoader {
 public:
  bool add(std::string_view blob) override {
    std::optional<BlobView> view = read_blob(blob);
    if (view) views_.push_back(std::move(*view));
    return view.has_value();
  }
  std::vector<std::shared_ptr<const CompiledKernel>> load() override { return codegen::load(views_); }

 private:
  std::vector<BlobView> views_;
};

}  // namespace

const BackEnd back_end = {
    [](const Target& target) -> std::unique_ptr<BlobMaker> { return std::make_unique<Maker>(target); },
    [](const Target&) -> std::unique_ptr<BlobLoader> { return std::make_unique<Loader>(); },
    [] { return std::string_view(); }, 16, [](const Target&) {}};

}  // namespace braze::codegen::x86
