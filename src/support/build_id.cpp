#include "support/build_id.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace braze {

std::string_view build_id() {
  struct Search {
    uintptr_t inside;
    std::string_view id;
  };
  static const std::string_view id = [] {
    Search search{reinterpret_cast<uintptr_t>(&build_id), {}};
    dl_iterate_phdr(
        [](dl_phdr_info* file, size_t, void* data) {
          Search& search = *static_cast<Search*>(data);
          const std::span headers(file->dlpi_phdr, file->dlpi_phnum);
          const bool ours = std::any_of(headers.begin(), headers.end(), [&](const ElfW(Phdr) & h) {
            return h.p_type == PT_LOAD && search.inside - (file->dlpi_addr + h.p_vaddr) < h.p_memsz;
          });
          if (!ours) return 0;
          for (const ElfW(Phdr) & h : headers) {
            if (h.p_type != PT_NOTE) continue;
            const char* note = reinterpret_cast<const char*>(file->dlpi_addr + h.p_vaddr);
            for (const char* end = note + h.p_memsz; note + sizeof(ElfW(Nhdr)) <= end;) {
              const auto* head = reinterpret_cast<const ElfW(Nhdr)*>(note);
              const char* contents = note + sizeof *head + (head->n_namesz + 3) / 4 * 4;
              if (head->n_type == NT_GNU_BUILD_ID) search.id = {contents, head->n_descsz};
              note = contents + (head->n_descsz + 3) / 4 * 4;
            }
          }
          return 1;
        },
        &search);
    return search.id;
  }();
  return id;
}

}  // namespace braze
