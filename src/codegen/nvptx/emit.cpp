// codegen/nvptx/emit.cpp: phases to kernel functions, values, and the statements that are neither memory nor loops.
#include "codegen/nvptx/emit.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/elementwise.h"
#include "codegen/nvptx/emitter.h"
#include "codegen/random.h"
#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::BasicBlock;
using llvm::Value;

Emitter::Emitter(const Kernel& kernel, const Target& target, llvm::Module& module, bool aligned)
    : kernel_(kernel),
      target_(target),
      module_(module),
      context_(module.getContext()),
      b_(context_),
      aligned_(aligned),
      alignments_(kernel.parameter_count(), 1) {
  // As on the CPU: mul and add of separate ops may become one fma.
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);
  for (const Stmt& stmt : kernel.body) number_checks(stmt.loop->body);
}

void Emitter::number_checks(const Block& block) {
  for (const Stmt& stmt : block) {
    if (stmt.kind == StmtKind::checked) checks_.try_emplace(&stmt, checks_.size());
    if (stmt.loop) {
      for (const Reduction& reduction : stmt.loop->reductions)
        if (reduction.combiner) number_checks(*reduction.combiner);
      number_checks(stmt.loop->body);
    }
    number_checks(stmt.body);
  }
}

// ---- the function

void Emitter::begin_function(const std::string& name, uint32_t threads) {
  constexpr unsigned global = 1;
  llvm::SmallVector<llvm::Type*, 16> types(kernel_.parameter_count(), b_.getPtrTy(global));
  types.append(kernel_.scalars.size() + kernel_.symbols.size(), b_.getInt64Ty());
  types.push_back(b_.getPtrTy(global));
  function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false),
                                     llvm::Function::ExternalLinkage, name, module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  for (uint32_t id = 0; id < kernel_.parameter_count(); ++id)
    if (!kernel_.buffers[id].may_alias) function_->addParamAttr(id, llvm::Attribute::NoAlias);
  // That the block has exactly so many threads lets the assembler give each as many registers as there are.
  llvm::NamedMDNode* annotations = module_.getOrInsertNamedMetadata("nvvm.annotations");
  const auto annotate = [&](const char* what, uint32_t number) {
    annotations->addOperand(
        llvm::MDNode::get(context_, {llvm::ValueAsMetadata::get(function_), llvm::MDString::get(context_, what),
                                     llvm::ConstantAsMetadata::get(b_.getInt32(number))}));
  };
  annotate("kernel", 1);
  annotate("reqntidx", threads);
  annotate("reqntidy", 1);
  annotate("reqntidz", 1);

  entry_ = BasicBlock::Create(context_, "entry", function_);
  b_.SetInsertPoint(entry_);
  slots_.assign(kernel_.types.size(), {});
  pointers_.assign(kernel_.buffers.size(), nullptr);
  for (uint32_t id = 0; id < kernel_.parameter_count(); ++id) pointers_[id] = function_->getArg(id);
  registers_.clear();
  // A multiprocessor's, shared by the block's threads, without those that any thread needs.
  register_words_ =
      std::min<int64_t>(target_.gpu.registers / threads, target_.vector_registers) - target_.gpu.busy_registers;
  shared_ = {};
  threads_ = threads;
  thread_ = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  const auto warp = static_cast<uint64_t>(kWarp);
  lane_ = threads <= warp ? thread_ : b_.CreateAnd(thread_, warp - 1);
  warp_ = threads <= warp ? b_.getInt32(0) : b_.CreateLShr(thread_, 5);
  scope_ = Scope::block;
  lanes_ = 1;
  repeated_ = 0;
}

GpuPhase Emitter::emit_phase(const Loop& loop, const std::string& name) {
  BRAZE_CHECK(loop.begin_value == loops::none && loop.end_value == loops::none && loop.reductions.empty() &&
                  loop.begin == Extent(0) && (loop.step == 1 || loop.end.is_constant()),
              "blocks are counted from 0 to a number known at launch");
  // What is bound to nothing is little: a constant, say. One thread does it.
  const bool blocks = loop.schedule.bind == loops::Schedule::Bind::block;
  GpuPhase phase;
  phase.entry = name;
  phase.threads = blocks ? threads_of(loop) : static_cast<uint32_t>(kWarp);
  phase.blocks = blocks ? loop.end : Extent(1);
  if (blocks && loop.step != 1) phase.blocks = Extent((loop.end.constant + loop.step - 1) / loop.step);
  begin_function(name, phase.threads);
  if (blocks) {
    MaybeRange range;
    if (loop.end.is_constant()) range = Range{0, std::max<int64_t>(0, phase.blocks.constant - 1)};
    Value* number = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
    Linear variable;
    variable.add(Linear(Base{number, range}), loop.step);
    define_number(loop.var, {variable});
    emit_block(loop.body);
  } else {
    when(b_.CreateICmpEQ(thread_, b_.getInt32(0)), [&] {
      scope_ = Scope::thread;
      emit_loop(loop);
    });
  }
  b_.CreateRetVoid();
  BRAZE_CHECK(shared_.bytes() <= target_.gpu.shared_bytes, "a block has ", target_.gpu.shared_bytes,
              " bytes of shared memory, ", shared_.bytes(), " are wanted");
  phase.shared_bytes = static_cast<uint32_t>(shared_.bytes());
  return phase;
}

