// codegen/x86/loader.h: blobs to executable memory. Knows nothing of LLVM: this is the path of a warm start.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "codegen/compiler.h"
#include "codegen/x86/blob.h"

namespace braze::codegen {

/// Maps the images of all blobs into one region, shared by the kernels returned and unmapped with the last of them.
/// Memory is writable while it is filled and executable afterwards, never both.
/// Throws UserError if the system refuses executable memory.
std::vector<std::shared_ptr<const CompiledKernel>> load(std::span<const BlobView> blobs);

}  // namespace braze::codegen
