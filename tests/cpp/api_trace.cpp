// braze::trace, and what a Program tells.
#include "api_cases.h"
#include "braze/compile.h"

TEST_CASE("a traced program is for arguments like its examples") {
  const auto x = torch::randn({4, 5});
  const auto program = braze::trace([](at::Tensor x, double s) { return (x * s).relu(); }, {}, x, 0.5);
  CHECK(same(program(x, 0.5), (x * 0.5).relu()));
  CHECK_THROWS_AS(program(x, 0.25), braze::Error);
  CHECK_THROWS_WITH_AS(program(torch::randn({4, 6}), 0.5), doctest::Contains("f32[4,5]"), braze::Error);
  CHECK_THROWS_AS(program(x.to(torch::kDouble), 0.5), braze::Error);
  CHECK_THROWS_AS(program(at::Tensor(), 0.5), braze::Error);
  torch::NoGradGuard no_grad;
  CHECK(same(program(x, 0.5), (x * 0.5).relu()));
}

TEST_CASE("one tensor in two places stays one") {
  const auto x = torch::randn({3});
  const auto program = braze::trace([](at::Tensor a, at::Tensor b) { return a + b; }, {}, x, x);
  CHECK(same(program(x, x), x + x));
  CHECK_THROWS_AS(program(x, x.clone()), braze::Error);
}

TEST_CASE("sizes that are named may vary") {
  const auto rows = [](at::Tensor x, at::Tensor y) {
    return torch::softmax(x, -1).sum(0) + y.slice(0, 0, x.size(1));
  };
  braze::Options options;
  options.dynamic = {{0, 0, "batch"}, {1, 0}};
  const auto program = braze::trace(rows, options, torch::randn({4, 6}), torch::randn({9}));
  for (const int64_t n : {2, 3, 17}) {
    const auto x = torch::randn({n, 6}), y = torch::randn({2 * n + 3});
    CHECK(torch::allclose(program(x, y), rows(x, y), 1e-5, 1e-6));
  }
  CHECK_THROWS_WITH_AS(program(torch::randn({1, 6}), torch::randn({9})), doctest::Contains("batch must be"),
                       braze::Error);
  CHECK_THROWS_WITH_AS(program(torch::randn({6, 4}).t(), torch::randn({9})), doctest::Contains("stride 0 is 1"),
                       braze::Error);
  options.dynamic = {{0, 2}};
  CHECK_THROWS_AS(braze::trace(rows, options, torch::randn({4, 6}), torch::randn({9})), braze::Error);
  options.dynamic = {{0, 1, "width"}};
  CHECK_THROWS_WITH_AS(braze::trace(rows, options, torch::randn({4, 6}), torch::randn({9})),
                       doctest::Contains("width was to vary, which is size 1 of `x0`"), braze::Error);
  options.dynamic = {{0, 0, "n", 2, 8}, {1, 0, "n", 3, 9}};
  CHECK_THROWS_WITH_AS(braze::trace(rows, options, torch::randn({6, 6}), torch::randn({6})),
                       doctest::Contains("n has other bounds in size 0 of `x1`"), braze::Error);
}

TEST_CASE("a value that is read is frozen, and told") {
  const auto x = torch::ones({3});
  const auto program = braze::trace([](at::Tensor x) { return x + x.sum().item<float>(); }, {}, x);
  CHECK(same(program(x), x + 3));
  CHECK(same(program(x * 2), x * 2 + 3));
  REQUIRE(program.program().warnings().size() == 1);
  CHECK(program.program().warnings()[0].find("item()") != std::string::npos);
}

TEST_CASE("what the function throws passes") {
  CHECK_THROWS_AS(
      braze::trace([](at::Tensor x) -> at::Tensor { throw std::out_of_range("here"); }, {}, torch::ones({3})),
      std::out_of_range);
  CHECK(torch::ones({3}).sum().item<float>() == 3);
}

TEST_CASE("what cannot be traced is told") {
  CHECK_THROWS_AS(braze::trace([](at::Tensor x) { return x + 1; }, {}, torch::eye(3).to_sparse()), braze::Error);
}

