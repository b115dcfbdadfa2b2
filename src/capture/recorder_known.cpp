// Values that no input of the trace decides: they are known beside being recorded, so that Python may read them.
#include "capture/arguments.h"
#include "capture/call.h"
#include "capture/number.h"
#include "capture/recorder.h"
#include "capture/traceable.h"
#include "capture/window.h"

namespace braze::capture {
namespace {

/// Values known while tracing are kept up to this many elements.
constexpr int64_t most_known_elements = 16384;

}  // namespace

at::Tensor Recorder::add_private_constant(const at::Tensor& real) {
  check_traceable(real, "a tensor built while tracing");
  at::Tensor tracer;
  if (real.dim() == 0 && real.is_cpu() && is_native(real.scalar_type())) {
    const DType dtype = to_dtype(real.scalar_type());
    ir::Value* value = graph_->scalar(dtype, to_number(at::_local_scalar_dense(real), dtype));
    tracer = wrap_fresh(value, real.scalar_type(), real.device());
    known_[value] = real;
    return tracer;
  }
  const ViewPtr view = view_of(real);
  // The traced function makes a new tensor at every call: what it writes there is not the constant's.
  ir::Value* value = read(*this, *view);
  const bool has_gaps = !is_dense(real.sizes(), real.strides());
  tracer = has_gaps && !may_overlap(*view->type)
               ? wrap_gapped(value, real.scalar_type(), real.device(), real.sizes(), real.strides(), 0)
               : wrap_fresh(value, real.scalar_type(), real.device());
  if (real.numel() <= most_known_elements && real.is_cpu()) known_[view->value] = real;
  return tracer;
}

/// Runs small operators on values that no input decides beside recording them, so that reading such a value later
/// (transformers: "are these position ids packed?") costs no compilation and freezes nothing.
void Recorder::follow_known(const OpEntry& entry, std::span<const c10::IValue> arguments, Call& call) {
  if (!entry.pure || entry.mode != OpEntry::Mode::functional) return;
  bool has_tensor = false;
  std::vector<c10::IValue> stack;
  const auto known_or_plain = [&](const at::Tensor& tensor, at::Tensor& out) {
    has_tensor = true;
    out = tensor.defined() ? known(tensor) : tensor;
    return !tensor.defined() || out.defined();
  };
  for (const c10::IValue& argument : arguments) {
    at::Tensor found;
    if (number_behind(argument).defined()) return;
    if (argument.isTensor()) {
      if (!known_or_plain(argument.toTensor(), found)) return;
    } else if (argument.isTensorList()) {
      for (const at::Tensor& element : argument.toTensorVector())
        if (!known_or_plain(element, found)) return;
    } else if (argument.isOptionalTensorList()) {
      return;
    }
  }
  for (const Call::Result& result : call.results) {
    if (!result.ready.isTensor()) return;
    const at::Tensor& tensor = result.ready.toTensor();
    // What is on a GPU is followed on the CPU, where floating numbers may round otherwise.
    const bool elsewhere = !tensor.is_cpu() && !c10::isIntegralType(tensor.scalar_type(), true);
    if (elsewhere || !dims_of(tensor).is_numbers() || tensor.numel() > most_known_elements) return;
    if (!has_tensor && !c10::isIntegralType(tensor.scalar_type(), true) && tensor.dim() != 0) return;
  }
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      stack.emplace_back(argument.toTensor().defined() ? known(argument.toTensor()) : at::Tensor());
    } else if (argument.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& element : argument.toTensorVector()) list.push_back(known(element));
      stack.emplace_back(std::move(list));
    } else {
      stack.push_back(argument.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : argument);
    }
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  entry.op.callBoxed(stack);
  for (size_t k = 0; k < call.results.size(); ++k)
    known_[value_of(call.results[k].ready.toTensor())] = stack[k].toTensor();
}

at::Tensor Recorder::known(const at::Tensor& tensor) {
  const TracerTensor* tracer = as_tracer(tensor);
  if (!tracer) return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? tensor : at::Tensor();
  if (known_.empty()) return {};
  const ViewPtr& view = view_of(tensor);
  // A view that was not read yet is not known; reading it here would only make nodes.
  if (!view->value || view->version != view->memory->version) return {};
  const auto found = known_.find(view->value);
  if (found == known_.end()) return {};
  const at::Tensor& real = found->second;
  return dims_of(tensor).is_numbers() && real.sizes() == tensor.sizes() ? real : at::Tensor();
}

}  // namespace braze::capture
