#include "capture/library_call.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "capture/numbers_in_calls.h"
#include "capture/size_node.h"
#include "ir/size.h"
#include "support/error.h"

namespace braze::capture {

namespace {

using ir::Argument;
using Kind = Argument::Kind;
using c10::IValue;
using c10::TypeKind;

// ---- single values

using Objects = std::vector<IValue>;

[[noreturn]] void refuse(const Argument& argument, std::string_view wanted) {
  std::string text;
  ir::append_arguments(text, {&argument, 1});
  throw UserError(concat("the argument ", text, " of a library call is not ", wanted));
}

int64_t integer(const Argument& argument, const Objects&) {
  if (argument.kind != Kind::integer) refuse(argument, "an integer");
  return argument.integer;
}
double real(const Argument& argument, const Objects&) {
  if (argument.kind != Kind::real) refuse(argument, "a float");
  return argument.real;
}
bool boolean(const Argument& argument, const Objects&) {
  if (argument.kind != Kind::boolean) refuse(argument, "true or false");
  return argument.integer != 0;
}
std::string text(const Argument& argument, const Objects&) {
  if (argument.kind != Kind::text) refuse(argument, "a text");
  return argument.text;
}
c10::Scalar number(const Argument& argument) {
  switch (argument.kind) {
    case Kind::boolean: return argument.integer != 0;
    case Kind::integer: return argument.integer;
    case Kind::real: return argument.real;
    case Kind::complex: return c10::complex<double>(argument.real, argument.imaginary);
    default: refuse(argument, "a number");
  }
}
const IValue& object(const Argument& argument, const Objects& objects) {
  const auto number = static_cast<size_t>(argument.integer);
  if (number >= objects.size()) refuse(argument, "given beside it");
  return objects[number];
}
/// Operands are put in when the call runs.
at::Tensor tensor(const Argument& argument, const Objects& objects) {
  if (argument.kind == Kind::operand || argument.kind == Kind::undefined) return {};
  if (argument.kind == Kind::object && object(argument, objects).isTensor())
    return object(argument, objects).toTensor();
  if (argument.kind != Kind::wrapped || argument.elements.size() != 1) refuse(argument, "a tensor");
  return at::native::wrapped_scalar_tensor(number(argument.elements[0]));
}
std::optional<at::Tensor> optional_tensor(const Argument& argument, const Objects& objects) {
  return argument.kind == Kind::none ? std::nullopt : std::optional(tensor(argument, objects));
}

Argument of_number(const c10::Scalar& number) {
  if (number.isBoolean()) return Argument::of(Kind::boolean, number.toBool());
  if (number.isIntegral(false)) return Argument::of(Kind::integer, number.toLong());
  if (number.isFloatingPoint()) return Argument::of_number(ir::Number::of(number.toDouble()));
  const c10::complex<double> value = number.toComplexDouble();
  return {.kind = Kind::complex, .real = value.real(), .imaginary = value.imag()};
}
Argument of_integer(const int64_t& value) {
  return Argument::of(Kind::integer, value);
}
Argument of_real(const double& value) {
  return Argument::of_number(ir::Number::of(value));
}
Argument of_boolean(const bool& value) {
  return Argument::of(Kind::boolean, value);
}
Argument of_string(const std::string& value) {
  return Argument::of_text(Kind::text, value);
}

/// The number that a tensor of its own stands for; its memory is read without an operator, which would be traced.
std::optional<c10::Scalar> wrapped_number(const at::Tensor& tensor) {
  if (!tensor.unsafeGetTensorImpl()->is_wrapped_number() || tensor.dim() != 0 || !tensor.is_cpu())
    return std::nullopt;
  switch (tensor.scalar_type()) {
    case c10::kDouble: return *tensor.const_data_ptr<double>();
    case c10::kLong: return *tensor.const_data_ptr<int64_t>();
    case c10::kBool: return *tensor.const_data_ptr<bool>();
    case c10::kComplexDouble: return *tensor.const_data_ptr<c10::complex<double>>();
    default: return std::nullopt;
  }
}

// ---- lists, by what their elements are declared as

template <typename T>
Argument describe_list(const IValue& value, Argument (*element)(const T&)) {
  Argument list{.kind = Kind::list};
  for (const IValue& each : value.toListRef()) list.elements.push_back(element(each.to<T>()));
  return list;
}

template <typename T, T (*element)(const Argument&, const Objects&)>
IValue make_list(const Argument& list, const Objects& objects) {
  c10::List<T> made;
  made.reserve(list.elements.size());
  for (const Argument& each : list.elements) made.push_back(element(each, objects));
  return made;
}

/// What the elements of an argument are declared as; null if it is no list.
const c10::Type* element_type(const c10::Type& declared) {
  const c10::Type* type = &declared;
  if (type->kind() == TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType().get();
  return type->kind() == TypeKind::ListType ? type->castRaw<c10::ListType>()->getElementType().get() : nullptr;
}

struct ListRow {
  TypeKind declared;
  bool (IValue::*is)() const;
  Argument (*describe)(const IValue& value);  ///< Null for tensors, among which are operands.
  IValue (*make)(const Argument& list, const Objects& objects);
};
Argument describe_integers(const IValue& value) {
  return describe_list<int64_t>(value, of_integer);
}
Argument describe_reals(const IValue& value) {
  return describe_list<double>(value, of_real);
}
Argument describe_booleans(const IValue& value) {
  return describe_list<bool>(value, of_boolean);
}
Argument describe_texts(const IValue& value) {
  return describe_list<std::string>(value, of_string);
}
constexpr ListRow lists[] = {
    {TypeKind::IntType, &IValue::isIntList, describe_integers, make_list<int64_t, integer>},
    {TypeKind::SymIntType, &IValue::isIntList, describe_integers, make_list<int64_t, integer>},
    {TypeKind::FloatType, &IValue::isDoubleList, describe_reals, make_list<double, real>},
    {TypeKind::BoolType, &IValue::isBoolList, describe_booleans, make_list<bool, boolean>},
    {TypeKind::StringType, &IValue::isList, describe_texts, make_list<std::string, text>},
    {TypeKind::TensorType, &IValue::isTensorList, nullptr, make_list<at::Tensor, tensor>},
    {TypeKind::OptionalType, &IValue::isOptionalTensorList, nullptr,
     make_list<std::optional<at::Tensor>, optional_tensor>},
};

const ListRow* row_of(const c10::Type& declared) {
  const c10::Type* element = element_type(declared);
  if (!element) return nullptr;
  const auto row = std::ranges::find(lists, element->kind(), &ListRow::declared);
  return row == std::end(lists) ? nullptr : row;
}

// ---- describing

class Describer {
 public:
  Describer(const CallPayload& payload, Objects& objects) : payload_(payload), objects_(objects) {}

  Argument argument(uint32_t i, const c10::Type& declared) {
    const IValue& value = payload_.stack[i];
    for (const CallPayload::Slot& slot : payload_.slots)
      if (slot.argument == i && slot.element == kNumberSlot)
        return {.kind = Kind::wrapped, .elements = {Argument::of(Kind::operand, slot.operand)}};
    for (const CallPayload::Quotient& quotient : payload_.quotients)
      if (quotient.argument == i)
        return {.kind = Kind::quotient, .elements = {size(quotient.significand), size(quotient.divisor)}};
    if (value.isNone()) return Argument::of(Kind::none);
    if (has_symbols(value)) return sizes(value);
    if (value.isTensor()) return tensor(i, -1, value.toTensor());
    if (value.isBool()) return of_boolean(value.toBool());
    if (value.isInt()) return of_integer(value.toInt());
    if (value.isDouble()) return of_real(value.toDouble());
    if (value.isComplexDouble()) return of_number(value.toScalar());
    if (value.isString()) return of_string(value.toStringRef());
    if (value.isDevice()) return Argument::of_text(Kind::device, value.toDevice().str());
    const ListRow* row = row_of(declared);
    if (!row || !(value.*row->is)()) return object(value);
    return row->describe ? row->describe(value) : tensors(i, value);
  }

 private:
  Argument object(const IValue& value) {
    objects_.push_back(value);
    return Argument::of(Kind::object, static_cast<int64_t>(objects_.size() - 1));
  }

  static Argument size(Dim dim) {
    return dim.is_number() ? of_integer(dim) : Argument::of_text(Kind::size, ir::to_text(dim.size()));
  }
  static Argument sizes(const IValue& value) {
    if (!value.isList()) return size(dim_of(value));
    Argument list{.kind = Kind::list};
    for (const IValue& each : value.toListRef()) list.elements.push_back(size(dim_of(each)));
    return list;
  }

  Argument tensor(uint32_t argument, int32_t element, const at::Tensor& held) {
    for (const CallPayload::Slot& slot : payload_.slots)
      if (slot.argument == argument && slot.element == element) return Argument::of(Kind::operand, slot.operand);
    if (!held.defined()) return Argument::of(Kind::undefined);
    const auto number = wrapped_number(held);
    if (!number) return object(held);
    Argument wrapped{.kind = Kind::wrapped};
    wrapped.elements.push_back(of_number(*number));
    return wrapped;
  }

  Argument tensors(uint32_t argument, const IValue& value) {
    Argument list{.kind = Kind::list};
    for (const IValue& each : value.toListRef()) {
      const auto element = static_cast<int32_t>(list.elements.size());
      list.elements.push_back(each.isNone() ? Argument::of(Kind::none)
                                            : tensor(argument, element, each.toTensor()));
    }
    return list;
  }

  const CallPayload& payload_;
  Objects& objects_;
};

// ---- making

/// The number that an operand holds.
bool is_item(const Argument& argument) {
  return argument.kind == Kind::wrapped && argument.elements.size() == 1 &&
         argument.elements[0].kind == Kind::operand;
}

IValue value_of(const Argument& argument, const c10::Type& declared, const Objects& objects) {
  if (is_item(argument)) return 0.0;  // Put in when the call runs.
  switch (argument.kind) {
    case Kind::none: return {};
    case Kind::text: return argument.text;
    case Kind::device: return c10::Device(argument.text);
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
    case Kind::complex: return number(argument);
    case Kind::operand:
    case Kind::undefined:
    case Kind::wrapped: return tensor(argument, objects);
    case Kind::object: return object(argument, objects);
    case Kind::quotient: return ir::value_of_quotient(argument);
    case Kind::size: refuse(argument, "a size that is known");
    case Kind::list: break;
  }
  const ListRow* row = row_of(declared);
  if (!row) refuse(argument, concat("of the type ", declared.str()));
  return row->make(argument, objects);
}

void add_slots(const Argument& argument, uint32_t place, std::vector<CallPayload::Slot>& slots) {
  if (argument.kind == Kind::operand) slots.push_back({place, -1, static_cast<uint32_t>(argument.integer)});
  if (is_item(argument)) {
    slots.push_back({place, kNumberSlot, static_cast<uint32_t>(argument.elements.at(0).integer)});
    return;
  }
  for (size_t k = 0; k < argument.elements.size(); ++k)
    if (argument.elements[k].kind == Kind::operand)
      slots.push_back({place, static_cast<int32_t>(k), static_cast<uint32_t>(argument.elements[k].integer)});
}

c10::OperatorHandle find_operator(const std::string& name, const std::string& overload) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found)
    throw UserError(concat("no operator is called ", name, overload.empty() ? "" : ".", overload,
                           " in this process; import what defines it"));
  return *found;
}

}  // namespace

