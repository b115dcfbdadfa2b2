#include "runtime/program_layouts.h"

#include <ATen/Context.h>

#include <optional>
#include <string_view>

#include "support/switches.h"

namespace braze::runtime {

namespace {

/// Eager then takes other ways, which depend on the layout.
bool wants_eagers_layouts() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() || !context.userEnabledMkldnn() || !context.userEnabledCuDNN();
}

/// BRAZE_CONVOLUTION=traced or channels_last: always that one; for looking into results and times.
std::optional<driver::Convolutions> forced_convolutions() {
  static const std::optional<driver::Convolutions> forced = []() -> std::optional<driver::Convolutions> {
    const std::string_view asked = switches::text(switches::convolution);
    if (asked == "traced") return driver::Convolutions::as_traced;
    if (asked == "channels_last") return driver::Convolutions::channels_last;
    return std::nullopt;
  }();
  return forced;
}

}  // namespace

driver::Convolutions Program::Layouts::wanted() {
  if (const auto forced = forced_convolutions()) return *forced;
  return wants_eagers_layouts() ? driver::Convolutions::as_traced : driver::Convolutions::cheapest;
}

std::unique_ptr<Program::Layouts> Program::Layouts::of(const Impl& first) {
  const bool as_eager = first.artifact.facts.convolutions == driver::ConvolutionLayout::traced;
  return as_eager ? nullptr : std::make_unique<Layouts>(first);
}

const Program::Impl& Program::Layouts::as_traced() {
  if (const Impl* impl = traced_.load(std::memory_order_acquire)) return *impl;
  const std::lock_guard lock(building_);
  if (!second_) {
    auto second = std::make_unique<Impl>(first_.traced, first_.options);
    second->build_like(first_, driver::Convolutions::as_traced);
    second_ = std::move(second);
    traced_.store(second_.get(), std::memory_order_release);
  }
  return *second_;
}

void Program::Layouts::run(const at::Tensor* const* arguments, at::Tensor* results, at::Tensor* owned) {
  const Impl& impl = wants_eagers_layouts() ? as_traced() : first_;
  if (current_.load(std::memory_order_relaxed) != &impl) current_.store(&impl, std::memory_order_release);
  impl.run(arguments, results, owned);
}

}  // namespace braze::runtime
