// Targets: found by name, complete, and such that what loops/ derives from their figures makes sense.
#include <doctest/doctest.h>

#include <string_view>

#include "support/error.h"
#include "target/target.h"

using namespace braze;

TEST_CASE("a target is found by its name") {
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::sm_90}) CHECK(Target::named(Target(isa).name()).isa == isa);
  CHECK_THROWS_AS(Target::named("avx3"), UserError);
  CHECK_THROWS_AS(Target::named(""), UserError);
}

TEST_CASE("this machine is one of the targets") {
  CHECK(Target::named(Target::host().name()).isa == Target::host().isa);
}

TEST_CASE("caches grow outwards, and vectors fit into lines") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    const Target target(isa);
    CHECK(target.vector_bytes <= target.cache_line);
    CHECK(target.cache_line < target.near_cache);
    CHECK(target.near_cache < target.second_cache);
    CHECK(target.second_cache < target.last_cache);
    CHECK(target.cpu.shortest_strip % target.line_elements() == 0);
    CHECK(target.cpu.points_multiple % target.line_elements(1) == 0);
    CHECK(target.load > 0);
  }
}

TEST_CASE("blocks of a GPU are whole warps and fit") {
  const Target target(Isa::sm_90);
  const GpuLimits& gpu = target.gpu;
  CHECK(target.is_gpu());
  for (const int64_t threads : {gpu.block_threads, gpu.least_threads, gpu.most_threads}) {
    CHECK(threads % gpu.warp == 0);
    CHECK(threads <= gpu.most_threads);
  }
  CHECK(gpu.kept < target.vector_registers);
  // A tile of the widest type, and what eight warps found of 32 columns.
  CHECK(8 * gpu.tile_side * (gpu.tile_side + 1) <= gpu.shared_bytes);
  CHECK(gpu.tile_side == gpu.warp);
  // A value and an index of the widest type for each warp.
  CHECK(gpu.most_threads / gpu.warp * 16 <= gpu.scratch_bytes);
  CHECK(gpu.loads_in_flight > 0);
  CHECK(target.load > 0);
}
