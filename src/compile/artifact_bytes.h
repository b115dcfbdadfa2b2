// compile/artifact_bytes.h: an artifact as bytes that describe and check themselves: magic, version, size and a
// checksum of 128 bits, then what the code is for, the plan (loops/plan_bytes.h) and a blob a kernel
// (codegen/x86/blob.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/x86/blob.h"
#include "compile/driver.h"

namespace braze::driver {

/// `code` holds one blob a kernel of the plan, made for `isa`.
std::string write_artifact(const loops::Plan& plan, std::vector<std::string> code, Isa isa);

/// An artifact that was read and found in order, not loaded yet.
struct StoredArtifact {
  Isa isa = Isa::avx2;
  loops::Plan plan;
  std::vector<std::string> code;  ///< Each one that codegen::read_blob takes, by Plan::kernels.
};

/// The same of what is compiled for all sizes.
std::string write_artifact(const loops::SymbolicPlan& plan, std::vector<std::string> code, Isa isa);
struct StoredSymbolicArtifact {
  Isa isa = Isa::avx2;
  loops::SymbolicPlan plan;
  std::vector<std::string> code;  ///< Likewise, by SymbolicPlan::kernels().
};
std::optional<StoredSymbolicArtifact> read_symbolic_artifact(std::string_view bytes);
SymbolicArtifact load(StoredSymbolicArtifact stored);

/// Whether they begin as an artifact of some version does.
bool is_artifact(std::string_view bytes);
/// Nothing if the bytes are not a whole, undamaged artifact of this version whose plan loops::verify accepts.
std::optional<StoredArtifact> read_artifact(std::string_view bytes);

/// Maps the code. Throws UserError if this CPU cannot run it, or the system refuses executable memory.
Artifact load(StoredArtifact stored);

}  // namespace braze::driver
