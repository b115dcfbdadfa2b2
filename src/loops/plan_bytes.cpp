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

}  // namespace braze::ir

namespace braze::loops {

template <typename Archive>
void transfer(Archive& archive, PlanBuffer& buffer) {
  archive.enumerator(buffer.kind, static_cast<size_t>(BufferKind::mutated) + 1);
  archive(buffer.index, buffer.bytes, buffer.offset, buffer.part_of, buffer.dtype, buffer.device, buffer.sizes,
          buffer.strides);
}

template <typename Archive>
void transfer(Archive& archive, View& view) {
  archive(view.buffer, view.dtype, view.sizes, view.strides, view.offset);
}

template <typename Archive>
void transfer(Archive& archive, PlanMutation& mutation) {
  archive(mutation.input, mutation.view);
}

template <typename Archive>
void transfer(Archive& archive, KernelStep& step) {
  archive(step.kernel, step.buffers, step.origins, step.scalars, step.symbols, step.fused, step.bytes_read,
          step.bytes_written);
}

template <typename Archive>
void transfer(Archive& archive, CallStep& step) {
  archive(step.call, step.operands, step.results, step.writes_into);
}

template <typename Archive>
void transfer(Archive& archive, Step& step) {
  archive.enumerator(step.kind, static_cast<size_t>(Step::Kind::call) + 1);
  archive.enumerator(step.join, static_cast<size_t>(Join::after) + 1);
  archive(step.source);
  step.kind == Step::Kind::kernel ? archive(step.kernel) : archive(step.call);
}

namespace {

template <typename Archive>
void transfer_rest(Archive& archive, Plan& plan) {
  archive(plan.buffers, plan.steps, plan.outputs, plan.mutations, plan.arena_bytes, plan.unplanned_bytes);
}

}  // namespace

void write(ArchiveWriter& archive, const Plan& plan) {
  std::vector<std::string> kernels;
  for (const auto& kernel : plan.kernels) kernels.push_back(print(*kernel));
  archive(kernels);
  transfer_rest(archive, const_cast<Plan&>(plan));  // A writer changes nothing.
}

Plan read_plan(ArchiveReader& archive) {
  Plan plan;
  std::vector<std::string> kernels;
  archive(kernels);
  transfer_rest(archive, plan);
  if (!archive.ok()) return {};
  try {
    for (const std::string& text : kernels) {
      plan.kernels.push_back(parse_kernel(text));
      plan.kernel_hashes.push_back(structural_hash(*plan.kernels.back()));
    }
    verify(plan);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    archive.fail();
    return {};
  }
  return plan;
}

}  // namespace braze::loops
