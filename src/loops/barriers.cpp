#include "loops/barriers.h"

#include <set>

#include "support/error.h"

namespace braze::loops {

namespace {

struct Touched {
  std::set<BufferId> read, written;
};

void collect(const Kernel& kernel, const Block& block, Touched& touched);

void collect(const Kernel& kernel, const Stmt& stmt, Touched& touched) {
  const auto shared = [&](BufferId id) { return id != none && kernel.buffers[id].space == Space::shared; };
  if (stmt.kind == StmtKind::load && shared(stmt.buffer)) touched.read.insert(stmt.buffer);
  if ((stmt.kind == StmtKind::store || stmt.kind == StmtKind::atomic) && shared(stmt.buffer))
    touched.written.insert(stmt.buffer);
  if (stmt.loop) collect(kernel, stmt.loop->body, touched);
  collect(kernel, stmt.body, touched);
}

void collect(const Kernel& kernel, const Block& block, Touched& touched) {
  for (const Stmt& stmt : block) collect(kernel, stmt, touched);
}

void check_block(const Kernel& kernel, const Block& block) {
  Touched before;  // since the last barrier
  const auto require_apart = [&](const std::set<BufferId>& now, const std::set<BufferId>& earlier) {
    for (const BufferId id : now)
      if (earlier.contains(id))
        throw InternalError(concat("kernel @", kernel.name, ": no barrier stands between two uses of %",
                                   kernel.buffers[id].name, ", one of which writes it"));
  };
  for (const Stmt& stmt : block) {
    if (stmt.kind == StmtKind::barrier) {
      before = {};
      continue;
    }
    Touched now;
    collect(kernel, stmt, now);
    require_apart(now.read, before.written);
    require_apart(now.written, before.written);
    require_apart(now.written, before.read);
    before.read.merge(now.read);
    before.written.merge(now.written);
  }
}

}  // namespace

void check_barriers(const Kernel& kernel) {
  for (const Stmt& stmt : kernel.body)
    if (stmt.loop && stmt.loop->schedule.bind == Schedule::Bind::block) check_block(kernel, stmt.loop->body);
}

}  // namespace braze::loops
