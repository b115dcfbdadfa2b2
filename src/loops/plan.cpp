// loops/plan.cpp: plans as text.
#include "loops/plan.h"

#include "ir/literals.h"
#include "ir/text.h"
#include "loops/plan_words.h"
#include "loops/symbolic_plan.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Plans of numbers of any kind. `text` gives that of a number of the plan.
template <typename Value, typename Text>
class Printer {
 public:
  static constexpr bool is_symbolic = !std::is_same_v<Value, int64_t>;
  Printer(const PlanOf<Value>& plan, Text text) : plan_(plan), text_(std::move(text)) {}

  /// \param head  from behind "plan" to the first buffer.
  /// \param cats  of each step, where it is not 0; may be empty.
  std::string run(const std::string& head, std::span<const uint32_t> cats) {
    cats_ = cats;
    for (const auto& kernel : plan_.kernels) out_.append(loops::print(*kernel)) += '\n';
    put("plan", head);
    for (size_t k = 0; k < plan_.buffers.size(); ++k) put_buffer(k);
    for (size_t s = 0; s < plan_.steps.size(); ++s) put_step(s);
    for (const auto& [input, view] : plan_.mutations) {
      put("  mutate ", input, ", ");
      put_view(view);
      put("\n");
    }
    put("  return");
    for (size_t k = 0; k < plan_.outputs.size(); ++k) {
      put(k ? ", " : " ");
      put_view(plan_.outputs[k]);
    }
    put("\n}\n");
    return std::move(out_);
  }

 private:
  void put(std::string_view text) { out_ += text; }
  void put(int64_t number) { ir::append_number(out_, Number::of_int(number)); }
  void put(const Value& number)
    requires(is_symbolic)
  {
    out_ += text_(number);
  }
  template <typename... Parts>
    requires(sizeof...(Parts) > 1)
  void put(const Parts&... parts) {
    (put(parts), ...);
  }

  void put_type(ir::DType dtype, ir::Device device, const std::vector<Value>& sizes,
                const std::vector<Value>& strides) {
    if constexpr (is_symbolic) {
      put(ir::name(dtype), "[");
      for (size_t k = 0; k < sizes.size(); ++k) put(k ? "," : "", sizes[k]);
      put("]");
      for (size_t k = 0; k < strides.size(); ++k) put(k ? "," : "{", strides[k]);
      if (!strides.empty()) put("}");
      if (device != ir::Device{}) put("@", ir::to_string(device));
    } else {
      put(ir::print({dtype, device, sizes, strides, 0}));
    }
  }

  void put_buffer(size_t number) {
    const PlanBufferOf<Value>& buffer = plan_.buffers[number];
    put("  #", static_cast<int64_t>(number), " = ", buffer_words[static_cast<size_t>(buffer.kind)]);
    if (has_index(buffer.kind))
      put(" ", buffer.index);
    else if (buffer.kind == BufferKind::part || (!is_symbolic && buffer.kind != BufferKind::call))
      put(" ", buffer.offset);
    if (buffer.part_of >= 0) put(" of #", buffer.part_of);
    if (buffer.zeroed) put(" zeroed");
    put(" : ");
    put_type(buffer.dtype, buffer.device, buffer.sizes, buffer.strides);
    put("\n");
  }

  void put_view(const ViewOf<Value>& view) {
    put("#", view.buffer);
    if (view == whole(plan_, view.buffer)) return;
    put(" as ");
    put_type(view.dtype, {}, view.sizes, view.strides);
    if (view.offset != Value(0)) put(" + ", view.offset);
  }

  void put_step(size_t number) {
    const StepOf<Value>& step = plan_.steps[number];
    const bool goes_on = number + 1 < plan_.steps.size() && plan_.steps[number + 1].join != Join::alone;
    const bool inside = step.join != Join::alone || goes_on;
    if (step.join == Join::alone && goes_on) put("  region {\n");
    if (step.join == Join::after) put("    barrier\n");
    put(inside ? "    " : "  ");
    step.kind == StepKind::kernel ? put_launch(step.kernel) : put_call(step.call);
    if (number < cats_.size() && cats_[number] != 0) put(" cat=", cats_[number]);
    if (!step.source.empty()) {
      put(" source=");
      ir::append_quoted(out_, step.source);
    }
    put("\n");
    if (inside && !goes_on) put("  }\n");
  }

  void put_launch(const KernelStepOf<Value>& step) {
    put("launch @", plan_.kernels[step.kernel]->name, "(");
    std::string_view separator;
    for (size_t k = 0; k < step.buffers.size(); ++k) {
      put(separator, "#", step.buffers[k]);
      if (step.origins[k] != Value(0)) put("[", step.origins[k], "..]");
      separator = ", ";
    }
    for (const Number& scalar : step.scalars) {
      put(separator);
      ir::append_number(out_, scalar);
      separator = ", ";
    }
    put(")");
    for (size_t k = 0; k < step.symbols.size(); ++k) put(k ? "," : " symbols=[", step.symbols[k]);
    if (!step.symbols.empty()) put("]");
    if (!is_symbolic) put(" reads=", step.bytes_read, " writes=", step.bytes_written);
    put(" fused=[");
    for (size_t k = 0; k < step.fused.size(); ++k) {
      if (k) put(", ");
      ir::append_quoted(out_, step.fused[k]);
    }
    put("]");
  }

  void put_call(const CallStepOf<Value>& step) {
    put("call ");
    ir::append_quoted(out_, step.call.name);
    if (!step.call.overload.empty()) {
      put(" overload=");
      ir::append_quoted(out_, step.call.overload);
    }
    put("(");
    ir::append_arguments(out_, step.call.arguments, [this, &step](std::string&, int64_t operand) {
      put_view(step.operands[static_cast<size_t>(operand)]);
    });
    put(")");
    if (!step.call.written.empty()) {
      put(" written=[");
      for (size_t k = 0; k < step.call.written.size(); ++k) put(k ? ", " : "", step.call.written[k]);
      put("]");
    }
    if (const std::string places = ir::print(step.call.results); !places.empty()) put(" results=[", places, "]");
    if (step.writes_into) put(" into");
    if (!step.results.empty()) put(" ->");
    for (size_t k = 0; k < step.results.size(); ++k) {
      put(k ? ", " : " ");
      step.results[k] < 0 ? put("none") : put("#", step.results[k]);
    }
  }

  const PlanOf<Value>& plan_;
  const Text text_;
  std::span<const uint32_t> cats_;
  std::string out_;
};

}  // namespace

int64_t span_of(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t span = 1;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) return 0;
    span += (sizes[k] - 1) * strides[k];
  }
  return span;
}

std::string print(const Plan& plan) {
  return Printer(plan, 0).run(concat(" {\n  arena ", plan.arena_bytes, " unplanned ", plan.unplanned_bytes, "\n"),
                              {});
}

std::string print(const SymbolicPlan& plan) {
  const auto text = [&](const SymbolicPlan::Number& number) {
    return number.is_computed ? plan.sizes_[static_cast<size_t>(number.value)] : std::to_string(number.value);
  };
  std::string head = "[";
  for (const SymbolicPlan::Symbol& symbol : plan.symbols_) {
    if (head.size() > 1) head += ", ";
    ir::append_declaration(head, symbol);
  }
  head += "] {\n";
  for (const SymbolicPlan::Guard& guard : plan.guards_) head += concat("  guard ", guard.text, "\n");
  if (!plan.reuse_memory_) head += "  without reuse\n";
  return Printer(plan.plan_, text).run(head, plan.cats_);
}

}  // namespace braze::loops
