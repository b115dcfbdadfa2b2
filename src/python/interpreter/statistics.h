// python/interpreter/statistics.h: how much of a program the evaluator ran itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace braze::interpreter {

/// Why a frame, or the rest of one, was left to CPython. One row each: enumerator, text for reports.
#define BRAZE_HANDOVER_REASONS(ROW)                                                         \
  ROW(generator_creation, "a call of a generator function, which only makes the generator") \
  ROW(coroutine, "a coroutine or asynchronous generator")                                   \
  ROW(tracing, "sys.settrace, sys.setprofile or sys.monitoring is on")                      \
  ROW(too_deep, "calls are nested so deeply that the C stack would run out")                \
  ROW(asynchronous_exception, "an exception sent by another thread")                        \
  ROW(interrupted, "a signal, or another thread that is waited for")                        \
  ROW(import_star, "from ... import *")                                                     \
  ROW(except_star, "the end of a try statement with except*")                               \
  ROW(type_parameters, "type parameters and aliases")                                       \
  ROW(unknown_opcode, "an instruction that is not in the table")

enum class Handover : uint8_t {
#define ROW(name, text) name,
  BRAZE_HANDOVER_REASONS(ROW)
#undef ROW
      count
};

inline constexpr std::array<const char*, static_cast<size_t>(Handover::count)> handover_texts = {
#define ROW(name, text) text,
    BRAZE_HANDOVER_REASONS(ROW)
#undef ROW
};

/// Of one thread, since its first frame.
struct Statistics {
  uint64_t instructions = 0;  ///< Run by the evaluator; inline caches and EXTENDED_ARG do not count.
  uint64_t frames = 0;        ///< Begun or resumed by the evaluator.
  std::array<uint64_t, static_cast<size_t>(Handover::count)> handovers{};
};

}  // namespace braze::interpreter
