// Code for GPUs, as text: what kernels of the graphs in tests/targets and of random graphs become, and, where ptxas
// is on the path, that it assembles.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "codegen/capabilities.h"
#include "codegen/compiler.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "loops/symbolic_plan.h"
#include "lowering_cases.h"
#include "passes/pipeline.h"
#include "random_graph.h"
#include "test_files.h"

using namespace braze;

namespace {

namespace fs = std::filesystem;

std::string graph_text(const std::string& name) {
  std::ifstream file(fs::path(BRAZE_TEST_DATA "/targets") / (name + ".graph"));
  std::string kept;
  for (std::string line; std::getline(file, line);)
    if (!line.starts_with("//")) kept += line + "\n";
  return kept;
}

/// PTX of each kernel that the graph needs.
std::vector<std::string> ptx_of(const std::string& text, const Target& target) {
  const std::shared_ptr<ir::Graph> graph = ir::parse(text);
  passes::run(*graph);
  std::vector<std::string> ptx;
  const Target gpu(Isa::sm_90);
  for (const auto& kernel : loops::lower(*graph, {.targets = {&target}}).kernels)
    ptx.push_back(codegen::assembly(*kernel, gpu));
  return ptx;
}
std::vector<std::string> ptx_of(const std::string& text) {
  return ptx_of(text, Target(Isa::sm_90));
}

bool has_ptxas() {
  static const bool found = std::system("command -v ptxas > /dev/null 2>&1") == 0;
  return found;
}

/// What ptxas says of some PTX that is wrong; "" if it assembles without spilling registers (or is not there).
std::string complaint(const std::string& ptx) {
  if (!has_ptxas()) return "";
  const fs::path folder = fs::temp_directory_path() / concat("braze_ptx_", getpid());
  fs::create_directories(folder);
  std::ofstream(folder / "kernel.ptx") << ptx;
  const std::string command =
      concat("cd ", folder.string(), " && ptxas -v -arch=sm_90 kernel.ptx -o kernel.cubin > said 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream file(folder / "said");
  std::stringstream said;
  said << file.rdbuf();
  fs::remove_all(folder);
  const bool spills = said.str().find("bytes stack frame") != std::string::npos &&
                      said.str().find(" 0 bytes stack frame") == std::string::npos;
  return status == 0 && !spills ? "" : concat(said.str(), "\n", ptx);
}

bool contains(const std::vector<std::string>& texts, const char* what) {
  return std::ranges::any_of(texts, [&](const std::string& text) { return text.find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("kernels for a GPU move 128 bits at a time and assemble") {
  for (const char* name : {"pointwise", "softmax", "layer_norm", "full_sum", "column_sum", "softmax_columns",
                           "transpose", "cat", "gather", "scatter"}) {
    CAPTURE(std::string(name));
    const auto ptx = ptx_of(graph_text(name));
    CHECK(!ptx.empty());
    for (const std::string& text : ptx) {
      const std::string wrong = complaint(text);
      CHECK_MESSAGE(wrong.empty(), wrong);
      CHECK(text.find("st.local") == std::string::npos);
    }
  }
  for (const char* name : {"pointwise", "softmax", "full_sum", "cat", "gather"})
    CHECK(contains(ptx_of(graph_text(name)), "ld.global.nc.v4.f32"));
  for (const char* name : {"pointwise", "softmax", "cat", "gather"})
    CHECK(contains(ptx_of(graph_text(name)), "st.global.v4.f32"));
  const auto layer_norm = ptx_of(graph_text("layer_norm"));
  CHECK(contains(layer_norm, "ld.global.nc.v4.u32"));  // eight bf16
  CHECK(contains(layer_norm, "cvt.rn.bf16x2.f32"));
  CHECK(contains(layer_norm, "shfl.sync.bfly.b32"));
  CHECK(contains(ptx_of(graph_text("scatter")), "atom.global.add.f32"));
}

TEST_CASE("memory that need not be aligned is moved element by element where the text alone is relied on") {
  const std::shared_ptr<ir::Graph> graph = ir::parse(graph_text("pointwise"));
  passes::run(*graph);
  const Target gpu(Isa::sm_90);
  const loops::Plan plan = loops::lower(*graph, {.targets = {&gpu}});
  codegen::CompileOptions options;
  options.target = gpu;
  options.use_disk_cache = false;
  const auto code = codegen::compile({{plan.kernels[0].get()}}, {{plan.kernel_hashes[0]}}, options)[0];
  CHECK(code->phases().empty());
  REQUIRE(code->gpu_phases().size() == 1);
  CHECK(code->gpu_phases()[0].threads == 256);
  CHECK(code->gpu_phases()[0].blocks == loops::Extent(4096));
  CHECK(code->alignments() == std::vector<uint32_t>{16, 16, 16, 16});
  const auto unaligned = code->unaligned();
  REQUIRE(unaligned);
  // The result is the planner's own memory, and aligned in any case.
  CHECK(
      std::ranges::all_of(std::span(unaligned->alignments()).first(3), [](uint32_t bytes) { return bytes <= 4; }));
}

TEST_CASE("rows of any length that a block keeps, in registers and beyond") {
  for (const int length : {7, 1000, 4100, 16388, 17000, 20000, 20480, 30000, 32772}) {
    CAPTURE(length);
    for (const char* type : {"f32", "bf16"}) {
      const std::string row = concat(type, "[64,", length, "]");
      for (const std::string& text :
           ptx_of(concat("graph @rows(%x: ", row, ") {\n  %0 = softmax %x, dim=1 : ", row, "\n  return %0\n}\n"))) {
        const std::string wrong = complaint(text);
        CHECK_MESSAGE(wrong.empty(), wrong);
      }
    }
  }
}

TEST_CASE("a product of several uses is rounded once, and one of a single use fused with its sum") {
  const auto shared = ptx_of(R"(
graph @difference(%x: f32[64]) {
  %0 = mul %x, %x : f32[64]
  %1 = sub %0, %0 : f32[64]
  return %1, %0
})");
  CHECK(contains(shared, "mul.rn.f32"));
  CHECK(!contains(shared, "fma.rn.f32"));
  const auto single = ptx_of(R"(
graph @sum(%x: f32[64], %y: f32[64]) {
  %0 = mul %x, %x : f32[64]
  %1 = add %0, %y : f32[64]
  return %1
})");
  CHECK(contains(single, "fma.rn.f32"));
}

TEST_CASE("extremes of floats are CUDA's: 0 is above -0, and NaN stays") {
  for (const char* type : {"f32", "bf16", "f16"}) {
    CAPTURE(type);
    const auto relu =
        ptx_of(concat("graph @relu(%x: ", type, "[64]) {\n  %0 = relu %x : ", type, "[64]\n  return %0\n}\n"));
    CHECK(contains(relu, "max.NaN.f"));
  }
  CHECK(contains(ptx_of("graph @relu(%x: f64[64]) {\n  %0 = relu %x : f64[64]\n  return %0\n}\n"), "max.f64"));
}

TEST_CASE("every case of lowering becomes code for a GPU") {
  const Target gpus[] = {Isa::sm_90, test::small_gpu()};
  for (const test::LoweringCase& c : test::lowering_cases)
    for (const Target& gpu : gpus) {
      CAPTURE(std::string(c.name));
      for (const std::string& text : ptx_of(c.text, gpu)) CHECK(text.find(".visible .entry") != std::string::npos);
    }
}

TEST_CASE("graphs of symbols become code for a GPU, with grids that launches count") {
  const Target gpu(Isa::sm_90);
  codegen::CompileOptions options;
  options.target = gpu;
  options.use_disk_cache = false;
  size_t counted = 0;
  for (const fs::path& path : test::files_in("symbolic", ".graph")) {
    CAPTURE(path.string());
    const std::shared_ptr<ir::Graph> graph = ir::parse(test::without_comments(test::read_file(path)));
    passes::run(*graph);
    const loops::SymbolicPlan family = loops::lower_symbolic(*graph, {.targets = {&gpu}});
    std::vector<const loops::Kernel*> kernels;
    for (const auto& kernel : family.kernels()) {
      kernels.push_back(kernel.get());
      const std::string wrong = complaint(codegen::assembly(*kernel, gpu));
      CHECK_MESSAGE(wrong.empty(), wrong);
    }
    for (const auto& code : codegen::compile(kernels, family.kernel_hashes(), options))
      for (const codegen::GpuPhase& phase : code->gpu_phases()) counted += !phase.blocks.is_constant();
  }
  CHECK(counted > 8);
}

TEST_CASE("random graphs become code for a GPU that assembles") {
  const char* asked = std::getenv("BRAZE_RANDOM_GRAPHS");
  const uint32_t count = asked ? static_cast<uint32_t>(std::atoi(asked)) : 12;
  for (uint32_t seed = 0; seed < count; ++seed)
    for (const std::string& text : ptx_of(ir::print(*test::RandomGraph(seed).graph()))) {
      const std::string wrong = complaint(text);
      REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, "\n", wrong);
    }
}
