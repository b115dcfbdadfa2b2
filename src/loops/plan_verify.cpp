// loops/plan_verify.cpp: the rules of plan.h.
#include <algorithm>

#include "ir/shapes.h"
#include "loops/plan.h"
#include "support/error.h"

namespace braze::loops {

namespace {

constexpr int64_t most_bytes = int64_t{1} << 48;  // sums of two stay in range

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan) {}

  void run() {
    require(plan_.kernel_hashes.size() == plan_.kernels.size(), "not one hash a kernel");
    for (const auto& kernel : plan_.kernels) loops::verify(*kernel);
    require(is_size(plan_.arena_bytes), "the arena is too large");
    for (uint32_t b = 0; b < plan_.buffers.size(); ++b) check_buffer(b);
    check_output_numbers();
    for (where_ = 0; where_ < plan_.steps.size(); ++where_) check_step(plan_.steps[where_]);
    where_ = no_step;
    for (const View& view : plan_.outputs) {
      check_view(view);
      const BufferKind kind = plan_.buffers[view.buffer].kind;
      require(kind == BufferKind::output || kind == BufferKind::call,
              "a result lies in memory that is not the caller's");
    }
    for (const auto& [input, view] : plan_.mutations) check_view(view);
  }

 private:
  template <typename... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (condition) return;
    const std::string place = where_ == no_step ? "" : concat("step ", where_, ": ");
    throw InternalError(concat("invalid plan: ", place, parts...));
  }

  static bool is_size(int64_t bytes) { return bytes >= 0 && bytes <= most_bytes; }

  const PlanBuffer& buffer(uint32_t number) const {
    require(number < plan_.buffers.size(), "there is no buffer #", number);
    return plan_.buffers[number];
  }

  void check_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides) const {
    require(sizes.size() == strides.size(), "not one stride a dimension");
    for (const auto values : {sizes, strides})
      require(std::ranges::all_of(values, [](int64_t value) { return value >= 0; }), "a negative size or stride");
    require(ir::is_addressable(sizes, strides), "a layout that no memory holds");
  }

  void check_buffer(uint32_t number) const {
    const PlanBuffer& memory = plan_.buffers[number];
    check_layout(memory.sizes, memory.strides);
    require(is_size(memory.bytes) && is_size(memory.offset), "buffer #", number, " is too large");
    require(memory.bytes == span_of(memory.sizes, memory.strides) * ir::byte_size(memory.dtype), "buffer #", number,
            " has not the bytes of what it holds");
    require(!memory.zeroed || (memory.kind == BufferKind::output && memory.device.kind == ir::DeviceKind::cpu),
            "buffer #", number, ": only outputs of a CPU are handed out full of zeros");
    const bool is_part = memory.kind == BufferKind::part;
    require(is_part ? memory.part_of >= 0 : memory.part_of < 0 || memory.kind == BufferKind::temporary, "buffer #",
            number, ": only parts and temporaries lie in another one");
    if (memory.part_of >= 0) {
      require(static_cast<uint32_t>(memory.part_of) < number, "buffer #", number, " lies in a later one");
      const PlanBuffer& outer = plan_.buffers[static_cast<size_t>(memory.part_of)];
      const int64_t begin = is_part ? 0 : outer.offset;
      require(memory.offset >= begin && memory.offset + memory.bytes <= begin + outer.bytes, "buffer #", number,
              " reaches beyond #", memory.part_of);
    }
    if (memory.kind == BufferKind::temporary)
      require(memory.offset + memory.bytes <= plan_.arena_bytes, "buffer #", number, " reaches beyond the arena");
  }

  void check_output_numbers() const {
    std::vector<uint32_t> numbers;
    for (const PlanBuffer& memory : plan_.buffers)
      if (memory.kind == BufferKind::output) numbers.push_back(memory.index);
    std::ranges::sort(numbers);
    require(std::ranges::adjacent_find(numbers) == numbers.end(), "two buffers are the same output");
    require(numbers.empty() || numbers.back() < plan_.outputs.size(), "an output that is not returned");
  }

  void check_view(const View& view) const {
    const PlanBuffer& memory = buffer(view.buffer);
    check_layout(view.sizes, view.strides);
    require(is_size(view.offset), "a view begins too far out");
    const int64_t span = span_of(view.sizes, view.strides), element = ir::byte_size(view.dtype);
    require(span == 0 || (view.offset + span) * element <= memory.bytes, "a view reaches beyond #", view.buffer);
  }

  void check_step(const Step& step) {
    if (step.kind == Step::Kind::call) {
      require(step.join == Join::alone, "a library call in a region");
      return check_call(step.call);
    }
    const bool follows = where_ > 0 && plan_.steps[where_ - 1].kind == Step::Kind::kernel;
    require(step.join == Join::alone || follows, "a region that does not begin");
    check_launch(step.kernel);
  }

  void check_launch(const KernelStep& step) const {
    require(step.kernel < plan_.kernels.size(), "there is no kernel ", step.kernel);
    const Kernel& kernel = *plan_.kernels[step.kernel];
    const uint32_t parameters = kernel.parameter_count();
    require(step.buffers.size() == parameters && step.origins.size() == parameters, "kernel ", kernel.name,
            " takes ", parameters, " buffers");
    require(step.scalars.size() == kernel.scalars.size(), "kernel ", kernel.name, " takes ", kernel.scalars.size(),
            " scalars");
    require(step.symbols.size() == kernel.symbols.size(), "kernel ", kernel.name, " takes ", kernel.symbols.size(),
            " symbols");
    for (uint32_t k = 0; k < parameters; ++k) {
      const Buffer& parameter = kernel.buffers[k];
      const PlanBuffer& memory = buffer(step.buffers[k]);
      require(parameter.access == Access::in || memory.kind != BufferKind::input, "kernel ", kernel.name,
              " writes into input #", step.buffers[k]);
      const int64_t elements = std::max<int64_t>(parameter.size.constant, 0);
      require(is_size(step.origins[k]) && is_size(elements) &&
                  (step.origins[k] + elements) * ir::byte_size(parameter.dtype) <= memory.bytes,
              "kernel ", kernel.name, " reaches beyond #", step.buffers[k]);
    }
  }

  void check_call(const CallStep& step) const {
    const ir::LibraryCall& call = step.call;
    for (const View& view : step.operands) check_view(view);
    int64_t next = 0;
    require(ir::names_operands(call.arguments, next) && next == static_cast<int64_t>(step.operands.size()),
            call.name, ": the arguments must name every operand once, in order");
    for (const uint32_t operand : call.written)
      require(operand < step.operands.size(), call.name, " writes operand ", operand, ", which it has not");
    require(call.results.size() == step.results.size(), call.name, ": not one place a result");
    for (const ir::CallResult& result : call.results)
      require(result.returned >= 0 || static_cast<size_t>(result.element) < call.written.size(), call.name,
              ": a clone of nothing is a result");
    for (const int32_t result : step.results) {
      if (result < 0) continue;
      const BufferKind kind = buffer(static_cast<uint32_t>(result)).kind;
      require(kind != BufferKind::input && kind != BufferKind::mutated, call.name, " writes into an input");
      require(step.writes_into || kind == BufferKind::call, call.name, " allocates its results");
    }
    require(!step.writes_into || is_product(step), call.name, " cannot write into memory that it is given");
  }

  /// [bias,] a, b [, beta, alpha]
  static bool is_product(const CallStep& step) {
    constexpr std::string_view library = "aten::";
    const std::string_view name = step.call.name;
    const auto op = name.starts_with(library) ? ir::parse_op(name.substr(library.size())) : std::nullopt;
    if (!op || !ir::has(*op, ir::traits::product) || step.results.size() != 1 || step.results[0] < 0) return false;
    const auto operands = static_cast<size_t>(ir::info(*op).fewest_operands);
    const bool is_biased = operands == 3;
    if (step.operands.size() != operands || step.call.arguments.size() != (is_biased ? 5 : 2)) return false;
    if (!is_biased) return true;
    return std::ranges::all_of(step.call.arguments, [](const ir::Argument& argument) {
      return argument.kind == ir::Argument::Kind::operand || argument.kind == ir::Argument::Kind::integer ||
             argument.kind == ir::Argument::Kind::real;
    });
  }

  static constexpr size_t no_step = ~size_t{0};
  const Plan& plan_;
  size_t where_ = no_step;  ///< The step that is looked at.
};

}  // namespace

void verify(const Plan& plan) {
  Verifier(plan).run();
}

}  // namespace braze::loops
