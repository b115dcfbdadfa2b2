// codegen_emit_memory.cpp: machine code of loads, stores, atomics and tiles against the interpreter, on every
// target, in ragged sizes.
#include <doctest/doctest.h>

#include "codegen_kernels.h"
#include "support/error.h"

using namespace braze;
using namespace braze::codegen::testing;

TEST_CASE("shifted, strided, reversed, broadcast and transposed accesses") {
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    CHECK_KERNEL(
        {.text = std::string(
             R"(kernel @strides(%x: f32[2*#n + 8] in align=4, %k: i64[3*#n] in align=8, %b: bf16[3*#n] in align=2, %s: f32[4] in align=4, %y: f32[#n + 5] out align=4, %r: f32[#n] out align=4, %q: i64[#n] out align=8, %u: u8[2*#n] inout align=1, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %a = load %x[2*%i + 7] : f32
    %c = load %x[-%i + #n] : f32
    %d = load %s[3] : f32
    %e = load %b[3*%i] : f32
    %f = add %a, %c : f32
    %g = mul %f, %d : f32
    %h = add %g, %e : f32
    store %y[%i + 5], %h
    store %r[-%i + #n - 1], %h
    %l = load %k[3*%i + 2] : i64
    %m = add %l, %i : i64
    store %q[%i], %m
    %v = cast %i : u8
    store %u[2*%i + 1], %v
  }
})"),
         .symbols = {n},
         .split = 37});
  }
  CHECK_KERNEL(
      {.text =
           R"(kernel @rows(%x: f32[1470] in align=4, %w: f32[70] in align=4, %b: f32[21] in align=4, %y: f32[1470] out align=4) {
  for %i in 0..21 parallel {
    %bias = load %b[%i] : f32
    for %j in 0..70 vector unroll=2 {
      %a = load %x[%i + 21*%j] : f32
      %c = load %w[%j] : f32
      %d = mul %a, %c : f32
      %e = add %d, %bias : f32
      store %y[70*%i + %j], %e
    }
  }
})",
       .split = 4});
}

TEST_CASE("predicates and branches, uniform and by lane") {
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    for (uint64_t flag : {0, 1})
      CHECK_KERNEL(
          {.text =
               R"(kernel @guarded(%x: f32[#n] in align=4, %h: bf16[#n] in align=2, %p: bool[#n] in align=1, %y: f32[#n] inout align=4, %z: bf16[#n] inout align=2, %w: f32[#n] inout align=4, $flag: bool, $fill: f32, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %fill = scalar $fill
    %flag = scalar $flag
    %q = load %p[%i] : bool
    %a = load %x[%i] if %q else %fill : f32
    %b = load %h[%i] if %q else %a : f32
    %c = load %x[0] if %flag else %fill : f32
    %d = add %a, %c : f32
    store %z[%i], %b if %q
    if %q {
      %e = mul %d, %b : f32
      store %y[%i], %e
      if %flag {
        store %w[%i], %e
      }
    }
    store %w[%i], %fill if %flag
  }
})",
           .scalars = {flag, 0x40490fdb},
           .symbols = {n},
           .split = 40});
  }
  CHECK_KERNEL({.text = R"(kernel @window(%x: f32[100] in align=4, %y: f32[128] out, $fill: f32) {
  for %i in 0..128 parallel vector {
    %low = constant 14 : i64
    %high = constant 114 : i64
    %fill = scalar $fill
    %p = ge %i, %low : bool
    %q = lt %i, %high : bool
    %inside = bitwise_and %p, %q : bool
    %a = load %x[%i - 14] if %inside else %fill : f32
    store %y[%i], %a
  }
})",
                .scalars = {0x40490fdb}});
}

TEST_CASE("indirect loads with bounds checks, gathers, scatters") {
  for (double highest : {19.0, 25.0, -1.0}) {
    CHECK_KERNEL(
        {.text =
             R"(kernel @embedding(%table: f32[1400] in align=4, %ids: i64[32] in, %y: f32[2240] out align=4, #vocabulary) {
  for %i in 0..32 parallel {
    %id = load %ids[%i] : i64
    %row = checked %id, #vocabulary
    for %j in 0..70 vector {
      %a = load %table[70*%row + %j] : f32
      store %y[70*%i + %j], %a
    }
  }
})",
         .ranges = {{"ids", {highest < 0 ? -3.0 : 0.0, highest < 0 ? 5.0 : highest}}},
         .symbols = {20}});
  }
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    for (const char* type : {"f32", "i64", "bf16", "u8"}) {
      std::string scalar = type == std::string("bf16") ? "f32" : type;
      CHECK_KERNEL(
          {.text = replace(
               replace(
                   R"(kernel @gather(%x: T[50] in align=1, %ids: i64[#n] in, %y: T[#n] out align=1, %z: T[50] inout align=1, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %id = load %ids[%i] : i64
    %c = checked %id, 50
    %a = load %x[%c] : S
    store %y[%i], %a
    store %z[-%c + 49], %a
  }
})",
                   ": T", concat(": ", type)),
               ": S", concat(": ", scalar)),
           .ranges = {{"ids", {0, 49}}},
           .symbols = {n}});
    }
  }
}

