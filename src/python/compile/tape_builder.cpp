#include "python/compile/tape_builder.h"

#include <ATen/ATen.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "support/error.h"

namespace braze::python {
namespace {

using c10::TypeKind;

py::object wrap(const at::Tensor& tensor) {
  if (!tensor.defined()) return py::none();
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

template <typename Wrapped>
py::object borrow(Wrapped* object) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(object));
}

/// An operator's integer that stands for a dtype, layout or memory format, by its declared type.
py::object enumerator(TypeKind declared, int64_t value) {
  switch (declared) {
    case TypeKind::ScalarTypeType: return borrow(torch::getTHPDtype(static_cast<at::ScalarType>(value)));
    case TypeKind::LayoutType: return borrow(torch::getTHPLayout(static_cast<at::Layout>(value)));
    case TypeKind::MemoryFormatType:
      return borrow(torch::utils::getTHPMemoryFormat(static_cast<at::MemoryFormat>(value)));
    default: return py::int_(value);
  }
}

TypeKind inner_kind(const c10::TypePtr& type) {
  return type->kind() == TypeKind::OptionalType ? inner_kind(type->castRaw<c10::OptionalType>()->getElementType())
                                                : type->kind();
}

/// The value as Python has it. `operands` stand for the call's tensors, by slot.
class Converter {
 public:
  Converter(const std::vector<py::object>& operands, const capture::Tape::Call& call)
      : operands_(operands), call_(call) {}

  py::object argument(uint32_t i) const {
    const c10::Argument& declared = call_.op.schema().arguments()[i];
    const c10::IValue& value = call_.stack[i];
    if (value.isTensor()) return tensor(i, -1, value.toTensor());
    if (value.isTensorList() || value.isOptionalTensorList()) return tensors(i, value);
    return plain(value, inner_kind(declared.real_type()));
  }

 private:
  py::object tensor(uint32_t argument, int32_t element, const at::Tensor& held) const {
    for (size_t k = 0; k < call_.slots.size(); ++k)
      if (call_.slots[k].argument == argument && call_.slots[k].element == element) return operands_.at(k);
    if (!held.defined()) return py::none();
    return plain(held.item(), TypeKind::NumberType);  // Only numbers are kept as tensors in the call.
  }

  py::object tensors(uint32_t argument, const c10::IValue& value) const {
    py::list list;
    const auto size = static_cast<int32_t>(value.toListRef().size());
    for (int32_t k = 0; k < size; ++k) list.append(tensor(argument, k, at::Tensor()));
    return list;
  }

  static py::object plain(const c10::IValue& value, TypeKind declared) {
    if (value.isNone()) return py::none();
    if (value.isBool()) return py::bool_(value.toBool());
    if (value.isInt()) return enumerator(declared, value.toInt());
    if (value.isDouble()) return py::float_(value.toDouble());
    if (value.isComplexDouble()) {
      const c10::complex<double> number = value.toComplexDouble();
      return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(number.real(), number.imag()));
    }
    if (value.isString()) return py::str(value.toStringRef());
    if (value.isDevice()) return py::reinterpret_steal<py::object>(THPDevice_New(value.toDevice()));
    if (value.isGenerator()) return py::reinterpret_steal<py::object>(THPGenerator_Wrap(value.toGenerator()));
    if (value.isList()) {
      py::list list;
      for (const c10::IValue& element : value.toListRef()) list.append(plain(element, TypeKind::AnyType));
      return list;
    }
    throw UserError("braze: an operator has an argument of type " + value.tagKind() +
                    ", which only backends \"braze\" and \"eager\" take");
  }

  const std::vector<py::object>& operands_;
  const capture::Tape::Call& call_;
};

bool is_default(const c10::Argument& declared, const c10::IValue& value) {
  if (!declared.default_value()) return false;
  const c10::IValue& fallback = *declared.default_value();
  if (value.isTensor()) return false;
  return fallback.tagKind() == value.tagKind() && !fallback.isGenerator() && fallback == value;
}

py::object tell_call(const capture::Tape::Call& call, const std::vector<py::object>& operands, py::handle builder) {
  const Converter converter(operands, call);
  const auto& schema = call.op.schema();
  py::list args;
  py::dict kwargs;
  uint32_t positional = 0, given = 0;
  for (uint32_t i = 0; i < call.stack.size(); ++i) {
    const c10::Argument& declared = schema.arguments()[i];
    if (!declared.kwarg_only()) {
      ++positional;
      if (!is_default(declared, call.stack[i])) given = positional;
    } else if (!is_default(declared, call.stack[i])) {
      kwargs[py::str(declared.name())] = converter.argument(i);
    }
  }
  for (uint32_t i = 0; i < given; ++i) args.append(converter.argument(i));
  return builder.attr("call")(schema.name(), schema.overload_name(), py::tuple(args), kwargs, call.source);
}

}  // namespace

py::object build_from_tape(const capture::Tape& tape, const std::vector<at::Tensor>& examples, py::handle builder) {
  std::vector<py::object> nodes(tape.tensor_count());
  for (size_t k = 0; k < tape.inputs().size(); ++k) {
    const capture::Tape::Input& input = tape.inputs()[k];
    nodes[input.tensor] = k < tape.argument_count() ? builder.attr("argument")(input.name, wrap(examples.at(k)))
                                                    : builder.attr("bound")(input.name, wrap(input.bound));
  }
  capture::TapeHistory history(tape);
  const auto detached = [&](const py::object& node, const std::string& source) -> py::object {
    return builder.attr("call")("aten::detach", "", py::make_tuple(node), py::dict(), source);
  };
  for (const capture::Tape::Call& call : tape.calls()) {
    std::vector<py::object> operands;
    for (size_t k = 0; k < call.slots.size(); ++k) {
      const py::object& node = nodes[call.slots[k].operand];
      operands.push_back(history.is_dropped(call, k) ? detached(node, call.source) : node);
    }
    history.pass(call);
    const py::object result = tell_call(call, operands, builder);
    const bool is_tuple = call.op.schema().returns().size() > 1;
    for (const capture::Tape::Result& one : call.results) {
      py::object node = is_tuple ? builder.attr("item")(result, one.returned) : result;
      nodes[one.tensor] = one.element < 0 ? std::move(node) : builder.attr("item")(node, one.element);
    }
  }
  py::list outputs;
  for (size_t k = 0; k < tape.outputs().size(); ++k) {
    const py::object& node = nodes[tape.outputs()[k]];
    outputs.append(history.is_output_dropped(k) ? detached(node, {}) : node);
  }
  return builder.attr("finish")(outputs);
}

}  // namespace braze::python
