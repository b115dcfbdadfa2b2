// codegen/math_coefficients.h: polynomials of codegen/math, lowest power first.
// Written by tools/fit_math.py. The error given is the polynomial's largest, times its weight.
#pragma once

namespace braze::codegen::coefficients {

// (e**r - 1 - r) / r**2, |r| <= ln(2)/2: 2**-28.2
inline constexpr float exp_f32[] = {0x1.0000000000000p-1f, 0x1.55548a0000000p-3f, 0x1.55552a0000000p-5f,
                                    0x1.123efe0000000p-7f, 0x1.6cee8a0000000p-10f};

// (e**r - 1 - r) / r**2, |r| <= ln(2)/2: 2**-60.4
inline constexpr double exp_f64[] = {0x1.0000000000000p-1,  0x1.555555555555cp-3,  0x1.555555555555ep-5,
                                     0x1.111111110ebb3p-7,  0x1.6c16c16c13586p-10, 0x1.a01a01b3bb282p-13,
                                     0x1.a01a01b45615dp-16, 0x1.71ddef93bda6fp-19, 0x1.27e4bf30314b8p-22,
                                     0x1.af6cccf20976ap-26, 0x1.1f9def01a9421p-29};

// (e**r - 1 - r) / r**2, -0.555 <= r <= 0.139, for tanh: 2**-30.6
inline constexpr float tanh_f32[] = {0x1.0000000000000p-1f, 0x1.5555600000000p-3f,  0x1.5555cc0000000p-5f,
                                     0x1.10f4a20000000p-7f, 0x1.6700580000000p-10f, 0x1.5392ea0000000p-13f};

// (e**r - 1 - r) / r**2, -0.555 <= r <= 0.139, for tanh: 2**-57.9
inline constexpr double tanh_f64[] = {0x1.0000000000000p-1,  0x1.5555555555555p-3,  0x1.5555555555554p-5,
                                      0x1.1111111111022p-7,  0x1.6c16c16c1643ep-10, 0x1.a01a01a1120f4p-13,
                                      0x1.a01a01c78d5c1p-16, 0x1.71de38145b78fp-19, 0x1.27e3cd04bf0f3p-22,
                                      0x1.ae1e2b87ed275p-26, 0x1.1ae886150e08fp-29, 0x1.2421443f789ccp-33};

// (2**r - 1) / r, |r| <= 1/2: 2**-31.5
inline constexpr float exp2_f32[] = {0x1.62e4300000000p-1f, 0x1.ebfbe00000000p-3f,  0x1.c6b0740000000p-5f,
                                     0x1.3b2a5e0000000p-7f, 0x1.5d9dd60000000p-10f, 0x1.440cf20000000p-13f,
                                     0x1.eb2d0c0000000p-17f};

// (log(1+f) - f + f**2/2) / f**3, sqrt(1/2) <= 1+f < sqrt(2): 2**-29.2
inline constexpr float log_f32[] = {0x1.5555480000000p-2f,  -0x1.0000700000000p-2f, 0x1.99a5420000000p-3f,
                                    -0x1.552f100000000p-3f, 0x1.2303300000000p-3f,  -0x1.0104fa0000000p-3f,
                                    0x1.eff92c0000000p-4f,  -0x1.bf196c0000000p-4f, 0x1.b545360000000p-5f};

// (atanh(s) - s) / s**3 in s**2, |s| <= (sqrt(2)-1)/(sqrt(2)+1): 2**-61.5
inline constexpr double log_f64[] = {0x1.5555555555555p-2, 0x1.9999999999dffp-3, 0x1.249249242b426p-3,
                                     0x1.c71c7258fca64p-4, 0x1.745cde35e2762p-4, 0x1.3b20ab854b587p-4,
                                     0x1.0f5cc9de57b0ep-4, 0x1.0f630a6ac99bep-4};

// (sin(r) - r) / r**3 in r**2, |r| <= pi/4: 2**-28.0
inline constexpr float sin_f32[] = {-0x1.5555460000000p-3f, 0x1.11077c0000000p-7f, -0x1.9955b60000000p-13f};

// (cos(r) - 1 + r**2/2) / r**4 in r**2, |r| <= pi/4: 2**-33.1
inline constexpr float cos_f32[] = {0x1.55554a0000000p-5f, -0x1.6c0c1a0000000p-10f, 0x1.99e0ee0000000p-16f};

// (tan(r) - r) / r**3 in r**2, |r| <= pi/4: 2**-29.2
inline constexpr float tan_f32[] = {0x1.5555620000000p-2f, 0x1.110d220000000p-3f, 0x1.baee2e0000000p-5f,
                                    0x1.5bf9360000000p-6f, 0x1.66a9b40000000p-7f, -0x1.8329500000000p-15f,
                                    0x1.2319320000000p-8f};

// -log(erfc(a)) / a - f32(2/sqrt(pi)), 0 <= a <= 3.95; weighted by its effect on erf: 2**-30.2
inline constexpr float erf_f32[] = {-0x1.fa34920000000p-25f, 0x1.45f3080000000p-1f,   0x1.a4f4020000000p-4f,
                                    -0x1.3946fc0000000p-6f,  -0x1.fc70820000000p-13f, 0x1.d28b0e0000000p-10f,
                                    -0x1.79007a0000000p-11f, 0x1.410f060000000p-13f,  -0x1.0760160000000p-16f,
                                    -0x1.55af6e0000000p-27f, 0x1.c8ec360000000p-24f};

// erf(a) / a in a**2, 0 <= a <= 0.7, for GPUs: 2**-24.1
inline constexpr float erf_near_f32[] = {0x1.20dd740000000p+0f, -0x1.8125cc0000000p-2f, 0x1.cdd60e0000000p-4f,
                                         -0x1.b0bfa20000000p-6f, 0x1.14203a0000000p-8f};

// -log2(erfc(a)) / a, 0.7 <= a <= 3.95, for GPUs; weighted by its effect on erf: 2**-27.8
inline constexpr float erf_far_f32[] = {0x1.a0cd0a0000000p+0f,  0x1.d588b00000000p-1f, 0x1.373f7a0000000p-3f,
                                        -0x1.0f1eec0000000p-5f, 0x1.31678c0000000p-8f, -0x1.4660840000000p-12f};

// atan(q) / q in q**2, 0 <= q <= 1, for atan2 of f32: 2**-34.1
inline constexpr double atan_f64[] = {0x1.ffffffff8c53dp-1,  -0x1.555554404c897p-2, 0x1.99992b9f0e188p-3,
                                      -0x1.2489b0ada6313p-3, 0x1.c668fa5e4359bp-4,  -0x1.6ff9a5b0adfb0p-4,
                                      0x1.2934c4cbc5b89p-4,  -0x1.be3b6e03bcd28p-5, 0x1.1a242e93e25cep-5,
                                      -0x1.0acdaed02eae4p-6, 0x1.42aeb48b4c543p-8,  -0x1.6dfa0acf09671p-11};

// log2((1+s)/(1-s)) / s in s**2, for pow of f32: 2**-50.6
inline constexpr double pow_log2_f64[] = {0x1.71547652b82ffp+1, 0x1.ec709dc39c9a6p-1, 0x1.2776c516af8c9p-1,
                                          0x1.a617566fde648p-2, 0x1.484fae053eb67p-2, 0x1.0bb783935b834p-2,
                                          0x1.f18a07e7298c5p-3};

// (2**r - 1) / r, |r| <= 1/2, for pow of f32: 2**-34.3
inline constexpr double pow_exp2_f64[] = {0x1.62e42fef7b62ap-1, 0x1.ebfbe07adf237p-3,  0x1.c6b08df45b5bep-5,
                                          0x1.3b29f0d63cad4p-7, 0x1.5d8723ac9f420p-10, 0x1.445e8d1b61822p-13,
                                          0x1.00f131c37c4e6p-16};

// (2**r - 1) / r, |r| <= 1/2: 2**-56.0
inline constexpr double exp2_f64[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0c0p-5,
                                      0x1.3b2ab6fba4e7dp-7,  0x1.5d87fe78a6738p-10, 0x1.430912f869f9bp-13,
                                      0x1.ffcbfc5887217p-17, 0x1.62c0224934894p-20, 0x1.b5253d4b67ee5p-24,
                                      0x1.e4cef80ff5901p-28, 0x1.e8ca6e430c144p-32, 0x1.c4c584dd04af4p-36,
                                      0x1.82416006f7f09p-40};

// log(erfc(a) / w) + a**2 in w = 1/(1 + a/2), 0 <= a <= 10.3, for erfc of f32: 2**-33.1
inline constexpr double erfc_f64[] = {-0x1.43f7fc58af6b7p+0, 0x1.ffd5752f33200p-1,  0x1.851d98d65fea8p-2,
                                      0x1.36cd170fd868dp-5,  0x1.7b83a35b9adecp-3,  -0x1.44233a4739968p+0,
                                      0x1.999e3f4ca8c3dp+1,  -0x1.b54dcc4cad2d5p+2, 0x1.43bea8ec38280p+3,
                                      -0x1.3157c5084128ap+3, 0x1.67cfc66270d22p+2,  -0x1.f94df8db8f9d2p+0,
                                      0x1.7203dee6dc733p-2,  -0x1.7b130fbff058bp-6};

}  // namespace braze::codegen::coefficients