TEST_CASE("indices split into coordinates") {
  for (int64_t n : kSizes) {
    if (n == 0) continue;
    for (int64_t size : {1, 3, 12, 64, 200}) {
      CHECK_KERNEL(
          {.text = replace(
               R"(kernel @split(%x: f32[400] in align=4, %q: i64[#n] out align=8, %r: i64[#n] out align=8, %y: f32[#n] out align=4, #n) {
  for %i in 0..#n parallel vector unroll=4 {
    %size = constant SIZE : i64
    %k = affine %i - 40
    %a = floor_div %k, %size : i64
    %b = remainder %k, %size : i64
    store %q[%i], %a
    store %r[%i], %b
    %c = remainder %i, %size : i64
    %d = load %x[2*%c] : f32
    store %y[%i], %d
  }
})",
               "SIZE", concat(size)),
           .symbols = {n},
           .split = 21});
    }
  }
}

TEST_CASE("atomics") {
  for (const char* vector : {"", "vector"}) {
    CHECK_KERNEL(
        {.text = replace(
             R"(kernel @scatter(%x: f32[77] in, %at: i64[77] in, %y: f32[16] inout, %top: i32[16] inout, %all: i32[16] inout, %half: bf16[16] inout, %low: f64[16] inout) {
  for %i in 0..77 parallel VECTOR {
    %k = load %at[%i] : i64
    %c = checked %k, 16
    %a = load %x[%i] : f32
    atomic add %y[%c], %a
    %zero = constant 0.0 : f32
    %p = gt %a, %zero : bool
    %n = cast %i : i32
    %d = cast %a : f64
    atomic max %top[%c], %n if %p
    atomic add %all[-%c + 15], %n
    atomic min %low[%c], %d if %p
    atomic max %half[%c], %a
  }
})",
             "VECTOR", vector),
         .ranges = {{"at", {0, 15}}},
         .tolerance = 1e-5,
         .split = 30});
  }
}

TEST_CASE("transposes through a tile: whole, ragged, every element size") {
  for (const char* type : {"f64", "f32", "bf16", "u8"}) {
    std::string scalar = type == std::string("bf16") ? "f32" : type;
    for (auto [rows, columns] :
         {std::pair{16, 16}, {8, 8}, {5, 16}, {37, 32}, {32, 64}, {37, 100}, {32, 128}, {48, 200}}) {
      for (bool flipped : {false, true}) {
        CHECK_KERNEL({.text = concat("kernel @transpose(%x: ", type, "[", rows * columns,
                                     "] in align=", ir::byte_size(*ir::parse_dtype(type)), ", %y: ", type, "[",
                                     rows * columns, "] out) {\n  for %once in 0..1 {\n    alloc %tile: ", type,
                                     "[", rows * columns, "] local\n    transpose %tile, %x[0], rows=", rows,
                                     " step=", flipped ? 1 : columns, ", cols=", columns,
                                     " step=", flipped ? rows : 1, "\n    for %k in 0..", rows * columns,
                                     " vector {\n      %a = load %tile[%k] : ", scalar,
                                     "\n      store %y[%k], %a\n    }\n  }\n}")});
      }
    }
  }
  for (int64_t n : {3, 16, 21, 40})
    CHECK_KERNEL({.text = replace(R"(kernel @blocks(%x: f32[1600] in align=4, %y: f32[1600] out align=4) {
  for %ti in 0..SIZE step 16 parallel {
    %left = affine -%ti + SIZE
    %sixteen = constant 16 : i64
    %rows = minimum %left, %sixteen : i64
    for %tj in 0..SIZE step 16 {
      alloc %tile: f32[256] local
      %left2 = affine -%tj + SIZE
      %columns = minimum %left2, %sixteen : i64
      transpose %tile, %x[40*%ti + %tj], rows=16 step=40, cols=16 step=1 valid=%rows, %columns
      %zero = constant 0 : i64
      for %c in %zero .. %columns {
        for %r in %zero .. %rows vector {
          %a = load %tile[16*%c + %r] : f32
          store %y[40*%tj + %ti + 40*%c + %r], %a
        }
      }
    }
  }
})",
                                  "SIZE", concat(n))});
}

TEST_CASE("streaming stores: chunks that begin anywhere, offsets that are aligned and not") {
  for (int64_t n : kSizes)
    for (int64_t offset : {0, 16, 3})
      CHECK_KERNEL(
          {.text = replace(
               R"(kernel @stream(%x: f32[#n] in align=4, %y: f32[#n + OFFSET] out, %s: f32[8*OFFSET + 96] out, #n) {
  for %i in 0..#n parallel vector unroll=2 {
    %a = load %x[%i] : f32
    store %y[%i + OFFSET], %a stream
  }
  for %r in 0..2 parallel {
    for %j in 0..48 vector {
      %f = cast %j : f32
      store %s[48*%r + %j], %f stream
    }
  }
})",
               "OFFSET", concat(offset)),
           .symbols = {n},
           .split = 19});
}
