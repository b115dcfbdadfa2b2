#include "codegen/x86/blob.h"

#include <algorithm>
#include <cstring>

#include "codegen/x86/imports.h"
#include "support/error.h"
#include "support/hash.h"

namespace braze::codegen {

namespace {

constexpr char kMagic[8] = {'B', 'R', 'A', 'Z', 'E', 'K', 'R', '\n'};
constexpr uint32_t kVersion = 1;

// The layout: Header, PhaseRow[phases], ImportSlot[slots], padding to 64, image.
struct Header {
  char magic[8];
  uint32_t version, imports;  // imports: how many the table of the writer had
  uint64_t checksum;          // of everything after the header
  uint32_t phases, slots;
  uint64_t image_offset, image_size;
};

struct PhaseRow {
  uint32_t entry, parallel;
  int64_t constant, factor, grain;
  uint32_t symbol, unused;
};

template <typename T>
void append(std::string& bytes, const T& row) {
  bytes.append(reinterpret_cast<const char*>(&row), sizeof row);
}

/// Reads rows one after another; rows past the end are zero, and `ok` turns false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T read() {
    T row{};
    ok = ok && bytes_.size() - position_ >= sizeof row;
    if (ok) std::memcpy(&row, bytes_.data() + position_, sizeof row), position_ += sizeof row;
    return row;
  }
  bool ok = true;

 private:
  std::string_view bytes_;
  size_t position_ = 0;
};

/// How often a top-level loop runs, as a number or in one symbol.
loops::Extent iteration_count(const loops::Loop& loop) {
  BRAZE_CHECK(loop.begin_value == loops::none && loop.end_value == loops::none,
              "the bounds of a phase are computed by nothing before it");
  loops::Extent count = loop.end;
  count.constant -= loop.begin.constant;
  if (!loop.begin.is_constant()) {
    BRAZE_CHECK(loop.end.is_constant() || loop.end.symbol == loop.begin.symbol, "a phase runs over two symbols");
    count.factor = (loop.end.is_constant() ? 0 : loop.end.factor) - loop.begin.factor;
    count.symbol = loop.begin.symbol;
  }
  if (loop.step == 1) return count;
  if (!count.is_constant() && count.constant % loop.step == 0 && count.factor % loop.step == 0) {
    count.constant /= loop.step;
    count.factor /= loop.step;
    return count;
  }
  BRAZE_CHECK(count.is_constant(), "a phase in steps of ", loop.step, " has a constant size");
  return std::max<int64_t>(0, (count.constant + loop.step - 1) / loop.step);
}

}  // namespace

std::vector<PhaseFacts> phase_facts(const loops::Kernel& kernel) {
  std::vector<PhaseFacts> phases;
  for (const loops::Stmt& statement : kernel.body) {
    if (statement.kind != loops::StmtKind::loop) continue;
    const loops::Loop& loop = *statement.loop;
    PhaseFacts facts;
    facts.parallel = loop.schedule.parallel;
    facts.grain = std::max<int64_t>(loop.schedule.grain, 1);
    facts.iterations = iteration_count(loop);
    phases.push_back(facts);
  }
  return phases;
}

std::string write_blob(const Image& image, std::vector<PhaseFacts> phases) {
  BRAZE_CHECK(phases.size() == image.entries.size(), "one function a phase");
  std::string body;
  for (size_t i = 0; i < phases.size(); ++i) {
    const PhaseFacts& facts = phases[i];
    append(body, PhaseRow{image.entries[i], facts.parallel, facts.iterations.constant, facts.iterations.factor,
                          facts.grain, facts.iterations.symbol, 0});
  }
  for (const ImportSlot& slot : image.slots) append(body, slot);
  const size_t unpadded = sizeof(Header) + body.size();
  const size_t image_offset = (unpadded + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
  body.resize(image_offset - sizeof(Header));
  body.append(image.bytes.data(), image.bytes.size());

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.imports = import_count();
  header.checksum = hash_bytes(body.data(), body.size()).low;
  header.phases = static_cast<uint32_t>(phases.size());
  header.slots = static_cast<uint32_t>(image.slots.size());
  header.image_offset = image_offset;
  header.image_size = image.bytes.size();
  std::string bytes;
  bytes.reserve(sizeof header + body.size());
  append(bytes, header);
  return bytes += body;
}

std::optional<BlobView> read_blob(std::string_view bytes) {
  Reader reader(bytes);
  const Header header = reader.read<Header>();
  if (!reader.ok || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (header.version != kVersion || header.imports != import_count()) return std::nullopt;
  if (header.image_offset > bytes.size() || header.image_size != bytes.size() - header.image_offset)
    return std::nullopt;
  if (hash_bytes(bytes.data() + sizeof header, bytes.size() - sizeof header).low != header.checksum)
    return std::nullopt;

  // The checksum says that these are the bytes written; the bounds below keep even a forged blob from making the
  // loader write or jump outside of the image.
  BlobView blob;
  blob.image = {bytes.data() + header.image_offset, header.image_size};
  for (uint32_t i = 0; i < header.phases && reader.ok; ++i) {
    const PhaseRow row = reader.read<PhaseRow>();
    if (row.entry >= header.image_size) return std::nullopt;
    PhaseFacts facts{row.entry, row.parallel != 0, row.constant, row.grain};
    facts.iterations.factor = row.factor;
    facts.iterations.symbol = row.symbol;
    blob.phases.push_back(facts);
  }
  for (uint32_t i = 0; i < header.slots && reader.ok; ++i) {
    const ImportSlot slot = reader.read<ImportSlot>();
    if (slot.import >= import_count() || slot.offset % 8 != 0 || header.image_size < 8 ||
        slot.offset > header.image_size - 8)
      return std::nullopt;
    blob.slots.push_back(slot);
  }
  return reader.ok ? std::optional(std::move(blob)) : std::nullopt;
}

}  // namespace braze::codegen
