// runtime/size_buckets.h: to which sizes batches are padded (the option size_buckets).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace braze::runtime {

class SizeBuckets {
 public:
  /// "": none. "powers_of_two", or sizes with commas between them: "8, 16, 32". Throws UserError on another text.
  static SizeBuckets parse(std::string_view text);

  bool is_empty() const { return !powers_of_two_ && sizes_.empty(); }
  /// The smallest one that is not below `size`; the size itself where there is none.
  int64_t of(int64_t size) const;

 private:
  bool powers_of_two_ = false;
  std::vector<int64_t> sizes_;  ///< Ascending.
};

}  // namespace braze::runtime
