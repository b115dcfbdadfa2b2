#include "runtime/size_buckets.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "support/error.h"

namespace braze::runtime {

SizeBuckets SizeBuckets::parse(std::string_view text) {
  SizeBuckets buckets;
  if (text == "powers_of_two") {
    buckets.powers_of_two_ = true;
    return buckets;
  }
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    std::string_view number = rest.substr(0, end);
    number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
    number = number.substr(0, number.find_last_not_of(' ') + 1);
    int64_t size = 0;
    const auto [last, error] = std::from_chars(number.data(), number.data() + number.size(), size);
    if (error != std::errc() || last != number.data() + number.size() || size < 1)
      throw UserError(
          concat("size_buckets is \"", text,
                 "\", and should be \"powers_of_two\", or sizes with commas between them, as in \"8, 16, "
                 "32\""),
          UserError::Kind::value);
    buckets.sizes_.push_back(size);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::ranges::sort(buckets.sizes_);
  return buckets;
}

int64_t SizeBuckets::of(int64_t size) const {
  if (powers_of_two_) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))));
  const auto bucket = std::ranges::lower_bound(sizes_, size);
  return bucket == sizes_.end() ? size : *bucket;
}

}  // namespace braze::runtime