// ---- values

llvm::Type* Emitter::type_of(ValueId id) {
  return register_type(context_, kernel_.types[id]);
}

Value* Emitter::value(ValueId id, size_t lane) {
  if (is_number(id)) return materialise_wide(b_, number(id, lane), kernel_.narrow);
  const Values& values = slots_[id].values;
  BRAZE_CHECK(!values.empty(), "value ", id, " of kernel @", kernel_.name, " is used before it is defined");
  return values[values.size() == 1 ? 0 : lane];
}

Linear Emitter::number(ValueId id, size_t lane) const {
  const auto& numbers = slots_[id].numbers;
  BRAZE_CHECK(!numbers.empty(), "value ", id, " of kernel @", kernel_.name, " is used before it is defined");
  return numbers[numbers.size() == 1 ? 0 : lane];
}

void Emitter::define(ValueId id, Values values) {
  Slot& slot = slots_[id] = {};
  if (!is_number(id)) {
    slot.values = std::move(values);
    return;
  }
  for (Value* value : values) {
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
    slot.numbers.push_back(constant ? Linear(constant->getSExtValue()) : Linear(Base{value, std::nullopt}));
  }
}

void Emitter::define_number(ValueId id, llvm::SmallVector<Linear, 1> numbers) {
  slots_[id] = {};
  slots_[id].numbers = std::move(numbers);
}

Linear Emitter::extent(const Extent& extent) {
  Linear sum(extent.constant);
  if (extent.is_constant()) return sum;
  const auto first = kernel_.parameter_count() + static_cast<uint32_t>(kernel_.scalars.size());
  sum.add(Linear(Base{function_->getArg(first + extent.symbol), std::nullopt}), extent.factor);
  return sum;
}

size_t Emitter::lanes_of(const Affine& affine) const {
  size_t lanes = 1;
  for (const Affine::Term& term : affine.terms) lanes = std::max(lanes, lanes_of_value(term.value));
  return lanes;
}

Linear Emitter::linear(const Affine& affine, size_t lane) {
  Linear sum = extent(affine.offset);
  for (const Affine::Term& term : affine.terms) {
    const Linear factor = extent(term.factor), its = number(term.value, lane);
    if (factor.is_constant()) {
      sum.add(its, factor.constant);
    } else {
      Value* product = b_.CreateMul(materialise_wide(b_, factor, false), materialise_wide(b_, its, kernel_.narrow));
      sum.add(Linear(Base{product, std::nullopt}));
    }
  }
  return sum;
}

// ---- control

void Emitter::when(Value* condition, llvm::function_ref<void()> then) {
  when(condition, {}, [&] {
    then();
    return Values();
  });
}

Values Emitter::when(Value* condition, const Values& otherwise, llvm::function_ref<Values()> then) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) return known->isOne() ? then() : otherwise;
  BasicBlock* before = b_.GetInsertBlock();
  auto* inside = BasicBlock::Create(context_, "then", function_);
  auto* after = BasicBlock::Create(context_, "endif", function_);
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  const Values found = then();
  BasicBlock* last = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  Values results;
  for (size_t k = 0; k < otherwise.size(); ++k) {
    llvm::PHINode* phi = b_.CreatePHI(otherwise[k]->getType(), 2);
    phi->addIncoming(otherwise[k], before);
    phi->addIncoming(found[k], last);
    results.push_back(phi);
  }
  return results;
}

Value* Emitter::is_first() {
  if (scope_ == Scope::thread) return nullptr;
  return b_.CreateICmpEQ(scope_ == Scope::warp ? lane_ : thread_, b_.getInt32(0));
}

