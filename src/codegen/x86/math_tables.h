// codegen/x86/math_tables.h: tables of math_avx512.h; polynomials, lowest power first, for the rests.
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

// Intervals of erf in a unit.
inline constexpr float erf_scale = 0x1.f820c40000000p+1f;

// c, near j / erf_scale
inline constexpr float erf_middle[] = {0x0.0p+0f,
                                       0x1.03fce80000000p-2f,
                                       0x1.04043e0000000p-1f,
                                       0x1.85feb40000000p-1f,
                                       0x1.0403820000000p+0f,
                                       0x1.44fada0000000p+0f,
                                       0x1.85fbb60000000p+0f,
                                       0x1.c6ffe40000000p+0f,
                                       0x1.0400520000000p+1f,
                                       0x1.247c4e0000000p+1f,
                                       0x1.44fc040000000p+1f,
                                       0x1.6577600000000p+1f,
                                       0x1.8604200000000p+1f,
                                       0x1.a682520000000p+1f,
                                       0x1.c706ae0000000p+1f,
                                       0x1.e786980000000p+1f};

// erf(c)
inline constexpr float erf_of_middle[] = {0x0.0p+0f,
                                          0x1.1f2e6c0000000p-2f,
                                          0x1.0e03020000000p-1f,
                                          0x1.6feea40000000p-1f,
                                          0x1.b2be3a0000000p-1f,
                                          0x1.dad2ec0000000p-1f,
                                          0x1.f005200000000p-1f,
                                          0x1.f9e15a0000000p-1f,
                                          0x1.fdea740000000p-1f,
                                          0x1.ff5e9e0000000p-1f,
                                          0x1.ffd4c20000000p-1f,
                                          0x1.fff5bc0000000p-1f,
                                          0x1.fffdda0000000p-1f,
                                          0x1.ffff9a0000000p-1f,
                                          0x1.fffff00000000p-1f,
                                          0x1.fffffe0000000p-1f};

// (erf(c + t) - erf(c)) / t - 1, a line a power, |c + t - j / erf_scale| <= 1 / (2 * erf_scale): 2**-25.2
inline constexpr float erf_rest[][16] = {
    {0x1.06eba80000000p-3f, 0x1.da9ccc0000000p-5f, -0x1.066d360000000p-3f, -0x1.7930740000000p-2f,
     -0x1.3213a00000000p-1f, -0x1.8cb1740000000p-1f, -0x1.c743120000000p-1f, -0x1.e776a80000000p-1f,
     -0x1.f6abde0000000p-1f, -0x1.fce1660000000p-1f, -0x1.ff155c0000000p-1f, -0x1.ffc35a0000000p-1f,
     -0x1.fff2440000000p-1f, -0x1.fffd420000000p-1f, -0x1.ffff840000000p-1f, -0x1.ffffee0000000p-1f},
    {0x1.02ede20000000p-22f, -0x1.130bc40000000p-2f, -0x1.c564360000000p-2f, -0x1.ecadb40000000p-2f,
     -0x1.a24df60000000p-2f, -0x1.24c1700000000p-2f, -0x1.59bc960000000p-3f, -0x1.5ce1b60000000p-4f,
     -0x1.2f2eb80000000p-5f, -0x1.c832b40000000p-7f, -0x1.29da3c0000000p-8f, -0x1.52b2da0000000p-10f,
     -0x1.4ec5ce0000000p-12f, -0x1.2185f40000000p-14f, -0x1.b50abe0000000p-17f, -0x1.20b69e0000000p-19f},
    {-0x1.812af00000000p-2f, -0x1.3a93800000000p-2f, -0x1.2037520000000p-3f, 0x1.14973a0000000p-5f,
     0x1.23e94e0000000p-3f, 0x1.55c5c60000000p-3f, 0x1.1378e20000000p-3f, 0x1.5bf5ca0000000p-4f,
     0x1.68d0b60000000p-5f, 0x1.3a36900000000p-6f, 0x1.d111bc0000000p-8f, 0x1.2719ee0000000p-9f,
     0x1.41b8b20000000p-11f, 0x1.2ff5000000000p-13f, 0x1.f1685e0000000p-16f, 0x1.61ed740000000p-18f},
    {0x1.1ae47e0000000p-12f, 0x1.055d300000000p-3f, 0x1.752a520000000p-3f, 0x1.2cf2f00000000p-3f,
     0x1.05cec20000000p-4f, -0x1.4c4ce00000000p-7f, -0x1.76e8ac0000000p-5f, -0x1.8067e60000000p-5f,
     -0x1.096c980000000p-5f, -0x1.1c11660000000p-6f, -0x1.eefde20000000p-8f, -0x1.67f5e60000000p-9f,
     -0x1.b9b6860000000p-11f, -0x1.cf689a0000000p-13f, -0x1.a0d9a80000000p-15f, -0x1.437b920000000p-17f},
    {0x1.c6cbe60000000p-4f, 0x1.47b6560000000p-4f, 0x1.821b9c0000000p-8f, -0x1.bcdfe80000000p-5f,
     -0x1.178e7a0000000p-4f, -0x1.6d85760000000p-5f, -0x1.95ccf00000000p-7f, 0x1.000fae0000000p-7f,
     0x1.aa9c480000000p-7f, 0x1.48429e0000000p-7f, 0x1.68600e0000000p-8f, 0x1.36f3420000000p-9f,
     0x1.b6cf080000000p-11f, 0x1.027d780000000p-12f, 0x1.016ef40000000p-14f, 0x1.b502220000000p-17f}};

}  // namespace braze::codegen::tables
