// python/interpreter/watch/history_tests.h: `t.grad_fn is None`, of a tensor that the run has computed.
#pragma once

#include "python/interpreter/cpython.h"

namespace braze::interpreter {

struct Activation;
struct Watch;

/// Nothing can stand for a history itself, whose nodes are the compiled function's on later calls. But that there
/// is one is known, and as a rule all that is asked: the instructions that follow compare with None, or ask for the
/// truth. False: it is another attribute, tensor or use.
bool tests_history(Watch& watch, const Activation& a, PyObject* object, PyObject* name);

}  // namespace braze::interpreter
