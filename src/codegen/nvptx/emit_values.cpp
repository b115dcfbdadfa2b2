// codegen/nvptx/emit_values.cpp: the function of a phase, values, what threads wait for.
#include "codegen/nvptx/emit_values.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/types.h"
#include "support/error.h"

namespace braze::codegen::nvptx {

using llvm::BasicBlock;
using llvm::Value;

ValueEmitter::ValueEmitter(const Kernel& kernel, const Target& target, llvm::Module& module, bool aligned)
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
}

// ---- the function

void ValueEmitter::begin_function(const std::string& name, uint32_t threads, uint32_t cluster) {
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
  cluster_ = cluster;
  cluster_thread_ = thread_;
  if (cluster > 1) {
    Value* rank = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {}, {});
    cluster_thread_ = b_.CreateAdd(b_.CreateMul(rank, b_.getInt32(threads)), thread_, "", true, true);
  }
  scope_ = Scope::block;
  lanes_ = 1;
  repeated_ = 0;
}

// ---- values

llvm::Type* ValueEmitter::type_of(ValueId id) {
  return register_type(context_, kernel_.types[id]);
}

Value* ValueEmitter::value(ValueId id, size_t lane) {
  if (is_number(id)) return materialise_wide(b_, number(id, lane), kernel_.narrow);
  const Values& values = slots_[id].values;
  BRAZE_CHECK(!values.empty(), "value ", id, " of kernel @", kernel_.name, " is used before it is defined");
  return values[values.size() == 1 ? 0 : lane];
}

Linear ValueEmitter::number(ValueId id, size_t lane) const {
  const auto& numbers = slots_[id].numbers;
  BRAZE_CHECK(!numbers.empty(), "value ", id, " of kernel @", kernel_.name, " is used before it is defined");
  return numbers[numbers.size() == 1 ? 0 : lane];
}

void ValueEmitter::define(ValueId id, Values values) {
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

void ValueEmitter::define_number(ValueId id, llvm::SmallVector<Linear, 1> numbers) {
  slots_[id] = {};
  slots_[id].numbers = std::move(numbers);
}

Linear ValueEmitter::extent(const Extent& extent) {
  Linear sum(extent.constant);
  if (extent.is_constant()) return sum;
  const auto first = kernel_.parameter_count() + static_cast<uint32_t>(kernel_.scalars.size());
  sum.add(Linear(Base{function_->getArg(first + extent.symbol), std::nullopt}), extent.factor);
  return sum;
}

size_t ValueEmitter::lanes_of(const Affine& affine) const {
  size_t lanes = 1;
  for (const Affine::Term& term : affine.terms) lanes = std::max(lanes, lanes_of_value(term.value));
  return lanes;
}

Linear ValueEmitter::linear(const Affine& affine, size_t lane) {
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

void ValueEmitter::when(Value* condition, llvm::function_ref<void()> then) {
  when(condition, {}, [&] {
    then();
    return Values();
  });
}

Values ValueEmitter::when(Value* condition, const Values& otherwise, llvm::function_ref<Values()> then) {
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

Value* ValueEmitter::is_first() {
  if (scope_ == Scope::thread) return nullptr;
  return b_.CreateICmpEQ(scope_ == Scope::warp ? lane_ : cluster_thread_, b_.getInt32(0));
}

void ValueEmitter::barrier() {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

/// All threads of all blocks of the cluster meet, and see what each has written to its block's shared memory.
void ValueEmitter::cluster_barrier() {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned, {}, {});
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {}, {});
}

/// Room in the block's shared memory, whose size is given at launch.
Value* ValueEmitter::shared_array(int64_t bytes) {
  constexpr unsigned space = 3;
  if (!shared_memory_) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), 0);
    shared_memory_ = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                              "shared_memory", nullptr, llvm::GlobalValue::NotThreadLocal, space);
    shared_memory_->setAlignment(llvm::Align(16));
  }
  return b_.CreateConstInBoundsGEP1_32(b_.getInt8Ty(), shared_memory_, static_cast<unsigned>(shared_.take(bytes)));
}

}  // namespace braze::codegen::nvptx
