// Schedules of a GPU with other figures than its own.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "ir/text.h"
#include "loops/plan.h"
#include "loops/schedule/gpu/tuning.h"
#include "passes/pipeline.h"
#include "support/error.h"
#include "test_files.h"

using namespace braze;
using loops::gpu::Tuning;

namespace {

const Target& gpu() {
  return Target::hopper();
}

loops::Plan lowered(const std::filesystem::path& path, const Target& target) {
  const auto graph = ir::parse(test::without_comments(test::read_file(path)));
  passes::run(*graph);
  return loops::lower(*graph, {.targets = {&target}});
}

Target with(std::string_view text) {
  return loops::gpu::tuned(gpu(), loops::gpu::parse_tuning(text, Tuning::of(gpu())));
}

}  // namespace

TEST_CASE("the default tuning is what the target's figures choose") {
  CHECK(loops::gpu::print(Tuning::of(gpu())) == "threads=auto vector=32 vectors=4 kept=64 rows=auto cluster=65536");
  CHECK(loops::gpu::tuned(gpu(), Tuning::of(gpu())) == gpu());
  CHECK(loops::gpu::candidates(gpu()).front() == Tuning::of(gpu()));
}

TEST_CASE("a tuning that is printed is read again") {
  std::set<Tuning> all;
  for (const Tuning& tuning : loops::gpu::candidates(gpu())) {
    CHECK(loops::gpu::parse_tuning(loops::gpu::print(tuning), Tuning()) == tuning);
    CHECK(all.insert(tuning).second);
  }
  CHECK(all.size() >= 6);
  CHECK(all.size() <= 22);
}

TEST_CASE("a tuning that no machine runs, or that is none, is an error") {
  for (const char* text : {"threads=2048", "threads=96", "vector=3", "vector=128", "vectors=0", "kept=65",
                           "kept=-1", "rows=some", "cluster=-1", "threads", "threads=x", "warps=4"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(with(text), UserError);
  }
  CHECK_THROWS_AS(loops::gpu::tuned(Target(Isa::avx2), Tuning::of(gpu())), UserError);
}

TEST_CASE("every candidate gives kernels that are well formed, and some are others than the default's") {
  int different = 0;
  for (const auto& path : test::files_in("targets", ".graph")) {
    CAPTURE(path.string());
    const std::string usual = loops::print(lowered(path, gpu()));
    std::set<std::string> texts;
    for (const Tuning& tuning : loops::gpu::candidates(gpu())) {
      CAPTURE(loops::gpu::print(tuning));
      const loops::Plan plan = lowered(path, loops::gpu::tuned(gpu(), tuning));
      for (const auto& kernel : plan.kernels) loops::verify(*kernel);
      texts.insert(loops::print(plan));
    }
    CHECK(texts.contains(usual));
    different += texts.size() > 1 ? 1 : 0;
  }
  CHECK(different >= 8);
}

TEST_CASE("rows are a warp's or a block's as the tuning says") {
  const auto path = std::filesystem::path(BRAZE_TEST_DATA) / "targets" / "softmax.graph";
  CHECK(loops::print(lowered(path, gpu())).find("bind=warp") != std::string::npos);
  CHECK(loops::print(lowered(path, with("rows=warp"))) == loops::print(lowered(path, gpu())));
  CHECK(loops::print(lowered(path, with("rows=block"))).find("bind=warp") == std::string::npos);
}

TEST_CASE("a long row is a cluster's as the tuning says") {
  const auto path = std::filesystem::path(BRAZE_TEST_DATA) / "targets" / "long_rows.graph";
  CHECK(loops::print(lowered(path, gpu())).find("bind=block cluster=4") != std::string::npos);
  CHECK(loops::print(lowered(path, with("cluster=8192"))).find("bind=block cluster=8") != std::string::npos);
  CHECK(loops::print(lowered(path, with("cluster=0"))).find("cluster") == std::string::npos);
}
