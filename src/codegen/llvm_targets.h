// codegen/llvm_targets.h: the parts of LLVM that generate code, made ready once a process.
#pragma once

namespace llvm {
class Target;
}

namespace braze::codegen {

/// LLVM's back end for a triple: x86_64-... or nvptx64-... The first call registers both (a few milliseconds) and
/// switches off what only costs time, so that code does not depend on which was asked for first. Thread-safe.
const llvm::Target& llvm_target(const char* triple);

}  // namespace braze::codegen
