// python/compile/events.h: what happens while compiling, for the user's logs.
//
// A kind that nobody listens to costs one branch; its text must be made after that:
//   if (is_enabled(Event::graph_breaks)) emit(Event::graph_breaks, concat(where, ": ", reason));
// Python listens through one callable, which hands texts to the loggers `braze.<name>` (braze/_logs.py).
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace braze::python {

/// In the order of event_names.
enum class Event : uint8_t {
  graph_breaks,  ///< Where a graph ended and why, or why a call could not be captured.
  recompiles,    ///< Which guard refused a call, so that it is captured anew.
  guards,        ///< What a new program depends on.
  graph_code,    ///< The graph of a new program.
  output_code,   ///< Its loops and machine code.
  perf,          ///< What cost time, and phases of a compilation.
  fusion,        ///< Which operators became one kernel.
  cudagraphs,    ///< What was recorded as a CUDA graph, and what was not, and why.
};
inline constexpr std::array<std::string_view, 8> event_names = {
    "graph_breaks", "recompiles", "guards", "graph_code", "output_code", "perf", "fusion", "cudagraphs"};

namespace detail {
/// One bit an event. One for the process, as loggers are.
inline std::atomic<uint32_t> enabled_events{0};
}  // namespace detail

inline bool is_enabled(Event event) noexcept {
  return (detail::enabled_events.load(std::memory_order_relaxed) >> static_cast<int>(event)) & 1;
}

/// Needs the GIL; may be called while a capture is going on. Never throws: what a listener raises is reported
/// as Python reports errors that nobody can handle.
void emit(Event event, std::string_view text) noexcept;

/// Adds `listen(callable or None, names)` to the module: from now on callable(name, text) is called for those.
void add_events(pybind11::module_& module);

}  // namespace braze::python
