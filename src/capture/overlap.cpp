#include "capture/overlap.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "capture/arguments.h"
#include "capture/generator.h"
#include "capture/shapes.h"
#include "capture/types.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// A tensor among the arguments of the call.
struct Part {
  uint32_t argument;
  int32_t element;
  ViewPtr view;
  bool written;
};

bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_tracer(tensor);
}

bool may_meet(const View& a, const View& b) {
  return a.memory == b.memory && !is_empty(a.type->sizes) && !is_empty(b.type->sizes) &&
         first_byte(a) < end_byte(b) && first_byte(b) < end_byte(a);
}

bool is_same_place(const View& a, const View& b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.type == b.type && a.is_conj == b.is_conj &&
         a.is_neg == b.is_neg;
}

/// Whether no element of the one is the other's, as far as a look at their places tells. What is decided by sizes
/// that vary is guarded if it is so for the example.
///
/// Both have the same strides, and the distance between them is so many steps in each dimension. Where every stride
/// steps over what is reached by smaller ones, elements of different places are different ones, and so the two are
/// apart if in one dimension the second begins where the first has ended.
bool are_apart(const View& one, const View& other) {
  struct Axis {
    Dim stride, size, steps = 0;
  };
  const DimsRef strides = one.type->strides, second = other.type->strides, sizes = one.type->sizes;
  if (one.dtype != other.dtype || strides.size() != second.size()) return false;
  const Dim distance = other.offset - one.offset;
  if (distance.hint() < 0) return are_apart(other, one);
  std::vector<Axis> axes;
  for (size_t k = 0; k < strides.size(); ++k) {
    if (strides[k].size() != second[k].size() || strides[k].hint() < 0) return false;
    if (strides[k].hint() > 0) axes.push_back({strides[k], larger(sizes[k], other.type->sizes.symbolic()[k])});
  }
  std::ranges::stable_sort(axes, std::ranges::greater{}, [](const Axis& axis) { return axis.stride.hint(); });
  Dim rest = distance;
  for (Axis& axis : axes) {
    axis.steps = ir::floor_div(rest.size(), axis.stride.size());
    rest -= axis.steps * axis.stride;
  }
  axes.push_back({.stride = 1, .size = 1, .steps = rest});
  const auto holds = [&](auto&& less) {  // `less` tells whether one number is not more than another one.
    if (!less(0, distance)) return false;
    for (size_t k = 0; k + 1 < axes.size(); ++k)
      if (!less(axes[k + 1].stride * (axes[k + 1].steps + axes[k + 1].size), axes[k].stride)) return false;
    return true;
  };
  const auto begins_behind = [](const Axis& axis) { return axis.steps.hint() >= axis.size.hint(); };
  const auto apart = std::ranges::find_if(axes, begins_behind);
  return apart != axes.end() && holds([](Dim a, Dim b) { return a.hint() <= b.hint(); }) &&
         holds([](Dim a, Dim b) { return a <= b; }) && apart->steps >= apart->size;
}

/// Real memory of zeros in the place of the trace's memories.
class Shadows {
 public:
  explicit Shadows(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      Span& span = span_of(*part.view);
      span.first = std::min<int64_t>(span.first, first_byte(*part.view));
      span.end = std::max<int64_t>(span.end, end_byte(*part.view));
    }
    for (Span& span : spans_) {
      // So that every offset is a whole number of elements, of whatever type.
      span.first -= ((span.first % 16) + 16) % 16;
      span.bytes = at::zeros({span.end - span.first}, at::kByte);
    }
  }

  at::Tensor tensor(const View& view) {
    const Span& span = span_of(view);
    const int64_t offset = (first_byte(view) - span.first) / static_cast<int64_t>(c10::elementSize(view.dtype));
    at::Tensor tensor = at::empty({0}, at::TensorOptions().dtype(view.dtype));
    tensor.set_(span.bytes.storage(), offset, to_ref(view.type->sizes), to_ref(view.type->strides));
    tensor._set_neg(view.is_neg);
    if (view.is_conj) tensor._set_conj(true);
    return tensor;
  }

  void clear() {
    for (Span& span : spans_) span.bytes.zero_();
  }

  int64_t count_ones(const View& view) { return span_of(view).bytes.sum().item<int64_t>(); }

 private:
  struct Span {
    const Memory* memory;
    int64_t first, end;  ///< In bytes.
    at::Tensor bytes;
  };

  Span& span_of(const View& view) {
    for (Span& span : spans_)
      if (span.memory == view.memory) return span;
    return spans_.emplace_back(Span{view.memory, INT64_MAX, INT64_MIN, {}});
  }

  std::vector<Span> spans_;
};

