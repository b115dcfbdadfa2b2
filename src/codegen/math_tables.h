// codegen/math_tables.h: tables of codegen/math_avx512; polynomials, lowest power first, for the rests.
// Written by tools/fit_tables.py. The error given is the polynomial's largest, relative to the result.
#pragma once

namespace braze::codegen::tables {

// 2**(j/16)
inline constexpr float exp2_sixteenths[] = {
    0x1.0000000000000p+0f, 0x1.0b55860000000p+0f, 0x1.172b840000000p+0f, 0x1.2387a60000000p+0f,
    0x1.306fe00000000p+0f, 0x1.3dea640000000p+0f, 0x1.4bfdae0000000p+0f, 0x1.5ab07e0000000p+0f,
    0x1.6a09e60000000p+0f, 0x1.7a11480000000p+0f, 0x1.8ace540000000p+0f, 0x1.9c49180000000p+0f,
    0x1.ae89fa0000000p+0f, 0x1.c199be0000000p+0f, 0x1.d5818e0000000p+0f, 0x1.ea4afa0000000p+0f};

// (e**r - 1 - r) / r**2, |r| <= ln(2)/32: 2**-29.2
inline constexpr float exp_rest[] = {0x1.0002200000000p-1f, 0x1.5557640000000p-3f};

// (2**r - 1) / r, |r| <= 1/32: 2**-29.2
inline constexpr float exp2_rest[] = {0x1.62e4300000000p-1f, 0x1.ebfff40000000p-3f, 0x1.c6b4680000000p-5f};

// c, near 1 / (1 + (j + 1/2)/16)
inline constexpr float log_inverse[] = {
    0x1.0000000000000p+0f, 0x1.d448de0000000p-1f, 0x1.bab8da0000000p-1f, 0x1.a4673e0000000p-1f,
    0x1.8f98a80000000p-1f, 0x1.7d607e0000000p-1f, 0x1.6c7fd20000000p-1f, 0x1.5cc7640000000p-1f,
    0x1.4e67c40000000p-1f, 0x1.41b0c00000000p-1f, 0x1.34904e0000000p-1f, 0x1.2959200000000p-1f,
    0x1.1faba40000000p-1f, 0x1.15fa3c0000000p-1f, 0x1.0cb1120000000p-1f, 0x1.0000000000000p-1f};

// -log(c)
inline constexpr float log_of_inverse[] = {0x0.0p+0f,
                                           0x1.6d8fa40000000p-4f,
                                           0x1.29be420000000p-3f,
                                           0x1.93ae7e0000000p-3f,
                                           0x1.fba32a0000000p-3f,
                                           0x1.2d9af60000000p-2f,
                                           0x1.5bf4880000000p-2f,
                                           0x1.89198c0000000p-2f,
                                           0x1.b431b00000000p-2f,
                                           0x1.dbe37a0000000p-2f,
                                           0x1.0346620000000p-1f,
                                           0x1.163b460000000p-1f,
                                           0x1.272c300000000p-1f,
                                           0x1.38b8c00000000p-1f,
                                           0x1.4a1dfe0000000p-1f,
                                           0x1.62e4300000000p-1f};

// (log(1+r) - r) / r**2, -1/32 <= r <= 1/16: 2**-28.0
inline constexpr float log_rest[] = {-0x1.0000000000000p-1f, 0x1.5558440000000p-2f, -0x1.0010000000000p-2f,
                                     0x1.81f78e0000000p-3f};

}  // namespace braze::codegen::tables
