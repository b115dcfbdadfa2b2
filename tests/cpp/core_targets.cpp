// The same graphs lowered for every target, as text: tests/targets/NAME.graph gives NAME.avx2 and so on. A change
// that is meant is written there by BRAZE_WRITE_EXPECTED=1.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "target/target.h"

using namespace braze;

namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<fs::path> graphs() {
  std::set<fs::path> found;
  for (const auto& entry : fs::directory_iterator(BRAZE_TEST_DATA "/targets"))
    if (entry.path().extension() == ".graph") found.insert(entry.path());
  return found;
}

std::string without_comments(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("//")) kept += line + "\n";
  return kept;
}

std::shared_ptr<ir::Graph> prepared(const fs::path& path) {
  std::shared_ptr<ir::Graph> graph = ir::parse(without_comments(read_file(path)));
  passes::run(*graph);
  return graph;
}

constexpr Isa isas[] = {Isa::avx2, Isa::avx512, Isa::sm_90};

}  // namespace

TEST_CASE("graphs are lowered for each target as expected") {
  CHECK(graphs().size() >= 8);
  for (const fs::path& path : graphs())
    for (const Isa isa : isas) {
      const Target target(isa);
      const loops::Plan plan = loops::lower(*prepared(path), {.targets = {&target}});
      for (const auto& kernel : plan.kernels) loops::verify(*kernel);
      const std::string text = loops::print(plan);
      const fs::path expected = fs::path(path).replace_extension(target.name());
      if (std::getenv("BRAZE_WRITE_EXPECTED")) std::ofstream(expected) << text;
      CAPTURE(expected.string());
      CHECK(text == read_file(expected));
    }
}

TEST_CASE("kernels of a GPU and of a CPU never share a hash") {
  for (const fs::path& path : graphs()) {
    std::set<std::string> cpu;
    const Target avx2 = Isa::avx2, sm_90 = Isa::sm_90;
    for (const Hash128& hash : loops::lower(*prepared(path), {.targets = {&avx2}}).kernel_hashes)
      cpu.insert(hash.hex());
    for (const Hash128& hash : loops::lower(*prepared(path), {.targets = {&sm_90}}).kernel_hashes)
      CHECK(!cpu.contains(hash.hex()));
  }
}
