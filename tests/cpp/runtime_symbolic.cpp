// Programs bound to what was compiled for all sizes, beside ATen on the same inputs.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "capture/trace.h"
#include "compile/driver.h"
#include "ir/clone.h"
#include "ir/instantiate.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "runtime/program.h"

using namespace braze;

namespace {

constexpr const char* text = R"(graph @block[b = 4, l = 6](%x: f32[b,l,16], %w: f32[16,16]) {
  %0 = reshape %x : f32[b*l,16]
  %1 = mm %0, %w : f32[b*l,16]
  %2 = reshape %1 : f32[b,l,16]
  %3 = permute %2, dims=[0,2,1] : f32[b,16,l]{16*l,1,16}
  %4 = bmm %2, %3 : f32[b,l,l]
  %5 = softmax %4, dim=2 : f32[b,l,l]
  %6 = bmm %5, %x : f32[b,l,16]
  %7 = call %6, target="aten::slice" overload="Tensor" arguments="$0, 1, 0, size('l'), 1" : f32[b,l,16]
  %8 = relu %7 : f32[b,l,16]
  return %8, %5
})";

capture::Trace trace_of(const ir::Graph& graph, std::span<const int64_t> symbols) {
  capture::Trace trace;
  trace.graph = ir::instantiate(graph, symbols);
  trace.outputs.resize(trace.graph->outputs().size());
  for (uint32_t k = 0; k < trace.outputs.size(); ++k) trace.outputs[k].index = k;
  trace.writes.resize(trace.graph->inputs().size());
  return trace;
}

}  // namespace

TEST_CASE("programs of one artifact compute what ATen does, at any size") {
  const auto graph = ir::parse(text);
  runtime::ProgramOptions options;
  options.use_disk_cache = false;
  options.verify = true;
  const auto copy = ir::clone(*graph, graph->find_shape_env()->examples());
  const auto artifact = runtime::Program::compile_symbolic(*copy, options);
  at::manual_seed(1);
  for (const auto& [b, l] : {std::pair(4, 6), {1, 1}, {3, 40}, {64, 2}, {7, 129}, {0, 5}, {2, 0}}) {
    CAPTURE(b);
    CAPTURE(l);
    const int64_t symbols[] = {b, l};
    REQUIRE(artifact->plan.refuses(symbols) == std::nullopt);
    const auto program = runtime::Program::compile_at(trace_of(*graph, symbols), *artifact, symbols, options);
    for (int call = 0; call < 2; ++call) {
      const at::Tensor x = at::randn({b, l, 16}), w = at::randn({16, 16});
      const at::Tensor y = at::matmul(x, w);
      const at::Tensor weights = at::softmax(at::bmm(y, y.transpose(1, 2)), 2);
      const auto results = program->run({x, w});
      CHECK(at::allclose(results[0], at::relu(at::bmm(weights, x)), 1e-4, 1e-5));
      CHECK(at::allclose(results[1], weights, 1e-4, 1e-5));
    }
    CHECK(program->facts().code.compiled <= artifact->facts.code.compiled);
  }
}
