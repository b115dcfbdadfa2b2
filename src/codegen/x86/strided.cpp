#include "codegen/x86/strided.h"

#include <algorithm>

namespace braze::codegen {

using llvm::Value;

bool is_short_stride(int64_t stride, unsigned width) {
  constexpr int64_t longest = 4;
  return stride >= 2 && stride <= longest && width >= stride;
}

Value* load_strided(llvm::IRBuilderBase& b, int64_t stride, unsigned width, Value* mask,
                    llvm::function_ref<Value*(int64_t, Value*)> load) {
  const auto lanes = static_cast<int64_t>(width);
  const int64_t last = stride - 1;
  const auto first_of = [&](int64_t vector) { return vector == last ? last * (lanes - 1) : vector * lanes; };
  // Of which vector lane i's element is.
  const auto vector_of = [&](int64_t lane) { return std::min(lane * stride / lanes, last); };
  Value* result = nullptr;
  for (int64_t vector = 0; vector < stride; ++vector) {
    const int64_t first = first_of(vector);
    Value* own_mask = nullptr;
    if (mask) {
      llvm::SmallVector<int, 64> lane_of;
      for (int64_t element = first; element < first + lanes; ++element) {
        const bool wanted = element % stride == 0 && vector_of(element / stride) == vector;
        lane_of.push_back(static_cast<int>(wanted ? element / stride : lanes));  // `lanes`: of the zeros
      }
      own_mask = b.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), lane_of);
    }
    Value* loaded = load(first, own_mask);
    llvm::SmallVector<int, 64> from;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t own = vector_of(lane);
      if (own == vector)
        from.push_back(static_cast<int>((result ? lanes : 0) + lane * stride - first));
      else
        from.push_back(own < vector ? static_cast<int>(lane) : llvm::PoisonMaskElem);
    }
    result = b.CreateShuffleVector(result ? result : loaded, loaded, from);
  }
  return result;
}

}  // namespace braze::codegen
