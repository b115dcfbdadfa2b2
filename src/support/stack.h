// support/stack.h: how much of the thread's C stack is left.
#pragma once

namespace braze {

/// More than half of this thread's C stack is used: what recurses by the user's data or calls should stop, and
/// leave the rest to those who are called. Cheap: compares an address. False where the stack is not known.
bool stack_is_short() noexcept;

}  // namespace braze
