#include "capture/call.h"

#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <vector>

#include "capture/arguments.h"
#include "capture/devices.h"
#include "capture/index_map.h"
#include "capture/number.h"
#include "capture/size_node.h"
#include "codegen/capabilities.h"

namespace braze::capture {

ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return ScalarType::Double;
    case DType::f32: return ScalarType::Float;
    case DType::bf16: return ScalarType::BFloat16;
    case DType::f16: return ScalarType::Half;
    case DType::i64: return ScalarType::Long;
    case DType::i32: return ScalarType::Int;
    case DType::i16: return ScalarType::Short;
    case DType::i8: return ScalarType::Char;
    case DType::u8: return ScalarType::Byte;
    case DType::b8: return ScalarType::Bool;
    case DType::c64: return ScalarType::ComplexFloat;
    case DType::c128: return ScalarType::ComplexDouble;
    case DType::other: break;
  }
  return ScalarType::Undefined;
}

bool Call::has(size_t i) const {
  const c10::IValue& value = arguments[i];
  if (value.isNone()) return false;
  return !value.isTensor() || value.toTensor().defined();
}

Sizes Call::ints(size_t i) const {
  const c10::IValue& value = arguments[i];
  if (value.isNone()) return {};
  if (value.isInt() || value.isSymInt()) return {dim_of(value)};
  if (value.isIntList()) {
    const auto list = value.toDimVector();
    return {list.begin(), list.end()};
  }
  Sizes sizes;
  for (const c10::IValue& each : value.toListRef()) sizes.push_back(dim_of(each));
  return sizes;
}

Places Call::places(size_t i) const {
  const Sizes numbers = ints(i);
  return {numbers.begin(), numbers.end()};
}

Dim Call::dim(size_t i) const {
  return dim_of(arguments[i]);
}

std::optional<ScalarType> Call::dtype(size_t i) const {
  return arguments[i].isNone() ? std::nullopt : std::optional(arguments[i].toScalarType());
}

namespace {

/// A number that is known, or that sizes decide: one that any device may compute for itself.
bool is_of_sizes(const ir::Value* value) {
  const ir::Node* node = value->def;
  if (node->op == Op::scalar || node->op == Op::size) return true;
  using enum ir::OpKind;
  const ir::OpKind kind = ir::info(node->op).kind;
  const bool is_arithmetic = kind == Unary || kind == Cast || kind == Binary || kind == Compare || kind == Ternary;
  return is_arithmetic && std::ranges::all_of(node->operands, is_of_sizes);
}

/// The same number on `device`.
ir::Value* number_on(ir::Graph& graph, const ir::Value* value, ir::Device device) {
  std::vector<ir::Value*> operands;
  for (const ir::Value* operand : value->def->operands) operands.push_back(number_on(graph, operand, device));
  const ir::Type* type = graph.type(value->type->dtype, device, {}, {});
  return graph.create(value->def->op, operands, value->def->attrs, std::span(&type, 1))->result();
}

}  // namespace

bool Call::settle_device() {
  const CallDevice found = device_of(arguments);
  device_ = found.device;
  if (!found.is_one) return false;
  if (!found.has_numbers) return true;
  // Eager reads them when the call is made. What is known now, or can be copied there, a kernel can read.
  bool known = true;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t argument, int32_t) {
    const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_tracer(tensor);
    if (is_number || !tensor.is_cpu()) return;
    known &= !is_written(entry, argument, arguments) && is_kernel_dtype(tensor.scalar_type()) &&
             (entry.mixes || is_of_sizes(recorder.value_of(tensor)) || recorder.known().find(tensor).defined());
  });
  return known;
}

ir::Value* Call::node(Op op, std::initializer_list<ir::Value*> operands, const ir::Type* type,
                      std::initializer_list<ir::Attr> attrs) {
  if (!device().is_cpu()) {
    const DType dtype = operands.size() == 0 ? type->dtype : (*operands.begin())->type->dtype;
    lacks_code_ |= !codegen::can_compute(Target::hopper(), op, ir::compute_dtype(dtype));
  }
  return graph().create(op, operands, attrs, type);
}

