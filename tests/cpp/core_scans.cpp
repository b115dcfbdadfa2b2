// Scans: which loops there are around the serial one.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"

using namespace braze;

namespace {

/// The loops of the plan of `%0 = cumsum %x, dim=dim` without names of values, "in 0..8 step 4 parallel grain=512".
std::vector<std::string> loops_of(const std::string& shape, int dim) {
  std::shared_ptr<ir::Graph> graph =
      ir::parse("graph @main(%x: f32" + shape + ") {\n %0 = cumsum %x, dim=" + std::to_string(dim) + " : f32" +
                shape + "\n return %0\n}");
  passes::run(*graph);
  const std::string plan = loops::print(loops::lower(*graph));
  std::vector<std::string> found;
  for (size_t at = plan.find("for %"); at != std::string::npos; at = plan.find("for %", at + 1)) {
    const size_t first = plan.find("in ", at);
    std::string loop = plan.substr(first, plan.find(" {", first) - first);
    if (const size_t reduce = loop.find(" reduce"); reduce != std::string::npos) {
      int runs = 0;
      for (size_t run = loop.find("serial("); run != std::string::npos; run = loop.find("serial(", run + 1)) ++runs;
      loop = loop.substr(0, reduce) + ", " + std::to_string(runs) + " runs";
    }
    found.push_back(loop);
  }
  return found;
}

using Loops = std::vector<std::string>;

}  // namespace

TEST_CASE("rows that are scanned along themselves go four at a time") {
  CHECK(loops_of("[8,64]", 1) == Loops{"in 0..8 step 4 parallel grain=16", "in 0..64, 4 runs"});
  CHECK(loops_of("[6,64]", 1) == Loops{"in 0..4 step 4 parallel grain=16", "in 0..64, 4 runs",
                                       "in 4..6 parallel grain=16", "in 0..64, 1 runs"});
  CHECK(loops_of("[2,1,9]", 2) == Loops{"in 0..2 step 2 parallel grain=227", "in 0..9, 2 runs"});
  CHECK(loops_of("[3,4,9]", 2) == Loops{"in 0..3 parallel grain=113", "in 0..4 step 4", "in 0..9, 4 runs"});
}

TEST_CASE("what is scanned across rows has them in lanes, and a single row is one run") {
  CHECK(loops_of("[9,32]", 0) == Loops{"in 0..32 parallel grain=1824 vector", "in 0..9, 1 runs"});
  CHECK(loops_of("[100]", 0) == Loops{"in 0..1", "in 0..100, 1 runs"});
}
