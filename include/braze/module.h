// braze/module.h: braze::compile and braze::trace for modules of libtorch's C++ frontend.
//
//   torch::nn::Sequential model(torch::nn::Linear(512, 2048), torch::nn::GELU(), torch::nn::Linear(2048, 512));
//   model->eval();
//   torch::NoGradGuard no_grad;
//   auto fast = braze::compile(model);
//   auto y = fast(x);
//
// Parameters and buffers are bound, not copied: an optimizer's step, load(), to() and requires_grad_() are seen by
// the next call, and so are train() and eval(), and registered parameters, buffers and submodules that are others
// than before.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "braze/compile.h"

namespace braze {

namespace detail {

template <typename M>
concept Holder = std::is_base_of_v<torch::detail::ModuleHolderIndicator, M>;

template <typename M>
  requires std::is_base_of_v<torch::nn::Module, M>
struct IsModule<std::shared_ptr<M>> : std::true_type {};
template <Holder M>
struct IsModule<M> : std::true_type {};

/// The shared pointer behind a module holder (torch::nn::Linear), or itself.
template <typename M>
auto module_pointer(const M& module) {
  if constexpr (Holder<M>)
    return module.ptr();
  else
    return module;
}

/// The types of M's forward().
template <typename M>
struct ForwardOf {
  static_assert(
      unknown<M>,
      "braze: the types of this module's forward() cannot be told, because it is a template or overloaded. "
      "Name them: braze::compile<at::Tensor(at::Tensor)>(module).");
};
template <typename M>
  requires requires { &M::forward; }
struct ForwardOf<M> : SignatureOf<decltype(&M::forward)> {};
template <>
struct ForwardOf<torch::nn::SequentialImpl> {
  using type = at::Tensor(at::Tensor);
};

/// Everything of a module that a captured program depends on beside the contents of its tensors.
inline void add_module_state(Inputs& inputs, const torch::nn::Module& module) {
  const auto add = [&](const void* bytes, size_t size) { inputs.constant(bytes, size); };
  const auto add_tensors = [&](const std::vector<at::Tensor>& tensors) {
    const size_t count = tensors.size();
    add(&count, sizeof(count));
    for (const at::Tensor& tensor : tensors) {
      const void* const identity = tensor.unsafeGetTensorImpl();
      add(&identity, sizeof(identity));
    }
  };
  for (const auto& each : module.modules()) {
    const void* const identity = each.get();
    const bool training = each->is_training();
    add(&identity, sizeof(identity));
    add(&training, sizeof(training));
  }
  add_tensors(module.parameters());
  add_tensors(module.buffers());
}

inline std::vector<std::pair<std::string, at::Tensor>> named_tensors(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& row : module.named_parameters()) named.emplace_back(row.key(), row.value());
  for (const auto& row : module.named_buffers()) named.emplace_back(row.key(), row.value());
  return named;
}

template <typename Signature, typename M>
Target<Signature> module_target(const std::shared_ptr<M>& module) {
  return {[module](auto&&... arguments) -> decltype(auto) {
            return module->forward(std::forward<decltype(arguments)>(arguments)...);
          },
          [module](Inputs& inputs) { add_module_state(inputs, *module); },
          [module] { return named_tensors(*module); }};
}

template <typename M>
using Pointee = std::remove_reference_t<decltype(*module_pointer(std::declval<const M&>()))>;

}  // namespace detail

/// Compiles a module's forward(). The module is shared, not copied.
/// \param module  a module holder (torch::nn::Linear) or std::shared_ptr to a class derived from torch::nn::Module.
template <typename M>
  requires detail::IsModule<M>::value
auto compile(const M& module, Options options = {}) {
  using Signature = typename detail::ForwardOf<detail::Pointee<M>>::type;
  return Function<Signature>(detail::module_target<Signature>(detail::module_pointer(module)), std::move(options));
}

/// The same with the types of forward() named.
///   auto f = braze::compile<at::Tensor(at::Tensor, at::Tensor)>(model);
template <typename Signature, typename M>
  requires(std::is_function_v<Signature> && detail::IsModule<M>::value)
auto compile(const M& module, Options options = {}) {
  return Function<Signature>(detail::module_target<Signature>(detail::module_pointer(module)), std::move(options));
}

/// Compiles a function that closes over modules, and watches these as compile(module) does.
///   auto f = braze::compile_with({encoder.ptr(), head.ptr()}, [=](at::Tensor x) mutable { return head(encoder(x));
///   });
template <typename F>
auto compile_with(std::vector<std::shared_ptr<torch::nn::Module>> modules, F&& function, Options options = {}) {
  using Signature = detail::Signature<F>;
  detail::Target<Signature> target;
  target.function = detail::share<Signature>(std::forward<F>(function));
  target.state = [modules](detail::Inputs& inputs) {
    for (const auto& module : modules) detail::add_module_state(inputs, *module);
  };
  target.names = [modules] {
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (const auto& module : modules)
      for (auto& row : detail::named_tensors(*module)) named.push_back(std::move(row));
    return named;
  };
  return Function<Signature>(std::move(target), std::move(options));
}

/// Traces one call of a module's forward(); see trace() in braze/compile.h.
template <typename M, typename... Examples>
  requires detail::IsModule<M>::value
auto trace(const M& module, const Options& options, Examples&&... examples) {
  using Signature = typename detail::ForwardOf<detail::Pointee<M>>::type;
  return Traced<Signature>(detail::module_target<Signature>(detail::module_pointer(module)), options,
                           std::forward<Examples>(examples)...);
}

}  // namespace braze
