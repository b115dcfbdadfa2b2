// python/interpreter/step.h: what a handler tells the loop.
#pragma once

#include <cstdint>

struct _PyInterpreterFrame;

namespace braze::interpreter {

using Frame = ::_PyInterpreterFrame;

enum class Step : uint8_t {
  next,      ///< Go on at `next`.
  error,     ///< An exception is set; this line goes into its traceback.
  reraise,   ///< An exception is set that was raised before; its traceback is complete.
  returned,  ///< The frame ends with `result`.
  yielded,   ///< The frame is suspended with `result`.
  ends,      ///< CPython runs this instruction, which ends or suspends the frame (entry_312.h).
  handover,  ///< CPython runs this instruction and all that follow in the frame.
};

}  // namespace braze::interpreter