void Emitter::barrier() {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

// ---- statements

void Emitter::emit_block(const Block& block) {
  for (const Stmt& stmt : block) emit_stmt(stmt);
}

void Emitter::emit_stmt(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::constant:
      if (is_number(stmt.result)) return define_number(stmt.result, {Linear(stmt.number.as_int())});
      return define(stmt.result,
                    {ir::is_floating(stmt.type) ? codegen::number(context_, stmt.type, stmt.number.as_double())
                                                : codegen::integer(context_, stmt.type, stmt.number.as_int())});
    case StmtKind::scalar: return emit_scalar(stmt);
    case StmtKind::symbol:
      return define_number(stmt.result, {extent([&] {
                             Extent symbol;
                             symbol.factor = 1;
                             symbol.symbol = stmt.slot;
                             return symbol;
                           }())});
    case StmtKind::compute: return emit_compute(stmt);
    case StmtKind::affine: {
      llvm::SmallVector<Linear, 1> numbers;
      for (size_t lane = 0, count = lanes_of(stmt.index); lane < count; ++lane)
        numbers.push_back(linear(stmt.index, lane));
      return define_number(stmt.result, std::move(numbers));
    }
    case StmtKind::load: return emit_load(stmt);
    case StmtKind::store: return emit_store(stmt);
    case StmtKind::atomic: return emit_atomic(stmt);
    case StmtKind::checked: return emit_checked(stmt);
    case StmtKind::alloc: return emit_alloc(stmt);
    case StmtKind::loop: return emit_loop(*stmt.loop);
    case StmtKind::branch: return emit_branch(stmt);
    case StmtKind::barrier: return barrier();
    case StmtKind::random: return emit_random(stmt);
    case StmtKind::transpose:
    case StmtKind::dot:
    case StmtKind::tmpl: BRAZE_CHECK(false, "no loops for a GPU contain this statement");
  }
}

void Emitter::emit_scalar(const Stmt& stmt) {
  Value* bits = function_->getArg(kernel_.parameter_count() + stmt.slot);
  llvm::Type* type = register_type(context_, stmt.type);
  const unsigned width = type->getScalarSizeInBits();
  if (width < 64 && stmt.type != DType::b8) bits = b_.CreateTrunc(bits, b_.getIntNTy(width));
  if (stmt.type == DType::b8) bits = b_.CreateICmpNE(b_.CreateTrunc(bits, b_.getInt8Ty()), b_.getInt8(0));
  define(stmt.result, {b_.CreateBitCast(bits, type)});
}

/// Room in the block's shared memory, whose size is given at launch.
Value* Emitter::shared_array(int64_t bytes) {
  constexpr unsigned space = 3;
  if (!shared_memory_) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), 0);
    shared_memory_ = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                              "shared_memory", nullptr, llvm::GlobalValue::NotThreadLocal, space);
    shared_memory_->setAlignment(llvm::Align(16));
  }
  return b_.CreateConstInBoundsGEP1_32(b_.getInt8Ty(), shared_memory_, static_cast<unsigned>(shared_.take(bytes)));
}

void Emitter::emit_alloc(const Stmt& stmt) {
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
bool Emitter::emit_number(const Stmt& stmt) {
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

void Emitter::emit_compute(const Stmt& stmt) {
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

void Emitter::set_status(Value* bad, int64_t status) {
  Value* to = function_->getArg(function_->arg_size() - 1);
  Value* wanted = b_.CreateICmpNE(to, llvm::Constant::getNullValue(to->getType()));
  when(b_.CreateAnd(bad, wanted), [&] { b_.CreateStore(b_.getInt64(status), to); });
}

void Emitter::emit_checked(const Stmt& stmt) {
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

void Emitter::emit_value_check(const Stmt& stmt) {
  const size_t lanes = lanes_of_value(stmt.args[0]);
  Values values;
  for (size_t lane = 0; lane < lanes; ++lane) {
    values.push_back(value(stmt.args[0], lane));
    set_status(fails_check(b_, stmt.op, values.back()), loops::status_of(stmt.op));
  }
  define(stmt.result, std::move(values));
}

void Emitter::emit_random(const Stmt& stmt) {
  const size_t lanes = std::max(lanes_of_value(stmt.args[0]), lanes_of_value(stmt.args[1]));
  Values results;
  for (size_t lane = 0; lane < lanes; ++lane)
    results.push_back(
        random_number(b_, stmt.type, philox(b_, value(stmt.args[0], lane), value(stmt.args[1], lane))));
  define(stmt.result, std::move(results));
}

void Emitter::emit_branch(const Stmt& stmt) {
  BRAZE_CHECK(lanes_of_value(stmt.predicate) == 1, "lanes that branch apart are run one after another");
  when(value(stmt.predicate, 0), [&] { emit_block(stmt.body); });
}

Emission emit(const loops::Kernel& kernel, const Target& target, llvm::Module& module, std::string_view prefix,
              bool aligned) {
  Emitter emitter(kernel, target, module, aligned);
  Emission emission;
  for (const Stmt& stmt : kernel.body) {
    BRAZE_CHECK(stmt.kind == StmtKind::loop, "a kernel's top-level statements are loops");
    emission.phases.push_back(
        emitter.emit_phase(*stmt.loop, concat(prefix, static_cast<int>(emission.phases.size()))));
  }
  emission.alignments = emitter.alignments();
  return emission;
}

}  // namespace braze::codegen::nvptx
