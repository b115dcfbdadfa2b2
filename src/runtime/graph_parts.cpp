#include "runtime/graph_parts.h"

#include <algorithm>

#include "support/error.h"

namespace braze::runtime {

namespace {

/// Between direct steps, fewer launches are no graph: starting one costs as much as two of them.
constexpr uint32_t kFewestLaunches = 2;

/// How names of operators begin that wait for the device: they look at what a solver reports, or count results.
constexpr std::string_view kWait[] = {
    "aten::linalg_",  "aten::_linalg_", "aten::cholesky",          "aten::lu_",      "aten::ormqr",
    "aten::geqrf",    "aten::nonzero",  "aten::masked_select",     "aten::_unique",  "aten::unique_",
    "aten::bincount", "aten::histc",    "aten::repeat_interleave", "aten::_assert_", "aten::_local_scalar_dense",
};

class Splitter {
 public:
  Splitter(const Program::Impl& program, const std::map<uint32_t, std::string>& refused)
      : program_(program), refused_(refused) {}

  GraphParts split();

 private:
  /// The steps of the plan that a bound one is.
  std::span<const loops::Step> planned(uint32_t step) const;
  c10::Device device_of(uint32_t buffer) const { return device(program_.plan.buffers.at(buffer).device); }
  /// The first GPU that something is computed on.
  c10::Device find_place() const;
  std::string obstacle(uint32_t step) const;
  std::string call_obstacle(const BoundCall& call, const loops::CallStep& planned) const;
  void make_parts();
  void join_alike();
  uint32_t launches(const GraphPart& part) const;
  void share();
  bool writes_are_recorded() const;

  const Program::Impl& program_;
  const std::map<uint32_t, std::string>& refused_;
  GraphParts made_;
};

std::span<const loops::Step> Splitter::planned(uint32_t step) const {
  const auto& all = program_.plan.steps;
  const size_t begin = program_.steps[step].planned;
  const size_t end = step + 1 < program_.steps.size() ? program_.steps[step + 1].planned : all.size();
  return std::span(all).subspan(begin, end - begin);
}

c10::Device Splitter::find_place() const {
  for (const BoundDevice& on : program_.devices)
    if (on.place.is_cuda()) return on.place;
  for (const auto& call : program_.calls)
    for (const ResultRef& result : call->results)
      if (result.kind != ResultRef::Kind::unused && result.planned.device.is_cuda()) return result.planned.device;
  return c10::Device(c10::DeviceType::CPU);
}

std::string Splitter::obstacle(uint32_t step) const {
  if (const auto found = refused_.find(step); found != refused_.end()) return found->second;
  const loops::Step& first = planned(step).front();
  if (!program_.steps[step].is_region)
    return call_obstacle(*program_.calls[program_.steps[step].index], first.call);
  const c10::Device on = device_of(first.kernel.buffers.at(0));
  return on == made_.place ? "" : concat("a kernel on ", on.str());
}

std::string Splitter::call_obstacle(const BoundCall& call, const loops::CallStep& planned) const {
  if (!call.name.starts_with("aten::") && !call.name.starts_with("braze::"))
    return concat("nobody knows what ", call.name, " does beside what is recorded");
  if (std::ranges::any_of(kWait, [&](std::string_view start) { return call.name.starts_with(start); }))
    return concat(call.name, " waits for the device");
  for (const loops::View& view : planned.operands)
    if (device_of(view.buffer) != made_.place)
      return concat(call.name, " reads a tensor on ", device_of(view.buffer).str());
  for (const int32_t result : planned.results)
    if (result >= 0 && device_of(result) != made_.place)
      return concat(call.name, " gives a tensor on ", device_of(result).str());
  if (call.payload)
    for (const c10::IValue& argument : call.payload->stack)
      if (argument.isGenerator()) return concat(call.name, " draws from a generator of its own");
  return "";
}

void Splitter::make_parts() {
  for (uint32_t s = 0; s < program_.steps.size(); ++s) {
    std::string why = obstacle(s);
    made_.parts.push_back({.begin = s, .end = s + 1, .is_recorded = why.empty(), .shared = {}});
    if (!why.empty()) made_.apart.push_back(std::move(why));
  }
  join_alike();
  if (made_.parts.size() == 1) return;
  for (GraphPart& part : made_.parts) part.is_recorded &= launches(part) >= kFewestLaunches;
  join_alike();
}

void Splitter::join_alike() {
  std::vector<GraphPart> joined;
  for (const GraphPart& part : made_.parts) {
    if (joined.empty() || joined.back().is_recorded != part.is_recorded)
      joined.push_back(part);
    else
      joined.back().end = part.end;
  }
  made_.parts = std::move(joined);
}

uint32_t Splitter::launches(const GraphPart& part) const {
  size_t count = 0;
  for (uint32_t s = part.begin; s < part.end; ++s) count += planned(s).size();
  return count;
}

void Splitter::share() {
  const size_t count = program_.plan.buffers.size();
  // By buffer of kind `call`: the part that makes it.
  std::vector<uint32_t> maker(count, ~0u);
  for (uint32_t p = 0; p < made_.parts.size(); ++p)
    for (uint32_t s = made_.parts[p].begin; s < made_.parts[p].end; ++s)
      if (!program_.steps[s].is_region)
        for (const ResultRef& result : program_.calls[program_.steps[s].index]->results)
          if (result.kind == ResultRef::Kind::keep) maker[result.buffer] = p;

  const auto read = [&](uint32_t buffer, bool by_recorded) {
    if (maker[buffer] == ~0u) return;
    GraphPart& from = made_.parts[maker[buffer]];
    if (from.is_recorded != by_recorded && std::ranges::find(from.shared, buffer) == from.shared.end())
      from.shared.push_back(buffer);
  };
  for (const GraphPart& part : made_.parts)
    for (uint32_t s = part.begin; s < part.end; ++s)
      for (const loops::Step& step : planned(s)) {
        if (step.kind == loops::Step::Kind::kernel)
          for (const uint32_t buffer : step.kernel.buffers) read(buffer, part.is_recorded);
        else
          for (const loops::View& view : step.call.operands) read(view.buffer, part.is_recorded);
      }
  for (const BoundOutput& output : program_.outputs) read(output.buffer, /*by_recorded=*/false);
  for (const loops::PlanMutation& mutation : program_.plan.mutations)
    read(mutation.view.buffer, made_.records_writes);
}

bool Splitter::writes_are_recorded() const {
  if (!made_.parts.back().is_recorded) return false;
  return std::ranges::all_of(program_.plan.mutations, [&](const loops::PlanMutation& mutation) {
    return device_of(mutation.view.buffer) == made_.place &&
           program_.inputs[mutation.input].expected.device == made_.place;
  });
}

GraphParts Splitter::split() {
  made_.place = find_place();
  if (!made_.place.is_cuda()) {
    made_.obstacle = "it computes nothing on a GPU";
    return std::move(made_);
  }
  if (program_.steps.empty()) {
    made_.obstacle = "it runs nothing";
    return std::move(made_);
  }
  make_parts();
  if (made_.graphs() == 0)
    made_.obstacle =
        made_.apart.empty() ? "too little runs on the GPU between what cannot be recorded" : made_.apart.front();
  made_.records_writes = writes_are_recorded();
  share();
  return std::move(made_);
}

}  // namespace

size_t GraphParts::graphs() const {
  return std::ranges::count(parts, true, &GraphPart::is_recorded);
}

GraphParts split_into_graphs(const Program::Impl& program, const std::map<uint32_t, std::string>& refused) {
  return Splitter(program, refused).split();
}

}  // namespace braze::runtime
