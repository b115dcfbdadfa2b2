// python/interpreter/watch/running_threads.h: threads beside the one that runs.
#pragma once

namespace braze::interpreter {

/// There is another thread that may run Python code which sees what the run changes. Threads that libraries keep
/// for themselves, and that touch nothing of a program's, are none: tqdm's monitor, and autograd's, of which there
/// is one for each GPU from the first backward of a process on, and which run Python code only while a backward is
/// under way.
bool has_other_threads();

}  // namespace braze::interpreter
