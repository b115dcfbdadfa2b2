// codegen_emit_loops.cpp: machine code of loops and their reductions against the interpreter, on every target, in
// ragged sizes.
#include <doctest/doctest.h>

#include "codegen_kernels.h"
#include "support/error.h"

using namespace braze;
using namespace braze::codegen::testing;

TEST_CASE("reductions over vectors: every combiner, every size, NaN") {
  for (int64_t n : kSizes) {
    for (const char* unroll : {"", "unroll=4"}) {
      std::string text =
          R"(kernel @reduce(%x: f32[SIZE] in align=4, %z: bool[SIZE] in align=1, %l: i64[SIZE] in align=8, %y: f32[6] out, %k: i64[5] out, %b: bool[2] out, #n) {
  for %once in 0..1 {
    %sum, %prod, %max, %min = for %i in 0..SIZE vector UNROLL reduce sum, prod, max, min {
      %a = load %x[%i] : f32
      yield %a, %a, %a, %a
    }
    %any, %all = for %i2 in 0..SIZE vector UNROLL reduce any, all {
      %a2 = load %z[%i2] : bool
      yield %a2, %a2
    }
    %amax, %kmax, %amin, %kmin = for %i3 in 0..SIZE vector UNROLL reduce argmax, argmin {
      %a3 = load %x[%i3] : f32
      yield %a3, %i3, %a3, %i3
    }
    %isum, %imax, %imin = for %i4 in 0..SIZE vector UNROLL reduce sum, max, min {
      %a4 = load %l[%i4] : i64
      yield %a4, %a4, %a4
    }
    store %y[0], %sum
    store %y[1], %prod
    store %y[2], %max
    store %y[3], %min
    store %y[4], %amax
    store %y[5], %amin
    store %k[0], %kmax
    store %k[1], %kmin
    store %k[2], %isum
    store %k[3], %imax
    store %k[4], %imin
    store %b[0], %any
    store %b[1], %all
  }
})";
      text = replace(text, "UNROLL", unroll);
      if (n == 0)
        text = replace(replace(text, "%k[0], %kmax", "%k[0], %isum"), "%k[1], %kmin",
                       "%k[1], %isum");  // an empty argmax has none
      for (const std::string& size : {concat(n), std::string("#n")}) {
        text = replace(text, "SIZE", size);
        auto with = [&](std::vector<double> values) {
          CHECK_KERNEL({.text = text, .values = {{"x", std::move(values)}}, .symbols = {n}, .tolerance = 2e-5});
        };
        CHECK_KERNEL({.text = text, .ranges = {{"x", {-2, 2}}}, .symbols = {n}, .tolerance = 2e-5});
        with({1.0, 0.5, 2.0, 0.5, 2.0});
        if (n == 0) continue;
        with({0.25, kNaN, 1.0, 2.0, -1.0});
        with({-2.0});
        // Welford's mean of infinities is NaN or not, by the order of joining.
        CHECK_KERNEL(
            {.text = replace(text, "%x[%i] : f32\n      yield %a, %a, %a, %a, %a, %a",
                             "%x[%i] : f32\n      %o = constant 1.0 : f32\n      yield %a, %a, %a, %a, %o, %a"),
             .values = {{"x", {-kInf}}},
             .symbols = {n}});
      }
    }
  }
}

TEST_CASE("rows: softmax and layer norm shapes, ragged rows, values kept from pass to pass") {
  for (int64_t n : {1, 5, 16, 17, 48, 70, 130}) {
    CHECK_KERNEL(
        {.text = std::string(
             R"(kernel @norm(%x: bf16[7*#n] in align=2, %w: f32[#n] in align=4, %y: f32[7*#n] out align=4, %z: bf16[7*#n] out align=2, #n) {
  for %i in 0..7 parallel {
    alloc %row: f32[256] local
    %sum = for %j in 0..#n vector unroll=2 reduce sum {
      %a = load %x[#n*%i + %j] : f32
      store %row[%j], %a
      yield %a
    }
    %n = symbol #n
    %count = cast %n : f32
    %mean = div %sum, %count : f32
    %var = for %j2 in 0..#n vector unroll=2 reduce sum {
      %b = load %row[%j2] : f32
      %c = sub %b, %mean : f32
      %d = mul %c, %c : f32
      yield %d
    }
    for %j3 in 0..#n vector {
      %e = load %row[%j3] : f32
      %f = sub %e, %mean : f32
      %g = load %w[%j3] : f32
      %h = mul %f, %g : f32
      %k = add %h, %var : f32
      store %y[#n*%i + %j3], %k
      store %z[#n*%i + %j3], %k
    }
  }
})"),
         .symbols = {n},
         .tolerance = 1e-5,
         .split = 2});
  }
}

