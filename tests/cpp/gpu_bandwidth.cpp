// How near kernels come to the bandwidth of a copy on the device: printed, and run only when asked for
// (BRAZE_BANDWIDTH=1), as other work on the machine disturbs it. 2^26 elements; bytes counted once each.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu_device.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "support/error.h"

using namespace braze;
using namespace braze::device::cuda;

namespace {

constexpr int64_t elements = int64_t{1} << 26;

/// The fastest of some runs, in ms; everything the device's cache held is pushed out before each.
double milliseconds(const std::function<void()>& run, test::DeviceMemory& flush, int64_t flush_bytes) {
  const Driver& calls = driver();
  Event from = nullptr, to = nullptr;
  check(calls.cuEventCreate(&from, 0), "making an event");
  check(calls.cuEventCreate(&to, 0), "making an event");
  run();
  double best = 1e9;
  for (int round = 0; round < 12; ++round) {
    check(calls.cuMemsetD8Async(flush.address(), 0, static_cast<size_t>(flush_bytes), nullptr), "filling");
    check(calls.cuEventRecord(from, nullptr), "recording");
    run();
    check(calls.cuEventRecord(to, nullptr), "recording");
    check(calls.cuEventSynchronize(to), "waiting");
    float passed = 0;
    check(calls.cuEventElapsedTime(&passed, from, to), "asking for the time");
    best = std::min(best, static_cast<double>(passed));
  }
  calls.cuEventDestroy_v2(from);
  calls.cuEventDestroy_v2(to);
  return best;
}

struct Measured {
  const char* name;
  std::string text;  ///< With T for the type, R for rows, C for columns.
};

const Measured measured[] = {
    {"gelu(x*w+b)",
     "graph @g(%x: T[R,C], %w: T[C], %b: T[C]) {\n %0 = mul %x, %w : T[R,C]\n %1 = add %0, %b : T[R,C]\n"
     " %2 = gelu %1, tanh=false : T[R,C]\n return %2\n}"},
    {"softmax", "graph @g(%x: T[R,C]) {\n %0 = softmax %x, dim=1 : T[R,C]\n return %0\n}"},
    {"layer norm",
     "graph @g(%x: T[R,C], %w: T[C], %b: T[C]) {\n"
     " %0, %1, %2 = layer_norm %x, %w, %b, rank=1 eps=1e-05 : T[R,C], f32[R,1], f32[R,1]\n return %0\n}"},
    {"layer_norm(x+gelu(x))",
     "graph @g(%x: T[R,C], %w: T[C], %b: T[C]) {\n %0 = gelu %x, tanh=false : T[R,C]\n %1 = add %x, %0 : T[R,C]\n"
     " %2, %3, %4 = layer_norm %1, %w, %b, rank=1 eps=1e-05 : T[R,C], f32[R,1], f32[R,1]\n return %2\n}"},
    {"entropy",
     "graph @g(%x: T[R,C]) {\n %0 = softmax %x, dim=1 : T[R,C]\n %1 = scalar value=1e-08 : T[]\n %2 = add %0, %1 : "
     "T[R,C]\n"
     " %3 = log %2 : T[R,C]\n %4 = mul %0, %3 : T[R,C]\n %5 = sum %4, dims=[1] keepdim=false : T[R]\n"
     " %6 = neg %5 : T[R]\n return %6\n}"},
    {"column sum", "graph @g(%x: T[R,C]) {\n %0 = sum %x, dims=[0] keepdim=false : T[C]\n return %0\n}"},
    {"transpose+1",
     "graph @g(%x: T[R,C]) {\n %0 = permute %x, dims=[1,0] : T[C,R]{1,C}\n %1 = scalar value=1.0 : T[]\n"
     " %2 = add %0, %1 : T[C,R]\n return %2\n}"},
};

std::string filled(std::string text, const char* type, int64_t columns) {
  const auto replace = [&](const std::string& what, const std::string& by) {
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
      const auto is_letter = [&](size_t k) { return k < text.size() && (std::isalnum(text[k]) || text[k] == '_'); };
      if ((at > 0 && is_letter(at - 1)) || is_letter(at + what.size()))
        text.replace(at, what.size(), what), at += what.size() - by.size();
      else
        text.replace(at, what.size(), by);
    }
  };
  replace("T", type);
  replace("R", std::to_string(elements / columns));
  replace("C", std::to_string(columns));
  return text;
}

