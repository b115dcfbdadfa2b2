#include "codegen/perf_map.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <string>

#include "support/error.h"
#include "support/switches.h"

namespace braze::codegen {

void name_for_perf(const CompiledKernel& kernel, std::string_view name) {
  if (switches::text(switches::perf_map) != "1" || kernel.phases().empty()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // Opened anew each time: other compilers of the process add to it too, and a fork has another one.
  const std::string path = concat("/tmp/perf-", getpid(), ".map");
  std::FILE* const file = std::fopen(path.c_str(), "a");
  if (!file) return;
  std::vector<uintptr_t> starts;
  for (const Phase& phase : kernel.phases()) starts.push_back(reinterpret_cast<uintptr_t>(phase.function));
  const uintptr_t first = *std::ranges::min_element(starts), end = first + kernel.code_bytes();
  for (size_t p = 0; p < starts.size(); ++p) {
    uintptr_t next = end;
    for (const uintptr_t other : starts)
      if (other > starts[p]) next = std::min(next, other);
    std::fprintf(file, "%" PRIxPTR " %" PRIxPTR " braze::%.*s", starts[p], next - starts[p],
                 static_cast<int>(name.size()), name.data());
    if (starts.size() > 1) std::fprintf(file, " phase %zu", p);
    std::fputc('\n', file);
  }
  std::fclose(file);
}

}  // namespace braze::codegen
