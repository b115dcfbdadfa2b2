#include "codegen/x86/loader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "codegen/x86/imports.h"
#include "support/error.h"

namespace braze::codegen {

namespace {

/// Pages of code: writable until seal(), executable from then on.
class CodePages {
 public:
  explicit CodePages(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page;
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    base_ = static_cast<char*>(memory);
  }
  ~CodePages() { munmap(base_, size_); }
  CodePages(const CodePages&) = delete;
  CodePages& operator=(const CodePages&) = delete;

  char* base() const { return base_; }
  void seal() {
    if (mprotect(base_, size_, PROT_READ | PROT_EXEC) != 0) fail("mprotect");
  }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw UserError(concat("The system gave no memory for machine code (", call, ": ", std::strerror(errno),
                           "). braze needs to map executable pages; check memory limits and security policies."));
  }
  char* base_ = nullptr;
  size_t size_ = 0;
};

class LoadedKernel final : public CompiledKernel {
 public:
  LoadedKernel(const BlobView& blob, char* code, std::shared_ptr<const CodePages> region)
      : region_(std::move(region)) {
    code_bytes_ = blob.image.size();
    for (const PhaseFacts& facts : blob.phases) {
      Phase phase;
      phase.function = reinterpret_cast<PhaseFunction>(code + facts.entry);
      phase.parallel = facts.parallel;
      phase.iterations = facts.iterations;
      phase.grain = facts.grain;
      phases_.push_back(phase);
    }
  }

 private:
  std::shared_ptr<const CodePages> region_;
};

void fill(char* place, const BlobView& blob) {
  std::memcpy(place, blob.image.data(), blob.image.size());
  for (const ImportSlot& slot : blob.slots) {
    const void* address = import_address(slot.import);
    std::memcpy(place + slot.offset, &address, sizeof address);
  }
}

}  // namespace

std::vector<std::shared_ptr<const CompiledKernel>> load(std::span<const BlobView> blobs) {
  std::vector<std::shared_ptr<const CompiledKernel>> kernels;
  if (blobs.empty()) return kernels;
  std::vector<size_t> offsets;
  size_t total = 0;
  for (const BlobView& blob : blobs) {
    offsets.push_back(total);
    total += (blob.image.size() + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
  }
  const auto region = std::make_shared<CodePages>(std::max<size_t>(total, 1));
  for (size_t i = 0; i < blobs.size(); ++i) fill(region->base() + offsets[i], blobs[i]);
  region->seal();
  for (size_t i = 0; i < blobs.size(); ++i)
    kernels.push_back(std::make_shared<LoadedKernel>(blobs[i], region->base() + offsets[i], region));
  return kernels;
}

}  // namespace braze::codegen
