#include "capture/rerun_gradients.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "capture/arguments.h"
#include "capture/autograd_node.h"
#include "capture/registry.h"
#include "capture/sized_calls.h"
#include "capture/tape.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

struct Row {
  std::string_view name, overload;
};
constexpr Row rows[] = {
    {"aten::gru", "input"},      {"aten::lstm", "input"},      {"aten::rnn_tanh", "input"},
    {"aten::rnn_relu", "input"}, {"aten::ctc_loss", "Tensor"},
};

/// The arguments of a call, one behind the other. `numbers`: of each list of tensors how many there are, and all
/// else, as whole numbers.
struct Flat {
  std::vector<at::Tensor> tensors;
  std::vector<int64_t> numbers;
};

std::optional<Flat> flatten(std::span<const c10::IValue> arguments) {
  Flat flat;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      flat.tensors.push_back(argument.toTensor());
    } else if (argument.isTensorList()) {
      const std::vector<at::Tensor> list = argument.toTensorVector();
      flat.numbers.push_back(std::ssize(list));
      flat.tensors.insert(flat.tensors.end(), list.begin(), list.end());
    } else if (argument.isBool()) {
      flat.numbers.push_back(argument.toBool());
    } else if (argument.isInt()) {
      flat.numbers.push_back(argument.toInt());
    } else if (argument.isDouble()) {
      flat.numbers.push_back(0);  // Dropout, of which there is none where these are calls.
    } else {
      return std::nullopt;
    }
  }
  return flat;
}

torch::jit::Stack unflatten(const c10::FunctionSchema& schema, at::TensorList tensors, at::IntArrayRef numbers) {
  torch::jit::Stack stack;
  const auto* tensor = tensors.begin();
  const auto* number = numbers.begin();
  for (const c10::Argument& argument : schema.arguments()) {
    switch (argument.type()->kind()) {
      case c10::TypeKind::TensorType: stack.emplace_back(*tensor++); break;
      case c10::TypeKind::ListType: {
        const int64_t count = *number++;
        stack.emplace_back(c10::List<at::Tensor>(at::TensorList(tensor, static_cast<size_t>(count))));
        tensor += count;
        break;
      }
      case c10::TypeKind::BoolType: stack.emplace_back(*number++ != 0); break;
      case c10::TypeKind::FloatType: stack.emplace_back(static_cast<double>(*number++)); break;
      default: stack.emplace_back(*number++);
    }
  }
  return stack;
}

// ---- at run time

/// Of recurrent nets over (batch, length, width) the gradient of the input lies as (length, batch, width), which is
/// what they run over. All other gradients lie in rows.
bool is_transposed(c10::string_view name, at::IntArrayRef numbers, int64_t tensor) {
  return tensor == 0 && name != "aten::ctc_loss" && numbers.back() != 0;  // The last argument is batch_first.
}

/// The gradients of tensors `wanted` of the call, by those `given` of its results number `of`.
std::vector<at::Tensor> rerun_gradients(c10::string_view name, c10::string_view overload, at::TensorList tensors,
                                        at::IntArrayRef numbers, at::TensorList given, at::IntArrayRef of,
                                        at::IntArrayRef wanted) {
  // As a backward of autograd's runs, whatever this one is part of.
  const c10::InferenceMode ordinary(false);
  const c10::impl::ForceDispatchKeyGuard plain(c10::default_included_set, c10::default_excluded_set);
  const at::AutoGradMode with_history(true);
  std::vector<at::Tensor> read;
  for (const at::Tensor& tensor : tensors) read.push_back(tensor.is_inference() ? tensor.clone() : tensor.detach());
  variable_list sources, results, tangents;
  for (const int64_t k : wanted) sources.push_back(read.at(static_cast<size_t>(k)).requires_grad_());
  const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow(std::string(name).c_str(), std::string(overload).c_str());
  torch::jit::Stack stack = unflatten(op.schema(), read, numbers);
  op.callBoxed(&stack);
  for (size_t k = 0; k < of.size(); ++k) {
    const at::Tensor& result = stack.at(static_cast<size_t>(of[k])).toTensor();
    if (!result.requires_grad()) continue;
    results.push_back(result);
    tangents.push_back(given[k]);
  }
  variable_list gradients(sources.size());
  if (!results.empty())
    gradients = torch::autograd::grad(results, sources, tangents, /*retain_graph=*/std::nullopt,
                                      /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t k = 0; k < sources.size(); ++k) {
    at::Tensor& one = gradients[k];
    if (!one.defined()) one = at::zeros_like(sources[k], at::MemoryFormat::Contiguous);
    one = is_transposed(name, numbers, wanted[k]) ? one.transpose(0, 1).contiguous().transpose(0, 1)
                                                  : one.contiguous();
  }
  return gradients;
}

