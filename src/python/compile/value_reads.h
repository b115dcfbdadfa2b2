// python/compile/value_reads.h: reasons for breaks at reads of values.
#pragma once

#include <cstdint>
#include <string_view>

#include "python/interpreter/watch/break_reasons.h"

namespace braze::python {

/// \param what  read a value that inputs decide (capture::Tracer::last_read()).
interpreter::Break why_read(std::string_view what);

/// What of a tensor's elements Python is given where a graph ends.
enum class DataRead : uint8_t {
  none,    ///< It ends for another reason.
  scalar,  ///< A number: item(), tolist().
  shape,   ///< A tensor whose sizes they decide: nonzero(), a boolean mask.
};
DataRead read_at(interpreter::Break why);

}  // namespace braze::python
