// codegen/x86/imports.h: the only functions outside of itself that generated code may call.
//
// Machine code reaches them through slots that the loader fills, so that code on disk knows no address. Besides
// libm and what LLVM calls of its own accord (memcpy, fmod), there are loops over lanes for math that has no vector
// form here: `braze.lanes.sin.f32(float* x, int64_t n)` replaces n numbers by their sines, and
// `braze.lanes.pow.f32(float* x, const float* y, int64_t n)` does x[i] = pow(x[i], y[i]).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braze::codegen {

/// The number of an importable function: what blobs store. Numbers change only with the code generator's revision.
std::optional<uint32_t> find_import(std::string_view name);
uint32_t import_count();
/// Address of import `number` in this process.
const void* import_address(uint32_t number);

}  // namespace braze::codegen
