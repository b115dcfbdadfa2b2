// runtime/kept_measurements.h: what came out fastest when it was measured on this machine's GPUs, by a key that
// says what was measured and on what: of the process, and on disk.
#pragma once

#include <optional>
#include <string>

#include "support/hash.h"

namespace braze::runtime {

/// From several threads at once, as is the next.
std::optional<std::string> find_measurement(const Hash128& key, bool on_disk);
void keep_measurement(const Hash128& key, const std::string& fastest, bool on_disk);

}  // namespace braze::runtime
