// tests/cpp/lowering_cases.h: graphs for tests that lower and run them, and what these share.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "graph_interpreter.h"
#include "interpret.h"
#include "support/error.h"
#include "target/target.h"

namespace braze::test {

/// Numbers as an input of `dtype` holds them; integers are small, so that they can be indices.
inline Elements random_elements(const ir::Type& type, std::mt19937& random) {
  Elements elements;
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < type.numel(); ++i) {
    double value = ir::is_floating(type.dtype) ? normal(random) : static_cast<double>(random() % 3);
    if (type.dtype == ir::DType::b8) value = value > 0;
    char memory[8];
    loops::oracle::write_element(memory, type.dtype, 0, ir::Number::of(value));
    elements.push_back(loops::oracle::read_element(memory, type.dtype, 0).as_double());
  }
  return elements;
}

inline bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= tolerance * std::max(1.0, std::max(std::fabs(a), std::fabs(b)));
}

/// Where two lists of results differ first, or "".
inline std::string difference(const std::vector<Elements>& found, const std::vector<Elements>& wanted,
                              double tolerance) {
  if (found.size() != wanted.size()) return concat(found.size(), " results, not ", wanted.size());
  for (size_t k = 0; k < found.size(); ++k) {
    if (found[k].size() != wanted[k].size()) return concat("result ", k, " has ", found[k].size(), " elements");
    for (size_t i = 0; i < found[k].size(); ++i)
      if (!close(found[k][i], wanted[k][i], tolerance))
        return concat("result ", k, ", element ", i, ": ", found[k][i], ", not ", wanted[k][i]);
  }
  return "";
}

/// The graph's interpreter knows all of its ops.
inline bool is_known(const ir::Graph& graph) {
  bool known = can_interpret(graph);
  ir::for_each_node(graph, [&](const ir::Node* node) {
    known = known && node->op != ir::Op::argmax && node->op != ir::Op::argmin;
  });
  return known;
}

/// A GPU so small that graphs of a few elements need several blocks, warps and chunks.
inline Target small_gpu() {
  Target target(Isa::sm_90);
  target.short_axis = 2;
  target.wide_reduction = 64;
  GpuLimits& gpu = target.gpu;
  gpu.warp = gpu.tile_side = 4;
  gpu.most_threads = 32;
  gpu.shared_bytes = (4 << 10) + 256;
  gpu.multiprocessors = 3;
  gpu.block_threads = 8;
  gpu.least_threads = 8;
  gpu.warp_row = 16;
  gpu.thread_rows = 4;
  gpu.cluster_row = 24;
  gpu.most_cluster = 2;
  gpu.kept = 2;
  gpu.registers = 64 * 32;
  gpu.least_chunk = 16;
  return target;
}

struct LoweringCase {
  const char* name;
  const char* text;
  double tolerance = 1e-5;
};

