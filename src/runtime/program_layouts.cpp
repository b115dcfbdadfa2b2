#include "runtime/program_layouts.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <chrono>

namespace braze::runtime {

std::unique_ptr<Program::Layouts> Program::Layouts::of(const Impl& first) {
  loops::LayoutOverrides channels_last = channels_last_convolutions(first.trace);
  if (channels_last.empty()) return nullptr;
  auto layouts = std::make_unique<Layouts>(std::move(channels_last));
  layouts->key_ = Hasher().add("convolution layout 1").add(first.trace.graph->exact_hash()).finish();
  layouts->use_disk_cache_ = first.options.use_disk_cache;
  if (const auto forced = forced_convolution_layout())
    layouts->first_layout_ = *forced;
  else if (ThreadedChoice& known = layouts->choice(); known.choice.decided())
    layouts->first_layout_ = static_cast<ConvolutionLayout>(known.choice.next());
  return layouts;
}

const loops::LayoutOverrides& Program::Layouts::overrides(ConvolutionLayout layout) const {
  return layout == ConvolutionLayout::traced ? as_traced_ : channels_last_;
}

void Program::Layouts::set_first(const Impl& first) {
  built_[static_cast<size_t>(first_layout_)].store(&first, std::memory_order_release);
  current_.store(&first, std::memory_order_release);
}

ThreadedChoice& Program::Layouts::choice() {
  const int threads = at::get_num_threads();
  ThreadedChoice* known = choice_.load(std::memory_order_acquire);
  if (known && known->threads == threads) return *known;
  std::array<Choice::Method, convolution_layout_count> methods;
  for (size_t i = 0; i < methods.size(); ++i) methods[i].name = name(static_cast<ConvolutionLayout>(i));
  known = &shared_choice(key_, methods, threads, use_disk_cache_);
  choice_.store(known, std::memory_order_release);
  return *known;
}

const Program::Impl* Program::Layouts::get(ConvolutionLayout layout, bool wait) {
  std::atomic<const Impl*>& built = built_[static_cast<size_t>(layout)];
  if (const Impl* impl = built.load(std::memory_order_acquire)) return impl;
  std::unique_lock lock(building_, std::defer_lock);
  if (wait)
    lock.lock();
  else if (!lock.try_lock())
    return nullptr;
  if (!second_) {
    auto second = std::make_unique<Impl>(first().traced, first().options);
    second->build_like(first(), overrides(layout));
    second_ = std::move(second);
    built.store(second_.get(), std::memory_order_release);
  }
  return second_.get();
}

void Program::Layouts::run(const at::Tensor* const* arguments, at::Tensor* results) {
  const at::Context& context = at::globalContext();
  auto run_one = [&](const Impl& impl) {
    if (current_.load(std::memory_order_relaxed) != &impl) current_.store(&impl, std::memory_order_release);
    impl.run(arguments, results);
  };
  if (context.deterministicAlgorithms() || !context.userEnabledMkldnn())
    return run_one(*get(ConvolutionLayout::traced, true));
  if (const auto forced = forced_convolution_layout()) return run_one(*get(*forced, true));
  // A program that runs once gains nothing from a measurement.
  if (!called_.load(std::memory_order_relaxed) && !called_.exchange(true, std::memory_order_relaxed))
    return run_one(first());

  Choice& choice = this->choice().choice;
  const auto layout = static_cast<ConvolutionLayout>(choice.next());
  const bool decided = choice.decided();
  const Impl* impl = get(layout, false);
  if (!impl || decided) return run_one(impl ? *impl : first());
  const auto start = std::chrono::steady_clock::now();
  run_one(*impl);
  const auto time = std::chrono::steady_clock::now() - start;
  choice.record(static_cast<size_t>(layout), std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  if (!choice.decided()) return;
  // What has lost is called again only with other settings: its memory is given back.
  for (const auto& built : built_)
    if (const Impl* other = built.load(std::memory_order_acquire);
        other && other != built_[choice.next()].load(std::memory_order_acquire))
      other->frames.clear();
}

}  // namespace braze::runtime
