#include "python/plan_facts.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "ir/text.h"
#include "loops/operations.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

constexpr const char* kind_names[] = {"input", "temporary", "output", "call", "part", "mutated"};  // BufferKind's
constexpr const char* join_names[] = {"alone", "beside", "after"};                                 // Join's

std::string type_text(const loops::PlanBuffer& buffer) {
  std::string sizes;
  for (const int64_t size : buffer.sizes) sizes += concat(sizes.empty() ? "" : ",", size);
  return concat(ir::name(buffer.dtype), "[", sizes, "]");
}

py::dict describe(const loops::PlanBuffer& buffer) {
  py::dict row;
  row["kind"] = kind_names[static_cast<size_t>(buffer.kind)];
  row["index"] = buffer.index;
  row["bytes"] = buffer.bytes;
  row["offset"] = buffer.offset;
  row["part_of"] = buffer.part_of;
  row["zeroed"] = buffer.zeroed;
  row["type"] = type_text(buffer);
  row["device"] = ir::to_string(buffer.device);
  return row;
}

void describe_kernel(const loops::Plan& plan, const loops::Step& step, py::dict& row) {
  const loops::Kernel& kernel = *plan.kernels.at(step.kernel.kernel);
  py::list reads, writes;
  for (size_t i = 0; i < step.kernel.buffers.size(); ++i) {
    const loops::Access access = kernel.buffers.at(i).access;
    if (access != loops::Access::out) reads.append(step.kernel.buffers[i]);
    if (access != loops::Access::in) writes.append(step.kernel.buffers[i]);
  }
  row["name"] = kernel.name;
  row["reads"] = reads;
  row["writes"] = writes;
  row["bytes_read"] = step.kernel.bytes_read;
  row["bytes_written"] = step.kernel.bytes_written;
  row["fused"] = py::cast(step.kernel.fused);
}

void describe_call(const loops::Step& step, py::dict& row) {
  py::list reads, writes;
  for (const loops::View& view : step.call.operands) reads.append(view.buffer);
  for (const int32_t result : step.call.results)
    if (result >= 0) writes.append(result);
  row["name"] = step.call.call.name;
  row["reads"] = reads;
  row["writes"] = writes;
}

}  // namespace

py::dict plan_facts(const loops::Plan& plan) {
  py::dict facts;
  facts["arena_bytes"] = plan.arena_bytes;
  facts["unplanned_bytes"] = plan.unplanned_bytes;
  py::list buffers, steps, outputs;
  for (const loops::PlanBuffer& buffer : plan.buffers) buffers.append(describe(buffer));
  for (const loops::Step& step : plan.steps) {
    py::dict row;
    const bool is_kernel = step.kind == loops::StepKind::kernel;
    row["kind"] = is_kernel ? "kernel" : "call";
    row["source"] = step.source;
    row["join"] = join_names[static_cast<size_t>(step.join)];
    row["operations"] = loops::floating_operations(plan, step);
    is_kernel ? describe_kernel(plan, step, row) : describe_call(step, row);
    steps.append(row);
  }
  for (const loops::View& view : plan.outputs) outputs.append(view.buffer);
  facts["buffers"] = buffers;
  facts["steps"] = steps;
  facts["outputs"] = outputs;
  return facts;
}

}  // namespace braze::python
