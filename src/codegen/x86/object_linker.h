// codegen/x86/object_linker.h: from an ELF object to one flat image of a kernel.
//
// The linker that a kernel needs: take the functions asked for and every section they reach, put them one behind
// another, resolve what points from one to the other, and leave a slot for every imported function. The image holds
// no address, so it can be stored, and mapped anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace braze::codegen {

/// 8 bytes of an image that are to hold the address of an import (codegen/x86/imports.h).
struct ImportSlot {
  uint32_t import = 0;
  uint32_t offset = 0;  ///< In bytes, a multiple of 8.
};

struct Image {
  std::vector<char> bytes;
  std::vector<uint32_t> entries;  ///< Offset of each function asked for, in that order.
  std::vector<ImportSlot> slots;
};
inline constexpr uint32_t kImageAlignment = 64;  ///< Where an image may begin.

/// Links the functions named `roots` out of `object` (ELF64, x86-64, relocatable, one section a function).
/// Throws InternalError on a missing root, an import outside of the table, writable data, or a relocation that
/// position-independent code of the small model does not have.
Image link_object(std::span<const char> object, std::span<const std::string> roots);

}  // namespace braze::codegen