std::vector<at::Tensor> forms(c10::string_view name, c10::string_view, at::TensorList tensors,
                              at::IntArrayRef numbers, at::TensorList, at::IntArrayRef, at::IntArrayRef wanted) {
  std::vector<at::Tensor> gradients;
  for (const int64_t k : wanted) {
    const at::Tensor& tensor = tensors[static_cast<size_t>(k)];
    const bool transposed = is_transposed(name, numbers, k);
    const at::Tensor lies = transposed ? tensor.transpose(0, 1) : tensor;
    const at::Tensor made = at::empty(lies.sizes(), tensor.options());
    gradients.push_back(transposed ? made.transpose(0, 1) : made);
  }
  return gradients;
}

TORCH_LIBRARY_FRAGMENT(braze, library) {
  library.def(
      "rerun_gradients(str name, str overload, Tensor[] tensors, int[] numbers, Tensor[] given, int[] of, "
      "int[] wanted) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(braze, CPU, library) {
  library.impl("rerun_gradients", rerun_gradients);
}
TORCH_LIBRARY_IMPL(braze, Meta, library) {
  library.impl("rerun_gradients", forms);
}
TORCH_LIBRARY_IMPL(braze, Autograd, library) {
  library.impl("rerun_gradients", torch::CppFunction::makeFallthrough());
}

// ---- while tracing

class Rerun final : public Node {
 public:
  Rerun(const c10::OperatorHandle& op, const Flat& call)
      : op_(op), name_(concat(op.schema().name(), "Backward")), numbers_(call.numbers) {
    for (const at::Tensor& tensor : call.tensors) saved_.emplace_back(tensor, /*is_output=*/false);
  }
  std::string name() const override { return name_; }
  void release_variables() override {
    for (torch::autograd::SavedVariable& one : saved_) one.reset_data();
  }

 protected:
  variable_list apply(variable_list&& given) override {
    std::vector<at::Tensor> tensors, tangents;
    for (const torch::autograd::SavedVariable& one : saved_) tensors.push_back(one.unpack());
    std::vector<int64_t> of, wanted;
    for (size_t k = 0; k < given.size(); ++k) {
      if (!given[k].defined()) continue;
      of.push_back(static_cast<int64_t>(k));
      tangents.push_back(given[k]);
    }
    for (size_t k = 0; k < tensors.size(); ++k)
      if (should_compute_output(k)) wanted.push_back(static_cast<int64_t>(k));
    variable_list gradients(tensors.size());
    if (of.empty() || wanted.empty()) return gradients;
    torch::jit::Stack stack{
        op_.operator_name().name, op_.operator_name().overload_name, tensors, numbers_, tangents, of, wanted};
    c10::Dispatcher::singleton().findSchemaOrThrow("braze::rerun_gradients", "").callBoxed(&stack);
    const std::vector<at::Tensor> found = stack[0].toTensorVector();
    for (size_t k = 0; k < wanted.size(); ++k) gradients[static_cast<size_t>(wanted[k])] = found[k];
    return gradients;
  }

 private:
  const c10::OperatorHandle op_;
  const std::string name_;
  const std::vector<int64_t> numbers_;
  std::vector<torch::autograd::SavedVariable> saved_;
};

}  // namespace

bool record_rerun_call(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::OperatorName& name = op.operator_name();
  const auto is_row = [&](const Row& one) { return one.name == name.name && one.overload == name.overload_name; };
  if (!at::GradMode::is_enabled() || std::ranges::none_of(rows, is_row)) return false;
  const size_t count = op.schema().arguments().size();
  const std::span<const c10::IValue> arguments(stack->data() + stack->size() - count, count);
  bool is_wanted = false, on_cpu = true;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    is_wanted |= tensor.requires_grad();
    on_cpu &= tensor.is_cpu();
  });
  const std::optional<Flat> flat = is_wanted && on_cpu ? flatten(arguments) : std::nullopt;
  if (!flat) return false;
  torch::jit::Stack made(arguments.begin(), arguments.end());
  {
    const at::NoGradGuard no_history;
    if (!record_sized_call(recorder, op, &made)) return false;
  }
  const auto node = make_node<Rerun>(op, *flat);
  node->set_next_edges(torch::autograd::collect_next_edges(flat->tensors));
  for (const c10::IValue& result : made) torch::autograd::set_history(result.toTensor(), node);
  const auto give = [&] {
    torch::jit::drop(*stack, count);
    stack->insert(stack->end(), made.begin(), made.end());
  };
  OpEntry entry(op);
  entry.arguments = static_cast<uint32_t>(count);
  entry.returns = static_cast<uint32_t>(op.schema().returns().size());
  TapeRecorder* const tape = TapeRecorder::current();
  tape ? tape->keep(entry, stack, give) : give();
  return true;
}

bool is_rerun(const torch::autograd::Node& node) {
  return dynamic_cast<const Rerun*>(&node) != nullptr;
}

}  // namespace braze::capture
