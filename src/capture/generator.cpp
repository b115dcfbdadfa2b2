#include "capture/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "capture/recorder.h"

namespace braze::capture {
namespace {

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

/// A seed that nobody uses: the marker only has to differ from every state that a program sets.
constexpr uint64_t kMarkerSeed = 0xb7a2e5eed00d1e55;

}  // namespace

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
  original_ = cpu_generator_state();
  mark(nullptr);
}

void GeneratorWatch::mark(ir::Node* after) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(kMarkerSeed + markers_.size());
  }
  expected_ = cpu_generator_state();
  markers_.push_back({expected_, after});
}

void GeneratorWatch::advance(ir::Node* random) {
  if (active()) mark(random);
}

void GeneratorWatch::sync(Recorder& recorder) {
  if (!expected_.defined()) return;
  const at::Tensor now = last_.defined() ? last_ : cpu_generator_state();
  if (same_bytes(now, expected_)) return;
  auto& dispatcher = c10::Dispatcher::singleton();
  CallPayload payload{dispatcher.findSchemaOrThrow("braze::set_generator_state", ""), {now}, {}, {}, {}};
  const auto marker = std::ranges::find_if(markers_, [&](const Marker& m) { return same_bytes(m.state, now); });
  if (marker == markers_.end()) {
    recorder.create_call(std::move(payload), {}, {}, true);
  } else {
    ir::Graph& graph = recorder.graph();
    if (!marker->saved) {
      const int64_t bytes = now.numel();
      const ir::Type* type = graph.contiguous_type(ir::DType::u8, {}, {&bytes, 1});
      CallPayload save{dispatcher.findSchemaOrThrow("braze::get_generator_state", ""), {}, {}, {}, {{0, -1}}};
      graph.set_insertion_point(marker->after ? marker->after->next : graph.first());
      marker->saved = recorder.create_call(std::move(save), {}, {&type, 1}, true)->result();
      graph.set_insertion_point(nullptr);
    }
    payload.stack[0] = at::Tensor();
    payload.slots.push_back({0, -1, 0});
    recorder.create_call(std::move(payload), {&marker->saved, 1}, {}, true);
  }
  expected_ = now;
}

void GeneratorWatch::end() noexcept {
  if (!expected_.defined() || last_.defined()) return;
  last_ = cpu_generator_state();
  set_cpu_generator_state(original_);
}

}  // namespace braze::capture
