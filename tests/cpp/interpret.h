// interpret.h: runs loop kernels by walking them: the oracle for lowering and code generation in tests.
//
// Plain and slow, and more exact than machine code: floating operations are done in f64 and rounded to the type of
// their result (for + - * / and sqrt the same as computing in that type), reductions with a fixed combiner keep
// their state in f64 until the end. Loops run in order, whatever their schedule says.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "loops/kernel.h"

namespace braze::loops {

/// The operands of a compiled kernel (codegen/compiler.h), all phases at once.
/// \param buffers  one address per parameter; elements are checked against sizes that the kernel states.
/// \param scalars  8 bytes each: f32 in the low half, integers sign-extended.
/// \param status   set to 1 + number of the failed `checked` (in order of the text); may be null.
/// \throws InternalError on an access outside of a buffer of stated size, on integer division by zero, on
/// templates.
void interpret(const Kernel& kernel, void* const* buffers, const uint64_t* scalars, const int64_t* symbols,
               int64_t* status);

namespace oracle {

/// One scalar as interpret() and compiled kernels take it.
template <typename T>
uint64_t scalar_bits(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);  // Little endian: the low half.
    return bits;
  } else {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

/// Element `index` of memory that holds `dtype`, as a number; and the reverse, rounding to nearest even.
Number read_element(const void* memory, DType dtype, int64_t index);
void write_element(void* memory, DType dtype, int64_t index, Number value);

/// `value` converted as the op `cast` does it: C's conversion, to bool by comparison with 0.
Number convert(Number value, DType to);
/// One elementwise op but cast. `type` is that of the operands (for `where`, of the choices).
Number evaluate(ir::Op op, DType type, const std::array<Number, 3>& operands);

}  // namespace oracle

}  // namespace braze::loops
