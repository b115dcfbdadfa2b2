#include "capture/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>

#include "capture/recorder.h"
#include "support/error.h"

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
  original_ = cpu_generator_state();
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(kMarkerSeed);
  }
  marker_ = expected_ = cpu_generator_state();
}

void GeneratorWatch::sync(Recorder& recorder) {
  if (!expected_.defined()) return;
  const at::Tensor now = last_.defined() ? last_ : cpu_generator_state();
  if (same_bytes(now, expected_)) return;
  if (same_bytes(now, marker_))
    throw UserError("braze: the traced function sets the random generator back to an earlier state "
                    "(torch.set_rng_state, fork_rng), which cannot be traced yet. Seed it with torch.manual_seed().");
  CallPayload payload{c10::Dispatcher::singleton().findSchemaOrThrow("braze::set_generator_state", ""), {now}, {}, {}, {}};
  recorder.create_call(std::move(payload), {}, {}, true);
  expected_ = now;
}

void GeneratorWatch::end() noexcept {
  if (!expected_.defined() || last_.defined()) return;
  last_ = cpu_generator_state();
  set_cpu_generator_state(original_);
}

}  // namespace braze::capture
