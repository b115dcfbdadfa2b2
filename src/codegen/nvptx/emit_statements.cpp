// codegen/nvptx/emit_statements.cpp: the statements that are neither memory nor loops.
#include "codegen/nvptx/emit_statements.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/elementwise.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::BasicBlock;
using llvm::Value;

StatementEmitter::StatementEmitter(const Kernel& kernel, const Target& target, llvm::Module& module, bool aligned)
    : MemoryEmitter(kernel, target, module, aligned) {
  for (const Stmt& stmt : kernel.body) number_checks(stmt.loop->body);
}

void StatementEmitter::number_checks(const Block& block) {
  for (const Stmt& stmt : block) {
    if (stmt.kind == StmtKind::checked) checks_.try_emplace(&stmt, checks_.size());
    if (stmt.loop) number_checks(stmt.loop->body);
    number_checks(stmt.body);
  }
}

void StatementEmitter::emit_scalar(const Stmt& stmt) {
  Value* bits = function_->getArg(kernel_.parameter_count() + stmt.slot);
  llvm::Type* type = register_type(context_, stmt.type);
  const unsigned width = type->getScalarSizeInBits();
  if (width < 64 && stmt.type != DType::b8) bits = b_.CreateTrunc(bits, b_.getIntNTy(width));
  if (stmt.type == DType::b8) bits = b_.CreateICmpNE(b_.CreateTrunc(bits, b_.getInt8Ty()), b_.getInt8(0));
  define(stmt.result, {b_.CreateBitCast(bits, type)});
}

void StatementEmitter::emit_alloc(const Stmt& stmt) {
  const Buffer& buffer = kernel_.buffers[stmt.buffer];
  BRAZE_CHECK(buffer.size.is_constant(), "alloc of %", buffer.name, " needs a constant size");
  if (pointers_[stmt.buffer] || buffer.space == loops::Space::registers) return;  // made as its elements are met
  const int64_t bytes = buffer.size.constant * ir::byte_size(buffer.dtype);
  if (buffer.space == loops::Space::shared) {
    pointers_[stmt.buffer] = shared_array(bytes);
    return;
  }
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_, entry_->begin());
  auto* memory = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes));
  memory->setAlignment(llvm::Align(16));
  pointers_[stmt.buffer] = memory;
}

// ---- arithmetic

namespace {

bool is_division(ir::Op op) {
  return op == ir::Op::floor_div || op == ir::Op::trunc_div || op == ir::Op::remainder || op == ir::Op::fmod;
}

/// Both in the narrower type that holds them.
std::pair<Value*, Value*> together(llvm::IRBuilderBase& b, const Linear& x, const Linear& y, bool narrow) {
  Value *p = materialise(b, x, narrow), *q = materialise(b, y, narrow);
  if (p->getType() != q->getType()) p = b.CreateSExt(p, b.getInt64Ty()), q = b.CreateSExt(q, b.getInt64Ty());
  return {p, q};
}

/// What `x op y` is for all values within bounds; nothing if it differs.
std::optional<bool> known_comparison(ir::Op op, const Linear& x, const Linear& y) {
  Linear difference = x;
  difference.add(y, -1);
  const MaybeRange range = difference.range();
  if (!range) return std::nullopt;
  const auto [low, high] = *range;
  switch (op) {
    case ir::Op::lt: return high < 0 ? std::optional(true) : low >= 0 ? std::optional(false) : std::nullopt;
    case ir::Op::le: return high <= 0 ? std::optional(true) : low > 0 ? std::optional(false) : std::nullopt;
    case ir::Op::gt: return low > 0 ? std::optional(true) : high <= 0 ? std::optional(false) : std::nullopt;
    case ir::Op::ge: return low >= 0 ? std::optional(true) : high < 0 ? std::optional(false) : std::nullopt;
    default: return std::nullopt;
  }
}

MaybeRange extreme(const MaybeRange& a, const MaybeRange& b, bool largest) {
  if (!a || !b) return std::nullopt;
  if (largest) return Range{std::max(a->low, b->low), std::max(a->high, b->high)};
  return Range{std::min(a->low, b->low), std::min(a->high, b->high)};
}

}  // namespace

