// Operators that no rule takes: recorded as `call` nodes whose shapes PyTorch's Meta kernels tell, or run on the
// example values if those decide the shapes.
#include <algorithm>

#include "capture/arguments.h"
#include "capture/ask_shapes.h"
#include "capture/call.h"
#include "capture/changed_filters.h"
#include "capture/devices.h"
#include "capture/gates.h"
#include "capture/number.h"
#include "capture/number_calls.h"
#include "capture/numbers_in_calls.h"
#include "capture/size_node.h"
#include "capture/traceable.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using torch::jit::Stack;

/// What holds of some arguments of an operator, and its schema does not say.
struct ArgumentRow {
  std::string_view name;
  size_t first, last;  ///< Of arguments first ... last,
  int training_flag;   ///< if this argument is true; -1: always.
};

bool holds(std::span<const ArgumentRow> rows, const c10::FunctionSchema& schema, size_t argument,
           std::span<const c10::IValue> arguments) {
  const auto row = std::ranges::find(rows, schema.name(), &ArgumentRow::name);
  return row != rows.end() && argument >= row->first && argument <= row->last &&
         (row->training_flag < 0 || arguments[row->training_flag].toBool());
}

/// Arguments that operators write: running statistics, and what a library has reserved for its backward and uses up
/// there (autograd hands it a copy as long as the graph is retained).
constexpr ArgumentRow kHiddenWrites[] = {
    {"aten::native_batch_norm", 3, 4, 5},        {"aten::cudnn_batch_norm", 3, 4, 5},
    {"aten::miopen_batch_norm", 3, 4, 5},        {"aten::batch_norm_update_stats", 1, 2, -1},
    {"aten::batch_norm_gather_stats", 3, 4, -1}, {"aten::batch_norm_gather_stats_with_counts", 3, 4, -1},
    {"aten::batch_norm_backward", 10, 10, -1},   {"aten::cudnn_batch_norm_backward", 8, 8, -1},
    {"aten::_cudnn_rnn_backward", 20, 20, -1},   {"aten::miopen_rnn_backward", 19, 19, -1},
};

/// Arguments that autograd hands on for a derivative of the derivative, and that the operator itself does not read.
/// A graph that named them would seem to depend on statistics which its own forward writes.
constexpr ArgumentRow kUnread[] = {
    {"aten::native_batch_norm_backward", 3, 4, 7},
    {"aten::batch_norm_backward", 3, 4, 7},
    {"aten::cudnn_batch_norm_backward", 3, 4, -1},
};

/// Results that lie on the CPU whatever the operands' device, of which a Meta kernel cannot tell. Attention keeps
/// the state of its random numbers there, and its backward reads it there.
struct OnCpu {
  std::string_view name;
  size_t first, last;  ///< Results first ... last.
};
constexpr OnCpu kOnCpu[] = {
    {"aten::_scaled_dot_product_efficient_attention", 2, 3},
    {"aten::_efficient_attention_forward", 2, 3},
};

bool overlaps(const at::Tensor& tensor) {
  for (int64_t k = 0; k < tensor.dim(); ++k)
    if (tensor.size(k) > 1 && tensor.stride(k) == 0) return true;
  return false;
}

/// Operators that return numbers beside tensors, which the shapes decide.
constexpr std::string_view kNumbersByShape[] = {"aten::_scaled_dot_product_flash_attention",
                                                "aten::_scaled_dot_product_cudnn_attention"};

bool returns_only_tensors(const OpEntry& entry) {
  if (std::ranges::find(kNumbersByShape, entry.op.schema().name()) != std::end(kNumbersByShape)) return true;
  for (const c10::Argument& result : entry.op.schema().returns()) {
    const auto kind = result.type()->kind();
    const bool list =
        kind == c10::TypeKind::ListType &&
        result.type()->castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::TensorType;
    if (kind != c10::TypeKind::TensorType && !list) return false;
  }
  return true;
}

/// One recorded call, in the making.
class CallRecorder {
 public:
  CallRecorder(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments)
      : recorder_(recorder), entry_(entry), arguments_(arguments), payload_{entry.op, {}, {}, {}, {}} {}