TEST_CASE("a program tells what it is") {
  const auto x = torch::randn({8, 16});
  const auto program =
      braze::trace([](at::Tensor x) { return torch::softmax(x.mm(x.t()), -1); }, {.name = "scores"}, x).program();
  CHECK(program.graph() == program.code("graph"));
  CHECK(program.graph().find("@scores") != std::string::npos);
  CHECK(program.code("traced").find("mm") != std::string::npos);
  CHECK(program.code("loops").find("for") != std::string::npos);
  CHECK(program.code("llvm").find("define") != std::string::npos);
  CHECK(program.code("asm").find("ret") != std::string::npos);
  CHECK_THROWS_AS(program.code("python"), braze::Error);
  const auto steps = program.steps();
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].kind == "call");
  CHECK(steps[0].name == "aten::mm");
  CHECK(steps[1].kind == "kernel");
  const auto kernels = program.kernels();
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].name == steps[1].name);
  CHECK(kernels[0].bytes_read == 8 * 8 * 4);
  CHECK(kernels[0].bytes_written == 8 * 8 * 4);
  CHECK(kernels[0].launches == 1);
  CHECK(kernels[0].code_bytes > 0);
  CHECK(program.memory().output_bytes == 8 * 8 * 4);
  CHECK(program.memory().code_bytes == kernels[0].code_bytes);
  const auto times = program.compile_times();
  REQUIRE(times.back().name == "total");
  int64_t sum = 0, allocated = 0;
  for (const braze::Phase& phase : times)
    if (phase.name != "total" && phase.name.find('/') == std::string::npos) {
      sum += phase.nanoseconds;
      allocated += phase.allocated_bytes;
    }
  CHECK(times.back().nanoseconds == sum);
  CHECK(times.back().allocated_bytes == allocated);
  CHECK(times.back().allocations > 0);
  CHECK(allocated > program.memory().graph_peak_bytes);
  CHECK(program.memory().graph_peak_bytes >= program.memory().graph_used_bytes);
  CHECK(sum > 0);
}

TEST_CASE("packed weights follow what is written to them") {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({16, 256}), w = torch::randn({512, 256});
  const auto linear = braze::trace([](at::Tensor x, at::Tensor w) { return torch::linear(x, w); },
                                   {.disk_cache = false, .prepack_weights = true}, x, w);
  int64_t packed = 0;
  for (int i = 0; i < 60; ++i) {
    CHECK(torch::allclose(linear(x, w), torch::linear(x, w), 1e-4, 1e-4));
    packed = std::max(packed, linear.program().memory().packed_bytes);
  }
  CHECK(packed == w.numel() * 4);
  w.mul_(-1);
  CHECK(torch::allclose(linear(x, w), torch::linear(x, w), 1e-4, 1e-4));
  for (int i = 0; i < 3; ++i) linear(x, w);
  w.data_ptr<float>()[5] += 100;  // Moves no version.
  braze::repack_weights();
  for (int i = 0; i < 3; ++i) CHECK(torch::allclose(linear(x, w), torch::linear(x, w), 1e-4, 1e-3));
}

TEST_CASE("a program takes its tensors as a list") {
  const auto x = torch::randn({3}), y = torch::randn({3});
  const auto program = braze::trace([](at::Tensor x, at::Tensor y) { return x - y; }, {}, x, y).program();
  const auto results = program({x, y});
  REQUIRE(results.size() == 1);
  CHECK(same(results[0], x - y));
  CHECK_THROWS_AS(program({x}), braze::Error);
  CHECK_THROWS_AS(program({x, torch::randn({4})}), braze::Error);
}

TEST_CASE("a program cannot be called while a function is traced") {
  const auto x = torch::randn({3});
  const auto inner = braze::trace([](at::Tensor x) { return x + 1; }, {}, x);
  CHECK_THROWS_AS(braze::trace([&](at::Tensor x) { return inner(x); }, {}, x), braze::Error);
}
