// codegen/target.h: what code is made for.
#pragma once

#include <string>
#include <string_view>

namespace braze::codegen {

/// One of the x86-64 levels. Chosen at run time with cpuid, without LLVM, so that a cached kernel loads fast.
enum class Isa : unsigned char { avx2, avx512 };  // avx2: x86-64-v3; avx512: x86-64-v4 (F, BW, CD, DQ, VL)

struct Target {
  Isa isa = Isa::avx2;
  int vector_bytes() const { return isa == Isa::avx512 ? 64 : 32; }
  int vector_registers() const { return isa == Isa::avx512 ? 32 : 16; }
  std::string_view cpu() const { return isa == Isa::avx512 ? "x86-64-v4" : "x86-64-v3"; }
  std::string_view name() const { return isa == Isa::avx512 ? "avx512" : "avx2"; }
  /// The best that this CPU runs; BRAZE_ISA=avx2 lowers it. Throws UserError on a CPU without AVX2 and FMA.
  static Target host();
};

}  // namespace braze::codegen
