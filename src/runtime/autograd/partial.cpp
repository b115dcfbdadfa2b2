#include "runtime/autograd/partial.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/clone.h"
#include "ir/library_call.h"
#include "ir/shape_env.h"
#include "passes/backward_stages.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

/// Of one trace. Who asks for more of them waits for a compilation more often.
constexpr size_t most_parts = 64;

/// The backward where no input that is saved twice was given other memory: the second stands for the first.
std::shared_ptr<const ir::Graph> together(std::shared_ptr<const ir::Graph> whole,
                                          const std::vector<std::optional<uint32_t>>& also_as) {
  if (!whole || std::ranges::none_of(also_as, [](const auto& place) { return place.has_value(); })) return whole;
  const ir::ShapeEnv* env = whole->find_shape_env();
  std::unique_ptr<ir::Graph> graph = ir::clone(*whole, env ? env->examples() : std::span<const int64_t>());
  std::unordered_map<const ir::Value*, ir::Value*> one;
  for (size_t k = 0; k < also_as.size(); ++k)
    if (also_as[k]) one.emplace(graph->inputs()[k].value, graph->inputs()[*also_as[k]].value);
  const auto join = [&](ir::Value*& value) {
    if (const auto known = one.find(ir::Graph::resolve(value)); known != one.end()) value = known->second;
  };
  for (ir::Node* node = graph->first(); node; node = node->next) std::ranges::for_each(node->operands, join);
  std::ranges::for_each(graph->outputs(), join);
  return graph;
}

}  // namespace

PartialPrograms::PartialPrograms(const capture::Trace& joint, std::shared_ptr<const ir::Graph> whole,
                                 std::vector<passes::Saved> saved, ProgramOptions options)
    : joint_(joint.graph),
      whole_(std::move(whole)),
      saved_(std::move(saved)),
      also_as_(passes::saved_twice(saved_)),
      together_(together(whole_, also_as_)),
      gradients_(*joint.gradients),
      likely_(find_likely()),
      objects_(joint.objects),
      options_(std::move(options)) {
  for (size_t k = gradients_.first_tangent; k < joint.bound.size(); ++k) bound_.push_back(joint.bound[k]);
}

PartialPrograms::Pattern PartialPrograms::find_likely() const {
  if (!whole_) return {};
  const passes::Backward all = backward();
  Pattern pattern{Bits(all.tangents), Bits(whole_->outputs().size())};
  std::vector<size_t> numbers;
  for (size_t t = 0; t < all.tangents; ++t) {
    pattern.tangents.set(t);
    if (whole_->inputs()[all.first_tangent + t].value->type->rank() == 0) numbers.push_back(t);
  }
  if (numbers.size() == 1) {
    pattern.tangents = Bits(all.tangents);
    pattern.tangents.set(numbers[0]);
  }
  for (const capture::Gradients::Input& input : gradients_.inputs) {
    if (input.kind != capture::Gradients::Input::Kind::output) continue;
    for (size_t t = 0; t < all.tangents; ++t)
      if (pattern.tangents[t] && input.from[t]) pattern.gradients.set(input.index);
  }
  return pattern;
}

PartialPrograms::Part PartialPrograms::at(const Pattern& pattern, std::span<const int64_t> symbols) const {
  std::shared_ptr<const ProgramFamily> family;
  Part part;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Row& found = row(pattern);
    part = {found.program, found.of};
    family = found.family;
  }
  if (family) part.program = family->at(symbols, {});  // May run Python, whose lock another thread may have.
  return part;
}

const std::vector<passes::BackwardReaders>& PartialPrograms::readers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (readers_) return *readers_;
  readers_ = passes::backward_readers(parted(backward()).backward);
  for (passes::BackwardReaders& one : *readers_)
    for (size_t k = 0; k < also_as_.size(); ++k)
      if (also_as_[k] && one.saved[*also_as_[k]]) one.saved.set(k);
  for (const capture::Gradients::Saving& one : gradients_.saving)
    readers_->push_back({one.tangents, one.gradients, Bits(backward().first_tangent)});
  return *readers_;
}

