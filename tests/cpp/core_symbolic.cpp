// Graphs whose sizes are expressions, lowered once: their plans, and the machine code of their kernels, must
// compute what the graph of numbers does, at sizes other than the examples, 0 and 1 among them.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <set>

#include "codegen/compiler.h"
#include "compile/artifact_bytes.h"
#include "ir/clone.h"
#include "ir/instantiate.h"
#include "ir/text.h"
#include "loops/plan_bytes.h"
#include "loops/symbolic_plan.h"
#include "lowering_cases.h"
#include "passes/pipeline.h"
#include "plan_interpreter.h"
#include "random_symbolic_graph.h"
#include "sized_runs.h"
#include "support/error.h"
#include "symbolise.h"
#include "test_files.h"

using namespace braze;
using test::are_apart, test::has_indices, test::host_has, test::launch, test::small_cpu;
using test::Elements;

namespace {

struct Counts {
  size_t plans = 0, runs = 0, refused = 0;
};

/// Values of all symbols to try: the examples; then all of one value; then any.
std::vector<std::vector<int64_t>> values_for(const ir::ShapeEnv& env) {
  std::mt19937 random(3);
  std::vector<std::vector<int64_t>> all;
  for (int round = 0; round < 12; ++round) {
    std::vector<int64_t> values(env.examples().begin(), env.examples().end());
    for (int64_t& value : values)
      if (round > 0) value = round < 5 ? round - 1 : static_cast<int64_t>(random() % (round < 10 ? 8 : 40));
    all.push_back(std::move(values));
  }
  return all;
}

/// Says what is wrong with the plan, its results or those of its machine code, or "".
std::string fault(const std::string& text, double tolerance, bool machine_code, Counts& counts) {
  const auto original = ir::parse(text);
  for (const Target& target :
       {Target(Isa::avx2), Target(Isa::avx512), small_cpu(), Target(Isa::sm_90), test::small_gpu()}) {
    const Isa isa = target.isa;
    const bool is_small = target.cache_line < 64;
    for (const bool fuse : {true, false}) {
      if ((isa != Isa::avx2 || is_small) && !fuse) continue;
      const auto graph = ir::parse(text);
      passes::run(*graph, nullptr, true);
      loops::SymbolicPlan family;
      try {
        family = loops::lower_symbolic(*graph, {.fuse = fuse, .targets = {&target}});
      } catch (const loops::NotSymbolic&) {
        ++counts.refused;
        return "";
      }
      ++counts.plans;
      // What runs below was read from text.
      const std::string family_text = loops::print(family);
      loops::SymbolicPlan again = loops::parse_symbolic_plan(family_text);
      loops::verify(again);
      if (loops::print(again) != family_text) return "changed by text:\n" + family_text + loops::print(again);
      if (again.kernel_hashes() != family.kernel_hashes()) return "other kernels by text:\n" + family_text;
      family = std::move(again);
      std::vector<const loops::Kernel*> kernels;
      for (const auto& kernel : family.kernels()) {
        loops::verify(*kernel);
        kernels.push_back(kernel.get());
      }
      std::vector<std::shared_ptr<const codegen::CompiledKernel>> code;
      if (machine_code && host_has(isa)) {
        codegen::CompileOptions options{.target = target, .use_disk_cache = false, .threads = 1};
        code = codegen::compile(kernels, family.kernel_hashes(), options);
      }
      for (const std::vector<int64_t>& values : values_for(*graph->find_shape_env())) {
        std::unique_ptr<ir::Graph> numbers;
        try {
          numbers = ir::instantiate(*original, values);
          ir::instantiate(*graph, values);  // guards that passes and lowering have added
          if (const auto guard = family.refuses(values)) return "refused by " + *guard;
        } catch (const UserError&) {
          continue;
        }
        if (!are_apart(*numbers) || (has_indices(*numbers) && std::ranges::min(values) < 3)) continue;
        std::string how = concat(is_small ? "a small " : "", target.name(), fuse ? ", fused" : "");
        for (const int64_t value : values) how += concat(", ", value);
        loops::Plan plan;
        try {
          std::mt19937 random(7);
          std::vector<Elements> inputs;
          for (const ir::Input& input : numbers->inputs())
            inputs.push_back(test::random_elements(*input.value->type, random));
          plan = family.at(values);
          loops::verify(plan);
          const loops::Plan again = loops::parse_plan(loops::print(plan));
          if (loops::print(again) != loops::print(plan)) return how + ": the plan changed by text";
          const auto wanted = test::interpret(*numbers, inputs);
          std::string differs = test::difference(test::run(plan, inputs), wanted, tolerance);
          if (differs.empty() && !code.empty())
            differs = test::difference(
                test::run(
                    plan, inputs,
                    [&](const loops::KernelStep& step, std::span<const test::Memory> memory,
                        const uint64_t* scalars) { return launch(*code[step.kernel], step, memory, scalars); }),
                wanted, tolerance);
          if (!differs.empty()) return loops::print(plan) + how + ": " + differs;
          ++counts.runs;
        } catch (const std::exception& error) {
          return loops::print(plan) + how + ": " + error.what();
        }
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("cases of the lowering tests, their sizes made symbols, are one plan for all sizes") {
  Counts counts;
  for (const test::LoweringCase& c : test::lowering_cases) {
    const auto numbers = ir::parse(c.text);
    if (!test::is_known(*numbers)) continue;
    CAPTURE(std::string(c.name));
    std::string text;
    try {
      text = ir::print(*test::symbolise(*numbers));
    } catch (const std::exception&) {
      continue;  // numbers that no symbol fits, as of an index
    }
    if (text.find('[') == std::string::npos || ir::parse(text)->find_shape_env() == nullptr) continue;
    const std::string wrong = fault(text, std::max(c.tolerance, 1e-4), true, counts);
    CHECK_MESSAGE(wrong.empty(), text, wrong);
  }
  MESSAGE(counts.plans, " plans, ", counts.runs, " runs, ", counts.refused, " refused");
  CHECK(counts.runs > 300);
}

TEST_CASE("random graphs of symbols are one plan for all sizes") {
  Counts counts;
  for (const bool proved : {true, false})
    for (unsigned seed = 0; seed < 300; ++seed) {
      const std::string text = ir::print(test::RandomSymbolicGraph(seed, proved).graph());
      const std::string wrong = fault(text, 1e-3, seed % 10 == 0, counts);
      REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, "\n", text, "\n", wrong);
    }
  MESSAGE(counts.plans, " plans, ", counts.runs, " runs, ", counts.refused, " refused");
  CHECK(counts.runs > 3000);
  CHECK(counts.refused < 30);
}

namespace {

namespace fs = std::filesystem;

/// tests/symbolic/NAME.graph
std::set<fs::path> graphs() {
  return test::files_in("symbolic", ".graph");
}

std::string graph_text(const fs::path& path) {
  return test::without_comments(test::read_file(path));
}

}  // namespace

TEST_CASE("a family says for which sizes it is, and is made anew for others") {
  const auto graph = ir::parse(graph_text(BRAZE_TEST_DATA "/symbolic/softmax.graph"));
  const auto lowered = [](const ir::Graph& original, std::span<const int64_t> examples) {
    const auto copy = ir::clone(original, examples);
    ir::verify(*copy);
    passes::run(*copy, nullptr, true);
    return loops::lower_symbolic(*copy);
  };
  const std::vector<int64_t> few = {64, 512}, long_rows = {2, 20000}, one = {3, 1};
  const loops::SymbolicPlan first = lowered(*graph, few), second = lowered(*graph, long_rows);
  CHECK(first.refuses(few) == std::nullopt);
  CHECK(first.refuses(long_rows) == "m <= 16384");
  CHECK(second.refuses(long_rows) == std::nullopt);
  CHECK(second.refuses(few) == "m >= 16385");
  CHECK(first.refuses(one) == "m = 1");
  CHECK(ir::print(*ir::clone(*graph, graph->find_shape_env()->examples())) == ir::print(*graph));
}

TEST_CASE("an artifact for all sizes is kept as bytes, which are checked") {
  const auto graph = ir::parse(graph_text(BRAZE_TEST_DATA "/symbolic/windows.graph"));
  passes::run(*graph);
  const Target target(Isa::avx2);
  const loops::SymbolicPlan family = loops::lower_symbolic(*graph, {.targets = {&target}});
  std::vector<const loops::Kernel*> kernels;
  for (const auto& kernel : family.kernels()) kernels.push_back(kernel.get());
  const std::string bytes =
      driver::write_artifact(family, codegen::make_blobs(kernels, {.target = target}), Isa::avx2);
  CHECK(driver::is_artifact(bytes));
  CHECK(!driver::read_artifact(bytes));  // It is none of numbers.
  auto stored = driver::read_symbolic_artifact(bytes);
  REQUIRE(stored);
  CHECK(loops::print(stored->plan) == loops::print(family));
  CHECK(driver::write_artifact(stored->plan, stored->code, stored->isa) == bytes);
  const driver::SymbolicArtifact loaded = driver::load(*std::move(stored));
  for (const std::vector<int64_t>& values : {std::vector<int64_t>{40, 24}, {1, 2}, {7, 100}}) {
    CHECK(loaded.plan.refuses(values) == std::nullopt);
    CHECK(loops::print(loaded.at(values).plan) == loops::print(family.at(values)));
  }
  for (size_t cut = 0; cut < bytes.size(); cut += 97) CHECK(!driver::read_symbolic_artifact(bytes.substr(0, cut)));
  // Damage behind a checksum that fits: nothing is read that is not there.
  constexpr size_t header = 40, isa = 1;
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes;
    for (int k = 0; k < 3; ++k)
      damaged[header + random() % (damaged.size() - header)] ^= static_cast<char>(1 + random() % 255);
    ArchiveReader archive(std::string_view(damaged).substr(header + isa));
    loops::read_symbolic_plan(archive);
  }
}

TEST_CASE("what is wrong in the text of a plan for all sizes is named with its place") {
  const std::string buffers = " #0 = input 0 : f32[n]{1}\n #1 = output 0 : f32[n]{1}\n ";
  const std::pair<std::string, std::string_view> cases[] = {
      {"plan[n = 8, n = 9] {\n return\n}", "a second symbol"},
      {"plan[n = 8 in 9..20] {\n return\n}", "none of the symbol's values"},
      {"plan[n = 8] {\n guard n < 3\n return\n}", "expected a guard"},
      {"plan[n = 8] {\n without anything\n return\n}", "expected 'reuse'"},
      {"plan[n = 8] {\n #0 = input 0 : f32[m]{1}\n return\n}", "no symbol is called m"},
      {"plan[n = 8] {\n #0 = input 0 : f32[n]\n return\n}", "one stride a dimension"},
      {"plan[n = 8] {\n arena 0", "expected 'launch'"},
      {"plan[n = 8] {\n" + buffers + "call 'a'(#0) cat -> #1\n return #1\n}", "expected"},
      {"plan[n = 8] {\n" + buffers + "launch @none(#0) fused=[]\n return #1\n}", "no kernel above"},
      {"plan {\n return\n}", "expected '['"},
  };
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    try {
      loops::parse_symbolic_plan(text);
      FAIL_CHECK("read");
    } catch (const UserError& error) {
      CHECK_MESSAGE(std::string_view(error.what()).find(message) != std::string_view::npos,
                    std::string(error.what()));
      CHECK_MESSAGE(std::string_view(error.what()).starts_with("plan text, line"), std::string(error.what()));
    }
  }
  const auto refused = [](const std::string& text) {
    CHECK_THROWS(loops::verify(loops::parse_symbolic_plan(text)));
  };
  refused("plan[n = 8] {\n guard n >= 9\n" + buffers + "return #1\n}");
  refused("plan[n = 8] {\n" + buffers + "return #0\n}");
  refused("plan[n = 8] {\n" + buffers + "return #1 as f32[n + 1]{1}\n}");
  refused("plan[n = 8] {\n" + buffers + "return #1 as f32[n]{1} + n\n}");
  refused("plan[n = 8] {\n #0 = input 0 : f32[n - 9]{1}\n return\n}");
}

TEST_CASE("a plan for all sizes that was written by hand is one") {
  const std::string text =
      "plan[n = 8 mod 4 == 0, m = 3 in 2..64] {\n"
      "  guard n >= m + 1\n"
      "  without reuse\n"
      "  #0 = input 0 : f32[n,m]{m,1}\n"
      "  #1 = call : f32[n floordiv 4,4*m]{4*m,1}\n"
      "  call 'aten::f'(#0 as f32[n floordiv 4,4*m]{4*m,1}, [size('2*n'), 3], #0 as f32[m]{1} + n*m - m, "
      "quotient(size('n'), size('m - 1'))) -> #1 "
      "cat=3 source='model.py:7'\n"
      "  return #1\n"
      "}\n";
  const loops::SymbolicPlan family = loops::parse_symbolic_plan(text);
  loops::verify(family);
  CHECK(loops::print(family) == text);
  const int64_t values[] = {12, 5};
  CHECK(family.refuses(values) == std::nullopt);
  const std::string numbers = loops::print(family.at(values));
  CHECK(numbers.find("(#0 as f32[3,20], [24, 3], #0 as f32[5] + 55, quotient(12, 4)) -> #1") != std::string::npos);
  const int64_t odd[] = {13, 5}, few[] = {4, 5};
  CHECK(family.refuses(odd) == "n = 13");
  CHECK(family.refuses(few) == "n >= m + 1");
}

TEST_CASE("graphs of symbols are lowered as expected, with the guards that this takes") {
  CHECK(graphs().size() >= 8);
  Counts counts;
  for (const fs::path& path : graphs()) {
    CAPTURE(path.string());
    for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::sm_90}) {
      const Target target(isa);
      const auto graph = ir::parse(graph_text(path));
      passes::run(*graph, nullptr, true);
      const std::string text = loops::print(loops::lower_symbolic(*graph, {.targets = {&target}}));
      const fs::path expected = fs::path(path).replace_extension(target.name());
      CHECK(test::is_expected(text, expected));
    }
    const std::string wrong = fault(graph_text(path), 1e-4, true, counts);
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
  CHECK(counts.refused == 0);
}

namespace {

/// Nanoseconds of all kernels of a plan, at best.
double time_of(const loops::Plan& plan, const std::vector<std::shared_ptr<const codegen::CompiledKernel>>& code) {
  std::vector<std::vector<float>> memory;
  std::vector<void*> address;
  for (const loops::PlanBuffer& buffer : plan.buffers) {
    memory.emplace_back(static_cast<size_t>(buffer.bytes) / 4 + 64, 0.5f);
    const auto first = reinterpret_cast<uintptr_t>(memory.back().data());
    address.push_back(reinterpret_cast<void*>((first + 63) / 64 * 64));
  }
  const std::vector<uint64_t> scalars(16, 0x3f800000);  // 1.0f
  double best = 1e30;
  for (int round = 0; round < 30; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (const loops::Step& step : plan.steps) {
      std::vector<void*> buffers;
      for (const uint32_t buffer : step.kernel.buffers) buffers.push_back(address[buffer]);
      int64_t status = 0;
      for (const codegen::Phase& phase : code[step.kernel.kernel]->phases()) {
        const loops::Extent& count = phase.iterations;
        const int64_t end =
            count.constant + (count.is_constant() ? 0 : count.factor * step.kernel.symbols.at(count.symbol));
        phase.function(buffers.data(), scalars.data(), step.kernel.symbols.data(), 0, end, &status);
      }
    }
    const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, passed.count());
  }
  return best;
}

}  // namespace

