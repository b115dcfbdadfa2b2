// Copies, conversions and fills.
#include "capture/devices.h"
#include "capture/index_map.h"
#include "capture/pointwise.h"

namespace braze::capture {
namespace {

/// Strides of a copy: `format` as an optional MemoryFormat argument, torch.preserve_format if it is None.
Sizes copy_strides(DimsRef sizes, DimsRef strides, const c10::IValue& format) {
  const auto wanted = format.isNone() ? c10::MemoryFormat::Preserve : format.toMemoryFormat();
  return wanted == c10::MemoryFormat::Preserve ? preserved_strides(sizes, strides) : format_strides(sizes, wanted);
}

bool clone(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const Sizes strides = copy_strides(x->sizes, x->strides, call.arg(1));
  return call.give(call.copy(x->value, call.type(x->dtype, x->sizes, strides)));
}

/// A tensor put together of numbers that vary, as torch.tensor([n, 3], dtype=torch.int32) is: eager raises for
/// those that the type does not hold.
void check_sizes_hold(const ir::Value* value, DType dtype) {
  const ir::Node& node = *value->def;
  if (node.op == Op::size) check_holds(dtype, node.size_attr("of"));
  if (node.op != Op::expand && node.op != Op::reshape && node.op != Op::cat) return;
  for (const ir::Value* operand : node.operands) check_sizes_hold(operand, dtype);
}

/// _to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format)
bool to_copy(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const ScalarType dtype = call.dtype(1).value_or(x->dtype);
  const bool other_layout = call.has(2) && call.arg(2).toLayout() != c10::kStrided;
  const bool other_device = call.has(3) && numbered(call.arg(3).toDevice()) != call.device();
  const bool pinned = call.has(4) && call.flag(4);
  if (!is_kernel_dtype(dtype) || other_layout || other_device || pinned) return false;
  if (x->dtype == ScalarType::Long && dtype != x->dtype) check_sizes_hold(x->value, to_dtype(dtype));
  const Sizes strides = copy_strides(x->sizes, x->strides, call.arg(6));
  return call.give(call.copy(x->value, call.type(dtype, x->sizes, strides)));
}

/// `value` in the geometry and dtype of argument 0, which is written. Nullptr if it does not broadcast.
ir::Value* filled(Call& call, const Operand& target, const Operand& value) {
  const ir::Type* type = call.type(target.dtype, target.sizes, preserved_strides(target.sizes, target.strides));
  if (value.is_number()) return call.full(type, value.number);
  Sizes sizes = target.sizes;
  if (!broadcast_into(sizes, value.sizes) || sizes != target.sizes) return nullptr;
  ir::Value* source = value.value;
  if (value.sizes != sizes) {
    const Sizes zeros(sizes.size(), 0);
    source = call.node(Op::expand, {source}, call.type(value.dtype, sizes, zeros));
  }
  return call.copy(source, type);
}

bool write_into(Call& call, const Operand& target, const Operand& value, const ViewPtr& view) {
  ir::Value* result = filled(call, target, value);
  if (!result) return false;
  write(call.recorder, *view, result);
  return call.give_tensor(call.tensor(0));
}

/// copy_(self, src, non_blocking)
bool copy_into(Call& call, const RuleRow&) {
  const auto target = call.operand(0), value = call.operand(1);
  if (!target || !value || (!value->is_number() && call.tensor(1).device() != call.tensor(0).device()))
    return false;
  return write_into(call, *target, *value, call.recorder.view_of(call.tensor(0)));
}

/// One number everywhere: elements that share their place (of an expanded tensor) are written once.
bool fill_with(Call& call, Operand target, const Operand& value) {
  const ViewPtr view = call.recorder.view_of(call.tensor(0));
  bool repeats = false;
  for (size_t k = 0; k < target.sizes.size(); ++k)
    if (target.strides[k] == 0 && target.sizes[k] > 1) target.sizes[k] = 1, repeats = true;
  if (!repeats) return write_into(call, target, value, view);
  const ir::Type* once = call.type(target.dtype, target.sizes, target.strides);
  const ViewPtr window = window_like(view, once, view->offset);
  return is_covered(*window) && write_into(call, target, value, window);
}

bool fill(Call& call, const RuleRow&) {
  const auto target = call.operand(0), value = call.operand(1);
  return target && value && value->sizes.empty() && fill_with(call, *target, *value);
}

bool zero(Call& call, const RuleRow&) {
  const auto target = call.operand(0);
  return target && fill_with(call, *target, Call::operand_of(0));
}

/// copy(self, src) and fill(self, value): the functional forms. variant 1: of one value alone.
bool filled_copy(Call& call, const RuleRow& row) {
  const auto target = call.operand(0), value = call.operand(1);
  if (!target || !value || target->is_number() || (row.variant == 1 && !value->sizes.empty())) return false;
  Operand fresh = *target;
  fresh.strides = preserved_strides(target->sizes, target->strides);
  ir::Value* result = filled(call, fresh, *value);
  return result && call.give(result);
}

}  // namespace

std::span<const RuleRow> copy_rules() {
  static constexpr RuleRow rows[] = {
      {"clone", clone},
      {"_to_copy", to_copy},
      {"copy_", copy_into},
      {"copy", filled_copy},
      {"fill_.Scalar", fill},
      {"fill_.Tensor", fill},
      {"fill.Scalar", filled_copy, {}, 1},
      {"fill.Tensor", filled_copy, {}, 1},
      {"zero_", zero},
  };
  return rows;
}

}  // namespace braze::capture
