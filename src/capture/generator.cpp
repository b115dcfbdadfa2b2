#include "capture/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "capture/devices.h"
#include "capture/recorder.h"
#include "capture/types.h"

namespace braze::capture {
namespace {

/// Seeds from here on are markers, a new one each time; nobody else takes them.
constexpr uint64_t kFirstMarker = 0xb7a2e5ee00000000;
constexpr uint64_t kMarkers = uint64_t{1} << 32;

bool is_marker(uint64_t seed) {
  return seed - kFirstMarker < kMarkers;
}

uint64_t next_marker() {
  static std::atomic<uint32_t> counter{0};
  return kFirstMarker + counter++;
}

uint64_t cpu_generator_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.current_seed();
}

/// The traces of all threads that watch the generator now: it is one for the process, and so is this.
struct Watchers {
  std::mutex mutex;
  int count = 0;
  at::Tensor original;

  static Watchers& instance() {
    static Watchers watchers;
    return watchers;
  }
};

}  // namespace

std::vector<at::Generator> default_generators() {
  std::vector<at::Generator> all{at::detail::getDefaultCPUGenerator()};
  if (!has_met_cuda()) return all;
  const c10::DeviceIndex count = c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
  for (c10::DeviceIndex k = 0; k < count; ++k) all.push_back(default_generator({c10::kCUDA, k}));
  return all;
}

at::Generator default_generator(c10::Device device) {
  return device.is_cpu() ? at::detail::getDefaultCPUGenerator() : at::globalContext().defaultGenerator(device);
}

GeneratorStates::GeneratorStates(std::span<const at::Generator> generators) {
  for (at::Generator generator : generators) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }
}

void GeneratorStates::put_back() const {
  for (auto& [kept, state] : states_) {
    at::Generator generator = kept;
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
}

KeptGenerators::KeptGenerators() : states_(default_generators()) {}

KeptGenerators::~KeptGenerators() {
  states_.put_back();
}

at::Tensor cpu_generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_cpu_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

void GeneratorWatch::begin() {
  last_.reset();
  markers_.clear();
  Watchers& watchers = Watchers::instance();
  const std::lock_guard<std::mutex> lock(watchers.mutex);
  if (watchers.count++ == 0) watchers.original = cpu_generator_state();
  original_ = watchers.original;
  mark(nullptr);
}

void GeneratorWatch::mark(ir::Node* after) {
  expected_seed_ = next_marker();
  markers_.push_back({expected_seed_, after});
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(expected_seed_);
}

void GeneratorWatch::advance(ir::Node* random) {
  if (active()) mark(random);
}

void GeneratorWatch::sync(Recorder& recorder) {
  if (!original_.defined()) return;
  const uint64_t seed = last_.defined() ? last_seed_ : cpu_generator_seed();
  if (seed == expected_seed_) return;
  const auto marker = std::ranges::find(markers_, seed, &Marker::seed);
  const bool mine = marker != markers_.end();
  if (!mine && is_marker(seed)) return;  // Of a trace on another thread.
  auto& dispatcher = c10::Dispatcher::singleton();
  CallPayload payload{dispatcher.findSchemaOrThrow("braze::set_generator_state", ""), {at::Tensor()}, {}, {}, {}};
  if (!mine) {
    payload.stack[0] = last_.defined() ? last_ : cpu_generator_state();
    recorder.create_call(payload, {}, {}, true);
  } else {
    ir::Graph& graph = recorder.graph();
    if (!marker->saved) {
      const int64_t bytes = original_.numel();
      const ir::Type* type = rows_in(graph, ir::DType::u8, {}, {bytes});
      CallPayload save{dispatcher.findSchemaOrThrow("braze::get_generator_state", ""), {}, {}, {}, {{0, -1}}};
      graph.set_insertion_point(marker->after ? marker->after->next : graph.first());
      marker->saved = recorder.create_call(save, {}, {&type, 1}, true)->result();
      graph.set_insertion_point(nullptr);
    }
    payload.slots.push_back({0, -1, 0});
    recorder.create_call(payload, {&marker->saved, 1}, {}, true);
  }
  expected_seed_ = seed;
}

void GeneratorWatch::end() noexcept {
  if (!active()) return;
  last_ = cpu_generator_state();
  last_seed_ = cpu_generator_seed();
  Watchers& watchers = Watchers::instance();
  const std::lock_guard<std::mutex> lock(watchers.mutex);
  if (--watchers.count == 0) set_cpu_generator_state(std::exchange(watchers.original, {}));
}

}  // namespace braze::capture
