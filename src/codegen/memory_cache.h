// codegen/memory_cache.h: compiled kernels of this process, by structural hash and target.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "codegen/compiler.h"

namespace braze::codegen {

/// Keeps the kernels used last, so that a program traced again finds its code. Thread-safe.
class MemoryCache {
 public:
  static MemoryCache& instance();  ///< One a process: code is shared by all programs.

  std::shared_ptr<const CompiledKernel> find(const Hash128& structure, const Target& target);
  /// Returns the kernel now kept under this key: an earlier one if another thread was first.
  std::shared_ptr<const CompiledKernel> insert(const Hash128& structure, const Target& target,
                                               std::shared_ptr<const CompiledKernel> kernel);
  void clear();

 private:
  static constexpr size_t kLimit = 2048;  // kernels; at some 5 KB each about 10 MB
  struct Entry {
    Hash128 key;
    std::shared_ptr<const CompiledKernel> kernel;
  };
  std::mutex mutex_;       // guards both below; held for no longer than a look-up
  std::list<Entry> used_;  // most recent first
  std::unordered_map<Hash128, std::list<Entry>::iterator> entries_;
};

}  // namespace braze::codegen