  /// \param guessed  the shapes, if they are known.
  Stack run(Shapes* guessed) {
    if (recorder_.has_other_default_dtype())
      throw UserError(concat("braze: ", entry_.op.schema().name(),
                             " asks for the default dtype when it runs, which the traced function has changed."));
    take_operands();
    shapes_ = guessed ? std::move(*guessed) : ask_shapes(&recorder_, entry_, arguments_);
    place_results();
    const bool effect =
        entry_.random || (entry_.returns == 0 && payload_.cloned.empty()) || orders_complex(entry_, arguments_);
    ir::Node* node = recorder_.create_call(payload_, operands_, types_, effect);
    if (uses_default_generator(entry_, arguments_)) recorder_.generator().advance(node);
    for (size_t k = 0; k < written_.size(); ++k) write_back(written_[k], node->result(first_clone_ + k));
    Stack stack;
    for (size_t k = 0; k < entry_.returns; ++k) stack.push_back(make_result(k, node));
    return stack;
  }

 private:
  struct Written {
    at::Tensor tensor, meta;
    uint32_t argument;
  };

  void take_operands() {
    payload_.stack.assign(arguments_.begin(), arguments_.end());
    device_ = capture::device_of(arguments_).device.value_or(c10::Device(c10::kCPU));
    const bool on_cpu = device_.is_cpu();  // What an argument says is of the results.
    for (uint32_t i = 0; i < arguments_.size(); ++i) {
      if (holds(kUnread, entry_.op.schema(), i, arguments_)) {
        payload_.stack[i] = c10::IValue();
        continue;
      }
      if (can_be_fixed(arguments_[i])) {
        put_number(payload_, i, arguments_[i], on_cpu,
                   [this](const at::Tensor& number) { return add_operand(number); });
        continue;
      }
      for_each_tensor(arguments_.subspan(i, 1), [&](const at::Tensor& tensor, uint32_t, int32_t element) {
        if (is_operand(tensor)) take_operand(tensor, i, element);
      });
      payload_.stack[i] = map_tensors(
          payload_.stack[i], [](const at::Tensor& tensor) { return is_operand(tensor) ? at::Tensor() : tensor; });
      if (arguments_[i].isDevice()) device_ = numbered(arguments_[i].toDevice());
    }
  }

  uint32_t add_operand(const at::Tensor& tensor) {
    operands_.push_back(recorder_.value_of(tensor));
    return static_cast<uint32_t>(operands_.size() - 1);
  }

  void take_operand(const at::Tensor& tensor, uint32_t argument, int32_t element) {
    const uint32_t operand = add_operand(tensor);
    payload_.slots.push_back({argument, element, operand});
    if (!is_written(entry_, argument, arguments_)) return;
    if (entry_.random && !is_dense(dims_of(tensor), strides_of(tensor)))
      throw UserError(concat("braze: ", entry_.op.schema().name(),
                             " fills a tensor with gaps, which takes other random numbers than a dense one; this "
                             "cannot be traced. Fill a new tensor and copy it."));
    payload_.cloned.push_back(operand);
    written_.push_back({tensor, {}, argument});
    written_elements_.push_back(element);
  }

  /// Which return values are new tensors (results of the node), written arguments, or views.
  void place_results() {
    const auto& returns = entry_.op.schema().returns();
    for (size_t r = 0; r < returns.size(); ++r) {
      const c10::IValue& value = shapes_.results[r];
      first_result_.push_back(types_.size());
      if (returns[r].alias_info() && returns[r].alias_info()->isWrite()) continue;
      for_each_tensor({&value, 1}, [&](const at::Tensor& meta, uint32_t, int32_t element) {
        if (!is_strided(meta)) refuse_unstrided(meta, concat("the result of ", entry_.op.schema().name()));
        payload_.results.push_back({static_cast<int32_t>(r), element});
        types_.push_back(value_type_of(meta, device_of_result(meta, r)));
      });
    }
    first_clone_ = types_.size();
    for (size_t k = 0; k < written_.size(); ++k) {
      const c10::IValue& value = shapes_.arguments[written_[k].argument];
      written_[k].meta = written_elements_[k] < 0 ? value.toTensor() : value.toTensorVector()[written_elements_[k]];
      payload_.results.push_back({-1, static_cast<int32_t>(k)});
      const at::Tensor& meta = written_[k].meta;
      types_.push_back(value_type_of(meta, device_of(meta)));
    }
  }

  /// Real tensors (of zeros) say where they are.
  c10::Device device_of(const at::Tensor& tensor) const { return tensor.is_meta() ? device_ : tensor.device(); }

