#include "codegen/math.h"

#include <llvm/IR/Module.h>

#include "codegen/capabilities.h"
#include "codegen/device.h"
#include "codegen/math_lanes.h"
#include "codegen/nvptx/math.h"
#include "support/error.h"

namespace braze::codegen {

namespace {

using ir::Op;
using llvm::Value;

Value* emit_rsqrt(const Lanes& l, Value* x) {
  return l.div(l.number(1), l.sqrt(x));
}

/// How an op is written; null: by a library call.
struct Row {
  Op op;
  Value* (*unary_f32)(const Lanes&, Value*);
  Value* (*unary_f64)(const Lanes&, Value*);
  Value* (*binary_f32)(const Lanes&, Value*, Value*);
};

constexpr Row kRows[] = {
    {Op::exp, emit_exp, emit_exp, nullptr},
    {Op::exp2, emit_exp2, emit_exp2, nullptr},
    {Op::expm1, emit_expm1, emit_expm1, nullptr},
    {Op::log, emit_log, emit_log, nullptr},
    {Op::log2, emit_log2, emit_log2, nullptr},
    {Op::log10, emit_log10, emit_log10, nullptr},
    {Op::log1p, emit_log1p, emit_log1p, nullptr},
    {Op::sin, emit_sin_f32, nullptr, nullptr},
    {Op::cos, emit_cos_f32, nullptr, nullptr},
    {Op::tan, emit_tan_f32, nullptr, nullptr},
    {Op::tanh, emit_tanh, emit_tanh, nullptr},
    {Op::asin, emit_asin_f32, nullptr, nullptr},
    {Op::acos, emit_acos_f32, nullptr, nullptr},
    {Op::atan, emit_atan_f32, nullptr, nullptr},
    {Op::sinh, emit_sinh_f32, nullptr, nullptr},
    {Op::cosh, emit_cosh_f32, nullptr, nullptr},
    {Op::asinh, emit_asinh_f32, nullptr, nullptr},
    {Op::acosh, emit_acosh_f32, nullptr, nullptr},
    {Op::atanh, emit_atanh_f32, nullptr, nullptr},
    {Op::erf, emit_erf_f32, nullptr, nullptr},
    {Op::erfc, emit_erfc_f32, nullptr, nullptr},
    {Op::erfinv, nullptr, nullptr, nullptr},
    {Op::lgamma, nullptr, nullptr, nullptr},
    {Op::digamma, nullptr, nullptr, nullptr},
    {Op::sigmoid, emit_sigmoid, emit_sigmoid, nullptr},
    {Op::rsqrt, emit_rsqrt, emit_rsqrt, nullptr},
    {Op::pow, nullptr, nullptr, emit_pow_f32},
    {Op::atan2, nullptr, nullptr, emit_atan2_f32},
    {Op::hypot, nullptr, nullptr, emit_hypot_f32},
    {Op::nextafter, nullptr, nullptr, nullptr},
};

const Row& row_of(Op op) {
  for (const Row& row : kRows)
    if (row.op == op) return row;
  BRAZE_CHECK(false, "no inline math for ", ir::info(op).name);
}

}  // namespace

bool math_adds_blocks(Op op, bool is_double) {
  return !is_double && (op == Op::sin || op == Op::cos || op == Op::tan);
}

bool can_compute(const Target& target, Op op, ir::DType type) {
  if (!target.is_gpu() || !ir::is_floating(type)) return true;
  if (op == Op::gelu) op = Op::erf;  // passes/decompose
  for (const Row& row : kRows) {
    if (row.op != op) continue;
    if (type != ir::DType::f64) return row.unary_f32 || row.binary_f32;
    return row.unary_f64 != nullptr;
  }
  return true;
}

Value* Lanes::near_quotient(Value* x, Value* y) const {
  return !is_double_ && is_for_gpu(b) ? nvptx::approximate_quotient(*this, x, y) : div(x, y);
}

Value* emit_math(llvm::IRBuilderBase& b, Op op, llvm::ArrayRef<Value*> args) {
  const Row& row = row_of(op);
  const ir::OpInfo& facts = ir::info(op);
  BRAZE_CHECK(static_cast<int>(args.size()) == facts.fewest_operands, facts.name, " takes ", facts.fewest_operands,
              " operands, not ", args.size());
  llvm::Type* type = args[0]->getType();
  BRAZE_CHECK(type->getScalarType()->isFloatTy() || type->getScalarType()->isDoubleTy(), facts.name,
              " is of float or double");
  const Lanes lanes(b, type);
  if (args.size() == 2) {
    if (!lanes.is_double() && row.binary_f32) return row.binary_f32(lanes, args[0], args[1]);
    return emit_library_call(lanes, facts.name, args[0], args[1]);
  }
  if (is_for_gpu(b))
    if (const nvptx::Unary form = nvptx::device_form(op, lanes.is_double())) return form(lanes, args[0]);
  const auto inline_form = lanes.is_double() ? row.unary_f64 : row.unary_f32;
  return inline_form ? inline_form(lanes, args[0]) : emit_library_call(lanes, facts.name, args[0], nullptr);
}

Value* emit_library_call(const Lanes& l, std::string_view function, Value* x, Value* second) {
  llvm::IRBuilderBase& b = l.b;
  BRAZE_CHECK(!is_for_gpu(b), "a GPU has no library to call for ", function, ": can_compute() says so");
  llvm::Function* parent = b.GetInsertBlock()->getParent();
  const auto new_slot = [&] {  // in the entry block, where it is part of the frame
    llvm::IRBuilder<> entry(&parent->getEntryBlock(), parent->getEntryBlock().begin());
    return entry.CreateAlloca(l.type());
  };
  llvm::Type* pointer = b.getPtrTy();
  const std::string name = concat("braze.lanes.", function, l.is_double() ? ".f64" : ".f32");
  llvm::SmallVector<llvm::Type*, 3> types{pointer};
  llvm::SmallVector<Value*, 3> args{new_slot()};
  b.CreateStore(x, args[0]);
  if (second) {
    types.push_back(pointer);
    args.push_back(new_slot());
    b.CreateStore(second, args[1]);
  }
  types.push_back(b.getInt64Ty());
  args.push_back(b.getInt64(l.count()));
  llvm::FunctionCallee callee =
      parent->getParent()->getOrInsertFunction(name, llvm::FunctionType::get(b.getVoidTy(), types, false));
  llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  b.CreateCall(callee, args);
  return b.CreateLoad(l.type(), args[0]);
}

}  // namespace braze::codegen
