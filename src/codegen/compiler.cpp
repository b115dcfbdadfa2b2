#include "codegen/compiler.h"

#include <llvm/Config/llvm-config.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>

#include "cache/disk_cache.h"
#include "codegen/back_end.h"
#include "codegen/memory_cache.h"
#include "codegen/perf_map.h"
#include "support/build_id.h"
#include "support/error.h"
#include "support/memory_reserve.h"
#include "support/progress.h"

namespace braze::codegen {

namespace {

using loops::Kernel;

const BackEnd& back_end_of(const Target& target) {
  return target.is_gpu() ? nvptx::back_end : x86::back_end;
}

// ---- keys

/// The key of a kernel's machine code on disk.
Hash128 disk_key(const Hash128& structure, const Target& target) {
  return Hasher()
      .add(structure)
      .add(build_id())
      .add(std::string_view(LLVM_VERSION_STRING))
      .add(target.name())
      .add(back_end_of(target).revision())
      .finish();
}

// Sixteen kernels of 96 nodes took 20 MB at most.
constexpr size_t kReserve = 64 << 20;

// ---- many kernels on threads

int available_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

/// About what a block costs to compile: its statements, as often as they are written out.
size_t weight_of(const loops::Block& block) {
  size_t total = 0;
  for (const loops::Stmt& stmt : block) {
    total += 1 + weight_of(stmt.body);
    if (stmt.loop) total += weight_of(stmt.loop->body) * stmt.loop->schedule.unroll;
  }
  return total;
}

/// The kernels of each module, by number: the heavy ones first, and less and less a module, so that threads have
/// done at the same time whichever of them gets which. A module costs about as much as two small kernels: one has
/// a twentieth of the work, if it may have so many.
std::vector<std::vector<size_t>> modules_of(const std::vector<const Kernel*>& kernels, size_t threads,
                                            size_t most) {
  std::vector<std::pair<size_t, size_t>> weighed;
  size_t left = 0;
  for (size_t k = 0; k < kernels.size(); ++k) left += weighed.emplace_back(weight_of(kernels[k]->body), k).first;
  if (threads > 1) std::ranges::stable_sort(weighed, [](auto& a, auto& b) { return a.first > b.first; });
  const size_t least = threads == 1 ? left : left / 20;
  size_t weight = 0, share = 0;
  std::vector<std::vector<size_t>> modules;
  for (const auto& [own, k] : weighed) {
    if (modules.empty() || weight + own / 2 > share || modules.back().size() == most) {
      modules.emplace_back();
      weight = 0;
      share = std::max(least, left / (2 * threads));
    }
    modules.back().push_back(k);
    weight += own;
    left -= own;
  }
  return modules;
}

/// Compiles `kernels` and returns their blobs in order. Threads live only as long as this call, so that a process
/// may fork at any other time. The first exception is raised in the caller once all threads have ended.
std::vector<std::string> compile_all(const std::vector<const Kernel*>& kernels, const CompileOptions& options,
                                     PhaseTimes* times) {
  const int wanted = options.threads > 0 ? options.threads : available_cpus();
  const BackEnd& back_end = back_end_of(options.target);
  const size_t worth = back_end.kernels_a_module == 1 ? 1 : 2;  // kernels that a thread is started for
  const size_t threads = std::clamp<size_t>((kernels.size() + worth - 1) / worth, 1, static_cast<size_t>(wanted));
  const std::vector<std::vector<size_t>> modules = modules_of(kernels, threads, back_end.kernels_a_module);
  std::vector<std::string> blobs(kernels.size());
  std::vector<PhaseTimes> thread_times(threads);
  std::vector<Allocations> thread_allocated(threads);
  std::vector<std::exception_ptr> errors(threads);
  std::atomic<size_t> next{0};
  Progress progress("compiling kernels", kernels.size());
  const auto work = [&](size_t thread) {
    try {
      std::unique_ptr<BlobMaker> maker;
      for (size_t m; (m = next.fetch_add(1)) < modules.size();) {
        const MemoryReserve reserve(kReserve);
        if (!maker) {
          PhaseTimer timer(&thread_times[thread], "codegen/machine");
          maker = back_end.maker(options.target);
        }
        std::vector<const Kernel*> part;
        for (const size_t k : modules[m]) part.push_back(kernels[k]);
        std::vector<std::string> made = maker->make(part, thread_times[thread]);
        for (size_t i = 0; i < made.size(); ++i) blobs[modules[m][i]] = std::move(made[i]);
        progress.advance(part.size());
      }
    } catch (...) {
      errors[thread] = std::current_exception();
      next = modules.size();
    }
    if (thread > 0) thread_allocated[thread] = thread_allocations();
  };
  {
    std::vector<std::jthread> others;
    try {
      for (size_t t = 1; t < threads; ++t) others.emplace_back(work, t);
    } catch (const std::exception&) {
      // No more threads, or no memory for one: those that there are do the work.
    }
    work(0);
  }
  for (const Allocations& helper : thread_allocated) adopt_allocations(helper);
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (times)
    for (const PhaseTimes& part : thread_times)
      for (const PhaseTimes::Row& row : part.rows()) times->add(row.name.c_str(), row.nanoseconds, row.allocations);
  return blobs;
}

}  // namespace

// The order: memory, disk, LLVM; then all that is new is mapped at once.
std::vector<std::shared_ptr<const CompiledKernel>> compile(std::span<const Kernel* const> kernels,
                                                           std::span<const Hash128> hashes,
                                                           const CompileOptions& options, PhaseTimes* times,
                                                           CompileStats* stats) {
  BRAZE_CHECK(kernels.size() == hashes.size(), "a hash for each kernel");
  PhaseTimer total(times, "codegen");
  MemoryCache& memory = MemoryCache::instance();
  cache::DiskCache& disk = cache::DiskCache::standard();
  const bool use_disk = options.use_disk_cache && disk.enabled() && !build_id().empty();
  CompileStats counts;

  std::vector<std::shared_ptr<const CompiledKernel>> results(kernels.size());
  std::vector<size_t> wanted;                // the first kernel of each hash that memory does not hold
  std::vector<std::vector<char>> from_disk;  // owns what the loader looks at
  const std::unique_ptr<BlobLoader> loader = back_end_of(options.target).loader(options.target);
  std::vector<size_t> added, missing;  // kernel of each blob given to the loader; kernels for LLVM
  {
    PhaseTimer timer(times, "codegen/load");
    for (size_t i = 0; i < kernels.size(); ++i) {
      results[i] = memory.find(hashes[i], options.target);
      const bool repeated =
          std::any_of(wanted.begin(), wanted.end(), [&](size_t w) { return hashes[w] == hashes[i]; });
      if (results[i] || repeated)
        ++counts.from_memory;
      else
        wanted.push_back(i);
    }
    for (const size_t i : wanted) {
      std::optional<std::vector<char>> bytes;
      if (use_disk) bytes = disk.get(disk_key(hashes[i], options.target));
      if (!bytes || !loader->add({bytes->data(), bytes->size()})) {
        missing.push_back(i);
        continue;
      }
      from_disk.push_back(std::move(*bytes));  // a moved vector keeps its bytes where they are
      added.push_back(i);
      ++counts.from_disk;
    }
  }

  std::vector<std::string> blobs;
  if (!missing.empty()) {
    std::vector<const Kernel*> sources;
    for (const size_t i : missing) sources.push_back(kernels[i]);
    blobs = compile_all(sources, options, times);
    counts.compiled = static_cast<int>(missing.size());
    PhaseTimer timer(times, "codegen/store");
    for (size_t k = 0; k < missing.size(); ++k) {
      if (use_disk) disk.put(disk_key(hashes[missing[k]], options.target), blobs[k]);
      BRAZE_CHECK(loader->add(blobs[k]), "a blob just written cannot be read");
      added.push_back(missing[k]);
    }
  }

  {
    PhaseTimer timer(times, "codegen/load");
    const auto loaded = loader->load();
    for (size_t k = 0; k < loaded.size(); ++k) name_for_perf(*loaded[k], kernels[added[k]]->name);
    for (size_t k = 0; k < loaded.size(); ++k)
      results[added[k]] = memory.insert(hashes[added[k]], options.target, loaded[k]);
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (results[i]) continue;
      const auto first =
          std::find_if(wanted.begin(), wanted.end(), [&](size_t w) { return hashes[w] == hashes[i]; });
      results[i] = results[*first];
    }
  }
  if (stats) *stats = counts;
  return results;
}

void prepare(const Target& target) {
  back_end_of(target).prepare(target);
}

std::vector<std::string> make_blobs(std::span<const Kernel* const> kernels, const CompileOptions& options) {
  if (kernels.empty()) return {};
  return compile_all({kernels.begin(), kernels.end()}, options, nullptr);
}

std::string llvm_ir(const Kernel& kernel, const Target& target) {
  const MemoryReserve reserve(kReserve);
  return back_end_of(target).maker(target)->llvm_ir(kernel);
}

std::string assembly(const Kernel& kernel, const Target& target) {
  const MemoryReserve reserve(kReserve);
  return back_end_of(target).maker(target)->assembly(kernel);
}

std::string machine_code(const Kernel& kernel, const Target& target) {
  const MemoryReserve reserve(kReserve);
  return back_end_of(target).maker(target)->machine_code(kernel);
}

void clear_memory_cache() {
  MemoryCache::instance().clear();
}

}  // namespace braze::codegen
