// loops/symbolic_plan.h: a lowered graph whose sizes are expressions: one plan and one set of kernels for all
// values of the symbols.
//
//   SymbolicPlan family = lower_symbolic(*graph, options);
//   const Plan plan = family.at(values);         // of numbers: planned memory, symbols of kernels filled in
//
// What a kernel needs to know of sizes are integers that its launches pass; at() evaluates all of them, and the
// sizes, strides and offsets of buffers and views, by one flat code, then plans memory and regions for these sizes.
// So a plan of numbers is what runs in any case, and nothing after it knows of symbols.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/shape_env.h"
#include "ir/size_code.h"
#include "ir/size_text.h"
#include "loops/plan.h"
#include "support/error.h"

namespace braze {
class ArchiveReader;
class ArchiveWriter;
}  // namespace braze

namespace braze::loops {

/// What there is no form for that is right at all sizes: such a graph is to be instantiated (ir/instantiate.h) and
/// lowered for each size. The text names the operator.
class NotSymbolic : public UserError {
 public:
  using UserError::UserError;
};

class SymbolicPlan {
 public:
  using Symbol = ir::SymbolDeclaration;  ///< Its facts are also what guards tell of it.
  struct Guard {
    ir::SizeTest::Kind kind = ir::SizeTest::Kind::equal;
    std::string left;  ///< What is compared with 0.
    std::string text;
  };
  /// A number of the plan: itself, or result `value` of the code.
  struct Number {
    int64_t value = 0;
    bool is_computed = false;
    Number() = default;
    Number(int64_t known) : value(known) {}  // NOLINT: a number is one
    bool operator==(const Number&) const = default;
  };

  SymbolicPlan() = default;
  /// \param cats  as for form_regions().
  SymbolicPlan(PlanOf<ir::Size> plan, std::vector<uint32_t> cats, ir::ShapeEnv& env, bool reuse_memory);

  /// The plan for these values of the symbols, by slot. They keep the guards of the graph that was lowered. Throws
  /// UserError where a size has no value.
  Plan at(std::span<const int64_t> symbols) const;

  /// The guard or the range that these values break, for people; nullopt: at() is right for them.
  std::optional<std::string> refuses(std::span<const int64_t> symbols) const;

  const std::vector<std::shared_ptr<Kernel>>& kernels() const { return plan_.kernels; }
  const std::vector<Hash128>& kernel_hashes() const { return plan_.kernel_hashes; }
  size_t symbol_count() const { return symbols_.size(); }
  /// The expressions that at() evaluates, for people.
  const std::vector<std::string>& sizes() const { return sizes_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }

 private:
  friend class SymbolicPlanParser;
  friend std::string print(const SymbolicPlan& plan);
  friend void verify(const SymbolicPlan& plan);
  friend void write(ArchiveWriter& archive, const SymbolicPlan& plan);
  friend SymbolicPlan read_symbolic_plan(ArchiveReader& archive);
  template <typename Archive>
  void transfer_fields(Archive& archive);
  /// Makes the code of all expressions from their texts.
  void prepare();
  /// Without memory and regions.
  Plan numbers_at(std::span<const int64_t> symbols) const;

  PlanOf<Number> plan_;
  std::vector<Symbol> symbols_;
  std::vector<Guard> guards_;
  ir::SizeCode guard_code_;  ///< What each guard compares with 0.
  ir::SizeCode code_;
  std::vector<std::string> sizes_;
  std::vector<uint32_t> cats_;
  bool reuse_memory_ = true;
};

/// As a plan of numbers, but for memory and regions, which are planned for given sizes:
///
///   plan[n = 64, m = 512 in 2..16384] {                symbols with examples, and what is known of their values
///     guard m <= 16384
///     without reuse                                    every temporary has memory of its own
///     #0 = input 0 : f32[n,m]{m,1}                     strides are always said
///     #1 = output 0 : f32[n,m]{m,1}
///     launch @softmax_7a220d6b(#0, #1) symbols=[n,m] fused=['%0 = softmax'] cat=2
///     return #1
///   }
///
/// `cat`: see form_regions(). print -> parse -> print gives the same text.
std::string print(const SymbolicPlan& plan);
SymbolicPlan parse_symbolic_plan(std::string_view text);  ///< Throws UserError with line and column.
/// Throws where something names what does not exist, or the plan for the examples is none.
void verify(const SymbolicPlan& plan);

/// As lower(), of a graph with or without symbols. Notes guards where a form is only right, or only good, for some
/// sizes. Throws NotSymbolic.
SymbolicPlan lower_symbolic(ir::Graph& graph, const LoweringOptions& options = {});

/// A plan of other numbers. `convert` is called for each number.
template <typename To, typename From, typename Convert>
PlanOf<To> convert_plan(PlanOf<From> plan, Convert&& convert) {
  const auto list = [&](const std::vector<From>& from) {
    std::vector<To> to;
    to.reserve(from.size());
    for (const From& number : from) to.push_back(convert(number));
    return to;
  };
  const auto view = [&](const ViewOf<From>& from) {
    return ViewOf<To>{from.buffer, from.dtype, list(from.sizes), list(from.strides), convert(from.offset)};
  };
  PlanOf<To> result;
  result.kernels = std::move(plan.kernels);
  result.kernel_hashes = std::move(plan.kernel_hashes);
  result.buffers.reserve(plan.buffers.size());
  for (PlanBufferOf<From>& from : plan.buffers)
    result.buffers.push_back({from.kind, from.index, convert(from.bytes), convert(from.offset), from.part_of,
                              from.dtype, from.device, list(from.sizes), list(from.strides), from.zeroed});
  result.steps.reserve(plan.steps.size());
  for (StepOf<From>& from : plan.steps) {
    StepOf<To>& step = result.steps.emplace_back();
    step.kind = from.kind;
    step.join = from.join;
    step.source = std::move(from.source);
    KernelStepOf<From>& launch = from.kernel;
    step.kernel = {
        launch.kernel,        std::move(launch.buffers), list(launch.origins),       std::move(launch.scalars),
        list(launch.symbols), std::move(launch.fused),   convert(launch.bytes_read), convert(launch.bytes_written)};
    step.call.call = std::move(from.call.call);
    for (const ViewOf<From>& operand : from.call.operands) step.call.operands.push_back(view(operand));
    step.call.results = std::move(from.call.results);
    step.call.writes_into = from.call.writes_into;
  }
  for (const ViewOf<From>& output : plan.outputs) result.outputs.push_back(view(output));
  for (const PlanMutationOf<From>& mutation : plan.mutations)
    result.mutations.push_back({mutation.input, view(mutation.view)});
  return result;
}

}  // namespace braze::loops
