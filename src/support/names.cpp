#include "support/names.h"

#include <cctype>

namespace braze {

std::string words_of(std::string_view text, char separator) {
  std::string name;
  for (const char c : text) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (is_word)
      name += c;
    else if (!name.empty() && name.back() != separator)
      name += separator;
  }
  while (!name.empty() && name.back() == separator) name.pop_back();
  return name;
}

}  // namespace braze
