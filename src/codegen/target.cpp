#include "codegen/target.h"

#include <cstdlib>

#include "support/error.h"

namespace braze::codegen {

namespace {

// __builtin_cpu_supports asks the CPU *and* whether the operating system saves the registers (xgetbv).
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
}

bool runs_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

Target detect() {
  __builtin_cpu_init();
  if (!runs_avx2())
    throw UserError("braze needs an x86-64 CPU with AVX2, FMA, BMI2 and F16C; this one lacks them.");
  const char* asked = std::getenv("BRAZE_ISA");
  const std::string_view isa = asked ? asked : "";
  if (!isa.empty() && isa != "avx2" && isa != "avx512")
    throw UserError(concat("BRAZE_ISA=", isa, " is not known. Use avx2 or avx512, or leave it unset."),
                    UserError::Kind::value);
  const bool wide = runs_avx512();
  if (isa == "avx512" && !wide)
    throw UserError("BRAZE_ISA=avx512, but this CPU has no AVX-512 (F, BW, CD, DQ, VL).");
  return {wide && isa != "avx2" ? Isa::avx512 : Isa::avx2};
}

}  // namespace

Target Target::host() {
  static const Target target = detect();
  return target;
}

}  // namespace braze::codegen
