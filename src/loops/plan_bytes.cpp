#include "loops/plan_bytes.h"

#include <new>

#include "support/error.h"

// Where transfer() is found: in the namespaces of what is transferred.
namespace braze::ir {

namespace {

constexpr size_t dtype_count = static_cast<size_t>(DType::other) + 1;
constexpr size_t device_count = static_cast<size_t>(DeviceKind::meta) + 1;
constexpr size_t argument_count = static_cast<size_t>(Argument::Kind::list) + 1;

}  // namespace

template <typename Archive>
void transfer(Archive& archive, Number& number) {
  archive(number.floating, number.f, number.i);
}

template <typename Archive>
void transfer(Archive& archive, DType& dtype) {
  archive.enumerator(dtype, dtype_count);
}

template <typename Archive>
void transfer(Archive& archive, Device& device) {
  archive.enumerator(device.kind, device_count);
  archive(device.index);
}

template <typename Archive>
void transfer(Archive& archive, Argument& argument) {
  archive.enumerator(argument.kind, argument_count);
  archive(argument.integer, argument.real, argument.imaginary, argument.text);
  archive.nested(argument.elements);
}

template <typename Archive>
void transfer(Archive& archive, CallResult& result) {
  archive(result.returned, result.element);
}

template <typename Archive>
void transfer(Archive& archive, LibraryCall& call) {
  archive(call.name, call.overload, call.arguments, call.written, call.results);
}

template <typename Archive>
void transfer(Archive& archive, SymbolDeclaration& symbol) {
  SymbolFacts& facts = symbol.facts;
  archive(symbol.name, symbol.example, facts.range.low, facts.range.high, facts.modulus, facts.remainder);
}

}  // namespace braze::ir

namespace braze::loops {

template <typename Archive, typename Number>
void transfer(Archive& archive, PlanBufferOf<Number>& buffer) {
  archive.enumerator(buffer.kind, static_cast<size_t>(BufferKind::mutated) + 1);
  archive(buffer.index, buffer.bytes, buffer.offset, buffer.part_of, buffer.dtype, buffer.device, buffer.sizes,
          buffer.strides, buffer.zeroed);
}

template <typename Archive, typename Number>
void transfer(Archive& archive, ViewOf<Number>& view) {
  archive(view.buffer, view.dtype, view.sizes, view.strides, view.offset);
}

template <typename Archive, typename Number>
void transfer(Archive& archive, PlanMutationOf<Number>& mutation) {
  archive(mutation.input, mutation.view);
}

template <typename Archive, typename Number>
void transfer(Archive& archive, KernelStepOf<Number>& step) {
  archive(step.kernel, step.buffers, step.origins, step.scalars, step.symbols, step.fused, step.bytes_read,
          step.bytes_written);
}

template <typename Archive, typename Number>
void transfer(Archive& archive, CallStepOf<Number>& step) {
  archive(step.call, step.operands, step.results, step.writes_into);
}

template <typename Archive, typename Number>
void transfer(Archive& archive, StepOf<Number>& step) {
  archive.enumerator(step.kind, static_cast<size_t>(StepKind::call) + 1);
  archive.enumerator(step.join, static_cast<size_t>(Join::after) + 1);
  archive(step.source);
  step.kind == StepKind::kernel ? archive(step.kernel) : archive(step.call);
}

namespace {

template <typename Archive, typename Number>
void transfer_rest(Archive& archive, PlanOf<Number>& plan) {
  archive(plan.buffers, plan.steps, plan.outputs, plan.mutations, plan.arena_bytes, plan.unplanned_bytes);
}

}  // namespace

namespace {

template <typename Number>
void write_plan(ArchiveWriter& archive, const PlanOf<Number>& plan) {
  std::vector<std::string> kernels;
  for (const auto& kernel : plan.kernels) kernels.push_back(print(*kernel));
  archive(kernels);
  transfer_rest(archive, const_cast<PlanOf<Number>&>(plan));  // A writer changes nothing.
}

/// Texts of its kernels, which are parsed once all bytes were read.
template <typename Number>
std::vector<std::string> read_parts(ArchiveReader& archive, PlanOf<Number>& plan) {
  std::vector<std::string> kernels;
  archive(kernels);
  transfer_rest(archive, plan);
  return kernels;
}

template <typename Number>
void parse_kernels(const std::vector<std::string>& texts, PlanOf<Number>& plan) {
  for (const std::string& text : texts) plan.kernels.push_back(parse_kernel(text));
  hash_kernels(plan);
}

/// Runs `check`; the archive fails where it throws, but for want of memory.
template <typename Check>
void check(ArchiveReader& archive, Check&& checks) {
  if (!archive.ok()) return;
  try {
    checks();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    archive.fail();
  }
}

}  // namespace

void write(ArchiveWriter& archive, const Plan& plan) {
  write_plan(archive, plan);
}

Plan read_plan(ArchiveReader& archive) {
  Plan plan;
  const std::vector<std::string> kernels = read_parts(archive, plan);
  check(archive, [&] {
    parse_kernels(kernels, plan);
    verify(plan);
  });
  return archive.ok() ? std::move(plan) : Plan();
}

// ---- of symbols

template <typename Archive>
void transfer(Archive& archive, SymbolicPlan::Number& number) {
  archive(number.value, number.is_computed);
}

template <typename Archive>
void SymbolicPlan::transfer_fields(Archive& archive) {
  archive(symbols_, guards_, sizes_, cats_, reuse_memory_);
}

template <typename Archive>
void transfer(Archive& archive, SymbolicPlan::Guard& guard) {
  archive.enumerator(guard.kind, static_cast<size_t>(ir::SizeTest::Kind::at_least) + 1);
  archive(guard.left, guard.text);
}

void write(ArchiveWriter& archive, const SymbolicPlan& plan) {
  const_cast<SymbolicPlan&>(plan).transfer_fields(archive);
  write_plan(archive, plan.plan_);
}

SymbolicPlan read_symbolic_plan(ArchiveReader& archive) {
  SymbolicPlan plan;
  plan.transfer_fields(archive);
  const std::vector<std::string> kernels = read_parts(archive, plan.plan_);
  check(archive, [&] {
    parse_kernels(kernels, plan.plan_);
    plan.prepare();
    verify(plan);
  });
  return archive.ok() ? std::move(plan) : SymbolicPlan();
}

}  // namespace braze::loops
