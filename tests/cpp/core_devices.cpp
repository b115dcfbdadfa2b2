// Graphs whose values lie on several devices: kernels of one device each, for its target, and memory apart.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "compile/driver.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "support/error.h"

using namespace braze;

namespace {

constexpr const char* there_and_back = R"(graph @main(%x: f32[64,64], %y: f32[64,64]@cuda:0) {
  %0 = exp %x : f32[64,64]
  %1 = call %0, target="aten::_to_copy" arguments="$0, none, none, device('cuda:0'), none, false, none" results="0" : f32[64,64]@cuda:0
  %2 = sin %y : f32[64,64]@cuda:0
  %3 = mm %1, %2 : f32[64,64]@cuda:0
  %4 = mm %3, %2 : f32[64,64]@cuda:0
  %5 = mm %0, %x : f32[64,64]
  %6 = cos %5 : f32[64,64]
  %7 = mm %6, %x : f32[64,64]
  %8 = add %3, %4 : f32[64,64]@cuda:0
  return %7, %8
})";

loops::Plan lowered(const char* text) {
  const std::shared_ptr<ir::Graph> graph = ir::parse(text);
  ir::verify(*graph);
  passes::run(*graph);
  loops::Plan plan = loops::lower(*graph);
  loops::verify(plan);
  return plan;
}

}  // namespace

TEST_CASE("a kernel's memory is on one device, and so are the kernels of a region") {
  const loops::Plan plan = lowered(there_and_back);
  std::set<ir::DeviceKind> kinds;
  ir::Device before;
  for (const loops::Step& step : plan.steps) {
    if (step.kind != loops::Step::Kind::kernel) continue;
    const ir::Device device = plan.buffers[step.kernel.buffers.at(0)].device;
    for (const uint32_t buffer : step.kernel.buffers) CHECK(plan.buffers[buffer].device == device);
    if (step.join != loops::Join::alone) CHECK(device == before);
    before = device;
    kinds.insert(device.kind);
  }
  CHECK(kinds.size() == 2);
}

TEST_CASE("temporaries of two devices lie in two parts of the arena") {
  const loops::Plan plan = lowered(there_and_back);
  std::map<ir::DeviceKind, std::pair<int64_t, int64_t>> spans;
  for (const loops::PlanBuffer& buffer : plan.buffers) {
    if (buffer.kind != loops::BufferKind::temporary) continue;
    const auto [span, fresh] = spans.try_emplace(buffer.device.kind, buffer.offset, buffer.offset + buffer.bytes);
    span->second.first = std::min(span->second.first, buffer.offset);
    span->second.second = std::max(span->second.second, buffer.offset + buffer.bytes);
  }
  REQUIRE(spans.size() == 2);
  const auto [cpu, gpu] = std::pair(spans.begin()->second, spans.rbegin()->second);
  CHECK((cpu.second <= gpu.first || gpu.second <= cpu.first));
}

TEST_CASE("kernels are compiled for the device that they run on") {
  const driver::Artifact artifact = driver::compile(*ir::parse(there_and_back));
  REQUIRE(artifact.targets.size() == artifact.plan.kernels.size());
  REQUIRE(artifact.code.size() == artifact.plan.kernels.size());
  for (size_t k = 0; k < artifact.code.size(); ++k)
    CHECK(artifact.targets[k]->is_gpu() != artifact.code[k]->gpu_phases().empty());
}

TEST_CASE("a node whose operands lie on another device is refused") {
  const auto graph = ir::parse(R"(graph @main(%x: f32[4], %y: f32[4]@cuda:0) {
    %0 = add %x, %y : f32[4]@cuda:0
    return %0
  })");
  CHECK_THROWS_AS(ir::verify(*graph), InternalError);
}
