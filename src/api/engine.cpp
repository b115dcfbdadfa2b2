// api/engine.cpp: the programs of one compiled function. Plan of a call:
//   1. look for the signature among those that are known, the one used last first
//   2. look whether the tensors that its program has bound are still what they were
//   3. run the program; or, if this signature is known to need it, leave the call to the function
//   4. a new signature: run the function on tracers, and remember what came of it
//
// One lock guards the list. It is held while signatures are compared, never while the function or a program runs:
// two threads that meet a new signature at once capture it both, and one of the two entries stays.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <mutex>

#include "api/traced_run.h"
#include "braze/error.h"
#include "capture/tracer_tensor.h"
#include "ir/text.h"
#include "support/error.h"

namespace braze {

namespace api {
namespace {

/// What is known about one signature. Immutable but for the owners, which Engine's lock guards.
struct Entry {
  Signature signature;
  std::shared_ptr<const runtime::Program> program;  ///< Null: the function itself, for this reason.
  Eager eager = Eager::no;
  std::string reason;
  std::shared_ptr<const void> rest;
  std::vector<uint32_t> results;
  std::string traced;                 ///< The trace as text.
  std::optional<BoundTensors> bound;  ///< None: nothing that may change decides it.
  int replaced = 0;                   ///< How often the signature was captured before.
};
using EntryPtr = std::shared_ptr<Entry>;

EntryPtr eager_entry(Signature signature, Eager eager, std::string reason) {
  return std::make_shared<Entry>(Entry{std::move(signature), nullptr, eager, std::move(reason), {}, {}, {}, {}});
}

/// A call on its way.
struct Call {
  const detail::Inputs& inputs;
  const detail::Record& function;
  detail::Outputs& outputs;
  Environment environment = Environment::now();
  bool answered = false;  ///< By the capture itself.
  bool cacheable = true;  ///< What was captured holds for other calls of this signature.
};

}  // namespace
}  // namespace api

using namespace api;

class detail::Engine::Impl {
 public:
  Impl(Options options, Names names) : options_(std::move(options)), names_(std::move(names)) {}

  bool call(const Inputs& inputs, const Record& record, Outputs& outputs);
  Statistics statistics() const;
  std::vector<Program> programs() const;
  void reset();

 private:
  EntryPtr find(const Call& call) const;
  EntryPtr capture(Call& call, int replaced);
  EntryPtr answer(Call& call, Signature signature, TracedRun& traced);
  EntryPtr make_entry(Call& call, Signature signature);
  bool still_right(Entry& entry, const Call& call);
  void keep(const EntryPtr& entry);
  bool leave(Eager eager, const std::string& reason);

  const Options options_;
  const Names names_;
  mutable std::mutex mutex_;  ///< Guards everything below.
  mutable std::vector<EntryPtr> entries_;
  Statistics statistics_;
};

/// Null if there is none; what is found moves to the front.
EntryPtr detail::Engine::Impl::find(const Call& call) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i]->signature.matches(call.environment, call.inputs.key, call.inputs.tensors)) continue;
    std::rotate(entries_.begin(), entries_.begin() + i, entries_.begin() + i + 1);
    return entries_.front();
  }
  return nullptr;
}

bool detail::Engine::Impl::leave(Eager eager, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++statistics_.eager_calls;
  switch (eager) {
    case Eager::value_read: ++statistics_.value_read; break;
    case Eager::gradients: ++statistics_.gradients; break;
    case Eager::over_limit: ++statistics_.over_limit; break;
    case Eager::no:
    case Eager::unsupported: ++statistics_.unsupported; break;
  }
  statistics_.last_reason = reason;
  return false;
}

bool detail::Engine::Impl::call(const Inputs& inputs, const Record& record, Outputs& outputs) {
  if (capture::Tracer::current()) return false;  // Becomes a part of the function that is being traced.
  Call call{inputs, record, outputs};
  if (!call.environment.is_plain())
    return leave(Eager::unsupported, "a transform (vmap, forward-mode gradients, a dispatch mode) is active");
  EntryPtr entry;
  c10::SmallVector<const at::Tensor*, 8> distinct;
  auto state = BoundTensors::State::same;
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    entry = find(call);
    full = entries_.size() >= static_cast<size_t>(options_.limit);
    if (entry) {
      distinct = entry->signature.distinct(inputs.tensors);
      if (entry->bound) state = entry->bound->compare(distinct);
    }
  }
  if (!entry) {
    for (const at::Tensor* tensor : inputs.tensors)
      if (!is_plain(*tensor))
        return leave(Eager::unsupported, "an argument is not an ordinary dense tensor on the CPU");
    if (full) return leave(Eager::over_limit, concat("it has ", options_.limit, " signatures already"));
    entry = capture(call, 0);
    distinct = entry->signature.distinct(inputs.tensors);
  } else if (state == BoundTensors::State::changed ||
             (state == BoundTensors::State::released && !still_right(*entry, call))) {
    if (entry->replaced >= options_.limit)
      return leave(Eager::over_limit, "the tensors that it closes over are others too often");
    entry = capture(call, entry->replaced + 1);
  }
  if (call.answered) {
    leave(entry->eager, entry->reason);
    return true;
  }
  if (!entry->program) return leave(entry->eager, entry->reason);
  try {
    run(*entry->program, entry->results, distinct, outputs);
  } catch (const UserError& error) {
    // Raised before anything was written. The function itself raises what eager raises.
    return leave(Eager::unsupported, error.what());
  }
  outputs.rest = entry->rest;
  const std::lock_guard lock(mutex_);
  ++statistics_.compiled_calls;
  return true;
}