  /// \param r  which of the operator's results it is.
  c10::Device device_of_result(const at::Tensor& result, size_t r) const {
    if (!result.is_meta()) return device_of(result);
    const auto row = std::ranges::find(kOnCpu, entry_.op.schema().name(), &OnCpu::name);
    return row != std::end(kOnCpu) && row->first <= r && r <= row->last ? c10::Device(c10::kCPU) : device_;
  }

  /// Null: its sizes are the numbers that they look.
  const Form* form_of(const at::Tensor& meta) const {
    const auto found = shapes_.forms.find(meta.unsafeGetTensorImpl());
    return found == shapes_.forms.end() ? nullptr : &found->second;
  }

  /// Of a value of the graph: dense, even if ATen's result is a window onto an operand's memory.
  const ir::Type* value_type_of(const at::Tensor& meta, c10::Device device) {
    if (const Form* form = form_of(meta))
      return recorder_.type(meta.scalar_type(), device, form->sizes, preserved_strides(form->sizes, form->strides));
    return recorder_.type(meta.scalar_type(), device, meta.sizes(),
                          preserved_strides(meta.sizes(), meta.strides()));
  }

  void write_back(const Written& written, ir::Value* value) {
    const ViewPtr view = recorder_.view_of(written.tensor);
    TracerTensor* tracer = as_tracer(written.tensor);
    const bool is_input = !tracer || view->input >= 0;
    const bool same_sizes = to_ref(value->type->sizes) == to_ref(view->type->sizes);
    if (entry_.moves_view && !is_input)
      if (const ViewPtr moved = window(view, written.meta)) return tracer->rebind(moved);
    const Form* form = form_of(written.meta);
    const DimsRef strides = form ? DimsRef(form->strides) : DimsRef(written.meta.strides());
    const bool same_place = strides == strides_of(written.tensor) || is_empty(dims_of(written.tensor));
    if (same_sizes && same_place) return write(recorder_, *view, value);
    const bool warns = !same_sizes || entry_.moves_view;
    if (is_input || view->parent || (warns && !is_empty(dims_of(written.tensor)))) refuse_resize(entry_);
    const at::Tensor fresh = recorder_.wrap_fresh(value, written.tensor.scalar_type(), written.tensor.device());
    tracer->rebind(as_tracer(fresh)->view());
  }

  c10::IValue make_result(size_t r, ir::Node* node) {
    const c10::Argument& declared = entry_.op.schema().returns()[r];
    const c10::AliasInfo* alias = declared.alias_info();
    if (alias && alias->isWrite()) return written_argument(*alias);
    size_t next = first_result_[r];
    return map_tensors(shapes_.results[r], [&](const at::Tensor& meta) {
      ir::Value* value = node->result(next++);
      if (alias) return make_view(meta, value);
      const int64_t offset = meta.storage_offset();
      if ((offset != 0 || !is_dense(meta.sizes(), meta.strides())) && !overlaps(meta))
        return recorder_.wrap_gapped(value, meta.scalar_type(), device_of_result(meta, r), meta.sizes(),
                                     meta.strides(), offset);
      return recorder_.wrap_fresh(value, meta.scalar_type(), device_of_result(meta, r));
    });
  }

  /// In-place and out= operators return the very tensor that they write.
  c10::IValue written_argument(const c10::AliasInfo& alias) {
    const auto& schema = entry_.op.schema().arguments();
    for (size_t i = 0; i < schema.size(); ++i)
      if (schema[i].alias_info() && schema[i].alias_info()->beforeSets() == alias.beforeSets())
        return arguments_[i];
    BRAZE_CHECK(false, entry_.op.schema().name(), " returns a written argument that it does not take");
  }

  /// A view by an operator without a rule: a window on the memory of its first operand.
  at::Tensor make_view(const at::Tensor& meta, ir::Value* value) {
    const auto slot = std::ranges::find_if(arguments_, [](const c10::IValue& v) { return v.isTensor(); });
    BRAZE_CHECK(slot != arguments_.end(), "a view of nothing");
    const at::Tensor& viewed = slot->toTensor();
    const ViewPtr parent = recorder_.view_of(viewed);
    const bool other_bits = meta.scalar_type() != viewed.scalar_type() || meta.is_conj() || meta.is_neg();
    const ViewPtr view = other_bits ? nullptr : window(parent, meta);
    if (!view)
      throw UserError(concat("braze: ", entry_.op.schema().name(),
                             " returns a view that cannot be followed. Take a clone() of its operand first."));
    view->value = value;
    view->version = parent->memory->version;
    return recorder_.wrap_view(view, viewed);
  }

