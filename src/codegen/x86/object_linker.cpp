#include "codegen/x86/object_linker.h"

#include <elf.h>

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "codegen/x86/imports.h"
#include "support/error.h"

namespace braze::codegen {

namespace {

constexpr uint32_t kUnplaced = ~0u;

/// Typed windows onto an object file. LLVM has just written it, so that its bounds need no check; files from disk
/// are blobs, not objects.
class ObjectFile {
 public:
  explicit ObjectFile(std::span<const char> bytes) : data_(bytes.data()) {
    const auto* header = at<Elf64_Ehdr>(0);
    BRAZE_CHECK(bytes.size() > sizeof(Elf64_Ehdr) && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                    header->e_machine == EM_X86_64 && header->e_type == ET_REL,
                "not an x86-64 object file");
    sections_ = {at<Elf64_Shdr>(header->e_shoff), header->e_shnum};
    for (uint32_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& section = sections_[i];
      if (section.sh_type == SHT_RELA) relocations_.emplace(section.sh_info, rows<Elf64_Rela>(section));
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols_ = rows<Elf64_Sym>(section);
      names_ = data_ + sections_[section.sh_link].sh_offset;
    }
  }

  const Elf64_Shdr& section(uint32_t i) const { return sections_[i]; }
  const char* contents(uint32_t i) const { return data_ + sections_[i].sh_offset; }
  size_t section_count() const { return sections_.size(); }
  const Elf64_Sym& symbol(uint32_t i) const { return symbols_[i]; }
  std::string_view name(const Elf64_Sym& symbol) const { return names_ + symbol.st_name; }

  std::span<const Elf64_Rela> relocations(uint32_t section) const {
    const auto found = relocations_.find(section);
    return found == relocations_.end() ? std::span<const Elf64_Rela>() : found->second;
  }

  const Elf64_Sym& defined(std::string_view wanted) const {
    for (const Elf64_Sym& symbol : symbols_)
      if (symbol.st_shndx != SHN_UNDEF && name(symbol) == wanted) return symbol;
    BRAZE_CHECK(false, "the object file has no function ", wanted);
  }

 private:
  template <typename T>
  const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(data_ + offset);
  }
  template <typename T>
  std::span<const T> rows(const Elf64_Shdr& section) const {
    return {at<T>(section.sh_offset), section.sh_size / sizeof(T)};
  }

  const char* data_;
  const char* names_ = nullptr;
  std::span<const Elf64_Shdr> sections_;
  std::span<const Elf64_Sym> symbols_;
  std::unordered_map<uint32_t, std::span<const Elf64_Rela>> relocations_;
};

class Linker {
 public:
  explicit Linker(std::span<const char> object) : file_(object), placed_(file_.section_count(), kUnplaced) {}

  Image run(std::span<const std::string> roots) {
    for (const std::string& root : roots) reach(file_.defined(root).st_shndx);
    for (size_t i = 0; i < reached_.size(); ++i)  // grows as sections are reached
      for (const Elf64_Rela& relocation : file_.relocations(reached_[i])) reach_target(relocation);
    for (const uint32_t section : reached_) place(section);
    for (const uint32_t section : reached_)
      for (const Elf64_Rela& relocation : file_.relocations(section)) resolve(section, relocation);
    for (const std::string& root : roots) {
      const Elf64_Sym& symbol = file_.defined(root);
      image_.entries.push_back(placed_[symbol.st_shndx] + static_cast<uint32_t>(symbol.st_value));
    }
    return std::move(image_);
  }

 private:
  void reach(uint32_t section) {
    if (placed_[section] != kUnplaced) return;
    const Elf64_Shdr& header = file_.section(section);
    BRAZE_CHECK((header.sh_flags & SHF_ALLOC) && !(header.sh_flags & SHF_WRITE) && header.sh_type == SHT_PROGBITS,
                "generated code may have functions and constants only");
    placed_[section] = 0;
    reached_.push_back(section);
  }

  void reach_target(const Elf64_Rela& relocation) {
    const Elf64_Sym& symbol = file_.symbol(ELF64_R_SYM(relocation.r_info));
    if (symbol.st_shndx != SHN_UNDEF) reach(symbol.st_shndx);
  }

  uint32_t append(size_t size, size_t alignment) {
    const size_t offset = (image_.bytes.size() + alignment - 1) / alignment * alignment;
    image_.bytes.resize(offset + size);
    BRAZE_CHECK(image_.bytes.size() < (1u << 30) && alignment <= kImageAlignment, "a kernel's code is too large");
    return static_cast<uint32_t>(offset);
  }

  void place(uint32_t section) {
    const Elf64_Shdr& header = file_.section(section);
    placed_[section] = append(header.sh_size, std::max<size_t>(header.sh_addralign, 1));
    std::memcpy(image_.bytes.data() + placed_[section], file_.contents(section), header.sh_size);
  }

  /// Offset of the slot that holds the address of an imported function.
  uint32_t slot_of(std::string_view name) {
    const std::optional<uint32_t> import = find_import(name);
    BRAZE_CHECK(import, "generated code calls ", name, ", which is not in the table of imports");
    for (const ImportSlot& slot : image_.slots)
      if (slot.import == *import) return slot.offset;
    image_.slots.push_back({*import, append(8, 8)});
    return image_.slots.back().offset;
  }

  /// Offset of `jmp *slot(%rip)`, for direct calls of an imported function.
  uint32_t stub_of(std::string_view name) {
    const uint32_t slot = slot_of(name);
    const auto [found, is_new] = stubs_.try_emplace(slot, 0);
    if (is_new) {
      const uint32_t stub = found->second = append(8, 8);
      const int32_t distance = static_cast<int32_t>(slot - (stub + 6));
      const char jump[2] = {'\xFF', '\x25'};
      std::memcpy(&image_.bytes[stub], jump, 2);
      std::memcpy(&image_.bytes[stub + 2], &distance, 4);
    }
    return found->second;
  }

  void resolve(uint32_t section, const Elf64_Rela& relocation) {
    const Elf64_Sym& symbol = file_.symbol(ELF64_R_SYM(relocation.r_info));
    const uint32_t type = ELF64_R_TYPE(relocation.r_info);
    const bool imported = symbol.st_shndx == SHN_UNDEF;
    int64_t target = 0;
    switch (type) {
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
        target = imported ? stub_of(file_.name(symbol))
                          : static_cast<int64_t>(placed_[symbol.st_shndx]) + static_cast<int64_t>(symbol.st_value);
        break;
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        BRAZE_CHECK(imported, "a local function is reached through a slot");
        target = slot_of(file_.name(symbol));
        break;
      default: BRAZE_CHECK(false, "relocation of type ", type, " in position-independent code");
    }
    const uint64_t place = placed_[section] + relocation.r_offset;
    const int32_t value = static_cast<int32_t>(target + relocation.r_addend - static_cast<int64_t>(place));
    std::memcpy(&image_.bytes[place], &value, 4);
  }

  ObjectFile file_;
  std::vector<uint32_t> placed_;                  // section -> offset in the image
  std::vector<uint32_t> reached_;                 // sections, in the order in which they are placed
  std::unordered_map<uint32_t, uint32_t> stubs_;  // slot -> stub
  Image image_;
};

}  // namespace

Image link_object(std::span<const char> object, std::span<const std::string> roots) {
  return Linker(object).run(roots);
}

}  // namespace braze::codegen
