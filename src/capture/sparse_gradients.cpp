#include "capture/sparse_gradients.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "capture/recorder.h"
#include "capture/traceable.h"
#include "capture/tracer_tensor.h"
#include "support/error.h"

namespace braze::capture {

namespace {

struct Lookup {
  std::string_view name;
  size_t flag;  ///< The argument that asks for a sparse gradient of the first one.
};

constexpr Lookup lookups[] = {
    {"aten::embedding", 4},
    {"aten::embedding_bag", 5},
    {"aten::gather", 3},
};

thread_local const Recorder* refused_by = nullptr;  ///< Only compared.

}  // namespace

void refuse_sparse_gradient(Recorder& recorder, const c10::OperatorHandle& op, std::span<const c10::IValue> given) {
  const Lookup* row = std::ranges::find(lookups, std::string_view(op.schema().name()), &Lookup::name);
  if (row == std::end(lookups) || given.size() <= row->flag || !given[row->flag].isBool()) return;
  if (!given[row->flag].toBool() || !given[0].isTensor()) return;
  const at::Tensor& table = given[0].toTensor();
  if (as_tracer(table) || is_transformed(table) || !table.requires_grad() || !table.is_leaf()) return;
  refused_by = &recorder;
  throw UserError(concat("braze: the gradient of ", op.schema().name(), " is to be sparse"));
}

bool take_sparse_refusal(const Recorder& recorder) noexcept {
  return std::exchange(refused_by, nullptr) == &recorder;
}

}  // namespace braze::capture