inline const LoweringCase lowering_cases[] = {
    {"one op", "graph @g(%x: f32[5,7]) {\n %0 = exp %x : f32[5,7]\n return %0\n}"},
    {"no elements", "graph @g(%x: f32[0,7]) {\n %0 = exp %x : f32[0,7]\n return %0\n}"},
    {"a sum of nothing",
     "graph @g(%x: f32[0]) {\n %0 = mul %x, %x : f32[0]\n %1 = sum %0, dims=[0] keepdim=false : f32[]\n"
     " %2 = sqrt %1 : f32[]\n return %2\n}"},
    {"sums over dimensions of nothing",
     "graph @g(%x: f32[5,0], %y: f32[0,6], %z: f32[4,0,3]) {\n %0 = sum %x, dims=[1] keepdim=false : f32[5]\n"
     " %1 = sum %y, dims=[0] keepdim=true : f32[1,6]\n %2 = sum %z, dims=[0,1] keepdim=false : f32[3]\n"
     " %3 = sum %z, dims=[0,1,2] keepdim=false : f32[]\n %4 = prod %z, dims=[1,2] keepdim=true : f32[4,1,1]\n"
     " return %0, %1, %2, %3, %4\n}"},
    {"sums of rows of which there are none",
     "graph @g(%x: f32[0,6]) {\n %0 = sum %x, dims=[1] keepdim=true : f32[0,1]\n %1 = div %x, %0 : f32[0,6]\n"
     " %2 = sum %1, dims=[1] keepdim=false : f32[0]\n return %1, %2\n}"},
    {"no dimensions", "graph @g(%x: f32[]) {\n %0 = exp %x : f32[]\n return %0\n}"},
    {"sum of nothing", "graph @g(%x: f32[4,0]) {\n %0 = sum %x, dims=[1] keepdim=false : f32[4]\n return %0\n}"},
    {"broadcast",
     "graph @g(%x: f32[6,1,9], %y: f32[8,1], %z: f32[]) {\n %0 = add %x, %y : f32[6,8,9]\n %1 = mul %0, %z : "
     "f32[6,8,9]\n return %1\n}"},
    {"types",
     "graph @g(%x: bf16[33], %y: f16[33], %i: i64[33], %b: bool[33]) {\n"
     " %0 = cast %x : f32[33]\n %1 = cast %y : f32[33]\n %2 = add %0, %1 : f32[33]\n %3 = cast %2 : bf16[33]\n"
     " %4 = cast %i : i32[33]\n %5 = neg %4 : i32[33]\n %6 = cast %b : f32[33]\n %7 = mul %6, %2 : f32[33]\n"
     " return %3, %5, %7\n}"},
    {"comparisons",
     "graph @g(%x: f32[40], %y: f32[40]) {\n %0 = lt %x, %y : bool[40]\n %1 = logical_not %0 : bool[40]\n"
     " %2 = where %0, %x, %y : f32[40]\n %3 = maximum %x, %y : f32[40]\n return %0, %1, %2, %3\n}"},
    {"softmax", "graph @g(%x: f32[6,33]) {\n %0 = softmax %x, dim=1 : f32[6,33]\n return %0\n}"},
    {"softmax down the columns", "graph @g(%x: f32[33,20]) {\n %0 = softmax %x, dim=0 : f32[33,20]\n return %0\n}"},
    {"log softmax of bf16", "graph @g(%x: bf16[6,33]) {\n %0 = log_softmax %x, dim=1 : bf16[6,33]\n return %0\n}",
     2e-2},
    {"entropy",
     "graph @g(%x: f32[3,5,64]) {\n %0 = softmax %x, dim=2 : f32[3,5,64]\n %1 = log %0 : f32[3,5,64]\n"
     " %2 = mul %0, %1 : f32[3,5,64]\n %3 = sum %2, dims=[2] keepdim=false : f32[3,5]\n %4 = neg %3 : f32[3,5]\n"
     " return %4\n}"},
    {"layer norm with residual and bias",
     "graph @g(%x: f32[2,5,48], %r: f32[2,5,48], %b: f32[48], %w: f32[48], %v: f32[48]) {\n"
     " %0 = add %x, %b : f32[2,5,48]\n %1 = add %0, %r : f32[2,5,48]\n"
     " %2, %3, %4 = layer_norm %1, %w, %v, rank=1 eps=1e-05 : f32[2,5,48], f32[2,5,1], f32[2,5,1]\n return %2, "
     "%1\n}"},
    {"layer norm, statistics returned",
     "graph @g(%x: f32[4,6,8]) {\n"
     " %0, %1, %2 = layer_norm %x, rank=2 eps=1e-05 : f32[4,6,8], f32[4,1,1], f32[4,1,1]\n return %0, %1, %2\n}"},
    {"mean and variance",
     "graph @g(%x: f32[7,40]) {\n %0 = mean %x, dims=[0] keepdim=true : f32[1,40]\n"
     " %1 = var %x, dims=[1] keepdim=false correction=1.0 : f32[7]\n return %0, %1\n}"},
    {"reductions of everything",
     "graph @g(%x: f32[9,31]) {\n %0 = sum %x, dims=[0,1] keepdim=false : f32[]\n"
     " %1 = amax %x, dims=[0,1] keepdim=true : f32[1,1]\n %2 = amin %x, dims=[0] keepdim=false : f32[31]\n"
     " %3 = prod %x, dims=[1] keepdim=false : f32[9]\n return %0, %1, %2, %3\n}"},
    {"a large sum", "graph @g(%x: f32[70000]) {\n %0 = sum %x, dims=[0] keepdim=false : f32[]\n return %0\n}",
     1e-4},
    {"any and all",
     "graph @g(%x: bool[6,9]) {\n %0 = any %x, dims=[1] keepdim=false : bool[6]\n"
     " %1 = all %x, dims=[0] keepdim=false : bool[9]\n return %0, %1\n}"},
    {"reduction over the middle",
     "graph @g(%x: f32[5,16,9]) {\n %0 = sum %x, dims=[1] keepdim=true : f32[5,1,9]\n"
     " %1 = sub %x, %0 : f32[5,16,9]\n return %1\n}"},
    {"reduction of a reduction",
     "graph @g(%x: f32[5,16,9]) {\n %0 = sum %x, dims=[2] keepdim=false : f32[5,16]\n"
     " %1 = exp %0 : f32[5,16]\n %2 = amax %1, dims=[1] keepdim=false : f32[5]\n return %2\n}"},
    {"argmax and argmin",
     "graph @g(%x: f32[6,20]) {\n %0 = argmax %x, dims=[1] keepdim=false : i64[6]\n"
     " %1 = argmin %x, dims=[0,1] keepdim=false : i64[]\n return %0, %1\n}"},
    {"scans along rows",
     "graph @g(%x: f32[6,20]) {\n %0 = cumsum %x, dim=1 : f32[6,20]\n %1 = cumprod %x, dim=1 : f32[6,20]\n"
     " %2 = logcumsumexp %x, dim=1 : f32[6,20]\n %3 = cummax %x, dim=1 : f32[6,20]\n return %0, %1, %2, %3\n}"},
    {"scans down columns, with indices",
     "graph @g(%x: f32[9,5], %i: i8[9,5]) {\n %0 = cummin %i, dim=0 : i8[9,5]\n"
     " %1 = cumargmax %x, dim=0 : i64[9,5]\n %2 = cumargmin %i, dim=0 : i64[9,5]\n %3 = cummax %i, dim=0 : "
     "i8[9,5]\n return %0, %1, %2, %3\n}"},
    {"products of one row and a few, of weights that are transposed",
     "graph @g(%x: f32[8,48], %y: f32[1,48], %w: f32[37,48], %b: f32[37]) {\n"
     " %0 = permute %w, dims=[1,0] : f32[48,37]{1,48}\n %1 = mm %x, %0 : f32[8,37]\n"
     " %2 = addmm %b, %y, %0, alpha=1.0 beta=1.0 : f32[1,37]\n return %1, %2\n}"},
    {"products of a few rows, of weights as they are",
     "graph @g(%x: f32[5,200], %w: f32[200,36], %b: f32[5,1]) {\n %0 = exp %x : f32[5,200]\n"
     " %1 = addmm %b, %0, %w, alpha=1.0 beta=1.0 : f32[5,36]\n %2 = neg %1 : f32[5,36]\n return %2\n}"},
    {"products of what lies apart, of more rows than their columns",
     "graph @g(%x: f32[14,7], %w: f32[14,66]) {\n %0 = slice %x, dim=0 start=0 step=2 : f32[7,7]{14,1}\n"
     " %1 = permute %0, dims=[1,0] : f32[7,7]{1,14}\n %2 = slice %w, dim=0 start=1 step=2 : f32[7,66]{132,1}\n"
     " %3 = slice %2, dim=1 start=1 step=2 : f32[7,33]{132,2}\n %4 = mm %1, %3 : f32[7,33]\n return %4\n}"},
    {"products of bf16",
     "graph @g(%x: bf16[2,300], %w: bf16[300,18], %v: bf16[18,300], %b: bf16[18]) {\n"
     " %0 = addmm %b, %x, %w, alpha=1.0 beta=1.0 : bf16[2,18]\n %1 = mm %0, %v : bf16[2,300]\n"
     " %2 = permute %w, dims=[1,0] : bf16[18,300]{1,18}\n %3 = mm %x, %w : bf16[2,18]\n return %1, %3\n}",
     1e-1},
    {"inverse and hyperbolic functions",
     "graph @g(%x: f32[40], %y: f32[40]) {\n %0 = atan %x : f32[40]\n %1 = asinh %0 : f32[40]\n"
     " %2 = erfc %1 : f32[40]\n %3 = hypot %2, %y : f32[40]\n %4 = copysign %3, %y : f32[40]\n"
     " %5 = signbit %4 : bool[40]\n return %4, %5\n}"},
    {"transposed",
     "graph @g(%x: f32[40,70]) {\n %0 = permute %x, dims=[1,0] : f32[70,40]{1,70}\n"
     " %1 = exp %0 : f32[70,40]\n return %1\n}"},
    {"transposed copies, from the middle of memory and into it",
     "graph @g(%x: f32[40,140], %y: f32[140,20]) {\n %0 = slice %x, dim=0 start=3 step=1 : f32[32,140]{140,1}\n"
     " %1 = permute %0, dims=[1,0] : f32[140,32]{1,140}\n %2 = cat %1, %y, %1, dim=1 : f32[140,84]\n"
     " %3 = permute %x, dims=[1,0] : f32[140,40]{1,140}\n %4 = cast %3 : f32[140,40]\n return %2, %4\n}"},
    {"transposed sum",
     "graph @g(%x: f32[33,17], %y: f32[17,33]) {\n %0 = permute %x, dims=[1,0] : f32[17,33]{1,17}\n"
     " %1 = add %0, %y : f32[17,33]\n return %1\n}"},
    {"heads split and merged",
     "graph @g(%x: f32[2,6,24]) {\n %0 = reshape %x : f32[2,6,3,8]\n"
     " %1 = permute %0, dims=[0,2,1,3] : f32[2,3,6,8]{144,8,24,1}\n %2 = exp %1 : f32[2,3,6,8]\n"
     " %3 = permute %2, dims=[0,2,1,3] : f32[2,6,3,8]{144,8,48,1}\n %4 = reshape %3 : f32[2,6,24]\n"
     " %5 = neg %4 : f32[2,6,24]\n return %5\n}"},
    {"reshape that does not factor",
     "graph @g(%x: f32[6,10]) {\n %0 = exp %x : f32[6,10]\n %1 = reshape %0 : f32[4,15]\n"
     " %2 = sum %1, dims=[1] keepdim=false : f32[4]\n %3 = neg %1 : f32[4,15]\n return %2, %3\n}"},
    {"slices with steps, flipped",
     "graph @g(%x: f32[20,9]) {\n %0 = slice %x, dim=0 start=3 step=4 : f32[4,9]{36,1}\n"
     " %1 = flip %0, dims=[0,1] : f32[4,9]\n %2 = exp %1 : f32[4,9]\n return %2\n}"},
    {"concatenation",
     "graph @g(%x: f32[3,5], %y: f32[3,2], %z: f32[3,7]) {\n %0 = exp %x : f32[3,5]\n"
     " %1 = cat %0, %y, %z, dim=1 : f32[3,14]\n %2 = neg %1 : f32[3,14]\n return %2\n}"},
    {"padding, and cropping",
     "graph @g(%x: f32[5,6]) {\n %0 = scalar value=2.5 : f32[]\n %1 = pad %x, %0, low=[2,-1] high=[0,3] : "
     "f32[7,8]\n"
     " %2 = exp %1 : f32[7,8]\n return %2\n}"},
    {"written slice",
     "graph @g(%x: f32[8,6], %y: f32[4,6]) {\n %0 = slice_scatter %x, %y, dim=0 start=1 step=2 : f32[8,6]\n"
     " %1 = neg %0 : f32[8,6]\n return %1\n}"},
    {"expanded",
     "graph @g(%x: f32[6,1]) {\n %0 = expand %x : f32[4,6,5]{0,1,0}\n %1 = sum %0, dims=[0,2] keepdim=false : "
     "f32[6]\n"
     " return %1\n}"},
    {"iota and a causal mask",
     "graph @g(%x: f32[7,7]) {\n %0 = iota : i64[7]\n %1 = reshape %0 : i64[7,1]\n %2 = le %0, %1 : bool[7,7]\n"
     " %3 = scalar value=-inf : f32[]\n %4 = where %2, %x, %3 : f32[7,7]\n %5 = softmax %4, dim=1 : f32[7,7]\n"
     " return %5\n}"},
    {"gathers",
     "graph @g(%t: f32[9,5], %i: i64[4,3], %j: i64[6], %k: i64[9,2]) {\n %0 = embedding %t, %i : f32[4,3,5]\n"
     " %1 = index_select %t, %j, dim=1 : f32[9,6]\n %2 = gather %t, %k, dim=1 : f32[9,2]\n"
     " %3 = index %t, %j, dims=[0] : f32[6,5]\n return %0, %1, %2, %3\n}"},
    {"a diagonal",
     "graph @g(%x: f32[7,3,9]) {\n %0 = exp %x : f32[7,3,9]\n"
     " %1 = index_map %0, origin=[1,0,0] map=[0,1,1,0,0,1] : f32[3,6]{9,28}\n"
     " %2 = sum %1, dims=[1] keepdim=false : f32[3]\n return %1, %2\n}"},
    {"sliding windows",
     "graph @g(%x: f32[2,20,33]) {\n"
     " %0 = index_map %x, origin=[0,0,0] map=[1,0,0,0,0,0,2,0,1,0,0,0,1,0,2] : f32[2,9,28,3,3]\n"
     " %1 = amax %0, dims=[3,4] keepdim=false : f32[2,9,28]\n %2 = argmax %0, dims=[3,4] keepdim=false : "
     "i64[2,9,28]\n"
     " %3 = sum %0, dims=[3,4] keepdim=false : f32[2,9,28]\n return %1, %2, %3\n}"},
    {"windows of a counter",
     "graph @g(%x: i64[5,3]) {\n %0 = iota : i64[9]\n %1 = index_map %0, origin=[0] map=[2,0] : i64[5,3]\n"
     " %2 = add %x, %1 : i64[5,3]\n return %2\n}"},
    {"scatter along rows and columns",
     "graph @g(%x: f32[9,70], %y: f32[6,70], %i: i64[6,70], %z: bf16[9,4], %j: i32[9,2], %w: bf16[9,2]) {\n"
     " %0 = scatter %x, %y, %i, dim=0 combine=\"set\" : f32[9,70]\n"
     " %1 = scatter %x, %y, %i, dim=0 combine=\"add\" : f32[9,70]\n"
     " %2 = scatter %z, %w, %j, dim=1 combine=\"set\" : bf16[9,4]\n return %0, %1, %2\n}"},
    {"scatter of one row over many columns",
     "graph @g(%x: f32[3,9000], %y: f32[5,9000], %i: i64[5]) {\n %0 = reshape %i : i64[5,1]\n"
     " %1 = expand %0 : i64[5,9000]{1,0}\n %2 = neg %y : f32[5,9000]\n"
     " %3 = scatter %x, %2, %1, dim=0 combine=\"mul\" : f32[3,9000]\n return %3\n}"},
    {"the last of equal places counts",
     "graph @g(%x: f32[4], %i: i64[40]) {\n %0 = iota : i64[40]\n %1 = cast %0 : f32[40]\n"
     " %2 = scatter %x, %1, %i, dim=0 combine=\"set\" : f32[4]\n"
     " %3 = scatter %x, %1, %i, dim=0 combine=\"max\" : f32[4]\n"
     " %4 = scatter %x, %1, %i, dim=0 combine=\"min\" : f32[4]\n return %2, %3, %4\n}"},
    {"index_put",
     "graph @g(%x: f32[2,5,6,3], %y: f32[2,7,3], %i: i64[7], %j: i64[], %k: i64[4,1], %l: i32[3], %z: "
     "f32[2,4,3,6,3]) {\n"
     " %0 = index_put %x, %y, %i, %j, dims=[1,2] combine=\"add\" : f32[2,5,6,3]\n"
     " %1 = scalar value=-1 : i64[]\n %2 = mul %k, %1 : i64[4,1]\n %3 = add %2, %1 : i64[4,1]\n"
     " %4 = expand %l : i32[4,3]{0,1}\n %5 = cast %4 : i64[4,3]\n %6 = add %5, %3 : i64[4,3]\n"
     " %7 = index_put %x, %z, %6, dims=[1] combine=\"set\" : f32[2,5,6,3]\n return %0, %7\n}"},
    {"one number put at many places",
     "graph @g(%x: f32[6,4], %i: i64[3]) {\n %0 = scalar value=2.5 : f32[]\n %1 = expand %0 : f32[3,4]{0,0}\n"
     " %2 = expand %0 : f32[6,4]{0,0}\n %3 = index_put %2, %1, %i, dims=[0] combine=\"add\" : f32[6,4]\n"
     " %4 = add %3, %x : f32[6,4]\n return %4\n}"},
    {"running sum", "graph @g(%x: f32[5,30]) {\n %0 = cumsum %x, dim=1 : f32[5,30]\n return %0\n}"},
    {"running sums of three dimensions",
     "graph @g(%x: f32[3,7,9], %y: i32[2,1,6], %z: f32[11]) {\n %0 = cumsum %x, dim=2 : f32[3,7,9]\n"
     " %1 = cumsum %x, dim=0 : f32[3,7,9]\n %2 = cumprod %x, dim=1 : f32[3,7,9]\n"
     " %3 = cumargmax %y, dim=2 : i64[2,1,6]\n %4 = cumsum %y, dim=1 : i32[2,1,6]\n"
     " %5 = cumsum %z, dim=0 : f32[11]\n return %0, %1, %2, %3, %4, %5\n}"},
    {"running sum down",
     "graph @g(%x: f32[30,5]) {\n %0 = exp %x : f32[30,5]\n %1 = cumsum %0, dim=0 : f32[30,5]\n"
     " return %1\n}"},
    {"gelu and silu",
     "graph @g(%x: f32[50], %y: bf16[50]) {\n %0 = gelu %x, tanh=false : f32[50]\n %1 = gelu %0, tanh=true : "
     "f32[50]\n"
     " %2 = silu %y : bf16[50]\n return %1, %2\n}",
     1e-2},
    {"siblings that share an input",
     "graph @g(%x: f32[12,40]) {\n %0 = exp %x : f32[12,40]\n %1 = sum %0, dims=[1] keepdim=false : f32[12]\n"
     " %2 = amax %0, dims=[1] keepdim=false : f32[12]\n %3 = sin %x : f32[12,40]\n return %1, %2, %3\n}"},
    {"one value twice, and an input returned",
     "graph @g(%x: f32[10]) {\n %0 = neg %x : f32[10]\n return %0, %0, %x\n}"},
    {"row and column sums of one product",
     "graph @g(%x: f32[12,40], %y: f32[12,40]) {\n %0 = mul %x, %y : f32[12,40]\n"
     " %1 = sum %0, dims=[1] keepdim=false : f32[12]\n %2 = sum %0, dims=[0] keepdim=false : f32[40]\n"
     " return %1, %2\n}"},
    {"an input written in place, and read after",
     "graph @g(%x: f32[40], %y: f32[40]) {\n %0 = add %x, %y : f32[40]\n %1 = mul %0, %x : f32[40]\n"
     " mutate %x, %0\n return %1\n}"},
    {"inputs swapped", "graph @g(%x: f32[40], %y: f32[40]) {\n mutate %x, %y\n mutate %y, %x\n return\n}"},
    {"a transposed input written in place",
     "graph @g(%x: f32[6,8]{1,6}, %y: f32[6,8]) {\n %0 = sum %x, dims=[1] keepdim=true : f32[6,1]\n"
     " %1 = add %0, %y : f32[6,8]\n mutate %x, %1\n return %1\n}"},
    {"reductions over one element",
     "graph @g(%x: f32[1,9]) {\n %0 = exp %x : f32[1,9]\n %1 = sum %0, dims=[0] keepdim=true : f32[1,9]\n"
     " %2 = log_softmax %x, dim=0 : f32[1,9]\n return %1, %2\n}"},
    {"a value and the same flipped",
     "graph @g(%x: f32[5,8]) {\n %0 = exp %x : f32[5,8]\n %1 = flip %0, dims=[1] : f32[5,8]\n"
     " %2 = sin %1 : f32[5,8]\n %3 = sub %2, %0 : f32[5,8]\n return %3\n}"},
    {"a row's result and the same shifted",
     "graph @g(%x: f32[9,4], %y: f32[9,4]) {\n %0 = softmax %x, dim=0 : f32[9,4]\n %1 = scalar value=0.5 : f32[]\n"
     " %2 = pad %0, %1, low=[0,1] high=[0,-1] : f32[9,4]\n %3 = lt %y, %x : bool[9,4]\n"
     " %4 = where %3, %0, %2 : f32[9,4]\n return %0, %4\n}"},
    {"a slice of a value and the value",
     "graph @g(%x: f32[2,3,3]) {\n %0 = log_softmax %x, dim=0 : f32[2,3,3]\n"
     " %1 = slice %0, dim=0 start=1 step=1 : f32[1,3,3]{9,3,1}\n %2 = sub %0, %1 : f32[2,3,3]\n return %2\n}"},
    {"strided input",
     "graph @g(%x: f32[6,8]{1,6}, %y: f32[6,8]{16,2}) {\n %0 = add %x, %y : f32[6,8]\n return %0\n}"},
};

}  // namespace braze::test
