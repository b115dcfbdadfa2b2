#include "ir/size_span.h"

#include <algorithm>

#include "support/error.h"

namespace braze::ir {

SizeSpan::SizeSpan(std::span<const Size> sizes)
    : sizes_(sizes.data()),
      count_(static_cast<uint32_t>(sizes.size())),
      is_constant_(std::ranges::all_of(sizes, &Size::is_constant)) {}

SizeSpan::SizeSpan(std::span<const int64_t> numbers)
    : sizes_(as_sizes(numbers).data()), count_(static_cast<uint32_t>(numbers.size())) {}

void SizeSpan::fail() const {
  throw InternalError(concat("the sizes ", to_text(symbolic()), " are no numbers"));
}

std::span<const Size> as_sizes(std::span<const int64_t> numbers) {
  for (const int64_t number : numbers) static_cast<void>(Size(number));
  return {reinterpret_cast<const Size*>(numbers.data()), numbers.size()};
}

std::string to_text(std::span<const Size> sizes) {
  std::string text = "[";
  for (const Size size : sizes) (text += text.size() > 1 ? "," : "") += to_text(size);
  return text + "]";
}

}  // namespace braze::ir
