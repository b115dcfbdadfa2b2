// support/names.h: names that print and parse, of texts that are none.
#pragma once

#include <string>
#include <string_view>

namespace braze {

/// "batch['ids'][0]" as "batch.ids.0": the words of the text (letters, digits, underscores) between separators.
std::string words_of(std::string_view text, char separator);

}  // namespace braze