  /// Another geometry on the memory of `parent`. Null if it reaches beyond.
  ViewPtr window(const ViewPtr& parent, const at::Tensor& meta) {
    const ir::Type* type = recorder_.type(meta.scalar_type(), device_of(meta), meta.sizes(), meta.strides());
    ViewPtr view = window_like(parent, type, parent->offset + meta.storage_offset());
    return end_byte(*view) <= end_byte(window_base(*view)) ? view : nullptr;
  }

  Recorder& recorder_;
  const OpEntry& entry_;
  std::span<const c10::IValue> arguments_;
  CallPayload payload_;
  std::vector<ir::Value*> operands_;
  std::vector<const ir::Type*> types_;
  std::vector<Written> written_;
  std::vector<int32_t> written_elements_;
  std::vector<size_t> first_result_;
  size_t first_clone_ = 0;
  Shapes shapes_;
  c10::Device device_ = c10::Device(c10::kCPU);  ///< Of results that only a Meta kernel has told.
};

/// Numbers that inputs decide, where the call must know them: they decide shapes, or are read when it is recorded.
void fix_numbers(const OpEntry& entry, std::span<c10::IValue> arguments) {
  const CallDevice device = capture::device_of(arguments);
  const bool all = is_dynamic(entry, arguments) || !returns_only_tensors(entry) || numbers_decide_shapes(entry);
  const bool on_cpu = device.device.value_or(c10::Device(c10::kCPU)).is_cpu();
  for (c10::IValue& argument : arguments)
    if (can_be_fixed(argument) && (all || !takes_number(argument, on_cpu))) argument = specialised(argument);
}

}  // namespace

bool draws_numbers(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded) && !op.schema().name().ends_with("_backward");
}

bool is_written(const OpEntry& entry, size_t argument, std::span<const c10::IValue> arguments) {
  const c10::FunctionSchema& schema = entry.op.schema();
  const c10::AliasInfo* alias = schema.arguments()[argument].alias_info();
  if (alias && alias->isWrite()) return true;
  return holds(kHiddenWrites, schema, argument, arguments);
}

bool may_write_unsaid(const c10::OperatorHandle& op) {
  return std::ranges::find(kHiddenWrites, op.schema().name(), &ArgumentRow::name) != std::end(kHiddenWrites);
}

void record_fallback(Recorder& recorder, const OpEntry& entry, Stack* stack, Shapes* guessed) {
  const std::span<const c10::IValue> arguments(stack->data() + stack->size() - entry.arguments, entry.arguments);
  if (have_filters_changed())
    throw UserError(
        concat("braze: ", entry.op.schema().name(), " may warn, and the filters of warnings have changed"));
  fix_numbers(entry, {stack->data() + stack->size() - entry.arguments, entry.arguments});
  if (!returns_only_tensors(entry) ||
      (is_dynamic(entry, arguments) && !has_known_shape(recorder, entry, arguments)))
    return record_frozen(recorder, entry, stack);
  if (uses_default_generator(entry, arguments)) recorder.generator().sync(recorder);
  Stack results = CallRecorder(recorder, entry, arguments).run(guessed);
  torch::jit::drop(*stack, entry.arguments);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

void record_frozen(Recorder& recorder, const OpEntry& entry, Stack* stack) {
  const size_t first = stack->size() - entry.arguments;
  if (entry.writes)
    throw UserError(concat("braze: ", entry.op.schema().name(),
                           " writes a result whose shape the data decides, which "
                           "cannot be traced. Use its functional form."));
  bool private_result = false;
  for (size_t i = first; i < stack->size(); ++i)
    (*stack)[i] = map_tensors((*stack)[i], [&](const at::Tensor& tensor) {
      if (!is_operand(tensor)) return tensor;
      private_result = true;
      return recorder.known().materialize(tensor, entry.op.schema().name());
    });
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    entry.op.callBoxed(*stack);
  }
  if (!private_result) return;
  for (size_t i = first; i < stack->size(); ++i)
    (*stack)[i] =
        map_tensors((*stack)[i], [&](const at::Tensor& real) { return recorder.add_private_constant(real); });
}

}  // namespace braze::capture
