#include "runtime/device/cpu/region.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "support/error.h"

namespace braze::runtime {

namespace {

// Work is counted in parts of what is worth a thread (Schedule::grain).
constexpr int64_t worth_a_thread = 256;
// The parts of a stage are bits of one word.
constexpr int64_t most_parts = 64;
// Times that a waiting thread looks before it sleeps: some 50 microseconds, what the part of a stage that it waits
// for takes, and waking it would take. A thread that is not there by then has lost its processor to other work.
constexpr int most_looks = 2000;

int64_t parts_of(int64_t work, int64_t threads) {
  return std::clamp<int64_t>((work + worth_a_thread - 1) / worth_a_thread, 1, std::min(threads, most_parts));
}

/// The grain of a kernel that serves all sizes follows from the sizes that it was lowered for. Iterations may be of
/// quite another length now: so many bytes are worth a thread, or, where much is computed with each, an eighth.
int64_t grain_at(int64_t grain, int64_t iterations, int64_t bytes) {
  constexpr int64_t thread_bytes = 256 << 10, heavy = 8;
  const double by_bytes =
      static_cast<double>(iterations) * thread_bytes / static_cast<double>(std::max<int64_t>(1, bytes));
  const auto most = std::max<int64_t>(1, static_cast<int64_t>(std::min(by_bytes, 1e15)));
  return std::clamp(grain, std::max<int64_t>(1, most / heavy), most);
}

/// How far the parts of a stage have come.
struct Progress {
  std::atomic<uint64_t> taken{0};  ///< One bit a part.
  std::atomic<uint32_t> left{0};
  int64_t parts = 1;
};

void wait_until_done(const std::atomic<uint32_t>& left) {
  for (int look = 0; look < most_looks; ++look) {
    if (left.load(std::memory_order_acquire) == 0) return;
    __builtin_ia32_pause();
  }
  while (const uint32_t now = left.load(std::memory_order_acquire)) left.wait(now, std::memory_order_acquire);
}

}  // namespace

/// What the threads of one run share.
struct CpuRegion::Pass {
  void* const* pointers;
  int64_t* status;
  size_t first = 0, last = 0;  ///< Stages.
  int64_t workers = 1;
  std::vector<Progress> progress;  ///< By stage - first.
};

void CpuRegion::add_barrier() {
  const auto next = static_cast<uint32_t>(tasks_.size());
  stages_.push_back({next, next, 0});
}

void CpuRegion::add(const codegen::CompiledKernel& kernel, uint32_t first_pointer,
                    const std::vector<uint64_t>& scalars, const LaunchSizes& sizes) {
  const std::vector<int64_t>& symbols = sizes.symbols;
  const auto first_scalar = static_cast<uint32_t>(scalars_.size());
  const auto first_symbol = static_cast<uint32_t>(symbols_.size());
  symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
  scalars_.insert(scalars_.end(), scalars.begin(), scalars.end());
  bool first = true;
  for (const codegen::Phase& phase : kernel.phases()) {
    const loops::Extent& extent = phase.iterations;
    int64_t iterations = extent.constant;
    if (!extent.is_constant()) iterations += extent.factor * symbols.at(extent.symbol);
    iterations = std::max<int64_t>(0, iterations);
    if (stages_.empty() || !first) add_barrier();
    first = false;
    Stage& stage = stages_.back();
    Task task{
        phase.function, first_pointer, first_scalar, first_symbol, iterations, phase.grain, false, stage.work, 1};
    if (!symbols.empty()) task.grain = grain_at(phase.grain, iterations, sizes.bytes);
    task.grain = std::max<int64_t>(1, task.grain);
    if (phase.parallel) {
      task.divisible = task.iterations > task.grain;
      const double grains = static_cast<double>(task.iterations) / static_cast<double>(task.grain);
      task.work = std::max<int64_t>(1, static_cast<int64_t>(std::min(grains, 1e6) * worth_a_thread));
      // What may be split is: its second part is worth a thread as soon as there is one.
      if (task.divisible) task.work = std::max(task.work, worth_a_thread + 1);
    }
    stage.work += task.work;
    stage.last = static_cast<uint32_t>(tasks_.size()) + 1;
    tasks_.push_back(task);
    most_work_ = std::max(most_work_, stage.work);
  }
  ends_.push_back(static_cast<uint32_t>(tasks_.size()));
}

void CpuRegion::run_task(const Task& task, const Pass& pass, int64_t begin, int64_t end) const {
  task.function(pass.pointers + task.first_pointer, scalars_.data() + task.first_scalar,
                symbols_.data() + task.first_symbol, begin, end, pass.status);
}

void CpuRegion::run_part(const Stage& stage, const Pass& pass, int64_t part, int64_t parts) const {
  // Neighbouring parts compute the bound between them alike.
  const int64_t begin = stage.work * part / parts, end = stage.work * (part + 1) / parts;
  for (uint32_t t = stage.first; t < stage.last; ++t) {
    const Task& task = tasks_[t];
    auto iteration = [&](int64_t bound) -> int64_t {
      const int64_t inside = std::clamp<int64_t>(bound - task.begin, 0, task.work);
      if (!task.divisible) return inside * 2 > task.work ? task.iterations : 0;
      return static_cast<int64_t>(static_cast<__int128>(task.iterations) * inside / task.work);
    };
    const int64_t from = iteration(begin), to = iteration(end);
    if (from < to) run_task(task, pass, from, to);
  }
}

void CpuRegion::run_here(size_t first, size_t last, const Pass& pass) const {
  if (first == last) return;
  for (uint32_t t = stages_[first].first; t < stages_[last - 1].last; ++t)
    run_task(tasks_[t], pass, 0, tasks_[t].iterations);
}

void CpuRegion::take_part(Pass& pass, int64_t worker) const {
  for (size_t s = pass.first; s < pass.last; ++s) {
    Progress& progress = pass.progress[s - pass.first];
    const int64_t parts = progress.parts, own = worker * parts / pass.workers;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t part = (own + i) % parts;
      const uint64_t bit = uint64_t{1} << part;
      if (progress.taken.load(std::memory_order_relaxed) & bit) continue;
      if (progress.taken.fetch_or(bit, std::memory_order_relaxed) & bit) continue;
      run_part(stages_[s], pass, part, parts);
      if (progress.left.fetch_sub(1, std::memory_order_acq_rel) == 1) progress.left.notify_all();
    }
    // The last stage ends with the region itself.
    if (s + 1 < pass.last) wait_until_done(progress.left);
  }
}

