#include "runtime/autograd/partial.h"

#include <algorithm>

#include "ir/shape_env.h"
#include "passes/partition.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

/// Of one trace. Who asks for more of them waits for a compilation more often.
constexpr size_t most_parts = 64;

}  // namespace

PartialPrograms::PartialPrograms(const capture::Trace& joint, ProgramOptions options)
    : joint_(joint.graph), gradients_(*joint.gradients), objects_(joint.objects), options_(std::move(options)) {
  for (size_t k = gradients_.first_tangent; k < joint.bound.size(); ++k) bound_.push_back(joint.bound[k]);
}

PartialPrograms::Part PartialPrograms::at(const Bits& tangents, const Bits& gradients,
                                          std::span<const int64_t> symbols) const {
  std::shared_ptr<const ProgramFamily> family;
  Part part;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Row& found = row(tangents, gradients);
    part = {found.program, found.of};
    family = found.family;
  }
  if (family) part.program = family->at(symbols, {});  // May run Python, whose lock another thread may have.
  return part;
}

const std::vector<passes::BackwardReaders>& PartialPrograms::readers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!readers_) readers_ = passes::backward_readers(whole());
  return *readers_;
}

const PartialPrograms::Row& PartialPrograms::row(const Bits& tangents, const Bits& gradients) const {
  const auto known = std::ranges::find_if(
      rows_, [&](const Row& row) { return row.tangents == tangents && row.gradients == gradients; });
  if (known != rows_.end()) {
    rows_.splice(rows_.begin(), rows_, known);
  } else {
    rows_.push_front(make(tangents, gradients));
    if (rows_.size() > most_parts) rows_.pop_back();
  }
  return rows_.front();
}

PartialPrograms::Row PartialPrograms::make(const Bits& tangents, const Bits& gradients) const {
  Row made{tangents, gradients, {}, {}, {}};
  try {
    made.of =
        std::make_shared<const passes::PartialBackward>(passes::partial_backward(whole(), tangents, gradients));
  } catch (const UserError&) {  // Only ATen can make the zeros: of all tangents, then.
    Bits all = tangents;
    for (size_t t = 0; t < gradients_.tangents; ++t) all.set(t);
    made.of = std::make_shared<const passes::PartialBackward>(passes::partial_backward(whole(), all, gradients));
  }
  if (made.of->graph->outputs().empty()) return made;
  if (joint_->find_shape_env())
    made.family = std::make_shared<const ProgramFamily>(trace_of(*made.of), options_, PhaseTimes());
  else
    made.program = Program::compile(trace_of(*made.of), options_);
  return made;
}

/// The joint graph is cut as it was: what is saved is the same.
passes::Backward PartialPrograms::whole() const {
  if (!whole_)
    whole_ = passes::partition(
                 {joint_.get(), gradients_.first_backward, gradients_.first_tangent, gradients_.first_gradient})
                 .backward;
  const size_t behind_saved = joint_->inputs().size() - gradients_.first_tangent;
  return {whole_.get(), whole_->inputs().size() - behind_saved, gradients_.tangents};
}

capture::Trace PartialPrograms::trace_of(const passes::PartialBackward& part) const {
  const size_t saved = whole_->inputs().size() - bound_.size();
  capture::Trace trace;
  // The program's passes change it, and who asks for a part asks for its inputs and gradients alone.
  trace.graph = part.graph;
  for (const uint32_t input : part.inputs)
    trace.bound.push_back(input < saved ? at::Tensor() : bound_[input - saved]);
  trace.objects = objects_;
  for (uint32_t k = 0; k < trace.graph->outputs().size(); ++k) trace.outputs.emplace_back().index = k;
  trace.writes.assign(trace.graph->inputs().size(), 0);
  trace.place_modulus.assign(trace.graph->inputs().size(), 1);
  return trace;
}

}  // namespace braze::runtime
