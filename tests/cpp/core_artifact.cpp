// Artifacts as bytes: what was written reads back and runs, and nothing else is taken for an artifact.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "compile/artifact_bytes.h"
#include "ir/text.h"
#include "support/hash.h"

using namespace braze;

namespace {

constexpr const char* mixture = R"(graph @mixture(%x: f32[6,40], %w: f32[40,5], %b: f32[5]) {
  %0 = tanh %x : f32[6,40]
  %1 = addmm %b, %0, %w, alpha=0.5 beta=2.0 : f32[6,5]
  %2 = scalar value=1.5 : f32[]
  %3 = add %1, %2 : f32[6,5]
  %4, %5 = call %3, target="aten::sort" overload="stable" arguments="$0, false, -1, true" : f32[6,5], i64[6,5]
  %6 = relu %4 : f32[6,5]
  mutate %x, %0
  return %6, %5
})";

std::vector<const loops::Kernel*> kernels_of(const loops::Plan& plan) {
  std::vector<const loops::Kernel*> kernels;
  for (const auto& kernel : plan.kernels) kernels.push_back(kernel.get());
  return kernels;
}

loops::Plan plan_of(const char* text) {
  const auto graph = ir::parse(text);
  driver::Options options;
  options.last = driver::Stage::plan;
  return driver::compile(*graph, options).plan;
}

std::string bytes_of(const loops::Plan& plan) {
  return driver::write_artifact(plan, codegen::make_blobs(kernels_of(plan)), Target::host().isa);
}

constexpr size_t header_bytes = 40, checksum_at = 24;

/// The checksum is made to fit: what a forger would do.
void sign(std::string& bytes) {
  const Hash128 checksum = hash_bytes(bytes.data() + header_bytes, bytes.size() - header_bytes);
  std::memcpy(bytes.data() + checksum_at, &checksum, sizeof checksum);
}

}  // namespace

TEST_CASE("an artifact reads back as it was written") {
  const loops::Plan plan = plan_of(mixture);
  const std::string bytes = bytes_of(plan);
  CHECK(driver::is_artifact(bytes));
  auto stored = driver::read_artifact(bytes);
  REQUIRE(stored);
  CHECK(loops::print(stored->plan) == loops::print(plan));
  CHECK(stored->plan.kernel_hashes == plan.kernel_hashes);
  CHECK(driver::write_artifact(stored->plan, stored->code, stored->isa) == bytes);
}

TEST_CASE("code that was read runs") {
  const loops::Plan plan = plan_of("graph @main(%x: f32[100]) {\n %0 = add %x, %x : f32[100]\n return %0\n}");
  const driver::Artifact artifact = driver::load(driver::read_artifact(bytes_of(plan)).value());
  REQUIRE(artifact.code.size() == 1);
  REQUIRE(artifact.code[0]->phases().size() == 1);
  CHECK(artifact.facts.kernels.at(0).code_bytes > 0);
  std::vector<float> x(128, 1.5f), y(128, 0.0f);
  void* const buffers[] = {reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(x.data()) + 63) / 64 * 64),
                           reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(y.data()) + 63) / 64 * 64)};
  int64_t status = 0;
  const codegen::Phase& phase = artifact.code[0]->phases()[0];
  phase.function(buffers, nullptr, nullptr, 0, phase.iterations.constant, &status);
  for (int k = 0; k < 100; ++k) CHECK(static_cast<const float*>(buffers[1])[k] == 3.0f);
}

TEST_CASE("artifacts that are cut short, lengthened or damaged anywhere are refused") {
  const std::string bytes = bytes_of(plan_of(mixture));
  for (size_t size = 0; size < bytes.size(); size += size < 512 ? 1 : 37)
    CHECK_FALSE(driver::read_artifact(std::string_view(bytes).substr(0, size)));
  CHECK_FALSE(driver::read_artifact(bytes + '\0'));
  for (size_t at = 0; at < bytes.size(); at += at < 512 ? 1 : 37) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    CHECK_FALSE(driver::read_artifact(damaged));
  }
}

TEST_CASE("what is forged is refused or a plan in order") {
  const std::string bytes = bytes_of(plan_of(mixture));
  size_t refused = 0, tried = 0;
  const auto attempt = [&](std::string forged) {
    sign(forged);
    ++tried;
    const auto stored = driver::read_artifact(forged);
    refused += !stored;
    if (stored) loops::verify(stored->plan);
  };
  // The plan lies in front; flips in the text of kernels are found by its parser.
  for (size_t at = header_bytes; at < bytes.size(); at += at < 8192 ? 3 : 61)
    for (const char bit : {char{1}, static_cast<char>(0x80)}) {
      std::string forged = bytes;
      forged[at] = static_cast<char>(forged[at] ^ bit);
      attempt(std::move(forged));
    }
  // Lengths and numbers that are as large as can be.
  for (size_t at = header_bytes; at + 8 < bytes.size() && at < 16384; at += 8) {
    std::string forged = bytes;
    std::memset(forged.data() + at, 0xff, 8);
    attempt(std::move(forged));
  }
  CHECK(refused > tried / 2);
}
