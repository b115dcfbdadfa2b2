// Views that read the same memory as elements of another type, conjugated or negated: windows (capture/window.h).
#include "capture/call.h"
#include "support/error.h"

namespace braze::capture {
namespace {

struct Viewed {
  const at::Tensor& tensor;
  const ViewPtr view;
};

std::optional<Viewed> viewed(Call& call) {
  const at::Tensor& tensor = call.tensor(0);
  if (!tensor.defined() || tensor.layout() != c10::kStrided) return std::nullopt;
  return Viewed{tensor, call.recorder.view_of(tensor)};
}

Sizes sizes_of(const Viewed& x) {
  const DimsRef sizes = x.view->type->sizes;
  return Sizes(sizes.begin(), sizes.end());
}

Sizes strides_of(const Viewed& x) {
  const DimsRef strides = x.view->type->strides;
  return Sizes(strides.begin(), strides.end());
}

/// The bytes that the viewed tensor begins at, as elements of `dtype`.
ViewPtr window(Call& call, const Viewed& x, ScalarType dtype, const Sizes& sizes, const Sizes& strides) {
  const auto itemsize = static_cast<int64_t>(c10::elementSize(dtype));
  // Eager has conditions on the offset in the storage, and the trace needs them of that in the memory.
  if (first_byte(*x.view) % itemsize != 0 || x.view->origin % itemsize != 0)
    throw UserError(
        "braze: a tensor that begins between two elements of another type is viewed as that type. Take a clone() "
        "first.");
  if (itemsize > static_cast<int64_t>(x.tensor.itemsize())) call.recorder.depend_on_place(x.view, itemsize);
  const ir::Type* type = call.recorder.type(dtype, x.tensor.device(), sizes, strides);
  ViewPtr made = window_like(x.view, type, first_byte(*x.view) / itemsize);
  made->dtype = dtype;
  return made;
}

bool give(Call& call, const Viewed& x, ViewPtr view) {
  return call.give_tensor(call.recorder.wrap_view(std::move(view), x.tensor));
}

[[noreturn]] void refuse_lazy() {
  throw UserError(
      "braze: a lazy conjugate or negative view is viewed as another type; call resolve_conj() or resolve_neg() "
      "before.");
}

/// Elements that are `ratio` times as large as those seen: as view(dtype) has it, every stride but the last.
bool divide(Sizes& strides, int64_t ratio) {
  for (size_t k = 0; k + 1 < strides.size(); ++k) {
    if (strides[k] % ratio != 0) return false;
    strides[k] /= ratio;
  }
  return true;
}

/// view(self, dtype)
bool view_dtype(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  const auto dtype = call.dtype(1);
  if (!x || !dtype || c10::isQIntType(*dtype)) return false;
  if (*dtype == x->view->dtype) return give(call, *x, x->view);
  if (x->view->is_conj || x->view->is_neg) refuse_lazy();
  const auto from = static_cast<int64_t>(x->tensor.itemsize());
  const auto to = static_cast<int64_t>(c10::elementSize(*dtype));
  Sizes sizes = sizes_of(*x);
  Sizes strides = strides_of(*x);
  if (from == to) return give(call, *x, window(call, *x, *dtype, sizes, strides));
  if (sizes.empty() || strides.back() != 1) return false;
  if (from > to) {
    const int64_t ratio = from / to;
    for (size_t k = 0; k + 1 < strides.size(); ++k) strides[k] *= ratio;
    sizes.back() *= ratio;
  } else {
    const int64_t ratio = to / from;
    if (sizes.back() % ratio != 0 || !divide(strides, ratio)) return false;
    sizes.back() /= ratio;
  }
  return give(call, *x, window(call, *x, *dtype, sizes, strides));
}

bool view_as_real(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || !x->tensor.is_complex()) return false;
  if (x->view->is_conj) refuse_lazy();
  Sizes sizes = sizes_of(*x), strides;
  for (const Dim stride : x->view->type->strides.symbolic()) strides.push_back(2 * stride);
  sizes.push_back(2);
  strides.push_back(1);
  const ViewPtr view = window(call, *x, c10::toRealValueType(x->view->dtype), sizes, strides);
  return give(call, *x, view);
}

bool view_as_complex(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || !c10::isFloatingType(x->view->dtype) || x->view->dtype == ScalarType::BFloat16) return false;
  if (x->view->is_neg) refuse_lazy();
  Sizes sizes = sizes_of(*x);
  Sizes strides = strides_of(*x);
  if (sizes.empty() || sizes.back() != 2 || strides.back() != 1 || !divide(strides, 2)) return false;
  sizes.pop_back();
  strides.pop_back();
  return give(call, *x, window(call, *x, c10::toComplexType(x->view->dtype), sizes, strides));
}

/// The same elements, with one of their two signs the other way round.
template <bool View::* sign>
bool flipped(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x) return false;
  ViewPtr made = window_like(x->view, x->view->type, x->view->offset);
  (*made).*sign = !((*x->view).*sign);
  return give(call, *x, made);
}

}  // namespace

std::span<const RuleRow> bits_rules() {
  static constexpr RuleRow rows[] = {
      {"view.dtype", view_dtype},
      {"view_as_real", view_as_real},
      {"view_as_complex", view_as_complex},
      {"_conj", flipped<&View::is_conj>},
      {"_neg_view", flipped<&View::is_neg>},
  };
  return rows;
}

}  // namespace braze::capture