ir::Value* Call::moved(const at::Tensor& tensor) {
  ir::Value* value = recorder.value_of(tensor);
  const ir::Device wanted = to_device(device());
  if (tensor.dim() != 0 || value->type->device == wanted) return value;
  const DType dtype = value->type->dtype;
  if (is_of_sizes(value)) return number_on(graph(), value, wanted);
  if (const at::Tensor number = recorder.known().find(tensor); number.defined())
    return graph().scalar(dtype, to_number(at::_local_scalar_dense(number), dtype), wanted);
  if (!entry.mixes) return value;
  const c10::IValue none;
  return recorder.call_simple("aten::_to_copy", {value}, {at::Tensor(), none, none, device(), none, false, none},
                              graph().type(dtype, wanted, {}, {}));
}

Operand Call::operand_of(const c10::Scalar& number) {
  Operand operand;
  operand.number = number;
  operand.dtype = number.type();
  operand.rank = Rank::number;
  return operand;
}

std::optional<Operand> Call::operand_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !is_kernel_dtype(tensor.scalar_type()) || tensor.layout() != c10::kStrided)
    return std::nullopt;
  const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (wrapped && !as_tracer(tensor)) {
    Operand operand = operand_of(tensor.is_cpu() ? at::_local_scalar_dense(tensor) : tensor.item());
    operand.dtype = tensor.scalar_type();
    return operand;
  }
  Operand operand;
  operand.value = moved(tensor);
  operand.dtype = tensor.scalar_type();
  operand.rank = wrapped ? Rank::number : tensor.dim() == 0 ? Rank::zero_dim : Rank::dimensioned;
  const DimsRef sizes = dims_of(tensor), strides = strides_of(tensor);
  operand.sizes.assign(sizes.begin(), sizes.end());
  operand.strides.assign(strides.begin(), strides.end());
  return operand;
}

std::optional<Operand> Call::operand(size_t i) {
  const c10::IValue& value = arguments[i];
  if (value.isTensor()) return operand_of(value.toTensor());
  if (value.isSymInt() && !dim_of(value).is_number())
    return operand_of(Tracer::current()->wrap_number(dim_of(value).size()));
  if (const at::Tensor number = number_behind(value); number.defined()) return operand_of(number);
  if (value.isScalar() && !value.isComplexDouble()) return operand_of(value.toScalar());
  return std::nullopt;
}

const ir::Type* Call::contiguous(ScalarType dtype, DimsRef sizes) {
  return type(dtype, sizes, capture::contiguous(sizes));
}

const ir::Type* Call::retyped(const ir::Type* like, DType dtype) {
  return like->dtype == dtype ? like : type_in(graph(), dtype, like->device, like->sizes, like->strides);
}

ir::Value* Call::scalar(ScalarType dtype, const c10::Scalar& number) {
  const DType wanted = to_dtype(dtype);
  // Not Graph::scalar, which rounds to the dtype: kernels for f16 and bf16 use the number in f32.
  return graph().create(Op::scalar, {}, {{"value", to_number(number, wanted)}},
                        type_in(graph(), wanted, to_device(device()), {}, {}));
}

ir::Value* Call::cast(ir::Value* value, DType dtype) {
  if (value->type->dtype == dtype) return value;
  if (value->def->op == Op::size) check_holds(dtype, value->def->size_attr("of"));
  const ir::Type& from = *value->type;
  const Sizes strides = preserved_strides(to_ref(from.sizes), to_ref(from.strides));
  return graph().create(Op::cast, {value}, {}, type_in(graph(), dtype, from.device, from.sizes, strides));
}

ir::Value* Call::as(const Operand& operand, ScalarType dtype) {
  return operand.is_number() ? scalar(dtype, operand.number) : cast(operand.value, to_dtype(dtype));
}

ir::Value* Call::copy(ir::Value* value, const ir::Type* type) {
  return value->type == type ? value : graph().create(Op::cast, {value}, {}, type);
}

