// braze/function.h: what compile() and trace() return: functions with the types of the one they were given.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "braze/export.h"
#include "braze/program.h"
#include "braze/values.h"

namespace braze {

/// A size of an argument that later calls may have another value of, from 2 up.
struct DynamicSize {
  size_t tensor;  ///< Which of the distinct tensors among the arguments, in order.
  int64_t dim;
  std::string name = {};  ///< Dimensions of one name are of one size.
  int64_t min = 2, max = INT64_MAX;
};

struct Options {
  std::string name = "function";  ///< Of the graph, as it prints.
  int limit = 8;                  ///< Signatures that are compiled; calls with further ones run eagerly.
  bool fuse = true;
  bool disk_cache = true;  ///< Keep machine code in BRAZE_CACHE_DIR.
  bool verify = false;     ///< Check the graph after every pass.
  /// Keep copies of weights in the form that is multiplied fastest. Changes of a weight are seen as long as they go
  /// through PyTorch's operators; after writing by a pointer (data_ptr(), NumPy) call repack_weights().
  bool prepack_weights = false;
  /// Measure several ways to compute a matrix product during the first calls: results then vary in the last bits.
  bool max_autotune = false;
  /// Of trace(): sizes that may vary. What the function decides by them it decides as for the examples, and calls
  /// that this does not hold for throw an Error that names the relation and the argument.
  std::vector<DynamicSize> dynamic = {};
};

/// All packed copies of weights are made anew when they are next used.
BRAZE_API void repack_weights();

/// How the calls of a compiled function were answered since it was made.
struct Statistics {
  int64_t captures = 0;        ///< The function was run on tracers and compiled, or found not to be compilable.
  int64_t compiled_calls = 0;  ///< Answered by a program.
  int64_t eager_calls = 0;  ///< Answered by the function itself, in PyTorch's eager mode: the sum of those below.
  int64_t value_read = 0;   ///< It reads the value of a tensor: item(), nonzero(), data_ptr(), ...
  int64_t gradients = 0;    ///< Its result requires grad.
  int64_t over_limit = 0;   ///< More signatures than Options::limit.
  int64_t unsupported = 0;  ///< Anything else; `last_reason` tells.
  std::string last_reason;  ///< Why a call was answered eagerly the last time.
};

namespace detail {

/// What running the function on tracers gave.
struct Recorded {
  c10::SmallVector<at::Tensor, 4> tensors;
  std::shared_ptr<const void> rest;
};
using Record = std::function<Recorded(std::span<const at::Tensor> tracers)>;
using Names = std::function<std::vector<std::pair<std::string, at::Tensor>>()>;

/// Finds the program for a call, or makes it.
class BRAZE_API Engine {
 public:
  Engine(Options options, Names names);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs the program for `inputs`, which `record` makes when there is none yet.
  /// \returns false: the call is to be answered by the function itself.
  bool call(const Inputs& inputs, const Record& record, Outputs& outputs);
  Statistics statistics() const;
  std::vector<Program> programs() const;
  void reset();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// One traced program with the arguments it is for.
class BRAZE_API TracedCall {
 public:
  /// \throws Error if the function cannot be traced; whatever it throws itself.
  TracedCall(const Options& options, const Names& names, const Inputs& inputs, const Record& record);
  /// \throws Error if the arguments are not what was traced.
  void call(const Inputs& inputs, Outputs& outputs) const;
  Program program() const;

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

/// The user's function, and what braze must know about it beside its arguments.
template <typename Signature>
struct Target {
  std::function<Signature> function;
  std::function<void(Inputs&)> state;  ///< Adds what the function depends on beside arguments; may be empty.
  Names names;                         ///< Of parameters and buffers; may be empty.
};

/// The function as Target wants it, also if it cannot be copied.
template <typename Signature, typename F>
std::function<Signature> share(F&& function) {
  auto shared = std::make_shared<std::decay_t<F>>(std::forward<F>(function));
  return [shared](auto&&... arguments) -> decltype(auto) {
    return std::invoke(*shared, std::forward<decltype(arguments)>(arguments)...);
  };
}

template <typename Signature>
struct Caller;
template <typename R, typename... A>
struct Caller<R(A...)> {
  static_assert(
      (!std::is_lvalue_reference_v<A> || ...) ||
          ((!std::is_lvalue_reference_v<A> || std::is_const_v<std::remove_reference_t<A>>) && ...),
      "braze: a compiled function cannot take a non-const reference: it could assign another tensor to the "
      "caller's variable. Take at::Tensor (in-place operators work on it) and return what is new.");

