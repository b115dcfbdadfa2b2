#include "loops/origins.h"

#include <algorithm>
#include <optional>

namespace braze::loops {

namespace {

template <typename Body>
void for_each_stmt(Block& block, Body&& body) {
  for (Stmt& stmt : block) {
    body(stmt);
    if (stmt.loop) for_each_stmt(stmt.loop->body, body);
    for_each_stmt(stmt.body, body);
  }
}

/// Which buffer the statement's index is about.
BufferId indexed(const Stmt& stmt) {
  if (stmt.kind == StmtKind::transpose) return stmt.sources[0];
  return stmt.kind == StmtKind::load || stmt.kind == StmtKind::store ? stmt.buffer : none;
}

}  // namespace

std::vector<int64_t> move_origins(Kernel& kernel, int64_t strict) {
  std::vector<std::optional<int64_t>> lowest(kernel.buffers.size());
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    const BufferId id = indexed(stmt);
    if (id == none) return;
    const int64_t offset = stmt.index.offset.is_constant() ? stmt.index.offset.constant : 0;
    lowest[id] = std::min(lowest[id].value_or(offset), offset);
  });
  std::vector<int64_t> origins;
  bool any = false;
  for (BufferId id = 0; id < kernel.buffers.size(); ++id) {
    Buffer& buffer = kernel.buffers[id];
    const bool moves = buffer.is_parameter && buffer.access != Access::inout && lowest[id].value_or(0) > 0;
    if (!moves) lowest[id] = 0;
    if (buffer.is_parameter) origins.push_back(*lowest[id]);
    if (!moves) continue;
    any = true;
    const int64_t element = ir::byte_size(buffer.dtype);
    const int64_t bytes = *lowest[id] * element, multiple_of = bytes & -bytes;
    // Planned memory begins at a multiple of more, so it is known how far the place is from one.
    if (strict > 0 && buffer.alignment == planned_alignment) {
      buffer.alignment = std::min(multiple_of, strict);
      buffer.is_exact = multiple_of < strict;
    } else if (bytes % planned_alignment != 0) {
      buffer.alignment = std::min(buffer.alignment, element);
    }
    if (buffer.size.is_constant() && buffer.size.constant > 0) buffer.size.constant -= *lowest[id];
  }
  if (!any) return {};
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    if (const BufferId id = indexed(stmt); id != none) stmt.index.offset.constant -= *lowest[id];
  });
  return origins;
}

}  // namespace braze::loops
