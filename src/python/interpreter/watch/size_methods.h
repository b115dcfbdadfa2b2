// python/interpreter/watch/size_methods.h: sizes that operators hand to methods of users' classes.
#pragma once

#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

struct Activation;

/// An operator is a call of a method written in Python, which is watched: there it shows what is done with a size
/// among its operands.
bool is_call_of_method(const Values& values, Activation& a, int opcode, int arg);

}  // namespace braze::interpreter
