// python/compile/torch_parameters.cpp
#include "python/compile/torch_parameters.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/utils/python_arg_parser.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace braze::python {

namespace {

using interpreter::Parameter;

/// Overloads that return something new, by their name.
class Overloads {
 public:
  static const Overloads& instance() {
    static const Overloads one;  // Operators of PyTorch's own, which are all there from the start.
    return one;
  }

  const std::vector<c10::OperatorHandle>& of(std::string_view name) const {
    static const std::vector<c10::OperatorHandle> none;
    const auto found = by_name_.find(std::string(name));
    return found == by_name_.end() ? none : found->second;
  }

 private:
  Overloads() {
    constexpr std::string_view prefix = "aten::";
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (!name.name.starts_with(prefix)) continue;
      if (const auto op = c10::Dispatcher::singleton().findSchema(name))
        by_name_[name.name.substr(prefix.size())].push_back(*op);
    }
  }

  std::unordered_map<std::string, std::vector<c10::OperatorHandle>> by_name_;
};

const c10::Argument* find(const c10::FunctionSchema& schema, size_t place, std::string_view keyword) {
  const std::vector<c10::Argument>& arguments = schema.arguments();
  if (keyword.empty())
    return place < arguments.size() && !arguments[place].kwarg_only() ? &arguments[place] : nullptr;
  for (const c10::Argument& argument : arguments)
    if (argument.name() == keyword) return &argument;
  return nullptr;
}

c10::TypeKind kind_of(const c10::Argument& argument) {
  const auto optional = argument.type()->cast<c10::OptionalType>();
  const c10::TypePtr type = optional ? optional->getElementType() : argument.type();
  // One int may stand for a list of two: the kernel of a pool. The parser takes no torch.SymInt for an optional
  // list.
  const auto list = argument.N() && !optional ? type->cast<c10::ListType>() : nullptr;
  return (list ? list->getElementType() : type)->kind();
}

bool is_dimension(std::string_view argument) {
  return argument.starts_with("dim") || argument.ends_with("_dim") || argument.starts_with("axis");
}

}  // namespace

Parameter parameter_of_operator(std::string_view name, size_t place, std::string_view keyword) {
  bool is_tensor = false, is_number = false, is_real = false, is_integer = false;
  for (const c10::OperatorHandle& op : Overloads::instance().of(name)) {
    const c10::Argument* argument = find(op.schema(), place, keyword);
    if (!argument || argument->is_out()) continue;
    if (is_dimension(argument->name()) && kind_of(*argument) == c10::TypeKind::IntType) return Parameter::dimension;
    is_tensor |= kind_of(*argument) == c10::TypeKind::TensorType;
    is_number |= kind_of(*argument) == c10::TypeKind::NumberType;
    is_real |= kind_of(*argument) == c10::TypeKind::FloatType;
    is_integer |= kind_of(*argument) == c10::TypeKind::IntType;
  }
  // The parser would make a tensor of it, of a number that it makes up.
  if (is_tensor && torch::should_allow_numbers_as_tensors(std::string(name))) return Parameter::other;
  if (is_number || is_real) return is_number ? Parameter::number : Parameter::real;
  return is_integer && !is_tensor ? Parameter::integer : Parameter::other;
}

}  // namespace braze::python
