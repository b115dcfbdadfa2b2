#include "loops/symbolic_plan.h"

#include <algorithm>
#include <unordered_map>

#include "ir/size_table.h"
#include "ir/size_text.h"
#include "loops/memory.h"
#include "loops/regions.h"

namespace braze::loops {

SymbolicPlan::SymbolicPlan(PlanOf<ir::Size> plan, std::vector<uint32_t> cats, ir::ShapeEnv& env, bool reuse_memory)
    : cats_(std::move(cats)), reuse_memory_(reuse_memory) {
  for (uint32_t slot = 0; slot < env.table().symbol_count(); ++slot)
    symbols_.push_back({std::string(env.table().name(slot)), env.examples()[slot], env.table().facts(slot)});
  // What at() computes from sizes, and counts, is no part of the plan.
  for (PlanBufferOf<ir::Size>& buffer : plan.buffers) {
    buffer.bytes = 0;
    if (buffer.kind != BufferKind::part) buffer.offset = 0;
  }
  for (StepOf<ir::Size>& step : plan.steps) step.kernel.bytes_read = step.kernel.bytes_written = 0;
  for (const ir::ShapeEnv::Guard& guard : env.guards())
    guards_.push_back({guard.test.kind, to_text(guard.test.left), to_text(guard.test)});
  std::unordered_map<uint64_t, int64_t> known;  // by the size's bits
  const auto number_of = [&](ir::Size size) -> Number {
    if (size.is_constant()) return size.constant();
    const auto [at, is_new] = known.try_emplace(size.bits(), static_cast<int64_t>(sizes_.size()));
    if (is_new) sizes_.push_back(to_text(size));
    Number number(at->second);
    number.is_computed = true;
    return number;
  };
  plan_ = convert_plan<Number>(std::move(plan), number_of);
  for (StepOf<Number>& step : plan_.steps)
    ir::for_each_size(std::span(step.call.call.arguments), [&](ir::Argument& argument) {
      const Number number = number_of(ir::parse_size(argument.text, env.table()));
      argument.integer = number.value;
      if (!number.is_computed) argument = ir::Argument::of(ir::Argument::Kind::integer, number.value);
    });
  prepare();
}

void SymbolicPlan::prepare() {
  ir::SizeTable table;
  for (const Symbol& symbol : symbols_) table.symbol(symbol.name, symbol.facts);
  for (const std::string& size : sizes_) code_.add(ir::parse_size(size, table));
  for (const Guard& guard : guards_) guard_code_.add(ir::parse_size(guard.left, table));
}

std::optional<std::string> SymbolicPlan::refuses(std::span<const int64_t> symbols) const {
  BRAZE_CHECK(symbols.size() == symbols_.size(), "a value is needed for every symbol");
  std::vector<int64_t> values(guard_code_.result_count());
  const bool has_values = guard_code_.run(symbols, values);
  for (size_t k = 0; k < guards_.size(); ++k) {
    const auto holds = [&](int64_t value) {
      switch (guards_[k].kind) {
        case ir::SizeTest::Kind::equal: return value == 0;
        case ir::SizeTest::Kind::differs: return value != 0;
        case ir::SizeTest::Kind::at_least: return value >= 0;
      }
      return false;
    };
    if (!has_values || !holds(values[k])) return guards_[k].text;
  }
  for (size_t k = 0; k < symbols.size(); ++k) {
    const ir::SymbolFacts& facts = symbols_[k].facts;
    if (!facts.range.has(symbols[k]) || (symbols[k] - facts.remainder) % facts.modulus != 0)
      return concat(symbols_[k].name, " = ", symbols[k]);
  }
  return std::nullopt;
}

Plan SymbolicPlan::numbers_at(std::span<const int64_t> symbols) const {
  BRAZE_CHECK(symbols.size() == symbols_.size(), "a value is needed for every symbol");
  std::vector<int64_t> values(code_.result_count());
  if (!code_.run(symbols, values))
    throw UserError("a size of the program has no value for these symbols", UserError::Kind::value);
  const auto value_of = [&](const Number& number) {
    return number.is_computed ? values.at(static_cast<size_t>(number.value)) : number.value;
  };
  Plan plan = convert_plan<int64_t>(plan_, value_of);
  for (PlanBuffer& buffer : plan.buffers) {
    buffer.bytes = span_of(buffer.sizes, buffer.strides) * ir::byte_size(buffer.dtype);
    if (buffer.part_of >= 0 && buffer.bytes == 0) buffer.offset = 0;  // its whole may be empty, too
  }
  for (Step& step : plan.steps)
    ir::for_each_size(std::span(step.call.call.arguments), [&](ir::Argument& argument) {
      const int64_t value = values.at(static_cast<size_t>(argument.integer));
      argument = ir::Argument::of(ir::Argument::Kind::integer, value);
    });
  return plan;
}

Plan SymbolicPlan::at(std::span<const int64_t> symbols) const {
  Plan plan = numbers_at(symbols);
  for (Step& step : plan.steps) {
    if (step.kind != StepKind::kernel) continue;
    // What was counted when it was lowered was that of the examples.
    KernelStep& launch = step.kernel;
    const Kernel& kernel = *plan.kernels[launch.kernel];
    launch.bytes_read = launch.bytes_written = 0;
    for (size_t k = 0; k < launch.buffers.size(); ++k) {
      const PlanBuffer& buffer = plan.buffers[launch.buffers[k]];
      int64_t bytes = ir::byte_size(buffer.dtype);
      for (const int64_t size : buffer.sizes) bytes *= size;
      (kernel.buffers[k].access == Access::in ? launch.bytes_read : launch.bytes_written) += bytes;
      if (buffer.bytes == 0) launch.origins[k] = 0;  // nothing is read beyond it
    }
  }
  plan_memory(plan, reuse_memory_);
  form_regions(plan, cats_);
  return plan;
}

void verify(const SymbolicPlan& family) {
  std::vector<int64_t> examples;
  for (const SymbolicPlan::Symbol& symbol : family.symbols_) {
    if (symbol.facts.modulus < 1) throw InternalError("a symbol is a multiple of nothing");
    examples.push_back(symbol.example);
  }
  if (const auto guard = family.refuses(examples)) throw InternalError("the examples break " + *guard);
  if (family.cats_.size() != family.plan_.steps.size()) throw InternalError("not one cat a step");
  // Before memory is planned: whatever the plan names exists.
  Plan plan = family.numbers_at(examples);
  for (const PlanBuffer& buffer : plan.buffers) plan.arena_bytes = std::max(plan.arena_bytes, buffer.bytes);
  verify(plan);
  verify(family.at(examples));
}

}  // namespace braze::loops
