// Programs bound to what was compiled for all sizes, beside ATen on the same inputs.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "capture/trace.h"
#include "compile/driver.h"
#include "ir/clone.h"
#include "ir/instantiate.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "runtime/family.h"
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

capture::Trace trace_of(std::shared_ptr<ir::Graph> graph) {
  capture::Trace trace;
  trace.graph = std::move(graph);
  trace.outputs.resize(trace.graph->outputs().size());
  for (uint32_t k = 0; k < trace.outputs.size(); ++k) trace.outputs[k].index = k;
  trace.writes.resize(trace.graph->inputs().size());
  return trace;
}
capture::Trace trace_of(const ir::Graph& graph, std::span<const int64_t> symbols) {
  return trace_of(ir::instantiate(graph, symbols));
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

TEST_CASE("a family says why it has no artifact for all sizes, and is right nevertheless") {
  // Whether the result has gaps depends on m.
  const std::string_view text = R"(graph @gaps[n = 3, m = 8](%x: f32[n,m]) {
  %0 = exp %x : f32[n,m]{8,1}
  return %0
})";
  runtime::ProgramOptions options;
  options.use_disk_cache = false;
  const runtime::ProgramFamily family(trace_of(ir::parse(text)), options, {});
  for (const int64_t m : {8, 5, 1}) {
    const int64_t symbols[] = {3, m};
    const at::Tensor x = at::randn({3, m});
    const auto program = family.at(symbols, {x});
    CHECK(at::allclose(program->run({x})[0], at::exp(x)));
    CHECK(program->facts().not_symbolic.find("has gaps") != std::string::npos);
  }
  CHECK(family.compiled() == 3);

  const runtime::ProgramFamily all(trace_of(ir::parse("graph @all[n = 3](%x: f32[n]) {\n %0 = exp %x : f32[n]\n"
                                                      " return %0\n}")),
                                   options, {});
  const int64_t nine[] = {9};
  CHECK(all.at(nine, {at::randn({9})})->facts().not_symbolic.empty());
}