ir::LibraryCall describe(const CallPayload& payload, Objects& objects) {
  const c10::OperatorName& name = payload.op.operator_name();
  const auto& declared = payload.op.schema().arguments();
  ir::LibraryCall call;
  call.name = name.name;
  call.overload = name.overload_name;
  call.written = payload.cloned;
  Describer describer(payload, objects);
  for (uint32_t i = 0; i < payload.stack.size(); ++i)
    call.arguments.push_back(describer.argument(i, *declared[i].real_type()));
  for (const CallPayload::Result& result : payload.results)
    call.results.push_back({result.returned, result.element});
  return call;
}

CallPayload payload_of(const ir::LibraryCall& call, const Objects& objects) {
  CallPayload payload{find_operator(call.name, call.overload), {}, {}, call.written, {}};
  const auto& declared = payload.op.schema().arguments();
  if (call.arguments.size() != declared.size())
    throw UserError(concat("the operator ", call.name, " takes ", declared.size(), " arguments in this process, ",
                           call.arguments.size(), " when it was recorded"));
  for (uint32_t i = 0; i < call.arguments.size(); ++i) {
    payload.stack.push_back(value_of(call.arguments[i], *declared[i].real_type(), objects));
    add_slots(call.arguments[i], i, payload.slots);
  }
  for (const ir::CallResult& result : call.results) payload.results.push_back({result.returned, result.element});
  return payload;
}

c10::OperatorHandle operator_of(const ir::Node& node) {
  const ir::Attr* overload = node.find("overload");
  return find_operator(std::string(node.text_attr("target")),
                       overload ? std::string(std::get<std::string_view>(overload->value)) : std::string());
}

}  // namespace braze::capture