namespace {

/// Operators that bring running statistics up to date while training, and compute nothing else from them.
constexpr std::string_view kUpdateStatistics[] = {"aten::native_batch_norm", "aten::_native_batch_norm_legit",
                                                  "aten::cudnn_batch_norm", "aten::miopen_batch_norm"};

/// The operands of such a node which are those.
std::vector<uint32_t> updated_statistics(const ir::Node& node) {
  if (node.op != ir::Op::call || !node.find("written")) return {};
  if (std::ranges::find(kUpdateStatistics, node.text_attr("target")) == std::end(kUpdateStatistics)) return {};
  return ir::library_call(node).written;
}

}  // namespace

bool PartialPrograms::reads_what_is_written() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (reads_what_is_written_) return *reads_what_is_written_;
  std::vector<bool> reads(joint_->value_limit());
  for (const ir::Mutation& mutation : joint_->mutations()) reads[joint_->inputs()[mutation.input].value->id] = true;
  for (const ir::Node* node = joint_->first(); node; node = node->next) {
    const std::vector<uint32_t> updated = updated_statistics(*node);
    bool any = false;
    for (uint32_t k = 0; k < node->operands.size(); ++k)
      any |= reads[ir::Graph::resolve(node->operands[k])->id] && std::ranges::find(updated, k) == updated.end();
    for (const ir::Value& result : node->results) reads[result.id] = any;
    // The last results are the statistics as they are afterwards.
    const auto results = std::span(node->results);
    for (const ir::Value& result : results.last(updated.size())) reads[result.id] = true;
  }
  bool found = false;
  for (const capture::Gradients::Input& input : gradients_.inputs)
    if (input.kind == capture::Gradients::Input::Kind::output)
      found |= reads[joint_->outputs()[gradients_.first_gradient + input.index]->id];
  reads_what_is_written_ = found;
  return found;
}

size_t PartialPrograms::compiled() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return likely_row_ && likely_row_->family ? likely_row_->family->compiled() : 0;
}

const PartialPrograms::Row& PartialPrograms::row(const Pattern& pattern) const {
  if (pattern == likely_) {
    if (!likely_row_) likely_row_ = make(pattern);
    return *likely_row_;
  }
  const auto known = std::ranges::find(rows_, pattern, &Row::pattern);
  if (known != rows_.end()) {
    rows_.splice(rows_.begin(), rows_, known);
  } else {
    rows_.push_front(make(pattern));
    if (rows_.size() > most_parts) rows_.pop_back();
  }
  return rows_.front();
}

PartialPrograms::Row PartialPrograms::make(const Pattern& pattern) const {
  Row made{pattern, {}, {}, {}};
  passes::Parted parts;
  passes::Backward all = backward(pattern.is_apart);
  if (pattern.is_parted) {
    parts = parted(all);
    all = parts.backward;
  }
  const auto part_for = [&](const Bits& tangents) {
    return std::make_shared<const passes::PartialBackward>(
        passes::partial_backward(all, tangents, pattern.gradients));
  };
  try {
    made.of = part_for(pattern.tangents);
  } catch (const UserError&) {  // Only ATen can make the zeros: of all tangents, then.
    Bits tangents = pattern.tangents;
    for (size_t t = 0; t < all.tangents; ++t) tangents.set(t);
    made.of = part_for(tangents);
  }
  if (made.of->graph->outputs().empty()) return made;
  if (joint_->find_shape_env())
    made.family =
        std::make_shared<const ProgramFamily>(trace_of(made.of->graph, made.of->inputs), options_, PhaseTimes());
  else
    made.program = Program::compile(trace_of(made.of->graph, made.of->inputs), options_);
  return made;
}

passes::Backward PartialPrograms::backward(bool is_apart) const {
  const size_t behind_saved = joint_->inputs().size() - gradients_.first_tangent;
  return {(is_apart ? whole_ : together_).get(), whole_->inputs().size() - behind_saved, gradients_.tangents};
}

passes::Parted PartialPrograms::parted(const passes::Backward& whole) const {
  if (gradients_.inner.empty()) return {nullptr, whole};
  std::vector<passes::Inner> inner;
  for (const capture::Gradients::Inner& one : gradients_.inner)
    inner.push_back({one.is_view() ? std::nullopt : std::optional(one.tangent), one.output});
  return passes::part_at(whole, inner);
}

