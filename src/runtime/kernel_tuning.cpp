#include "runtime/kernel_tuning.h"

#include <algorithm>
#include <unordered_map>

#include "device/cuda/driver.h"
#include "runtime/device/cuda/device.h"
#include "runtime/kept_measurements.h"
#include "support/build_id.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

/// Another form than the kernel's own must be worth more than noise.
constexpr double advantage = 0.97;

/// Which of `forms` was once the fastest; none: it was never measured, or none of them has that tuning.
std::optional<size_t> known_form(const Hash128& key, std::span<const driver::KernelVariant> forms, bool on_disk) {
  const auto kept = find_measurement(key, on_disk);
  if (!kept) return std::nullopt;
  const auto found =
      std::ranges::find(forms, *kept, [](const driver::KernelVariant& form) { return print(form.tuning); });
  if (found == forms.end()) return std::nullopt;
  return static_cast<size_t>(found - forms.begin());
}

std::vector<KernelForm> compile(std::span<const driver::KernelVariant> forms, codegen::CompileOptions options) {
  std::vector<const loops::Kernel*> kernels;
  std::vector<Hash128> hashes;
  for (const driver::KernelVariant& form : forms) {
    kernels.push_back(form.kernel.get());
    hashes.push_back(form.hash);
  }
  options.target = Target::hopper();
  std::vector<KernelForm> made;
  for (auto& code : codegen::compile(kernels, hashes, options)) made.push_back({std::move(code), {}});
  for (size_t k = 0; k < forms.size(); ++k) made[k].symbols = forms[k].symbols;
  return made;
}

}  // namespace

std::unique_ptr<KernelTuning> KernelTuning::of(driver::Artifact& artifact, const codegen::CompileOptions& code) {
  std::vector<std::vector<driver::KernelVariant>> forms = driver::variants_of_steps(artifact);
  if (std::ranges::all_of(forms, [](const auto& each) { return each.empty(); })) return nullptr;
  std::unique_ptr<KernelTuning> tuning(new KernelTuning(artifact, code));
  const bool on_disk = code.use_disk_cache;
  std::vector<std::pair<size_t, driver::KernelVariant>> known;
  for (size_t s = 0; s < forms.size(); ++s) {
    Step& step = tuning->steps_.emplace_back();
    if (forms[s].empty()) continue;
    const loops::Plan& plan = artifact.plan;
    step.place = device(plan.buffers[plan.steps[s].kernel.buffers.front()].device);
    step.key = Hasher()
                   .add(driver::variants_key(artifact, s))
                   .add(device::cuda::name_of(step.place.index()))
                   .add(build_id())
                   .finish();
    step.forms = std::move(forms[s]);
    const std::optional<size_t> best = known_form(step.key, step.forms, on_disk);
    step.is_pending = !best;
    tuning->is_pending_ = tuning->is_pending_ || step.is_pending;
    if (best) known.emplace_back(s, step.forms[*best]);
  }
  driver::use_variants(artifact, known, code);
  for (size_t s = 0; s < tuning->steps_.size(); ++s) {
    Step& step = tuning->steps_[s];
    if (step.forms.empty()) continue;
    step.facts = tuning->facts_.size();
    KernelTuningFacts& facts = tuning->facts_.emplace_back();
    facts.kernel = artifact.plan.kernels[artifact.plan.steps[s].kernel.kernel]->name;
    facts.was_known = !step.is_pending;
    const auto used = std::ranges::find(known, s, [](const auto& each) { return each.first; });
    if (used != known.end()) facts.chosen = print(used->second.tuning);
  }
  artifact.others.clear();
  return tuning;
}

bool KernelTuning::begins() {
  if (!is_pending_.load(std::memory_order_acquire)) [[likely]]
    return false;
  for (const Step& step : steps_)
    if (!step.forms.empty() && is_recording(current_stream(step.place))) return false;
  if (is_busy_.exchange(true, std::memory_order_acq_rel)) return false;
  prepare();
  return true;
}

void KernelTuning::end() {
  progress_.reset();
  is_busy_.store(false, std::memory_order_release);
}

void KernelTuning::prepare() {
  std::unordered_map<Hash128, const driver::KernelVariant*> wanted;
  size_t steps = 0;
  for (const Step& step : steps_) {
    if (!step.is_pending || known_form(step.key, step.forms, code_.use_disk_cache)) continue;
    ++steps;
    for (const driver::KernelVariant& form : step.forms) wanted.emplace(form.hash, &form);
  }
  std::vector<driver::KernelVariant> forms;
  for (const auto& [hash, form] : wanted) forms.push_back(*form);
  compile(forms, code_);  // The process keeps it.
  progress_.emplace("measuring kernels", steps);
}

template <typename Change>
void KernelTuning::tell(size_t step, Change&& change) {
  const std::lock_guard lock(mutex_);
  change(facts_.at(steps_.at(step).facts));
}

void KernelTuning::measure(size_t number, Region& region, size_t kernel, std::span<void* const> addresses,
                           void* const* pointers) {
  Step& step = steps_.at(number);
  if (!step.is_pending) return;
  step.is_pending = false;
  try {
    std::optional<size_t> best = known_form(step.key, step.forms, code_.use_disk_cache);
    if (best) {
      tell(number, [](KernelTuningFacts& facts) { facts.was_known = true; });
    } else {
      const std::vector<KernelForm> forms = compile(step.forms, code_);
      const loops::KernelStep& launch = artifact_.plan.steps[number].kernel;
      const loops::Kernel& own = *artifact_.plan.kernels[launch.kernel];
      std::vector<WrittenMemory> written;
      for (size_t k = 0; k < launch.buffers.size(); ++k)
        if (own.buffers[k].access != loops::Access::in)
          written.push_back(
              {static_cast<char*>(addresses[launch.buffers[k]]), artifact_.plan.buffers[launch.buffers[k]].bytes});
      const std::vector<int64_t> times = region.measure(kernel, forms, written, pointers);
      best = static_cast<size_t>(std::ranges::min_element(times) - times.begin());
      if (static_cast<double>(times[*best]) > advantage * static_cast<double>(times[0])) best = 0;
      keep_measurement(step.key, print(step.forms[*best].tuning), code_.use_disk_cache);
      progress_->advance();
      tell(number, [&](KernelTuningFacts& facts) {
        for (size_t k = 0; k < times.size(); ++k)
          facts.measured.emplace_back(print(step.forms[k].tuning), times[k]);
      });
    }
    if (*best != 0) {
      region.replace(kernel, compile(std::span(step.forms).subspan(*best, 1), code_).front());
      chosen_.emplace_back(number, step.forms[*best]);
    }
    tell(number, [&](KernelTuningFacts& facts) {
      facts.kernel = step.forms[*best].kernel->name;
      facts.chosen = print(step.forms[*best].tuning);
    });
  } catch (const std::exception& error) {  // No memory for copies, say: it stays as it is.
    tell(number, [&](KernelTuningFacts& facts) { facts.failed = error.what(); });
  }
  if (std::ranges::none_of(steps_, &Step::is_pending)) finish();
}

void KernelTuning::finish() {
  auto made = std::make_unique<driver::Artifact>(artifact_);
  driver::use_variants(*made, chosen_, code_);
  made_ = std::move(made);
  tuned_.store(made_.get(), std::memory_order_release);
  is_pending_.store(false, std::memory_order_release);
}

std::vector<KernelTuningFacts> KernelTuning::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

}  // namespace braze::runtime
