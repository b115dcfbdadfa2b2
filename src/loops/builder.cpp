// loops/builder.cpp: appends statements, with the result types that the statement kinds imply.
#include <utility>

#include "loops/kernel.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Tests and comparisons give bool, `where` the type of what it chooses, all others the type of their operands.
DType compute_type(ir::Op op, const Kernel& kernel, const std::vector<ValueId>& args) {
  switch (ir::info(op).kind) {
    case ir::OpKind::UnaryTest:
    case ir::OpKind::Compare: return DType::b8;
    case ir::OpKind::Ternary: return kernel.types[args.at(1)];
    default: return kernel.types[args.at(0)];
  }
}

}  // namespace

Stmt& Builder::append(StmtKind kind, DType type, bool has_result) {
  Stmt& stmt = block_->emplace_back();
  stmt.kind = kind;
  stmt.type = type;
  if (has_result) stmt.result = kernel_.add_value(type);
  return stmt;
}

ValueId Builder::constant(DType type, Number number) {
  Stmt& stmt = append(StmtKind::constant, type, true);
  // One spelling a value, so that equal kernels hash alike: floating numbers for floating types.
  stmt.number = ir::is_floating(type) ? Number::of(number.as_double()) : Number::of_int(number.as_int());
  return stmt.result;
}

ValueId Builder::scalar(uint32_t slot) {
  Stmt& stmt = append(StmtKind::scalar, kernel_.scalars.at(slot).dtype, true);
  stmt.slot = slot;
  return stmt.result;
}

ValueId Builder::symbol(uint32_t slot) {
  BRAZE_CHECK(slot < kernel_.symbols.size(), "no symbol ", slot);
  Stmt& stmt = append(StmtKind::symbol, DType::i64, true);
  stmt.slot = slot;
  return stmt.result;
}

ValueId Builder::compute(ir::Op op, std::vector<ValueId> args) {
  BRAZE_CHECK(op != ir::Op::cast, "a cast needs a type: use Builder::cast");
  BRAZE_CHECK(ir::is_elementwise(op), ir::info(op).name, " is not elementwise");
  Stmt& stmt = append(StmtKind::compute, compute_type(op, kernel_, args), true);
  stmt.op = op;
  stmt.args = std::move(args);
  return stmt.result;
}

ValueId Builder::cast(ValueId value, DType type) {
  if (kernel_.types[value] == type) return value;
  Stmt& stmt = append(StmtKind::compute, type, true);
  stmt.op = ir::Op::cast;
  stmt.args = {value};
  return stmt.result;
}

ValueId Builder::affine(Affine index) {
  if (index.terms.size() == 1 && index.offset == Extent() && index.terms[0].factor == Extent(1))
    return index.terms[0].value;
  Stmt& stmt = append(StmtKind::affine, DType::i64, true);
  stmt.index = std::move(index);
  return stmt.result;
}

ValueId Builder::load(BufferId buffer, Affine index, ValueId predicate, ValueId otherwise) {
  BRAZE_CHECK((predicate == none) == (otherwise == none), "a predicated load needs a value for lanes not read");
  Stmt& stmt = append(StmtKind::load, ir::compute_dtype(kernel_.buffers.at(buffer).dtype), true);
  stmt.buffer = buffer;
  stmt.index = std::move(index);
  stmt.predicate = predicate;
  stmt.otherwise = otherwise;
  return stmt.result;
}

void Builder::store(BufferId buffer, Affine index, ValueId value, ValueId predicate, bool stream) {
  Stmt& stmt = append(StmtKind::store, kernel_.types[value], false);
  stmt.buffer = buffer;
  stmt.index = std::move(index);
  stmt.args = {value};
  stmt.predicate = predicate;
  stmt.stream = stream;
}

ValueId Builder::checked(ValueId index, Extent extent) {
  Stmt& stmt = append(StmtKind::checked, DType::i64, true);
  stmt.args = {index};
  stmt.extent = extent;
  return stmt.result;
}

BufferId Builder::alloc(std::string name, DType dtype, Extent size, Space space) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.access = Access::inout;
  buffer.space = space;
  buffer.may_alias = false;  // Memory of its own.
  buffer.size = size;
  buffer.is_parameter = false;
  kernel_.buffers.push_back(std::move(buffer));
  const auto id = static_cast<BufferId>(kernel_.buffers.size() - 1);
  append(StmtKind::alloc, dtype, false).buffer = id;
  return id;
}

Loop& Builder::loop(Extent begin, Extent end, Schedule schedule, int64_t step) {
  Stmt& stmt = append(StmtKind::loop, DType::i64, false);
  stmt.loop = std::make_unique<Loop>();
  Loop& loop = *stmt.loop;
  loop.var = kernel_.add_value(DType::i64);
  loop.begin = begin;
  loop.end = end;
  loop.step = step;
  loop.schedule = schedule;
  return loop;
}

}  // namespace braze::loops
