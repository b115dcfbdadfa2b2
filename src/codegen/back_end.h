// codegen/back_end.h: what a kind of target does for codegen/compiler.h: kernels to bytes that the caches keep
// ("blobs"), and those to code that runs. One a folder: codegen/x86, codegen/nvptx.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compiler.h"

namespace braze::codegen {

/// Makes blobs. Not thread-safe: one per thread.
class BlobMaker {
 public:
  virtual ~BlobMaker() = default;
  /// In order. Adds "codegen/emit" and "codegen/machine" to `times`.
  virtual std::vector<std::string> make(std::span<const loops::Kernel* const> kernels, PhaseTimes& times) = 0;
  virtual std::string llvm_ir(const loops::Kernel& kernel) = 0;
  virtual std::string assembly(const loops::Kernel& kernel) = 0;
  /// What a GPU runs, where `assembly` is made into something else by other tools. Throws UserError without them.
  virtual std::string machine_code(const loops::Kernel& kernel) = 0;
};

/// Blobs that are loaded together. Knows nothing of LLVM.
class BlobLoader {
 public:
  virtual ~BlobLoader() = default;
  /// False if the bytes are not a whole blob; else they must stay where they are until load().
  virtual bool add(std::string_view blob) = 0;
  virtual std::vector<std::shared_ptr<const CompiledKernel>> load() = 0;
};

struct BackEnd {
  std::unique_ptr<BlobMaker> (*maker)(const Target& target);
  std::unique_ptr<BlobLoader> (*loader)(const Target& target);
  std::string_view (*revision)();         ///< What else the code depends on, beside braze and LLVM.
  size_t kernels_a_module;                ///< At most.
  void (*prepare)(const Target& target);  ///< As codegen::prepare.
};

namespace x86 {
extern const BackEnd back_end;
}
namespace nvptx {
extern const BackEnd back_end;
}

}  // namespace braze::codegen