  static Inputs inputs(const Target<R(A...)>& target, const A&... arguments) {
    Inputs inputs;
    (visit(inputs, arguments), ...);
    if (target.state) target.state(inputs);
    return inputs;
  }
  static Recorded record(const Target<R(A...)>& target, std::span<const at::Tensor> tracers,
                         const A&... arguments) {
    std::tuple<Owned<A>...> copies(own<A>(arguments)...);
    Replace replace{tracers};
    std::apply([&](auto&... copy) { (visit(replace, copy), ...); }, copies);
    const auto call = [&] {
      return std::apply([&](auto&... copy) { return target.function(std::move(copy)...); }, copies);
    };
    Recorded recorded;
    if constexpr (std::is_void_v<R>) {
      call();
    } else {
      auto result = std::make_shared<R>(call());
      TakeOut take;
      visit(take, *result);
      recorded = {std::move(take.tensors), std::move(result)};
    }
    return recorded;
  }
};

}  // namespace detail

/// A function that compiles itself: the first call with a signature captures what the function does at PyTorch's
/// dispatcher and compiles it, later ones run the program. A signature is all that a captured program depends on:
/// of every tensor its dtype, device, sizes, strides, requires_grad and which others it shares memory with; every
/// other argument's value; grad and inference mode, autocast, default dtype and PyTorch's other switches.
///
/// What cannot be captured so that it stays right runs eagerly, every time, and statistics() counts it. What the
/// function must not depend on, because C++ shows it to nobody: see docs/cpp.md, "The contract".
///
/// Copies share programs. May be called from several threads at once, if the function may.
template <typename Signature>
class Function;

template <typename R, typename... A>
class Function<R(A...)> {
 public:
  Function(detail::Target<R(A...)> target, Options options)
      : state_(std::make_shared<State>(std::move(target), std::move(options))) {}

  /// \throws what the function throws, when it would throw it.
  R operator()(A... arguments) const {
    using Caller = detail::Caller<R(A...)>;
    const detail::Inputs inputs = Caller::inputs(state_->target, arguments...);
    const auto pack = std::forward_as_tuple(arguments...);
    const auto record = [this, &pack](std::span<const at::Tensor> tracers) {
      return std::apply([&](auto&... each) { return Caller::record(state_->target, tracers, each...); }, pack);
    };
    detail::Outputs outputs;
    if (!state_->engine.call(inputs, record, outputs))
      return state_->target.function(std::forward<A>(arguments)...);
    if constexpr (!std::is_void_v<R>) return detail::rebuild<R>(std::move(outputs));
  }

  Statistics statistics() const { return state_->engine.statistics(); }
  /// The programs that it has now, the one used last first.
  std::vector<Program> programs() const { return state_->engine.programs(); }
  /// Forgets all programs: the next call captures anew. Statistics go on.
  void reset() { state_->engine.reset(); }

 private:
  struct State {
    State(detail::Target<R(A...)> of, Options options)
        : target(std::move(of)), engine(std::move(options), target.names) {}
    detail::Target<R(A...)> target;
    detail::Engine engine;
  };
  std::shared_ptr<State> state_;
};

/// One program of one function, for arguments like those it was traced with. Copies share the program; may be
/// called from several threads at once. Results are detached.
template <typename Signature>
class Traced;

template <typename R, typename... A>
class Traced<R(A...)> {
 public:
  Traced(detail::Target<R(A...)> target, const Options& options, const A&... examples)
      : state_(std::move(target.state)),
        call_(options, target.names, inputs(examples...), [&](std::span<const at::Tensor> tracers) {
          return detail::Caller<R(A...)>::record(target, tracers, examples...);
        }) {}

  /// \throws Error that says what differs from the examples, if anything does.
  R operator()(A... arguments) const {
    detail::Outputs outputs;
    call_.call(inputs(arguments...), outputs);
    if constexpr (!std::is_void_v<R>) return detail::rebuild<R>(std::move(outputs));
  }
  Program program() const { return call_.program(); }

 private:
  detail::Inputs inputs(const A&... arguments) const {
    return detail::Caller<R(A...)>::inputs({{}, state_, {}}, arguments...);
  }
  std::function<void(detail::Inputs&)> state_;
  detail::TracedCall call_;
};

}  // namespace braze
