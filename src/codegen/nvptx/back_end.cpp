#include "codegen/back_end.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cctype>
#include <mutex>

#include "codegen/nvptx/blob.h"
#include "codegen/nvptx/disassembler.h"
#include "codegen/nvptx/emit.h"
#include "codegen/nvptx/linker.h"
#include "codegen/nvptx/machine.h"
#include "support/error.h"
#include "support/memory_reserve.h"
#include "support/switches.h"

namespace braze::codegen::nvptx {

namespace {

using loops::Kernel;

/// Profilers show it: what was fused, as far as PTX takes the letters.
std::string entry_prefix(const Kernel& kernel) {
  std::string name = "braze_" + kernel.name + "_";
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
}

/// A product that several instructions use is rounded once for all of them. LLVM fuses it into each addition on
/// this target otherwise, and `p - p` of a product p is no zero then.
void round_shared_products(llvm::Module& module) {
  for (llvm::Function& function : module)
    for (llvm::Instruction& instruction : llvm::instructions(function))
      if (instruction.getOpcode() == llvm::Instruction::FMul && !instruction.hasOneUse())
        instruction.setHasAllowContract(false);
}

class Maker final : public BlobMaker {
 public:
  explicit Maker(const Target& target) : target_(target), machine_(target) {}

  std::vector<std::string> make(std::span<const Kernel* const> kernels, PhaseTimes& times) override {
    std::vector<std::string> blobs;
    for (const Kernel* kernel : kernels) blobs.push_back(make_one(*kernel, times, true));
    return blobs;
  }
  /// \param aligned  As of emit().
  std::string make_one(const Kernel& kernel, PhaseTimes& times, bool aligned) {
    llvm::LLVMContext context;
    Emission emission;
    std::unique_ptr<llvm::Module> module;
    {
      PhaseTimer timer(&times, "codegen/emit");
      module = emit_module(context, kernel, aligned, emission);
    }
    PhaseTimer timer(&times, "codegen/machine");
    Blob blob;
    blob.phases = std::move(emission.phases);
    blob.alignments = std::move(emission.alignments);
    blob.scalars = kernel.scalars.size();
    blob.symbols = kernel.symbols.size();
    for (size_t id = 0; id < blob.alignments.size() && blob.source.empty(); ++id)
      if (blob.alignments[id] > kernel.buffers[id].alignment) blob.source = loops::print(kernel);
    blob.code = machine_.ptx(*module);
    if (auto cubin = link(blob.code, target_.name()))
      blob.code = std::move(*cubin);
    else
      blob.code.push_back('\0');
    return write_blob(std::move(blob));
  }
  std::string llvm_ir(const Kernel& kernel) override {
    llvm::LLVMContext context;
    Emission emission;
    std::string text;
    llvm::raw_string_ostream out(text);
    emit_module(context, kernel, true, emission)->print(out, nullptr);
    return text;
  }
  std::string assembly(const Kernel& kernel) override {
    llvm::LLVMContext context;
    Emission emission;
    return machine_.ptx(*emit_module(context, kernel, true, emission));
  }
  std::string machine_code(const Kernel& kernel) override {
    const std::optional<std::string> cubin = link(assembly(kernel), target_.name());
    if (!cubin)
      throw UserError(
          "braze: there is no nvJitLink, so the driver compiles kernels when it loads them, and their machine code "
          "cannot be shown. code(\"asm\") gives PTX.");
    return disassemble(*cubin);
  }

 private:
  std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, const Kernel& kernel, bool aligned,
                                            Emission& emission) {
    auto module = machine_.new_module(context, kernel.name.c_str());
    emission = emit(kernel, target_, *module, entry_prefix(kernel), aligned);
    round_shared_products(*module);
    if (switches::text(switches::verify) == "1") {
      std::string complaint;
      llvm::raw_string_ostream text(complaint);
      BRAZE_CHECK(!llvm::verifyModule(*module, &text), "wrong LLVM IR: ", complaint);
    }
    return module;
  }

  Target target_;
  Machine machine_;
};

class GpuKernel final : public CompiledKernel {
 public:
  GpuKernel(Blob blob, const Target& target)
      : code_(std::move(blob.code)), source_(std::move(blob.source)), target_(target) {
    gpu_phases_ = std::move(blob.phases);
    alignments_ = std::move(blob.alignments);
    scalar_count_ = blob.scalars;
    symbol_count_ = blob.symbols;
    device_code_ = code_;
    code_bytes_ = code_.size();
  }

  std::shared_ptr<const CompiledKernel> unaligned() const override {
    if (source_.empty()) return nullptr;
    std::call_once(once_, [&] {
      const MemoryReserve reserve(size_t{64} << 20);
      PhaseTimes times;
      const std::string bytes = Maker(target_).make_one(*loops::parse_kernel(source_), times, false);
      unaligned_ = std::make_shared<const GpuKernel>(read_blob(bytes).value(), target_);
    });
    return unaligned_;
  }

 private:
  std::string code_, source_;
  Target target_;
  mutable std::once_flag once_;
  mutable std::shared_ptr<const CompiledKernel> unaligned_;
};

class Loader final : public BlobLoader {
 public:
  explicit Loader(const Target& target) : target_(target) {}
  bool add(std::string_view bytes) override {
    std::optional<Blob> blob = read_blob(bytes);
    if (blob) kernels_.push_back(std::make_shared<const GpuKernel>(std::move(*blob), target_));
    return blob.has_value();
  }
  std::vector<std::shared_ptr<const CompiledKernel>> load() override { return std::move(kernels_); }

 private:
  Target target_;
  std::vector<std::shared_ptr<const CompiledKernel>> kernels_;
};

}  // namespace

// One kernel a module: the linker takes the time, and takes modules side by side.
const BackEnd back_end = {
    [](const Target& target) -> std::unique_ptr<BlobMaker> { return std::make_unique<Maker>(target); },
    [](const Target& target) -> std::unique_ptr<BlobLoader> { return std::make_unique<Loader>(target); },
    linker_name, 1, [](const Target& target) { prepare_linker(target.name()); }};

}  // namespace braze::codegen::nvptx
