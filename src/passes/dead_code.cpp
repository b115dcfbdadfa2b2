#include "passes/dead_code.h"

#include <algorithm>
#include <vector>

namespace braze::passes {

using namespace ir;

void dead_code(Graph& graph) {
  std::vector<bool> live(graph.value_limit());
  const auto mark = [&](const Value* value) { live[value->id] = true; };
  for (const Value* output : graph.outputs()) mark(output);
  for (const Mutation& mutation : graph.mutations()) mark(mutation.value);

  // Uses come after definitions, so one walk from the end sees every use before the definition.
  for (Node *node = graph.last(), *previous; node; node = previous) {
    previous = node->previous;
    const bool needed = node->has_effect() ||
                        std::ranges::any_of(node->results, [&](const Value& result) { return live[result.id]; });
    if (needed)
      std::ranges::for_each(node->operands, mark);
    else
      graph.erase(node);
  }
}

}  // namespace braze::passes
