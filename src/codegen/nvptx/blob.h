// codegen/nvptx/blob.h: a kernel compiled for a GPU as bytes: what the disk cache holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compiler.h"

namespace braze::codegen::nvptx {

struct Blob {
  std::vector<GpuPhase> phases;
  std::vector<uint32_t> alignments;
  uint64_t scalars = 0, symbols = 0;
  std::string code;    ///< A cubin, or PTX with a zero behind it.
  std::string source;  ///< The kernel as text, if it relies on alignment that its text does not promise.
};

std::string write_blob(Blob blob);
/// Nothing if the bytes are not a whole, undamaged blob of this version.
std::optional<Blob> read_blob(std::string_view bytes);

}  // namespace braze::codegen::nvptx