/// The kernels of a graph with memory to run on: large inputs are `source`, small ones `small`, the result
/// `target`.
class Prepared {
 public:
  struct Memories {
    test::DeviceMemory source{elements * 4}, target{elements * 4}, small{1 << 22}, status{8};
  };

  Prepared(const std::string& text, const Memories& memories) {
    const Target gpu(Isa::sm_90);
    const std::shared_ptr<ir::Graph> graph = ir::parse(text);
    passes::run(*graph);
    const loops::Plan plan = loops::lower(*graph, {.targets = {&Target::host(), &gpu}});
    std::vector<const loops::Kernel*> kernels;
    for (const auto& kernel : plan.kernels) kernels.push_back(kernel.get());
    codegen::CompileOptions options;
    options.target = gpu;
    options.use_disk_cache = false;
    PhaseTimes times;
    const auto code = codegen::compile(kernels, plan.kernel_hashes, options, &times);
    for (const PhaseTimes::Row& row : times.rows())
      if (row.name == "codegen") compile_ms = static_cast<double>(row.nanoseconds) / 1e6;
    arena_ = std::make_unique<test::DeviceMemory>(plan.arena_bytes);
    for (const loops::Step& step : plan.steps) {
      REQUIRE(step.kind == loops::Step::Kind::kernel);
      bytes += step.kernel.bytes_read + step.kernel.bytes_written;
      Launch& launch = launches_.emplace_back();
      launch.module = load(*code[step.kernel.kernel], 0);
      for (const uint32_t b : step.kernel.buffers) {
        const loops::PlanBuffer& buffer = plan.buffers[b];
        const bool large = buffer.bytes > (1 << 22);
        launch.buffers.push_back(
            buffer.kind == loops::BufferKind::temporary ? static_cast<char*>(arena_->data()) + buffer.offset
            : buffer.kind == loops::BufferKind::input   ? (large ? memories.source.data() : memories.small.data())
                                                        : memories.target.data());
      }
      for (const ir::Number& number : step.kernel.scalars) {
        const auto value = static_cast<float>(number.as_double());
        uint32_t bits = 0;
        std::memcpy(&bits, &value, 4);
        launch.scalars.push_back(bits);
      }
      launch.status = static_cast<int64_t*>(memories.status.data());
    }
  }

  void run() {
    for (Launch& each : launches_)
      launch(*each.module, each.buffers.data(), each.scalars.data(), nullptr, each.status, nullptr);
  }

  int64_t bytes = 0;  ///< That its kernels read and write.
  double compile_ms = 0;
  size_t count() const { return launches_.size(); }

 private:
  struct Launch {
    decltype(load(std::declval<const codegen::CompiledKernel&>(), 0)) module;
    std::vector<void*> buffers;
    std::vector<uint64_t> scalars;
    int64_t* status = nullptr;
  };
  std::unique_ptr<test::DeviceMemory> arena_;
  std::vector<Launch> launches_;
};

constexpr int64_t flush_bytes = 256 << 20;

bool wanted() {
  if (std::getenv("BRAZE_BANDWIDTH")) return true;
  MESSAGE("skipped: BRAZE_BANDWIDTH is not set");
  return false;
}

}  // namespace

