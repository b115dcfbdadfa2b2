// python/compile/value_reads.h: reasons for breaks at reads of values.
#pragma once

#include <string_view>

#include "python/interpreter/watch/break_reasons.h"

namespace braze::python {

/// \param what  read a value that inputs decide (capture::Tracer::last_read()).
interpreter::Break why_read(std::string_view what);

}  // namespace braze::python
