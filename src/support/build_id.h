// support/build_id.h: which build of braze this is, part of the key of all that is kept on disk.
#pragma once

#include <string_view>

namespace braze {

/// The GNU build id of the file that this code is in: it changes whenever any code of braze does, so that nothing
/// kept on disk outlives the compiler that made it. Empty if the linker wrote none.
std::string_view build_id();

}  // namespace braze
