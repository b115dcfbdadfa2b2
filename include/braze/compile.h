// braze/compile.h: braze::compile and braze::trace for C++ functions.
//
//   auto scores = braze::compile([](at::Tensor x) {
//     auto p = torch::softmax(x, -1);
//     return -(p * torch::log(p + 1e-9)).sum(-1);
//   });
//   auto y = scores(x);                                        // captures and compiles
//   y = scores(x);                                             // runs one kernel
//   std::cout << scores.programs().front().code("loops");
//
// Modules: braze/module.h.
#pragma once

#include <type_traits>
#include <utility>

#include "braze/function.h"

namespace braze {

namespace detail {

/// The signature of a function pointer, or of the only operator() of a class.
template <typename F>
struct SignatureOf {
  static_assert(unknown<F>,
                "braze: the parameter types of a function template, a generic lambda or an overloaded operator() "
                "cannot be told. Name them: braze::compile<at::Tensor(at::Tensor, int64_t)>(f).");
};
template <typename F>
  requires requires { &F::operator(); }
struct SignatureOf<F> : SignatureOf<decltype(&F::operator())> {};
template <typename R, typename... A>
struct SignatureOf<R (*)(A...)> {
  using type = std::remove_cvref_t<R>(A...);
};
template <typename R, typename... A>
struct SignatureOf<R (*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(A...)> : SignatureOf<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(A...) const> : SignatureOf<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(A...) const noexcept> : SignatureOf<R (*)(A...)> {};
template <typename F>
using Signature = typename SignatureOf<std::decay_t<F>>::type;

/// What braze/module.h compiles, and not this file.
template <typename F>
struct IsModule : std::false_type {};

}  // namespace detail

/// Compiles a function of tensors; nothing happens before it is called.
/// \param function  a lambda, a function or an object with one operator(). It is kept, not copied, if it is
/// movable.
template <typename F>
  requires(!detail::IsModule<std::decay_t<F>>::value)
auto compile(F&& function, Options options = {}) {
  using Signature = detail::Signature<F>;
  return Function<Signature>({detail::share<Signature>(std::forward<F>(function)), {}, {}}, std::move(options));
}

/// The same with the types named, for generic lambdas and overloaded functions.
///   auto f = braze::compile<at::Tensor(at::Tensor, double)>([](auto x, auto scale) { return x * scale; });
template <typename Signature, typename F>
  requires(std::is_function_v<Signature> && !detail::IsModule<std::decay_t<F>>::value)
auto compile(F&& function, Options options = {}) {
  return Function<Signature>({detail::share<Signature>(std::forward<F>(function)), {}, {}}, std::move(options));
}

/// Runs the function once on tracers that stand for the examples, and compiles what it did. The program is for
/// arguments like the examples, and raises Error for others. A tensor's value that the function reads is frozen
/// into the program, and Program::warnings() says so.
///   auto program = braze::trace([](at::Tensor x, double s) { return (x * s).relu(); }, {}, x, 0.5);
///   auto y = program(x, 0.5);
/// \throws Error for what cannot be traced; what the function throws.
template <typename F, typename... Examples>
  requires(!detail::IsModule<std::decay_t<F>>::value)
auto trace(F&& function, const Options& options, Examples&&... examples) {
  using Signature = detail::Signature<F>;
  return Traced<Signature>({detail::share<Signature>(std::forward<F>(function)), {}, {}}, options,
                           std::forward<Examples>(examples)...);
}

}  // namespace braze
