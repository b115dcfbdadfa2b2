// python/compile/stance.h: how compiled functions treat their calls now (torch.compiler.set_stance, disable).
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace braze::python {

/// In the order of stance_names. A *new* call is one that no program of the function is for.
enum class Stance : uint8_t {
  normal,              ///< Capture new calls.
  force_eager,         ///< Run every call natively, also those that a program is for.
  eager_on_recompile,  ///< Run new calls natively.
  fail_on_recompile,   ///< Raise at new calls.
  eager_then_compile,  ///< Run a function's first call natively, capture from the second on.
};
inline constexpr std::array<std::string_view, 5> stance_names = {"default", "force_eager", "eager_on_recompile",
                                                                 "fail_on_recompile", "eager_then_compile"};

namespace detail {
/// One for the process, as torch's is.
inline std::atomic<Stance> stance{Stance::normal};
/// A backend as make_backend() takes it, for all compiled functions in the place of their own; null: none. Owned;
/// guarded by the GIL.
inline PyObject* forced_backend = nullptr;
/// Calls of disable()d functions that this thread is in.
inline thread_local int disabled_depth = 0;
}  // namespace detail

/// For this thread: force_eager within a function that was disabled.
inline Stance current_stance() noexcept {
  if (detail::disabled_depth > 0) return Stance::force_eager;
  return detail::stance.load(std::memory_order_relaxed);
}

/// Borrowed; null if every function has its own.
inline PyObject* forced_backend() noexcept {
  return detail::forced_backend;
}

/// Whether it is what Disabled() gave.
bool is_disabled(PyObject* object) noexcept;

/// Adds to the module:
///   set_stance(name, forced_backend=None) -> both as they were before
///   Disabled(function, recursive): a callable that runs `function` natively; if recursive, also the compiled
///     functions that it calls. To a capture it is a callable of unknown kind: the graph ends there.
///   is_compiling() -> bool: whether this thread is capturing.
void add_stance(pybind11::module_& module);

}  // namespace braze::python
