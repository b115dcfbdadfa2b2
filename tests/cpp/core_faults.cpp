// Compiling when there is too little of something: memory, threads. And much of something: operators.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "codegen/compiler.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "support/error.h"
#include "support/memory_reserve.h"

using namespace braze;

namespace {

constexpr const char* mixture = R"(graph @mixture(%x: f32[6,40], %i: i64[5]) {
  %0 = tanh %x : f32[6,40]
  %1 = softmax %0, dim=1 : f32[6,40]
  %2 = permute %1, dims=[1,0] : f32[40,6]{1,40}
  %3 = sum %2, dims=[1] keepdim=false : f32[40]
  %4 = index_select %3, %i, dim=0 : f32[5]
  %5 = cumsum %4, dim=0 : f32[5]
  return %5, %2
})";

/// A chain of `count` operators: pointwise ones, transposes that are stored, reductions that are read back.
std::string chain(int count) {
  std::string text = "graph @chain(%x: f32[4,8]) {\n", last = "%x";
  int next = 0;
  const auto add = [&](const std::string& op, const std::string& type) {
    text += "  %" + std::to_string(next) + " = " + op + " : " + type + "\n";
    last = "%" + std::to_string(next++);
    return last;
  };
  for (int k = 0; k < count; ++k) {
    const std::string before = last;
    if (k % 4 == 0) {
      add("tanh " + before, "f32[4,8]");
    } else if (k % 4 == 1) {
      add("softmax " + before + ", dim=1", "f32[4,8]");
    } else if (k % 4 == 2) {
      add("flip " + before + ", dims=[0]", "f32[4,8]");
    } else {
      const std::string mean = add("mean " + before + ", dims=[0,1] keepdim=true", "f32[1,1]");
      add("sub " + before + ", " + mean, "f32[4,8]");
    }
  }
  return text + "  return " + last + "\n}\n";
}

loops::Plan lowered(const std::string& text) {
  std::shared_ptr<ir::Graph> graph = ir::parse(text);
  passes::run(*graph);
  return loops::lower(*graph);
}

size_t compiled(const loops::Plan& plan, int threads = 1) {
  std::vector<const loops::Kernel*> kernels;
  for (const auto& kernel : plan.kernels) kernels.push_back(kernel.get());
  codegen::CompileOptions options;
  options.use_disk_cache = false;
  options.threads = threads;
  codegen::clear_memory_cache();
  return codegen::compile(kernels, plan.kernel_hashes, options).size();
}

/// False: no memory.
template <typename Body>
bool runs_failing_at(long allocation, Body&& body) {
  fail_allocation_after(allocation);
  bool ran = true;
  try {
    body();
  } catch (const std::bad_alloc&) {
    ran = false;
  }
  fail_allocation_after(-1);
  return ran;
}

double seconds_of_this_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double lowering_time(const std::string& text) {
  const double start = seconds_of_this_thread();
  lowered(text);
  return seconds_of_this_thread() - start;
}

}  // namespace

TEST_CASE("lowering fails in order at every allocation") {
  const std::string expected = loops::print(lowered(mixture));
  int failed = 0;
  for (long at = 0; at < 4000; ++at) failed += !runs_failing_at(at, [] { lowered(mixture); });
  CHECK(failed > 500);
  CHECK(loops::print(lowered(mixture)) == expected);
}

TEST_CASE("code generation fails in order, and what fails in LLVM takes from the reserve") {
  const loops::Plan plan = lowered(mixture);
  REQUIRE(plan.kernels.size() > 1);
  int failed = 0, ran = 0;
  for (long at = 0; at < 30000; at += at < 200 ? 1 : 997)
    ++(runs_failing_at(at, [&] { compiled(plan); }) ? ran : failed);
  CHECK(failed > 5);
  CHECK(ran > 5);
  CHECK(compiled(plan) == plan.kernels.size());
}

TEST_CASE("without memory for LLVM nothing is begun; with memory again all is as before") {
  const loops::Plan plan = lowered(mixture);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    int failed = 0;
    for (rlim_t room = 0; room < 100 << 20; room += 5 << 20) {
      size_t pages = 0;
      FILE* file = std::fopen("/proc/self/statm", "r");
      if (!file || std::fscanf(file, "%zu", &pages) != 1) _exit(2);
      std::fclose(file);
      const rlimit tight{pages * 4096 + room, before.rlim_max};
      setrlimit(RLIMIT_AS, &tight);
      try {
        compiled(plan);
      } catch (const std::bad_alloc&) {
        ++failed;
      } catch (const UserError&) {
        ++failed;  // no memory for machine code
      }
      setrlimit(RLIMIT_AS, &before);
    }
    _exit(failed > 0 && compiled(plan) == plan.kernels.size() ? 0 : 1);
  }
  int status = 1;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("where no thread can be started the calling one compiles") {
  const loops::Plan plan = lowered(mixture);
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit none{0, 0};
    if (geteuid() == 0 && (setresgid(65533, 65533, 65533) != 0 || setresuid(65533, 65533, 65533) != 0)) _exit(0);
    setrlimit(RLIMIT_NPROC, &none);
    _exit(compiled(plan, 8) == plan.kernels.size() ? 0 : 1);
  }
  int status = 1;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("lowering takes time in proportion to the graph") {
  const std::string small = chain(2000), large = chain(20000);
  double ratio = 100;
  for (int attempt = 0; attempt < 5 && ratio > 2; ++attempt) {
    double once = 1e9;
    for (int k = 0; k < 3; ++k) once = std::min(once, lowering_time(small));
    ratio = std::min(ratio, lowering_time(large) / once / 10);
  }
  CHECK(ratio < 2);
}
