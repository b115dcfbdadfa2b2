// The same graphs lowered for every target, as text: tests/targets/NAME.graph gives NAME.avx2 and so on. A change
// that is meant is written there by BRAZE_WRITE_EXPECTED=1.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "target/target.h"
#include "test_files.h"

using namespace braze;

namespace {

namespace fs = std::filesystem;

std::shared_ptr<ir::Graph> prepared(const fs::path& path) {
  std::shared_ptr<ir::Graph> graph = ir::parse(test::without_comments(test::read_file(path)));
  passes::run(*graph);
  return graph;
}

constexpr Isa isas[] = {Isa::avx2, Isa::avx512, Isa::sm_90};

}  // namespace

TEST_CASE("graphs are lowered for each target as expected") {
  CHECK(test::files_in("targets", ".graph").size() >= 8);
  for (const fs::path& path : test::files_in("targets", ".graph"))
    for (const Isa isa : isas) {
      const Target target(isa);
      const loops::Plan plan = loops::lower(*prepared(path), {.targets = {&target}});
      for (const auto& kernel : plan.kernels) loops::verify(*kernel);
      const std::string text = loops::print(plan);
      const fs::path expected = fs::path(path).replace_extension(target.name());
      CAPTURE(expected.string());
      CHECK(test::is_expected(text, expected));
    }
}

TEST_CASE("kernels of a GPU and of a CPU never share a hash") {
  for (const fs::path& path : test::files_in("targets", ".graph")) {
    std::set<std::string> cpu;
    const Target avx2 = Isa::avx2, sm_90 = Isa::sm_90;
    for (const Hash128& hash : loops::lower(*prepared(path), {.targets = {&avx2}}).kernel_hashes)
      cpu.insert(hash.hex());
    for (const Hash128& hash : loops::lower(*prepared(path), {.targets = {&sm_90}}).kernel_hashes)
      CHECK(!cpu.contains(hash.hex()));
  }
}
