#include "runtime/program_layouts.h"

#include <ATen/Context.h>

namespace braze::runtime {

namespace {

/// Eager then takes other ways, which depend on the layout.
bool wants_eagers_layouts() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() || !context.userEnabledMkldnn();
}

}  // namespace

std::unique_ptr<Program::Layouts> Program::Layouts::of(const Impl& first) {
  loops::LayoutOverrides channels_last = channels_last_convolutions(first.trace);
  if (channels_last.empty()) return nullptr;
  const auto forced = forced_convolution_layout();
  const bool chosen = forced ? *forced == ConvolutionLayout::channels_last
                             : !wants_eagers_layouts() && channels_last_pays(first.trace, channels_last);
  return chosen ? std::make_unique<Layouts>(std::move(channels_last)) : nullptr;
}

void Program::Layouts::set_first(const Impl& first) {
  first_ = &first;
  current_.store(&first, std::memory_order_release);
}

const Program::Impl& Program::Layouts::as_traced() {
  if (const Impl* impl = traced_.load(std::memory_order_acquire)) return *impl;
  const std::lock_guard lock(building_);
  if (!second_) {
    auto second = std::make_unique<Impl>(first_->traced, first_->options);
    second->build_like(*first_, {});
    second_ = std::move(second);
    traced_.store(second_.get(), std::memory_order_release);
  }
  return *second_;
}

void Program::Layouts::run(const at::Tensor* const* arguments, at::Tensor* results) {
  const Impl& impl = wants_eagers_layouts() ? as_traced() : *first_;
  if (current_.load(std::memory_order_relaxed) != &impl) current_.store(&impl, std::memory_order_release);
  impl.run(arguments, results);
}

}  // namespace braze::runtime
