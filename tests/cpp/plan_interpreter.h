// tests/cpp/plan_interpreter.h: runs plans over memory of its own, kernels by walking them (interpret.h): the
// oracle of lowering, and of plans that were read from text or bytes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph_interpreter.h"
#include "loops/plan.h"

namespace braze::test {

/// The elements of the plan's results, then of what its mutated inputs hold afterwards, in order.
/// \param inputs  The elements of each graph input.
/// \throws InternalError on an access outside of memory, and on library calls other than matrix products.
std::vector<Elements> run(const loops::Plan& plan, const std::vector<Elements>& inputs);

/// Memory of a kernel's parameter, from its first element on; walks that go backwards reach what lies before.
struct Memory {
  char* data;
  int64_t bytes;
  int64_t before = 0;
};
/// Runs the kernel of a step in another way than by walking it. Returns its status.
using Launcher =
    std::function<int64_t(const loops::KernelStep& step, std::span<const Memory>, const uint64_t* scalars)>;
/// As above, kernels by `launcher`.
std::vector<Elements> run(const loops::Plan& plan, const std::vector<Elements>& inputs, const Launcher& launcher);

}  // namespace braze::test