TEST_CASE("columns: vector lanes around serial loops, unrolled both ways, scans") {
  for (int64_t n : kSizes) {
    for (const char* inner : {"", "unroll=3"}) {
      CHECK_KERNEL(
          {.text = replace(
               R"(kernel @columns(%x: f32[11*#n] in align=4, %v: f32[#n] in align=4, %y: f32[#n] out align=4, %z: f32[#n] out align=4, %c: f32[11*#n] out align=4, %k: i64[#n] out align=8, %u: f32[#n] out align=4, #n) {
  for %j in 0..#n parallel vector unroll=2 {
    %sum, %max, %amax, %kmax = for %i in 0..11 INNER reduce sum, max, argmax {
      %a = load %x[#n*%i + %j] : f32
      %scale = load %v[%j] : f32
      %b = mul %a, %scale : f32
      yield %b, %b, %b, %i
    }
    store %y[%j], %sum
    store %z[%j], %max
    store %k[%j], %kmax
    %zero = constant 0.0 : f32
    %total = for %i2 in 0..11 INNER reduce serial(%s = %zero) {
      %d = load %x[#n*%i2 + %j] : f32
      %t = add %s, %d : f32
      store %c[#n*%i2 + %j], %t
      yield %t
    }
    store %u[%j], %total
  }
})",
               "INNER", inner),
           .symbols = {n},
           .tolerance = 1e-5,
           .split = 33});
    }
  }
}

TEST_CASE("rows taken apart by sizes: coordinates are counted on, from wherever a chunk begins") {
  for (const int64_t count : {1, 2, 7, 60}) {
    for (const auto& [across, down] : {std::pair<int64_t, int64_t>{1, 1}, {1, 3}, {4, 1}, {3, 5}, {64, 2}}) {
      for (const int64_t split : {0, 1, 7}) {
        CHECK_KERNEL(
            {.text = R"(kernel @apart(%q: i64[#n] out, %r: i64[#n] out, %s: i64[4*#n] out, #n, #across, #down) {
  for %i in 0..#n parallel {
    %across = symbol #across
    %down = affine #down
    %row = floor_div %i, %across : i64
    %column = remainder %i, %across : i64
    %plane = floor_div %row, %down : i64
    %line = remainder %row, %down : i64
    %again = floor_div %i, %down : i64
    store %q[%i], %plane
    store %r[%i], %column
    for %j in 0..4 vector {
      %k = affine 1000*%line + %j + %again
      store %s[4*%i + %j], %k
    }
  }
})",
             .symbols = {count, across, down},
             .split = split});
      }
    }
  }
}

TEST_CASE("loops whose bounds differ between lanes") {
  for (int64_t n : {1, 16, 37})
    CHECK_KERNEL(
        {.text =
             R"(kernel @ragged(%begin: i64[#n] in, %end: i64[#n] in, %x: f32[64] in, %y: f32[#n] out, %m: f32[#n] out, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %b = load %begin[%i] : i64
    %e = load %end[%i] : i64
    %s, %m2 = for %j in %b .. %e step 2 reduce sum, max {
      %a = load %x[%j] : f32
      yield %a, %a
    }
    store %y[%i], %s
    store %m[%i], %m2
  }
})",
         .ranges = {{"begin", {0, 20}}, {"end", {0, 64}}},
         .symbols = {n},
         .tolerance = 1e-5});
}