void CpuRegion::run(void* const* pointers, int64_t* status) const {
  Pass pass{.pointers = pointers, .status = status, .progress = {}};
  const int64_t threads = most_work_ > worth_a_thread ? at::get_num_threads() : 1;
  if (threads == 1) return run_here(0, stages_.size(), pass);
  // Threads are worth forking from the first to the last stage that occupies several.
  auto is_split = [&](const Stage& stage) { return stage.work > worth_a_thread; };
  while (!is_split(stages_[pass.first])) ++pass.first;
  pass.last = stages_.size();
  while (!is_split(stages_[pass.last - 1])) --pass.last;
  run_here(0, pass.first, pass);
  const Stage& only = stages_[pass.first];
  if (pass.last == pass.first + 1 && only.last == only.first + 1) {
    const Task& task = tasks_[only.first];
    at::parallel_for(0, task.iterations, task.grain,
                     [&](int64_t begin, int64_t end) { run_task(task, pass, begin, end); });
  } else {
    pass.progress = std::vector<Progress>(pass.last - pass.first);
    for (size_t s = pass.first; s < pass.last; ++s) {
      Progress& progress = pass.progress[s - pass.first];
      progress.parts = parts_of(stages_[s].work, threads);
      progress.left = static_cast<uint32_t>(progress.parts);
      pass.workers = std::max(pass.workers, progress.parts);
    }
    // A thread that is given several workers' places needs only one: it takes whatever is left.
    at::parallel_for(0, pass.workers, 1, [&](int64_t worker, int64_t) { take_part(pass, worker); });
  }
  run_here(pass.last, stages_.size(), pass);
}

void CpuRegion::run_watched(void* const* pointers, int64_t* status, LaunchWatch& watch) const {
  const Pass pass{.pointers = pointers, .status = status, .progress = {}};
  uint32_t t = 0;
  for (size_t kernel = 0; kernel < ends_.size(); ++kernel) {
    watch.begin(kernel);
    for (; t < ends_[kernel]; ++t) {
      const Task& task = tasks_[t];
      if (task.divisible)
        at::parallel_for(0, task.iterations, task.grain,
                         [&](int64_t begin, int64_t end) { run_task(task, pass, begin, end); });
      else
        run_task(task, pass, 0, task.iterations);
    }
    watch.end(kernel);
  }
}

std::vector<int64_t> CpuRegion::measure(size_t, std::span<const KernelForm>, std::span<const WrittenMemory>,
                                        void* const*) const {
  throw InternalError("kernels of a CPU have one form");
}

void CpuRegion::replace(size_t, KernelForm) {
  throw InternalError("kernels of a CPU have one form");
}

}  // namespace braze::runtime
