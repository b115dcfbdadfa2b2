// Random graphs whose sizes are expressions, through the pipeline: it must agree with the graph as it was at sizes
// other than the examples, 0 and 1 among them. Graphs of nodes whose sizes are proved to fit have no guards, before
// or after; graphs of any nodes that fit for the examples agree at all sizes that keep their guards.
#include <doctest/doctest.h>

#include "graph_interpreter.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "random_symbolic_graph.h"

using namespace braze;
using namespace braze::ir;

TEST_CASE("random graphs of symbols agree through the pipeline at all sizes") {
  for (const bool proved : {true, false}) {
    size_t computed = 0, removed = 0, guarded = 0;
    for (unsigned seed = 0; seed < 300; ++seed) {
      const test::RandomSymbolicGraph random(seed, proved);
      verify(random.graph());
      const std::string text = print(random.graph());
      const auto before = parse(text), after = parse(text);
      REQUIRE(print(*before) == text);
      REQUIRE(exact_hash(*before) == exact_hash(random.graph()));
      const size_t guards = before->find_shape_env()->guards().size();
      if (proved) REQUIRE(guards == 0);
      guarded += guards != 0;
      passes::run(*after, nullptr, true);
      CHECK(after->find_shape_env()->guards().size() == guards);
      removed += before->node_count() != after->node_count();
      const auto difference = test::compare_at_sizes(*before, *after, &computed);
      CHECK_MESSAGE(!difference, "seed ", seed, ": ", difference.value_or(""), "\n", text, "became\n",
                    print(*after));
    }
    CHECK(removed > 200);
    CHECK(computed > (proved ? 3000 : 1000));
    CHECK((guarded > 150) == !proved);
  }
}
