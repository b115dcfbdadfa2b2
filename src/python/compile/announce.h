// python/compile/announce.h: new programs in the user's logs, and warnings.
#pragma once

#include "python/compile/specialisation.h"

namespace braze::python {

/// Tells the guards and the graph of a program that was just made, if somebody listens (events.h).
void announce(const Specialisation& one);

/// Once: to the logger "braze", whose warnings go to stderr where the program configures none.
void log_warning(const std::string& text);

/// Raises a RuntimeWarning in the line of the user's that runs. A filter may turn it into an error, which is
/// dropped: it is not the function's.
void warn(const std::string& text);

}  // namespace braze::python