/// The tensor's elements one by one, whatever its type: one of bytes with another dimension.
at::Tensor bytes_of(const at::Tensor& tensor) {
  std::vector<int64_t> sizes = tensor.sizes().vec(), strides;
  const auto itemsize = static_cast<int64_t>(tensor.itemsize());
  for (const int64_t stride : tensor.strides()) strides.push_back(stride * itemsize);
  sizes.push_back(itemsize);
  strides.push_back(1);
  at::Tensor bytes = at::empty({0}, at::kByte);
  return bytes.set_(tensor.storage(), tensor.storage_offset() * itemsize, sizes, strides);
}

bool share_elements(Shadows& shadows, const View& a, const View& b) {
  shadows.clear();
  bytes_of(shadows.tensor(a)).fill_(1);
  return bytes_of(shadows.tensor(b)).any().item<bool>();
}

/// Whether two elements of it lie in one place.
bool repeats(Shadows& shadows, const View& view) {
  shadows.clear();
  bytes_of(shadows.tensor(view)).fill_(1);
  return shadows.count_ones(view) < view.type->numel() * static_cast<int64_t>(c10::elementSize(view.dtype));
}

/// Each element of the result comes of the elements in the same places.
bool is_pointwise(const OpEntry& entry) {
  return entry.rule && (entry.op.hasTag(at::Tag::pointwise) || entry.op.schema().name() == "aten::copy_");
}

/// Writes one value everywhere: how often to one place does not matter.
bool is_fill(const OpEntry& entry) {
  const std::string& name = entry.op.schema().name();
  return name == "aten::fill_" || name == "aten::zero_";
}

/// Throws what the operator says of where its arguments lie; what else it may say of zeros is of no interest.
void ask(const OpEntry& entry, std::span<const c10::IValue> arguments, const std::vector<Part>& parts,
         Shadows& shadows) {
  torch::jit::Stack stack;
  size_t next = 0;
  for (uint32_t i = 0; i < arguments.size(); ++i)
    stack.push_back(map_tensors(arguments[i], [&](const at::Tensor& tensor) {
      return is_number(tensor) ? tensor : shadows.tensor(*parts[next++].view);
    }));
  std::optional<KeptGenerators> generators;
  if (entry.random) generators.emplace();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  try {
    entry.op.callBoxed(stack);
  } catch (const c10::Error& error) {
    if (std::strstr(error.what(), "single memory location")) throw;
  } catch (const std::exception&) {
  }
}

}  // namespace

void check_overlap(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments) {
  std::vector<Part> parts;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t argument, int32_t element) {
    if (is_number(tensor)) return;
    parts.push_back({argument, element, recorder.view_of(tensor), is_written(entry, argument, arguments)});
  });
  std::vector<std::pair<const View*, const View*>> meetings;
  std::vector<const View*> doubtful;
  for (size_t w = 0; w < parts.size(); ++w) {
    if (!parts[w].written) continue;
    const View& written = *parts[w].view;
    if (!is_empty(written.type->sizes) && may_overlap(*written.type)) doubtful.push_back(&written);
    for (size_t k = 0; k < parts.size(); ++k) {
      const View& other = *parts[k].view;
      // Which of the two is written twice, or both: once is enough to look.
      if (k == w || (parts[k].written && k < w) || !may_meet(written, other)) continue;
      const bool is_same = is_same_place(written, other);
      if (parts[k].written && is_same)
        throw UserError(concat("braze: ", entry.op.schema().name(), " writes to one tensor twice."));
      if (is_same ? is_pointwise(entry) : are_apart(written, other)) continue;  // Eager minds neither.
      meetings.emplace_back(&written, &other);
    }
  }
  if (meetings.empty() && doubtful.empty()) return;
  Shadows shadows(parts);
  ask(entry, arguments, parts, shadows);
  for (const auto& [written, other] : meetings)
    if (share_elements(shadows, *written, *other))
      throw UserError(concat("braze: ", entry.op.schema().name(),
                             " writes to memory that it also reads, element after element."));
  for (const View* written : doubtful)
    if (!is_fill(entry) && repeats(shadows, *written))
      throw UserError(concat("braze: ", entry.op.schema().name(), " writes to one place more than once."));
}

}  // namespace braze::capture
