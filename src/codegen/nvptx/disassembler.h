// codegen/nvptx/disassembler.h: machine code of a GPU as text, by NVIDIA's nvdisasm, which comes with the CUDA
// toolkit.
//
// For reading only: nothing that runs needs it. It is looked for in PATH, in $CUDA_HOME/bin and in
// /usr/local/cuda/bin.
#pragma once

#include <string>
#include <string_view>

namespace braze::codegen::nvptx {

/// The instructions of a cubin. Throws UserError, which says what to do, where nvdisasm is missing or refuses it.
std::string disassemble(std::string_view cubin);

}  // namespace braze::codegen::nvptx