/// Arithmetic on indices: sums stay sums, the rest is done in 32 bits where bounds allow.
bool StatementEmitter::emit_number(const Stmt& stmt) {
  using ir::Op;
  const size_t first = stmt.op == Op::where ? 1 : 0;
  if (stmt.op == Op::cast || !is_number(stmt.args[first]) || stmt.args.size() != first + 2) return false;
  const bool compares = ir::info(stmt.op).kind == ir::OpKind::Compare;
  size_t lanes = 1;
  for (const ValueId arg : stmt.args) lanes = std::max(lanes, lanes_of_value(arg));
  Values answers;
  llvm::SmallVector<Linear, 1> numbers;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const Linear x = number(stmt.args[first], lane), y = number(stmt.args[first + 1], lane);
    const MaybeRange a = x.range(), b = y.range();
    const auto defined = [&](Value* value, const MaybeRange& range) {
      const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
      numbers.push_back(constant ? Linear(constant->getSExtValue()) : Linear(Base{value, range}));
    };
    if (compares) {
      if (const auto known = known_comparison(stmt.op, x, y)) {
        answers.push_back(b_.getInt1(*known));
        continue;
      }
      const auto [p, q] = together(b_, x, y, kernel_.narrow);
      answers.push_back(emit_elementwise(b_, stmt.op, DType::i64, {p, q}));
    } else if (is_division(stmt.op)) {
      // Rounding down needs no care where nothing is negative.
      if (!a || a->low < 0 || !y.is_constant() || y.constant <= 0) return false;
      const bool quotient = stmt.op == Op::floor_div || stmt.op == Op::trunc_div;
      if (x.is_constant()) {
        numbers.push_back(Linear(quotient ? x.constant / y.constant : x.constant % y.constant));
      } else if (a->high < y.constant) {
        numbers.push_back(quotient ? Linear(0) : x);
      } else {
        const auto [p, q] = together(b_, x, y, kernel_.narrow);
        defined(quotient ? b_.CreateUDiv(p, q) : b_.CreateURem(p, q),
                quotient ? Range{a->low / y.constant, a->high / y.constant} : Range{0, y.constant - 1});
      }
    } else if (stmt.op == Op::add || stmt.op == Op::sub) {
      Linear sum = x;
      sum.add(y, stmt.op == Op::add ? 1 : -1);
      if (!sum.range()) return false;  // it may wrap
      numbers.push_back(sum);
    } else if (stmt.op == Op::mul) {
      if (!x.is_constant() && !y.is_constant()) return false;
      Linear product;
      product.add(x.is_constant() ? y : x, x.is_constant() ? x.constant : y.constant);
      if (!product.range()) return false;
      numbers.push_back(product);
    } else if (stmt.op == Op::minimum || stmt.op == Op::maximum || stmt.op == Op::where) {
      const auto [p, q] = together(b_, x, y, kernel_.narrow);
      if (stmt.op == Op::where)
        defined(b_.CreateSelect(value(stmt.args[0], lane), p, q), join(a, b));
      else
        defined(
            b_.CreateBinaryIntrinsic(stmt.op == Op::minimum ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, p, q),
            extreme(a, b, stmt.op == Op::maximum));
    } else {
      return false;
    }
  }
  if (compares)
    define(stmt.result, std::move(answers));
  else
    define_number(stmt.result, std::move(numbers));
  return true;
}

void StatementEmitter::emit_compute(const Stmt& stmt) {
  if (loops::status_of(stmt.op) != 0) return emit_value_check(stmt);
  if (emit_number(stmt)) return;
  const DType operand = kernel_.types[stmt.args[stmt.op == ir::Op::where ? 1 : 0]];
  const DType result = kernel_.types[stmt.result];
  size_t lanes = 1;
  for (const ValueId arg : stmt.args) lanes = std::max(lanes, lanes_of_value(arg));
  Values results;
  for (size_t lane = 0; lane < lanes; ++lane) {
    llvm::SmallVector<Value*, 3> args;
    for (const ValueId arg : stmt.args) args.push_back(value(arg, lane));
    results.push_back(stmt.op == ir::Op::cast ? convert(b_, args[0], operand, result)
                                              : emit_elementwise(b_, stmt.op, operand, args));
  }
  define(stmt.result, std::move(results));
}

void StatementEmitter::set_status(Value* bad, int64_t status) {
  Value* to = function_->getArg(function_->arg_size() - 1);
  Value* wanted = b_.CreateICmpNE(to, llvm::Constant::getNullValue(to->getType()));
  when(b_.CreateAnd(bad, wanted), [&] { b_.CreateStore(b_.getInt64(status), to); });
}

void StatementEmitter::emit_checked(const Stmt& stmt) {
  const Linear size = extent(stmt.extent);
  llvm::SmallVector<Linear, 1> results;
  for (size_t lane = 0; lane < lanes_of_value(stmt.args[0]); ++lane) {
    const Linear index = number(stmt.args[0], lane);
    const MaybeRange range = index.range();
    if (range && range->low >= 0 && size.is_constant() && range->high < size.constant) {
      results.push_back(index);
      continue;
    }
    Value* whole = materialise_wide(b_, index, false);
    Value* outside = b_.CreateICmpUGE(whole, materialise_wide(b_, size, false));
    set_status(outside, 1 + checks_.lookup(&stmt));
    Value* inside = b_.CreateSelect(outside, b_.getInt64(0), whole);
    MaybeRange found;
    if (size.is_constant()) found = Range{0, std::max<int64_t>(0, size.constant - 1)};
    if (found && found->fits_32()) inside = b_.CreateTrunc(inside, b_.getInt32Ty());
    results.push_back(Linear(Base{inside, found}));
  }
  define_number(stmt.result, std::move(results));
}

void StatementEmitter::emit_value_check(const Stmt& stmt) {
  const size_t lanes = lanes_of_value(stmt.args[0]);
  Values values;
  for (size_t lane = 0; lane < lanes; ++lane) {
    values.push_back(value(stmt.args[0], lane));
    set_status(fails_check(b_, stmt.op, values.back()), loops::status_of(stmt.op));
  }
  define(stmt.result, std::move(values));
}

void StatementEmitter::emit_branch(const Stmt& stmt) {
  BRAZE_CHECK(lanes_of_value(stmt.predicate) == 1, "lanes that branch apart are run one after another");
  when(value(stmt.predicate, 0), [&] { emit_block(stmt.body); });
}

}  // namespace braze::codegen::nvptx