TEST_CASE("kernels for all sizes take as long as those for one") {
  // Prints, and judges nothing: times say little on a machine that has other work.
  if (!std::getenv("BRAZE_BANDWIDTH")) return;
  const Target target = Target::host();
  const codegen::CompileOptions options{.target = target, .use_disk_cache = false, .threads = 1};
  const auto compile = [&](const auto& kernels, const std::vector<Hash128>& hashes) {
    std::vector<const loops::Kernel*> pointers;
    for (const auto& kernel : kernels) pointers.push_back(kernel.get());
    return codegen::compile(pointers, hashes, options);
  };
  for (const fs::path& path : graphs()) {
    const auto graph = ir::parse(graph_text(path)), traced = ir::parse(graph_text(path));
    passes::run(*graph);
    const loops::SymbolicPlan family = loops::lower_symbolic(*graph, {.targets = {&target}});
    const auto code = compile(family.kernels(), family.kernel_hashes());
    for (const int64_t scale : {1, 3, 8}) {
      std::vector<int64_t> values;
      for (const int64_t example : graph->find_shape_env()->examples())
        values.push_back(example * scale + scale / 2);
      const loops::Plan plan = family.at(values);
      const auto numbers = ir::instantiate(*traced, values);
      passes::run(*numbers);
      const loops::Plan fixed = loops::lower(*numbers, {.targets = {&target}});
      const auto fixed_code = compile(fixed.kernels, fixed.kernel_hashes);
      double times[2] = {1e30, 1e30};
      for (int turn = 0; turn < 5; ++turn) {
        times[0] = std::min(times[0], time_of(fixed, fixed_code));
        times[1] = std::min(times[1], time_of(plan, code));
      }
      const auto begin = std::chrono::steady_clock::now();
      for (int k = 0; k < 100; ++k) family.at(values);
      const std::chrono::duration<double, std::micro> binding = std::chrono::steady_clock::now() - begin;
      MESSAGE(path.stem().string(), " x", scale, ": ", times[0] / 1000, " us for one size, ", times[1] / 1000,
              " us for all, ratio ", times[1] / times[0], "; at() takes ", binding.count() / 100, " us");
    }
  }
}