capture::Trace PartialPrograms::trace_of(std::shared_ptr<ir::Graph> graph, std::span<const uint32_t> inputs) const {
  const size_t saved = whole_->inputs().size() - bound_.size();
  capture::Trace trace;
  // The program's passes change it, and who asks for a part asks for its inputs and gradients alone.
  trace.graph = std::move(graph);
  for (const uint32_t input : inputs) {
    const bool is_behind_saved = input >= saved && input - saved < bound_.size();
    trace.bound.push_back(is_behind_saved ? bound_[input - saved] : at::Tensor());
  }
  trace.objects = objects_;
  for (uint32_t k = 0; k < trace.graph->outputs().size(); ++k) trace.outputs.emplace_back().index = k;
  trace.writes.assign(trace.graph->inputs().size(), 0);
  trace.place_modulus.assign(trace.graph->inputs().size(), 1);
  return trace;
}

const StagedPrograms* PartialPrograms::staged() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!staged_) staged_ = make_staged();
  return staged_->get();
}

std::unique_ptr<const StagedPrograms> PartialPrograms::make_staged() const {
  using GradientKind = capture::Gradients::Input::Kind;
  using PartKind = passes::PartialBackward::Gradient::Kind;
  // A CUDA graph of each stage would copy what it is handed.
  if (options_.cuda_graphs) return nullptr;
  // Inputs that are saved twice stay apart: they may be given other memory between stages.
  const passes::Backward all = backward(true);
  const passes::PartialBackward part = passes::partial_backward(all, likely_.tangents, likely_.gradients);
  const auto reads = [&](uint32_t joint_input) {
    std::vector<uint32_t> inputs;
    for (uint32_t k = 0; k < part.inputs.size(); ++k) {
      if (part.inputs[k] >= saved_.size() || saved_[part.inputs[k]].kind == passes::Saved::Kind::output) continue;
      if (saved_[part.inputs[k]].index == joint_input) inputs.push_back(k);
    }
    return inputs;
  };
  std::vector<std::vector<uint32_t>> before(part.graph->outputs().size());
  for (const capture::Gradients::Input& input : gradients_.inputs) {
    if (input.kind != GradientKind::output || part.gradients[input.index].kind != PartKind::output) continue;
    std::ranges::copy(reads(input.input), std::back_inserter(before[part.gradients[input.index].index]));
  }
  std::vector<passes::BackwardStage> found;
  try {
    found = passes::backward_stages(*part.graph, before);
  } catch (const UserError&) {  // It is run at once.
  }
  if (found.size() < 2) return nullptr;

  const auto of_whole = [&](uint32_t& input) {  // The numbers of what is handed on follow the whole graph's, too.
    const size_t inputs = part.inputs.size();
    input = input < inputs ? part.inputs[input] : static_cast<uint32_t>(input - inputs + whole_->inputs().size());
  };
  std::vector<StagedPrograms::Stage> stages;
  std::vector<uint32_t> last_reader(part.inputs.size());
  std::vector<StagedPrograms::Gradient> of_part(part.graph->outputs().size());
  for (uint32_t s = 0; s < found.size(); ++s) {
    passes::BackwardStage& one = found[s];
    for (const uint32_t input : one.inputs)
      if (input < last_reader.size()) last_reader[input] = s;
    for (uint32_t r = 0; r < one.gradients.size(); ++r) of_part[one.gradients[r]] = {PartKind::output, r, s};
    std::ranges::for_each(one.inputs, of_whole);
    std::ranges::for_each(one.handed_on, of_whole);
    capture::Trace trace = trace_of(std::move(one.graph), one.inputs);
    stages.push_back(
        {std::move(one.inputs), one.gradients.size(), std::move(one.handed_on), std::move(trace), {}, {}});
  }
  std::vector<StagedPrograms::Gradient> gradients;
  for (const capture::Gradients::Input& input : gradients_.inputs) {
    passes::PartialBackward::Gradient from{PartKind::tangent, input.index};
    if (input.kind == GradientKind::output) from = part.gradients[input.index];
    if (from.kind == PartKind::output) {
      gradients.push_back(of_part[from.index]);
      continue;
    }
    gradients.push_back({from.kind, from.index, 0});
    for (const uint32_t read : reads(input.input))
      gradients.back().stage = std::max(gradients.back().stage, last_reader[read]);
  }
  return std::make_unique<const StagedPrograms>(std::move(stages), std::move(gradients), options_);
}

}  // namespace braze::runtime
