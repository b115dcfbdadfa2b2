// tests/cpp/sized_runs.h: what tests of kernels that are given sizes have in common: targets, machine code by
// pieces, and which graphs may be run at any sizes.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "codegen/compiler.h"
#include "ir/clone.h"
#include "ir/graph.h"
#include "loops/plan.h"
#include "plan_interpreter.h"
#include "target/target.h"

namespace braze::test {

inline bool host_has(Isa isa) {
  return isa == Isa::avx2 || (isa == Isa::avx512 && Target::host().isa == isa);
}

/// Machine code, all phases of a kernel in pieces.
inline int64_t launch(const codegen::CompiledKernel& code, const loops::KernelStep& step,
                      std::span<const Memory> memory, const uint64_t* scalars) {
  std::vector<void*> buffers;
  for (const Memory& piece : memory) buffers.push_back(piece.data);
  int64_t status = 0;
  for (const codegen::Phase& phase : code.phases()) {
    const loops::Extent& extent = phase.iterations;
    const int64_t count =
        extent.constant + (extent.is_constant() ? 0 : extent.factor * step.symbols.at(extent.symbol));
    const int64_t piece = std::max<int64_t>(1, phase.parallel ? (count + 2) / 3 : count);
    phase.function(buffers.data(), scalars, step.symbols.data(), 0, 0, &status);
    for (int64_t begin = 0; begin < count; begin += piece)
      phase.function(buffers.data(), scalars, step.symbols.data(), begin, std::min(begin + piece, count), &status);
  }
  return status;
}

/// No two elements of an input are one: a caller's tensors may, but the oracle has them apart.
inline bool are_apart(const ir::Graph& graph) {
  return std::ranges::all_of(graph.inputs(), [](const ir::Input& input) {
    const ir::Type& type = *input.value->type;
    std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
    for (size_t k = 0; k < type.sizes.size(); ++k)
      if (type.sizes[k] > 1) dims.emplace_back(type.strides[k], type.sizes[k]);
    std::ranges::sort(dims);
    int64_t inside = 0;
    for (const auto& [stride, size] : dims) {
      if (stride <= inside) return false;
      inside += stride * (size - 1);
    }
    return true;
  });
}

/// Indices among the inputs are below 3.
inline bool has_indices(const ir::Graph& graph) {
  bool found = false;
  ir::for_each_node(graph, [&](const ir::Node* node) {
    const ir::OpKind kind = ir::info(node->op).kind;
    found = found || kind == ir::OpKind::Gather || kind == ir::OpKind::Update;
  });
  return found;
}

/// A CPU so small that graphs of a few elements are split, tiled, scanned side by side and computed in strips.
inline Target small_cpu() {
  Target target(Isa::avx2);
  target.short_axis = 2;
  target.wide_reduction = target.few_results = 8;
  target.cache_line = 8;
  target.near_cache = 240;
  target.second_cache = 384;
  CpuLimits& cpu = target.cpu;
  cpu.thread_work = cpu.points_multiple = 4;
  cpu.hidden = cpu.register_rows = 1;
  cpu.run_bytes = 16;
  cpu.tile_side = cpu.longest_strip = 4;
  cpu.shortest_strip = cpu.wanted_strips = cpu.block_rows = cpu.rows_together = 2;
  cpu.least_block_rows = 1;
  cpu.most_chunks = 3;
  return target;
}

}  // namespace braze::test
