#include "capture/size_signs.h"

#include <unordered_set>

namespace braze::capture {

void guard_signs(const ir::Graph& graph, ir::ShapeEnv& env) {
  std::unordered_set<uint64_t> seen;
  ir::for_each_node(graph, [&](const ir::Node* node) {
    for (const ir::Value& result : node->results)
      for (const ir::Size size : result.type->sizes.symbolic())
        if (!size.is_constant() && seen.insert(size.bits()).second)
          env.decide(ir::at_least(size, 0), "a size that is not negative");
  });
}

}  // namespace braze::capture
