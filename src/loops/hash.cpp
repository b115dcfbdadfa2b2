// loops/hash.cpp: the key under which a kernel's machine code is kept.
//
// Names are left out and values are renumbered in order of definition, so that two programs which lower to the same
// loops share code. Everything else that code generation or launching can see goes in. Lowering a BERT-sized
// program hashes some 200 kernels: budget 10 us each, so values are packed into one buffer and hashed once.
#include <vector>

#include "loops/kernel.h"
#include "loops/plan.h"

namespace braze::loops {

namespace {

class KernelHasher {
 public:
  explicit KernelHasher(const Kernel& kernel) : kernel_(kernel), number_(kernel.types.size(), none) {}

  Hash128 run() {
    out_.add(kernel_.buffers.size()).add(kernel_.scalars.size()).add(kernel_.symbols.size()).add(kernel_.narrow);
    for (const Buffer& buffer : kernel_.buffers) add(buffer);
    for (const Scalar& scalar : kernel_.scalars) out_.add(scalar.dtype);
    add(kernel_.body);
    return out_.finish();
  }

 private:
  void define(ValueId value) {
    out_.add(kernel_.types[value]);
    number_[value] = next_++;
  }
  void define_all(const std::vector<ValueId>& values) {
    out_.add(static_cast<uint32_t>(values.size()));
    for (ValueId value : values) define(value);
  }
  void use(ValueId value) { out_.add(value == none ? none : number_[value]); }
  void use_all(const std::vector<ValueId>& values) {
    out_.add(static_cast<uint32_t>(values.size()));
    for (ValueId value : values) use(value);
  }

  void add(const Extent& extent) {
    out_.add(extent.constant);
    if (extent.is_constant())
      out_.add(none);
    else
      out_.add(extent.symbol).add(extent.factor);
  }
  void add(const Affine& index) {
    out_.add(static_cast<uint32_t>(index.terms.size()));
    for (const Affine::Term& term : index.terms) {
      add(term.factor);
      use(term.value);
    }
    add(index.offset);
  }
  void add(const Buffer& buffer) {
    out_.add(buffer.dtype)
        .add(buffer.space)
        .add(buffer.is_exact ? -buffer.alignment : buffer.alignment)
        .add(buffer.is_parameter);
    // An alloc is written and read, and overlaps nothing.
    if (buffer.is_parameter) out_.add(buffer.access).add(buffer.may_alias);
    add(buffer.size);
  }
  void add(const Schedule& s) {
    out_.add(s.parallel).add(s.vector).add(s.unroll).add(s.grain).add(s.bind);
    if (s.cluster != 1) out_.add(s.cluster);
  }

  void add(const Reduction& r) {
    out_.add(r.combine);
    use_all(r.init);
    define_all(r.state);
  }
  void add(const Loop& loop) {
    use(loop.begin_value);
    if (loop.begin_value == none) add(loop.begin);
    use(loop.end_value);
    if (loop.end_value == none) add(loop.end);
    out_.add(loop.step);
    add(loop.schedule);
    define(loop.var);
    out_.add(static_cast<uint32_t>(loop.reductions.size()));
    for (const Reduction& reduction : loop.reductions) add(reduction);
    add(loop.body);
    for (const Reduction& reduction : loop.reductions) {
      use_all(reduction.yielded);
      define_all(reduction.results);
    }
  }
  void add(const Block& block) {
    out_.add(static_cast<uint32_t>(block.size()));
    for (const Stmt& stmt : block) add(stmt);
  }
  void add(const Stmt& stmt);

  const Kernel& kernel_;
  Hasher out_;
  std::vector<uint32_t> number_;
  uint32_t next_ = 0;
};

void KernelHasher::add(const Stmt& s) {
  out_.add(s.kind);
  switch (s.kind) {
    case StmtKind::constant:
      // By bits: 0.0 and -0.0 differ.
      out_.add(s.number.floating);
      if (s.number.floating)
        out_.add(s.number.f);
      else
        out_.add(s.number.i);
      break;
    case StmtKind::scalar:
    case StmtKind::symbol: out_.add(s.slot); break;
    case StmtKind::compute:
      out_.add(ir::key(s.op));
      use_all(s.args);
      break;
    case StmtKind::affine: add(s.index); break;
    case StmtKind::load:
    case StmtKind::store:
    case StmtKind::atomic:
      out_.add(s.buffer).add(s.stream).add(s.atomic);
      add(s.index);
      use_all(s.args);
      use(s.predicate);
      use(s.otherwise);
      break;
    case StmtKind::checked:
      use_all(s.args);
      add(s.extent);
      break;
    case StmtKind::alloc: out_.add(s.buffer); break;
    case StmtKind::loop: add(*s.loop); return;
    case StmtKind::branch:
      use(s.predicate);
      add(s.body);
      return;
    case StmtKind::barrier: break;
    case StmtKind::transpose:
      out_.add(s.buffer);
      add(s.index);
      out_.add(static_cast<uint32_t>(s.sources.size()));
      for (BufferId source : s.sources) out_.add(source);
      out_.add(std::span<const int64_t>(s.shape));
      out_.add(static_cast<uint32_t>(s.sizes.size()));
      for (const Extent& size : s.sizes) add(size);
      use_all(s.valid);
      break;
  }
  if (s.result != none) define(s.result);
}

}  // namespace

Hash128 structural_hash(const Kernel& kernel) {
  return KernelHasher(kernel).run();
}

Hash128 kernel_hash(const Kernel& kernel, ir::DeviceKind device) {
  const Hash128 hash = structural_hash(kernel);
  return device == ir::DeviceKind::cpu ? hash : Hasher().add(hash).add(device).finish();
}

}  // namespace braze::loops
