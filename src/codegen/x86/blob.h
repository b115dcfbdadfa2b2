// codegen/x86/blob.h: a compiled kernel as bytes: what the disk cache holds and the loader loads.
//
// A blob is position independent and describes itself: magic, version, size and checksum, then the facts about its
// phases, its import slots and the image. It is in the machine's byte order and never leaves the kind of machine it
// was made on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/x86/object_linker.h"
#include "loops/kernel.h"

namespace braze::codegen {

/// What the loader must know of a phase (codegen/compiler.h, Phase), with an offset in place of an address.
struct PhaseFacts {
  uint32_t entry = 0;  ///< Offset in the image.
  bool parallel = false;
  loops::Extent iterations;
  int64_t grain = 1;
};

/// The facts of each top-level loop of a kernel; entries are still 0.
std::vector<PhaseFacts> phase_facts(const loops::Kernel& kernel);

/// Bytes of a blob. `image.entries[i]` becomes the entry of phase i.
std::string write_blob(const Image& image, std::vector<PhaseFacts> phases);

/// A checked window onto the bytes of a blob, which must outlive it.
struct BlobView {
  std::span<const char> image;
  std::vector<PhaseFacts> phases;
  std::vector<ImportSlot> slots;
};

/// Nothing if the bytes are not a whole, undamaged blob of this version.
std::optional<BlobView> read_blob(std::string_view bytes);

}  // namespace braze::codegen
