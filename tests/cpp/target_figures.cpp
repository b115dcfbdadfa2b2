// Targets: found by name, complete, and such that what loops/ derives from their figures makes sense.
#include <doctest/doctest.h>

#include <string_view>

#include "support/error.h"
#include "target/target.h"

using namespace braze;

TEST_CASE("a target is found by its name") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) CHECK(Target::named(Target(isa).name()).isa == isa);
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
  }
}