static c10::Scalar rounded_to(DType dtype, const c10::Scalar& number) {
  if (dtype == DType::f16)
    return static_cast<double>(static_cast<float>(c10::Half(static_cast<float>(number.toDouble()))));
  if (dtype == DType::bf16)
    return static_cast<double>(static_cast<float>(c10::BFloat16(static_cast<float>(number.toDouble()))));
  return number;
}

ir::Value* Call::full(const ir::Type* type, const c10::Scalar& number) {
  // The elements of a tensor are of its dtype, as a number beside one need not be.
  ir::Value* one = scalar(to_scalar_type(type->dtype), rounded_to(type->dtype, number));
  if (type->rank() == 0) return one;
  const Sizes zeros(type->sizes.size(), 0);
  ir::Value* all =
      graph().create(Op::expand, {one}, {}, type_in(graph(), type->dtype, type->device, type->sizes, zeros));
  return copy(all, type);
}

bool Call::give(ir::Value* value) {
  results.push_back({value, {}});
  return true;
}

bool Call::give_tensor(c10::IValue value) {
  results.push_back({nullptr, std::move(value)});
  return true;
}

const ir::Type* Call::target(DimsRef sizes) const {
  if (entry.mode == OpEntry::Mode::functional) return nullptr;
  const size_t place = entry.mode == OpEntry::Mode::in_place ? 0 : entry.arguments - entry.outs;
  const at::Tensor& tensor = arguments[place].toTensor();
  if (!tensor.defined() || !(dims_of(tensor) == sizes)) return nullptr;
  const ir::Type* type = recorder.view_of(tensor)->type;
  if (is_dense(to_ref(type->sizes), to_ref(type->strides))) return type;
  // A view with gaps: what is scattered into it need not have them.
  const Sizes strides = preserved_strides(to_ref(type->sizes), to_ref(type->strides));
  return type_in(recorder.graph(), type->dtype, type->device, type->sizes, strides);
}

namespace {

/// Numbers alone, of which inputs decide one, stay what they are to Python; to PyTorch they would be of the default
/// dtype.
class Numbers {
 public:
  void add(const Operand& operand) {
    any_ |= operand.value && operand.dtype == ScalarType::Double;
    all_ &= operand.rank == Rank::number;
  }
  ScalarType or_else(ScalarType dtype) const { return any_ && all_ ? ScalarType::Double : dtype; }

 private:
  bool any_ = false, all_ = true;
};

}  // namespace

ScalarType promoted(std::span<const Operand> operands) {
  Promotion promotion;
  Numbers numbers;
  for (const Operand& operand : operands) promotion.add(operand.dtype, operand.rank), numbers.add(operand);
  return numbers.or_else(promotion.result());
}

ScalarType promoted(std::initializer_list<const Operand*> operands) {
  Promotion promotion;
  Numbers numbers;
  for (const Operand* operand : operands) promotion.add(operand->dtype, operand->rank), numbers.add(*operand);
  return numbers.or_else(promotion.result());
}

ScalarType floating(ScalarType dtype) {
  return c10::isIntegralType(dtype, true) ? c10::typeMetaToScalarType(c10::get_default_dtype()) : dtype;
}

std::optional<Geometry> broadcast(std::initializer_list<const Operand*> operands, ScalarType common) {
  Geometry geometry;
  c10::SmallVector<Layout, 4> layouts;
  c10::SmallVector<Sizes, 4> converted;
  converted.reserve(operands.size());  // The layouts point into it.
  for (const Operand* operand : operands) {
    if (!operand) continue;
    if (!broadcast_into(geometry.sizes, operand->sizes)) return std::nullopt;
    const bool as_it_is = operand->is_mask || operand->dtype == common;
    const Sizes& strides =
        as_it_is ? operand->strides : converted.emplace_back(preserved_strides(operand->sizes, operand->strides));
    layouts.push_back({operand->sizes, strides});
  }
  geometry.strides = iterator_strides({layouts.data(), layouts.size()}, geometry.sizes);
  return geometry;
}

}  // namespace braze::capture
