// How many floating operations kernels and library calls are.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "loops/operations.h"

using namespace braze;
using namespace braze::loops;

TEST_CASE("arithmetic of a kernel: elements and what reductions take in") {
  const auto kernel = parse_kernel(R"(
kernel @k(%x: f32[64] in, %i: i64[64] in, %y: f32[64] out, $a: f32, #n) {
  for %r in 0..#n parallel {
    %s = scalar $a
    %m = for %j in 0..8 vector reduce max {
      %a = load %x[8*%r + %j] : f32
      yield %a
    }
    for %j in 0..8 step 2 {
      %a = load %x[8*%r + %j] : f32
      %b = mul %a, %s : f32
      %c = sub %b, %m : f32
      %d = exp %c : f32
      %e = lt %d, %s : bool
      %f = where %e, %d, %s : f32
      %g = load %i[%j] : i64
      %h = add %g, %g : i64
      store %y[8*%r + %j], %f
    }
  }
}
)");
  // A row: 8 maxima, and 4 steps of mul, sub and exp.
  CHECK(floating_operations(*kernel, std::vector<int64_t>{5}) == 5 * (8 + 4 * 3));
  CHECK(floating_operations(*kernel, std::vector<int64_t>{0}) == 0);
}

namespace {

int64_t of_call(const std::string& call, const std::string& buffers) {
  const Plan plan = parse_plan("plan {\n  arena 0 unplanned 0\n" + buffers + "  " + call + "\n}\n");
  return floating_operations(plan, plan.steps.at(0));
}

}  // namespace

TEST_CASE("library calls: products, convolutions, attention, and none for the rest") {
  const auto buffers = [](const std::string& a, const std::string& b, const std::string& c,
                          const std::string& result) {
    return "  #0 = input 0 : f32[" + a + "]\n  #1 = input 1 : f32[" + b + "]\n  #2 = input 2 : f32[" + c +
           "]\n  #3 = output 0 : f32[" + result + "]\n";
  };
  const std::string end = " into -> #3\n  return #3";
  CHECK(of_call("call 'aten::mm'(#0, #1)" + end, buffers("4,8", "8,3", "1", "4,3")) == 2 * 4 * 8 * 3);
  CHECK(of_call("call 'aten::addmm'(#2, #0, #1, 1.0, 1.0)" + end, buffers("4,8", "8,3", "3", "4,3")) ==
        2 * 4 * 8 * 3);
  CHECK(of_call("call 'aten::bmm'(#0, #1)" + end, buffers("5,4,8", "5,8,3", "1", "5,4,3")) == 2 * 5 * 4 * 8 * 3);
  CHECK(of_call("call 'aten::mv'(#0, #1)" + end, buffers("4,8", "8", "1", "4")) == 2 * 4 * 8);
  CHECK(of_call("call 'aten::convolution'(#0, #1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)" + end,
                buffers("2,3,6,6", "5,3,3,3", "1", "2,5,4,4")) == 2 * (2 * 5 * 4 * 4) * (3 * 3 * 3));
  CHECK(of_call("call 'aten::scaled_dot_product_attention'(#0, #1, #2, none, 0.0, false)" + end,
                buffers("2,3,4,8", "2,3,6,8", "2,3,6,5", "2,3,4,5")) == 2 * 6 * 4 * 6 * 8 + 2 * 6 * 4 * 6 * 5);
  CHECK(of_call("call 'aten::sort'(#0, -1, false)" + end, buffers("4,8", "8,3", "1", "4,8")) == 0);
}
