// Graphs whose sizes are expressions, lowered once: their plans, and the machine code of their kernels, must
// compute what the graph of numbers does, at sizes other than the examples, 0 and 1 among them.
#include <doctest/doctest.h>

#include <random>

#include "codegen/compiler.h"
#include "ir/instantiate.h"
#include "ir/text.h"
#include "loops/symbolic_plan.h"
#include "lowering_cases.h"
#include "passes/pipeline.h"
#include "plan_interpreter.h"
#include "random_symbolic_graph.h"
#include "support/error.h"
#include "symbolise.h"

using namespace braze;
using test::Elements;

namespace {

struct Counts {
  size_t plans = 0, runs = 0, refused = 0;
};

bool host_has(Isa isa) {
  return isa == Isa::avx2 || Target::host().isa == Isa::avx512;
}

/// Machine code, all phases of a kernel in pieces.
int64_t launch(const codegen::CompiledKernel& code, const loops::KernelStep& step,
               std::span<const test::Memory> memory, const uint64_t* scalars) {
  std::vector<void*> buffers;
  for (const test::Memory& piece : memory) buffers.push_back(piece.data);
  int64_t status = 0;
  for (const codegen::Phase& phase : code.phases()) {
    const loops::Extent& extent = phase.iterations;
    const int64_t count =
        extent.constant + (extent.is_constant() ? 0 : extent.factor * step.symbols.at(extent.symbol));
    const int64_t piece = std::max<int64_t>(1, phase.parallel ? (count + 2) / 3 : count);
    phase.function(buffers.data(), scalars, step.symbols.data(), 0, 0, &status);
    for (int64_t begin = 0; begin < count; begin += piece)
      phase.function(buffers.data(), scalars, step.symbols.data(), begin, std::min(begin + piece, count), &status);
  }
  return status;
}

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

/// No two elements of an input are one: a caller's tensors may, but the oracle has them apart.
bool are_apart(const ir::Graph& graph) {
  return std::ranges::all_of(graph.inputs(), [](const ir::Input& input) {
    const ir::Type& type = *input.value->type;
    std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
    for (size_t k = 0; k < type.sizes.size(); ++k)
      if (type.sizes[k] > 1) dims.emplace_back(type.strides[k], type.sizes[k]);
    std::ranges::sort(dims);
    int64_t inside = 0;
    for (const auto& [stride, size] : dims) {
      if (stride <= inside) return false;
      inside += stride * (size - 1);
    }
    return true;
  });
}

/// Indices among the inputs are below 3.
bool has_indices(const ir::Graph& graph) {
  bool found = false;
  ir::for_each_node(graph, [&](const ir::Node* node) {
    const ir::OpKind kind = ir::info(node->op).kind;
    found = found || kind == ir::OpKind::Gather || kind == ir::OpKind::Update;
  });
  return found;
}

/// Says what is wrong with the plan, its results or those of its machine code, or "".
std::string fault(const std::string& text, double tolerance, bool machine_code, Counts& counts) {
  const auto original = ir::parse(text);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    const Target target(isa);
    for (const bool fuse : {true, false}) {
      if (isa == Isa::avx512 && !fuse) continue;
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
      std::vector<const loops::Kernel*> kernels;
      for (const auto& kernel : family.kernels()) {
        loops::verify(*kernel);
        kernels.push_back(kernel.get());
        if (loops::structural_hash(*loops::parse_kernel(loops::print(*kernel))) != loops::structural_hash(*kernel))
          return "a kernel changed by text:\n" + loops::print(*kernel);
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
        } catch (const UserError&) {
          continue;
        }
        if (!are_apart(*numbers) || (has_indices(*numbers) && std::ranges::min(values) < 3)) continue;
        std::string how = concat(target.name(), fuse ? ", fused" : "");
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
