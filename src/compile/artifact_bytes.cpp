#include "compile/artifact_bytes.h"

#include <algorithm>
#include <cstring>

#include "codegen/x86/loader.h"
#include "compile/inspect.h"
#include "loops/plan_bytes.h"
#include "support/archive.h"
#include "support/error.h"
#include "support/hash.h"

namespace braze::driver {

namespace {

constexpr char magic[8] = {'B', 'R', 'A', 'Z', 'E', 'A', 'R', '\n'};
constexpr uint32_t version = 1;
constexpr size_t isa_count = static_cast<size_t>(Isa::avx512) + 1;

struct Header {
  char magic[8];
  uint32_t version, symbolic;  // 1: for all sizes
  uint64_t size;               // of everything behind the header
  Hash128 checksum;            // of the same
};

/// A whole blob with the phases that the kernel has.
bool fits(std::string_view code, const loops::Kernel& kernel) {
  const auto blob = codegen::read_blob(code);
  if (!blob) return false;
  const auto same = [](const codegen::PhaseFacts& a, const codegen::PhaseFacts& b) {
    return a.parallel == b.parallel && a.grain == b.grain && a.iterations == b.iterations;
  };
  try {
    return std::ranges::equal(blob->phases, codegen::phase_facts(kernel), same);
  } catch (const InternalError&) {  // Loops that are never lowered to.
    return false;
  }
}

const std::vector<std::shared_ptr<loops::Kernel>>& kernels_of(const loops::Plan& plan) {
  return plan.kernels;
}
const std::vector<std::shared_ptr<loops::Kernel>>& kernels_of(const loops::SymbolicPlan& plan) {
  return plan.kernels();
}
void read(ArchiveReader& archive, loops::Plan& plan) {
  plan = loops::read_plan(archive);
}
void read(ArchiveReader& archive, loops::SymbolicPlan& plan) {
  plan = loops::read_symbolic_plan(archive);
}

template <typename AnyPlan>
constexpr bool is_symbolic = std::is_same_v<AnyPlan, loops::SymbolicPlan>;

template <typename AnyPlan>
std::string write_any(const AnyPlan& plan, std::vector<std::string> code, Isa isa) {
  BRAZE_CHECK(code.size() == kernels_of(plan).size(), "a blob for each kernel");
  ArchiveWriter archive;
  archive.enumerator(isa, isa_count);
  loops::write(archive, plan);
  archive(code);
  const std::string body = archive.take();
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.version = version;
  header.symbolic = is_symbolic<AnyPlan>;
  header.size = body.size();
  header.checksum = hash_bytes(body.data(), body.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes += body;
}

template <typename Stored>
std::optional<Stored> read_any(std::string_view bytes) {
  Header header{};
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.remove_prefix(sizeof header);
  Stored stored;
  if (!is_artifact({header.magic, sizeof header.magic}) || header.version != version ||
      header.symbolic != is_symbolic<decltype(stored.plan)>)
    return std::nullopt;
  if (header.size != bytes.size() || header.checksum != hash_bytes(bytes.data(), bytes.size())) return std::nullopt;

  // The checksum says that these are the bytes written; what follows is checked even if they are not braze's.
  ArchiveReader archive(bytes);
  archive.enumerator(stored.isa, isa_count);
  read(archive, stored.plan);
  archive(stored.code);
  if (!archive.ok() || !archive.at_end() || stored.code.size() != kernels_of(stored.plan).size())
    return std::nullopt;
  for (size_t k = 0; k < stored.code.size(); ++k)
    if (!fits(stored.code[k], *kernels_of(stored.plan)[k])) return std::nullopt;
  return stored;
}

/// \param stored  StoredArtifact or StoredSymbolicArtifact.
std::vector<std::shared_ptr<const codegen::CompiledKernel>> load_code(const auto& stored) {
  if (stored.isa > Target::host().isa)
    throw UserError(concat("the code was made for ", Target(stored.isa).name(), ", which this CPU does not run"));
  std::vector<codegen::BlobView> blobs;
  for (const std::string& code : stored.code) blobs.push_back(codegen::read_blob(code).value());
  return codegen::load(blobs);
}

}  // namespace

std::string write_artifact(const loops::Plan& plan, std::vector<std::string> code, Isa isa) {
  return write_any(plan, std::move(code), isa);
}

std::string write_artifact(const loops::SymbolicPlan& plan, std::vector<std::string> code, Isa isa) {
  return write_any(plan, std::move(code), isa);
}

bool is_artifact(std::string_view bytes) {
  return bytes.starts_with(std::string_view(magic, sizeof magic));
}

std::optional<StoredArtifact> read_artifact(std::string_view bytes) {
  return read_any<StoredArtifact>(bytes);
}

std::optional<StoredSymbolicArtifact> read_symbolic_artifact(std::string_view bytes) {
  return read_any<StoredSymbolicArtifact>(bytes);
}

Artifact load(StoredArtifact stored) {
  Artifact artifact;
  artifact.code = load_code(stored);
  artifact.plan = std::move(stored.plan);
  inspect(artifact);
  return artifact;
}

SymbolicArtifact load(StoredSymbolicArtifact stored) {
  SymbolicArtifact artifact;
  artifact.code = load_code(stored);
  artifact.targets.assign(artifact.code.size(), &Target::of(stored.isa));
  artifact.plan = std::move(stored.plan);
  return artifact;
}

}  // namespace braze::driver
