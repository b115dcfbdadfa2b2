#include "loops/plan.h"

#include "ir/text.h"
#include "support/error.h"

namespace braze::loops {

namespace {

void print_view(std::ostringstream& out, const Plan& plan, const View& view) {
  static constexpr std::string_view kinds[] = {"input", "temp", "output", "call", "part", "mutated"};
  out << "#" << view.buffer << ":" << kinds[static_cast<size_t>(plan.buffers[view.buffer].kind)];
  if (const int32_t whole = plan.buffers[view.buffer].part_of; whole >= 0) out << " of #" << whole;
}

/// "#3:temp", followed by "{1,4}" where the strides are not row-major.
void print_laid_out(std::ostringstream& out, const Plan& plan, const View& view) {
  print_view(out, plan, view);
  if (view.strides == ir::contiguous_strides(view.sizes)) return;
  for (size_t k = 0; k < view.strides.size(); ++k) out << (k ? "," : "{") << view.strides[k];
  out << "}";
}

}  // namespace

std::string print(const Plan& plan) {
  std::ostringstream out;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    if (k) out << "\n";
    for (const Step& step : plan.steps) {
      if (step.kind != Step::Kind::kernel || step.kernel.kernel != k) continue;
      out << "; " << step.kernel.description << ": reads " << step.kernel.bytes_read << " bytes, writes "
          << step.kernel.bytes_written << "\n";
      break;
    }
    out << print(*plan.kernels[k]);
  }
  out << "\nprogram {  ; arena " << plan.arena_bytes << " bytes, " << plan.unplanned_bytes << " without reuse\n";
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    const bool goes_on = s + 1 < plan.steps.size() && plan.steps[s + 1].join != Join::alone;
    if (step.join == Join::alone && goes_on) out << "  region {\n";
    const bool inside = step.join != Join::alone || goes_on;
    if (step.join == Join::after) out << "    barrier\n";
    if (step.kind == Step::Kind::kernel) {
      out << (inside ? "    launch @" : "  launch @") << plan.kernels[step.kernel.kernel]->name << "(";
      for (size_t k = 0; k < step.kernel.buffers.size(); ++k) {
        if (k) out << ", ";
        print_view(out, plan, {step.kernel.buffers[k], {}, {}, {}, 0});
        if (!step.kernel.origins.empty() && step.kernel.origins[k] > 0)
          out << "[" << step.kernel.origins[k] << "..]";
      }
      for (const Number& scalar : step.kernel.scalars) {
        out << ", ";
        if (scalar.floating)
          out << scalar.f;
        else
          out << scalar.i;
      }
      out << ")\n";
      if (inside && !goes_on) out << "  }\n";
      continue;
    }
    const ir::Node& node = *step.call.node;
    out << "  call " << (node.op == ir::Op::call ? node.text_attr("target") : ir::info(node.op).name);
    out << "(";
    for (size_t k = 0; k < step.call.operands.size(); ++k) {
      if (k) out << ", ";
      print_laid_out(out, plan, step.call.operands[k]);
    }
    out << ") ->";
    for (int32_t result : step.call.results) {
      out << " ";
      if (result < 0) {
        out << "-";
        continue;
      }
      const PlanBuffer& buffer = plan.buffers[static_cast<size_t>(result)];
      const ir::Type& type = *buffer.value->type;
      print_laid_out(
          out, plan,
          {static_cast<uint32_t>(result), type.dtype, {type.sizes.begin(), type.sizes.end()}, buffer.strides, 0});
    }
    out << "\n";
  }
  out << "}\n";
  return out.str();
}

}  // namespace braze::loops