EntryPtr detail::Engine::Impl::capture(Call& call, int replaced) {
  Signature signature(call.environment, call.inputs.key, call.inputs.tensors);
  EntryPtr entry;
  try {
    entry = make_entry(call, signature);
  } catch (const runtime::ValueRead& error) {
    entry = eager_entry(std::move(signature), Eager::value_read, error.what());
  } catch (const GradientWanted& error) {
    entry = eager_entry(std::move(signature), Eager::gradients, error.what());
  } catch (const Error&) {
    throw;  // It cannot be run by itself any more.
  } catch (const std::exception& error) {
    // The function may raise for these arguments as well: run by itself it raises the right thing.
    entry = eager_entry(std::move(signature), Eager::unsupported, error.what());
  }
  entry->replaced = replaced;
  if (call.cacheable) keep(entry);
  return entry;
}

EntryPtr detail::Engine::Impl::make_entry(Call& call, Signature signature) {
  const runtime::RefuseValues refuse;
  TracedRun traced = record(options_.name, signature, call.inputs, call.function, names_);
  if (!traced.kept.empty()) return answer(call, std::move(signature), traced);
  if (traced.closes_over_argument) {
    call.cacheable = false;
    return eager_entry(std::move(signature), Eager::unsupported, "the function closes over one of its arguments");
  }
  if (!traced.trace.warnings.empty())
    return eager_entry(std::move(signature), Eager::value_read, traced.trace.warnings.front());
  auto entry = eager_entry(std::move(signature), Eager::no, {});
  const auto distinct = entry->signature.distinct(call.inputs.tensors);
  const std::vector<at::Tensor> bound = traced.trace.bound.tensors();
  entry->bound.emplace(bound, distinct);
  bool requires_grad = entry->bound->any_requires_grad();
  for (const at::Tensor* tensor : distinct) requires_grad |= tensor->requires_grad();
  if (call.environment.records_gradients() && needs_gradients(traced.trace, requires_grad)) {
    entry->eager = Eager::gradients;
    entry->reason = "its results require grad, and programs record no gradients; call it under torch::NoGradGuard";
    return entry;
  }
  entry->rest = std::move(traced.rest);
  entry->results = std::move(traced.results);
  entry->program = compile(traced, options_);
  entry->traced = entry->program->code("traced");
  return entry;
}

/// A function that has left tensors somewhere cannot be run again in this call: what was recorded is run, and the
/// tensors become real. Later calls are eager ones.
EntryPtr detail::Engine::Impl::answer(Call& call, Signature signature, TracedRun& traced) {
  for (const at::Tensor& tensor : traced.kept)
    if (tensor.requires_grad() || traced.trace.any_requires_grad || !traced.trace.warnings.empty())
      throw Error(
          "braze: the function leaves a tensor in something that outlives the call, and needs gradients or reads "
          "the "
          "value of one as well. Return that tensor, or call the function without braze.");
  auto entry = eager_entry(std::move(signature), Eager::unsupported,
                           "the function keeps a tensor in something that outlives the call");
  const std::vector<at::Tensor> kept = std::move(traced.kept);
  const std::vector<uint32_t> results = std::move(traced.results);
  call.outputs.rest = std::move(traced.rest);
  try {
    run(*compile(traced, options_), results, entry->signature.distinct(call.inputs.tensors), call.outputs, kept);
  } catch (const std::exception& error) {
    throw Error(concat("braze: ", error.what(),
                       " (in a function that leaves a tensor in something that outlives the "
                       "call, which is lost)"));
  }
  call.answered = true;
  return entry;
}

/// The function is run on tracers once more, to see whether it still does the same on the same tensors.
bool detail::Engine::Impl::still_right(Entry& entry, const Call& call) {
  if (!entry.program) return false;
  try {
    const runtime::RefuseValues refuse;
    const TracedRun again = record(options_.name, entry.signature, call.inputs, call.function, names_);
    const auto distinct = entry.signature.distinct(call.inputs.tensors);
    if (!again.trace.warnings.empty() || !again.kept.empty() || again.closes_over_argument) return false;
    if (again.results != entry.results) return false;
    if (!BoundTensors(again.trace.bound.tensors(), distinct).same_tensors(*entry.bound)) return false;
    if (ir::print(*again.trace.graph, {.sources = true}) != entry.traced) return false;
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    return false;  // Captured anew, which tells why.
  }
  const std::lock_guard lock(mutex_);
  entry.bound->count_owners();
  return true;
}

/// In the place of an older one for the same signature, at the front.
void detail::Engine::Impl::keep(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  ++statistics_.captures;
  if (entry->bound) entry->bound->count_owners();
  std::erase_if(entries_, [&](const EntryPtr& other) { return other->signature == entry->signature; });
  entries_.insert(entries_.begin(), entry);
}

Statistics detail::Engine::Impl::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::vector<Program> detail::Engine::Impl::programs() const {
  const std::lock_guard lock(mutex_);
  std::vector<Program> programs;
  for (const EntryPtr& entry : entries_)
    if (entry->program) programs.emplace_back(entry->program);
  return programs;
}

void detail::Engine::Impl::reset() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

detail::Engine::Engine(Options options, Names names)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(names))) {}
detail::Engine::~Engine() = default;
bool detail::Engine::call(const Inputs& inputs, const Record& record, Outputs& outputs) {
  return impl_->call(inputs, record, outputs);
}
Statistics detail::Engine::statistics() const {
  return impl_->statistics();
}
std::vector<Program> detail::Engine::programs() const {
  return impl_->programs();
}
void detail::Engine::reset() {
  impl_->reset();
}

const at::Tensor& detail::placeholder() {
  static const at::Tensor tensor = [] {
    const capture::RunForReal outside_of_trace;
    return at::empty({0});
  }();
  return tensor;
}

}  // namespace braze