TEST_CASE("kernels against the bandwidth of a copy") {
  NEEDS_GPU();
  if (!wanted()) return;
  const Driver& calls = driver();
  const Prepared::Memories memories;
  test::DeviceMemory flush(flush_bytes);
  const auto copy_rate = [&](int64_t bytes) {
    const double time = milliseconds(
        [&] {
          check(calls.cuMemcpyDtoDAsync_v2(memories.target.address(), memories.source.address(),
                                           static_cast<size_t>(bytes), nullptr),
                "copying");
        },
        flush, flush_bytes);
    return 2.0 * static_cast<double>(bytes) / time / 1e6;
  };
  for (const char* type : {"f32", "bf16"}) {
    const int64_t element = std::strcmp(type, "f32") == 0 ? 4 : 2;
    const double rate = copy_rate(elements * element);
    std::printf("%s: copy %.0f GB/s\n", type, rate);
    // Small numbers, so that nothing overflows.
    std::vector<char> contents(static_cast<size_t>(elements * element));
    for (int64_t k = 0; k < elements; ++k) {
      const float value = static_cast<float>((k * 2654435761u >> 8) % 4096) / 1024.f - 2.f;
      uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      if (element == 4)
        std::memcpy(&contents[static_cast<size_t>(4 * k)], &bits, 4);
      else
        contents[static_cast<size_t>(2 * k)] = static_cast<char>(bits >> 16),
                                         contents[static_cast<size_t>(2 * k + 1)] = static_cast<char>(bits >> 24);
    }
    memories.source.upload(contents.data(), elements * element);
    for (const Measured& m : measured)
      for (const int64_t columns : {1024, 4096, 65536}) {
        Prepared prepared(filled(m.text, type, columns), memories);
        const double time = milliseconds([&] { prepared.run(); }, flush, flush_bytes);
        const double reached = static_cast<double>(prepared.bytes) / time / 1e6;
        std::printf(
            "%-24s %-5s %6lld columns  %7.3f ms  %5.0f GB/s  %.2f of a copy  (%zu kernels, compiled in %.1f ms)\n",
            m.name, type, static_cast<long long>(columns), time, reached, reached / rate, prepared.count(),
            prepared.compile_ms);
        std::fflush(stdout);
      }
  }
}

// Times have the launch in them, some 2 us.
TEST_CASE("products of few rows against the bandwidth of memory") {
  NEEDS_GPU();
  if (!wanted()) return;
  const Prepared::Memories memories;
  test::DeviceMemory flush(flush_bytes);
  struct Shape {
    int64_t rows, length, columns;
  };
  const Shape shapes[] = {{8, 768, 768},   {8, 768, 3072},  {8, 3072, 768}, {8, 768, 50257}, {1, 768, 3072},
                          {1, 4096, 4096}, {8, 4096, 4096}, {16, 768, 768}, {16, 3072, 768}};
  for (const std::string type : {"f32", "bf16"})
    for (const bool transposed : {true, false})
      for (const Shape& shape : shapes) {
        if (type == "bf16" && shape.rows > 8) continue;
        const auto matrix = [&](int64_t rows, int64_t columns) {
          return concat(type, "[", rows, ",", columns, "]");
        };
        const std::string cuda = "@cuda:0", stored = matrix(shape.length, shape.columns);
        const std::string text = concat(
            "graph @g(%x: ", matrix(shape.rows, shape.length), cuda,
            ", %w: ", transposed ? matrix(shape.columns, shape.length) : stored, cuda, ") {\n",
            transposed ? concat(" %0 = permute %w, dims=[1,0] : ", stored, "{1,", shape.length, "}", cuda, "\n")
                       : "",
            " %1 = mm %x, ", transposed ? "%0" : "%w", " : ", matrix(shape.rows, shape.columns), cuda,
            "\n return %1\n}");
        Prepared prepared(text, memories);
        const double time = milliseconds([&] { prepared.run(); }, flush, flush_bytes);
        std::printf("[%2lld,%4lld] x [%4lld,%5lld] %-5s %-10s %7.2f us  %5.0f GB/s  (compiled in %.1f ms)\n",
                    static_cast<long long>(shape.rows), static_cast<long long>(shape.length),
                    static_cast<long long>(shape.length), static_cast<long long>(shape.columns), type.c_str(),
                    transposed ? "transposed" : "as it is", time * 1e3,
                    static_cast<double>(prepared.bytes) / time / 1e6, prepared.compile_ms);
        std::fflush(stdout);
      }
}
