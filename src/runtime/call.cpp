// runtime/call.cpp: matrix products are called unboxed, into memory that exists already (runtime/matmul.h); the
// rest goes through the dispatcher with the tracer's own arguments.
#include "runtime/call.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstring>

#include "capture/library_call.h"
#include "capture/numbers_in_calls.h"
#include "runtime/device/cpu/output_pool.h"
#include "support/error.h"

namespace braze::runtime {

const at::Tensor& OperandRef::resolve(Frame& frame) const {
  switch (kind) {
    case Kind::input: return *frame.inputs[index];
    case Kind::owned: return frame.owned[index];
    case Kind::view: break;
  }
  const at::Tensor& view = frame.views[index];
  if (!in_arena) point_at(view, static_cast<char*>(frame.addresses[buffer]) + byte_offset);
  return view;
}

at::Tensor copy_to(const at::Tensor& source, const Geometry& planned) {
  at::Tensor copy = planned.allocate(source.scalar_type());
  // The whole span, gaps included: right also where elements overlap (expanded tensors), which copy_() refuses.
  if (!planned.matches(source))
    copy.copy_(source);
  else if (source.is_cpu())
    std::memcpy(copy.data_ptr(), source.const_data_ptr(), planned.bytes());
  else
    alias(copy, {planned.span}, {1}, 0).copy_(alias(source, {planned.span}, {1}, source.storage_offset()));
  return copy;
}

namespace {

bool shares_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
             b.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// Puts a result that ATen allocated where the plan wants it. A result may turn out to be a view of an operand (an
/// op outside of the tracer's tables may be one): it is copied, because the operand's memory is used again.
void place(const BoundCall& call, size_t index, at::Tensor result, Frame& frame) {
  const ResultRef& ref = call.results[index];
  if (ref.kind == ResultRef::Kind::unused) return;
  BRAZE_CHECK(result.defined(), call.name, " gave no tensor for result ", index, ", which the program reads");
  // Of large numbers the kernel may make another length than the meta kernel has told.
  if (result.sizes() != c10::IntArrayRef(ref.planned.sizes))
    throw UserError(concat("braze: ", call.name, " gave ", describe(result), " for result ", index,
                           ", planned was ", describe(ref.planned)));
  if (ref.kind == ResultRef::Kind::into) {
    ref.target.resolve(frame).copy_(result);
    return;
  }
  Geometry planned = ref.planned;
  if (planned.dtype == c10::ScalarType::Undefined) planned.dtype = result.scalar_type();
  bool keep = result.layout() == c10::kStrided && planned.matches(result);
  for (const OperandRef& operand : call.operands) {
    if (!keep) break;
    // Owned buffers that are results of earlier calls, and views, were resolved by the call: their tensors still
    // stand.
    const at::Tensor& tensor = operand.kind == OperandRef::Kind::view    ? frame.views[operand.index]
                               : operand.kind == OperandRef::Kind::owned ? frame.owned[operand.index]
                                                                         : *frame.inputs[operand.index];
    keep = !shares_storage(result, tensor);
  }
  // Two results over one storage (chunks, say) must not become two outputs that alias.
  for (size_t other = 0; keep && other < index; ++other)
    if (call.results[other].kind == ResultRef::Kind::keep)
      keep = !shares_storage(result, frame.owned[call.results[other].buffer]);
  if (!keep) result = copy_to(result, planned);
  // What ATen gives a dimension of size 1 may differ for operands that lie elsewhere than eager's.
  else if (result.strides() != c10::IntArrayRef(planned.strides))
    result.unsafeGetTensorImpl()->set_sizes_and_strides(planned.sizes, planned.strides, result.storage_offset());
  OutputPool::count(result);
  frame.addresses[ref.buffer] = result.data_ptr();
  frame.owned[ref.buffer] = std::move(result);
}

/// The memory that a result is to be computed into.
at::Tensor& out_tensor(const BoundCall& call, Frame& frame, size_t index = 0) {
  const ResultRef& ref = call.results[index];
  if (ref.kind == ResultRef::Kind::into) return const_cast<at::Tensor&>(ref.target.resolve(frame));
  at::Tensor& out = frame.owned[ref.buffer];
  out = ref.planned.allocate();
  OutputPool::count(out);
  frame.addresses[ref.buffer] = out.data_ptr();
  return out;
}

bool is_wanted(const BoundCall& call, size_t index) {
  return index < call.results.size() && call.results[index].kind != ResultRef::Kind::unused;
}

/// Null: nobody wants the result.
at::Tensor* wanted_tensor(const BoundCall& call, Frame& frame, size_t index) {
  return is_wanted(call, index) ? &out_tensor(call, frame, index) : nullptr;
}

void call_matmul(const BoundCall& c, Frame& f) {
  at::Tensor& out = out_tensor(c, f);
  const size_t first = c.operands.size() - 2;  // after the bias, if any
  const at::Tensor* bias = first == 1 ? &c.operands[0].resolve(f) : nullptr;
  const at::Tensor* weight = c.weight ? f.inputs[*c.weight] : nullptr;
  const MatmulOperands operands{
      out, c.operands[first].resolve(f), c.operands[first + 1].resolve(f), bias, c.beta, c.alpha, weight};
  if (c.matmul)
    c.matmul->run(operands);
  else
    c.product ? c.product->run(operands) : matmul_by_aten(operands);
}

void call_boxed(const BoundCall& c, Frame& f) {
  const capture::CallPayload& payload = *c.payload;
  std::vector<c10::IValue>& stack = f.stack;
  stack.assign(payload.stack.begin(), payload.stack.end());
  std::vector<at::Tensor> clones(payload.cloned.size());
  auto value_of = [&](uint32_t operand) {
    for (size_t i = 0; i < payload.cloned.size(); ++i) {
      if (payload.cloned[i] != operand) continue;
      if (clones[i].defined()) return clones[i];
      const at::Tensor& written = c.operands[operand].resolve(f);
      // An out= tensor that the operator resizes loses its contents.
      const bool resized = written.sizes() != c10::IntArrayRef(c.clones[i].sizes);
      return clones[i] = resized ? c.clones[i].allocate(written.scalar_type()) : copy_to(written, c.clones[i]);
    }
    return c.operands[operand].resolve(f);
  };
  // Lists are shared with the payload: the first slot of each makes a list of this call's own.
  uint32_t copied_list = ~0u;
  for (const auto& slot : payload.slots) {
    c10::IValue& argument = stack[slot.argument];
    if (slot.element == capture::kNumberSlot) {
      argument = *c.operands[slot.operand].resolve(f).const_data_ptr<double>();
      continue;
    }
    if (slot.element < 0) {
      argument = value_of(slot.operand);
      continue;
    }
    if (argument.isTensorList()) {
      if (copied_list != slot.argument) argument = argument.toTensorList().copy();
      argument.toTensorList().set(slot.element, value_of(slot.operand));
    } else {
      if (copied_list != slot.argument) argument = argument.toOptionalTensorList().copy();
      argument.toOptionalTensorList().set(slot.element, value_of(slot.operand));
    }
    copied_list = slot.argument;
  }
  payload.op.callBoxed(&stack);

  for (size_t k = 0; k < payload.results.size(); ++k) {
    const auto [returned, element] = payload.results[k];
    if (returned < 0)
      place(c, k, clones.at(element), f);
    else if (element < 0)
      place(c, k, stack.at(returned).toTensor(), f);
    else
      place(c, k, stack.at(returned).toTensorList().get(element), f);
  }
  stack.clear();
}

void call_sort(const BoundCall& c, Frame& f) {
  const at::Tensor& self = c.operands[0].resolve(f);
  if (!c.sort->serves(self)) return call_boxed(c, f);
  const at::Tensor *values = wanted_tensor(c, f, 0), *indices = wanted_tensor(c, f, 1);
  if ((!values && !indices) || !c.sort->run(self, values, indices)) call_boxed(c, f);
}

void call_attention(const BoundCall& c, Frame& f) {
  const auto operand = [&](size_t k) -> const at::Tensor& { return c.operands[k].resolve(f); };
  const AttentionCall::Operands operands{operand(0), operand(1), operand(2),
                                         c.attention->form.has_mask ? &operand(3) : nullptr};
  if (!is_wanted(c, 0) || !c.attention->serves(operands)) return call_boxed(c, f);
  const at::Tensor& out = out_tensor(c, f, 0);
  if (!c.attention->run(operands, out, wanted_tensor(c, f, 1))) call_boxed(c, f);
}

void call_attention_gradients(const BoundCall& c, Frame& f) {
  const auto operand = [&](size_t k) -> const at::Tensor& { return c.operands[k].resolve(f); };
  const AttentionGradientsCall::Operands operands{operand(0),
                                                  operand(1),
                                                  operand(2),
                                                  operand(3),
                                                  operand(4),
                                                  operand(5),
                                                  c.attention_gradients->form.has_mask ? &operand(6) : nullptr};
  const bool all = is_wanted(c, 0) && is_wanted(c, 1) && is_wanted(c, 2);
  if (!all || !c.attention_gradients->serves(operands)) return call_boxed(c, f);
  const at::Tensor &query = out_tensor(c, f, 0), &key = out_tensor(c, f, 1), &value = out_tensor(c, f, 2);
  if (!c.attention_gradients->run(operands, {query, key, value})) call_boxed(c, f);
}

at::Scalar scalar_of(const ir::Argument& argument) {
  return argument.kind == ir::Argument::Kind::integer ? at::Scalar(argument.integer) : at::Scalar(argument.real);
}

}  // namespace

void BoundCall::choose(const loops::CallStep& step, const std::vector<c10::IValue>& objects) {
  const ir::LibraryCall& call = step.call;
  name = call.name;
  if (step.writes_into) {  // A product: [bias,] a, b [, beta, alpha]
    function = call_matmul;
    if (step.operands.size() < 3) return;
    beta = scalar_of(call.arguments.at(3));
    alpha = scalar_of(call.arguments.at(4));
    return;
  }
  payload = capture::payload_of(call, objects);
  function = call_boxed;
  clones.resize(payload->cloned.size());
  for (size_t k = 0; k < payload->results.size(); ++k)
    if (payload->results[k].returned < 0) clones.at(payload->results[k].element) = results.at(k).planned;
  if ((sort = SortCall::of(*payload)))
    function = call_sort;
  else if ((attention = AttentionCall::of(*payload)))
    function = call_attention;
  else if ((attention_gradients = AttentionGradientsCall::of(*payload)))
    function = call_attention_gradients;
}

}  // namespace braze::runtime
