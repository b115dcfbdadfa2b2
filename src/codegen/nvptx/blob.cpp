#include "codegen/nvptx/blob.h"

#include <cstring>

#include "support/archive.h"
#include "support/hash.h"

namespace braze::codegen {

template <typename Archive>
void transfer(Archive& archive, GpuPhase& phase) {
  archive(phase.entry, phase.threads, phase.blocks.constant, phase.blocks.factor, phase.blocks.symbol,
          phase.shared_bytes, phase.cluster);
}

}  // namespace braze::codegen

namespace braze::codegen::nvptx {

namespace {

constexpr char kMagic[8] = {'B', 'R', 'A', 'Z', 'E', 'G', 'P', '\n'};
constexpr uint32_t kVersion = 2;

struct Header {
  char magic[8];
  uint32_t version, unused;
  Hash128 checksum;  // of everything behind the header
};

template <typename Archive>
void transfer_all(Archive& archive, Blob& blob) {
  archive(blob.phases, blob.alignments, blob.scalars, blob.symbols, blob.code, blob.source);
}

}  // namespace

std::string write_blob(Blob blob) {
  ArchiveWriter archive;
  transfer_all(archive, blob);
  const std::string body = archive.take();
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.checksum = hash_bytes(body.data(), body.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes += body;
}

std::optional<Blob> read_blob(std::string_view bytes) {
  Header header{};
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.remove_prefix(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion) return std::nullopt;
  if (header.checksum != hash_bytes(bytes.data(), bytes.size())) return std::nullopt;
  ArchiveReader archive(bytes);
  Blob blob;
  transfer_all(archive, blob);
  if (!archive.ok() || !archive.at_end() || blob.phases.empty()) return std::nullopt;
  return blob;
}

}  // namespace braze::codegen::nvptx
