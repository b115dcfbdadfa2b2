// python/interpreter/watch/sized_arguments.h: tensors whose sizes vary, given to code that runs unwatched.
#pragma once

#include "python/interpreter/cpython.h"
#include "python/interpreter/step.h"

namespace braze::interpreter {

struct Watch;

/// To what such code (trusted_code.h) is given where it is entered. It wraps tensors, and reads their sizes in
/// Python and in C: so the frame gets the tracers of those whose sizes vary, also of those in tuples, lists and
/// dicts, which it gets copies of. What other containers hold is of these sizes alone.
void give_tracers(Watch& watch, Frame* frame);

}  // namespace braze::interpreter
