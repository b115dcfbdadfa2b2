#include "capture/backward_formulas.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <typeinfo>
#include <vector>

namespace braze::capture {

namespace {

using torch::autograd::Node;
namespace generated = torch::autograd::generated;

template <typename Wanted>
Wanted* as(Node& node) {
  return typeid(node) == typeid(Wanted) ? static_cast<Wanted*>(&node) : nullptr;
}

/// An equal share for each element that is the result, or for each NaN if that is one. On a GPU eager multiplies,
/// which an infinite gradient shows.
at::Tensor evenly_distributed(const at::Tensor& gradient, const at::Tensor& self, const at::Tensor& result) {
  const at::Tensor chosen = at::where(result.isnan(), self.isnan(), self == result);
  const at::Tensor share = gradient / chosen.sum();
  if (self.is_cuda()) return chosen * share;
  return at::zeros_symint(self.sym_sizes(), self.options()).masked_fill(chosen, share);
}

template <typename Chooser>
at::Tensor of_chooser(Chooser& node, const at::Tensor& gradient) {
  return evenly_distributed(gradient, node.self_.unpack(), node.result_.unpack(node.getptr()));
}

/// Of each factor the product of all others, without dividing by it.
at::Tensor product_of_others(const at::Tensor& factors, int64_t dim) {
  const c10::SymInt count = factors.sym_size(dim);
  const at::Tensor one = at::ones_like(factors.narrow_symint(dim, 0, 1));
  const at::Tensor before = factors.narrow_symint(dim, 0, count - 1);
  const at::Tensor behind = factors.narrow_symint(dim, 1, count - 1).flip(dim);
  return at::cat({one, before}, dim).cumprod(dim) * at::cat({one, behind}, dim).cumprod(dim).flip(dim);
}

at::Tensor of_product(const at::Tensor& gradient, const at::Tensor& self, const at::Tensor& result) {
  if (self.dim() == 0) return gradient.clone();
  const at::Tensor zeros = (self == 0).sum();
  const at::Tensor others = product_of_others(self.reshape({-1}), 0).reshape_symint(self.sym_sizes());
  const at::Tensor nothing = at::zeros_like(self);
  return at::where(zeros == 0, gradient * (result / self), at::where(zeros == 1, gradient * others, nothing));
}

at::Tensor of_product_along(const at::Tensor& gradient, const at::Tensor& self, const at::Tensor& result,
                            int64_t dim, bool keepdim) {
  if (self.dim() == 0) return gradient.clone();
  const at::Tensor given = keepdim ? gradient : gradient.unsqueeze(dim);
  const at::Tensor made = keepdim ? result : result.unsqueeze(dim);
  // It lies as the first of the two: as in eager where no factor is zero.
  return at::where((self != 0).all(), given * (made / self), given * product_of_others(self, dim));
}

at::Tensor summed_from_behind(const at::Tensor& values, int64_t dim) {
  return values.flip(dim).cumsum(dim).flip(dim);
}

/// Of factors before the first zero as without one; of that zero through the products up to the next one; of those
/// behind it nothing.
at::Tensor of_cumulative_product(const at::Tensor& gradient, const at::Tensor& self, const at::Tensor& result,
                                 int64_t dim) {
  const at::Tensor is_zero = self == 0, zeros = is_zero.cumsum(dim);
  const at::Tensor is_before = zeros == 0, is_first = is_zero.logical_and(zeros == 1);
  const at::Tensor before = summed_from_behind((result * gradient).masked_fill(is_before.logical_not(), 0), dim);
  const at::Tensor is_behind = (zeros == 1).logical_and(is_first.logical_not());
  const at::Tensor behind = self.masked_fill(is_behind.logical_not(), 1).cumprod(dim);
  const at::Tensor through_zero = (behind * gradient.masked_fill(zeros != 1, 0)).sum(dim, /*keepdim=*/true) *
                                  self.masked_fill(is_before.logical_not(), 1).prod(dim, /*keepdim=*/true);
  return at::where(is_before, before / self, at::where(is_first, through_zero, at::zeros_like(self)));
}

/// Of `self[:, …, mask] = values`: PyTorch's formula takes what the mask selects of the gradient, of which only the
/// values know how much it is.
class OfMaskedValues {
 public:
  /// \param values  the sizes of the values, which broadcast to what the mask selects.
  OfMaskedValues(const at::Tensor& gradient, const at::Tensor& mask, int64_t first, c10::SymIntArrayRef values)
      : gradient_(gradient), mask_(mask), first_(first), behind_(gradient.dim() - first - mask.dim()) {
    const int64_t place = std::ssize(values) - 1 - behind_;
    if (place >= 0) count_ = values[static_cast<size_t>(place)];
  }
  at::Tensor of_self() const { return gradient_.masked_fill(spread(), 0); }
  at::Tensor of_values() const { return count_ == 1 ? sum() : rows(); }

 private:
  /// The mask beside the dimensions behind it.
  at::Tensor spread() const {
    std::vector<c10::SymInt> sizes = mask_.sym_sizes().vec();
    sizes.resize(sizes.size() + static_cast<size_t>(behind_), 1);
    return mask_.reshape_symint(sizes);
  }
  /// One value stands for all.
  at::Tensor sum() const {
    std::vector<int64_t> dims(static_cast<size_t>(mask_.dim()));
    std::iota(dims.begin(), dims.end(), first_);
    return gradient_.masked_fill(spread().logical_not(), 0).sum(dims).unsqueeze(first_);
  }
  /// Each row goes to its place among those that the mask selects, and all others to one behind these.
  at::Tensor rows() const {
    const at::Tensor rows = gradient_.flatten(first_, first_ + mask_.dim() - 1).movedim(first_, 0);
    const at::Tensor chosen = mask_.flatten();
    const at::Tensor behind = at::full({}, c10::Scalar(count_), chosen.options().dtype(at::kLong));
    const at::Tensor places = at::where(chosen, chosen.cumsum(0) - 1, behind);
    std::vector<c10::SymInt> sizes = rows.sym_sizes().vec();
    sizes[0] = count_ + 1;
    const at::Tensor all = at::zeros_symint(sizes, rows.options());
    return all.index_put({places}, rows).narrow_symint(0, 0, count_).movedim(0, first_).contiguous();
  }

  const at::Tensor &gradient_, &mask_;
  int64_t first_, behind_;
  c10::SymInt count_ = 1;  ///< How many values there are along what is selected.
};

/// Of the number that fills the places which the index names, some of them twice.
at::Tensor of_filling(const at::Tensor& gradient, int64_t dim, const at::Tensor& index) {
  if (gradient.dim() == 0) return gradient.clone();
  std::vector<c10::SymInt> sizes(static_cast<size_t>(gradient.dim()), 1);
  sizes[static_cast<size_t>(at::maybe_wrap_dim(dim, gradient.dim()))] = gradient.sym_size(dim);
  const at::Tensor none = at::ones_symint(sizes, gradient.options().dtype(at::kBool));
  return gradient.masked_fill(none.index_fill(dim, index, 0), 0).sum();
}

/// Where the only index is a mask.
template <typename Put>
std::optional<torch::autograd::variable_list> of_masked_put(Put& node, const at::Tensor& gradient) {
  at::Tensor mask;
  int64_t first = 0;
  for (size_t k = 0; k < node.indices_.size(); ++k) {
    const at::Tensor index = node.indices_[k].unpack();
    if (!index.defined()) continue;
    if (mask.defined() || index.scalar_type() != at::kBool || index.dim() == 0) return {};
    mask = index.to(gradient.device());  // A mask of the CPU may pick from what lies on a GPU.
    first = static_cast<int64_t>(k);
  }
  const torch::autograd::Edge& values = node.next_edge(1);
  if (!mask.defined() || !values.is_valid()) return {};
  const auto sizes = values.function->input_metadata(values.input_nr).shape_as_dim_vector();
  const OfMaskedValues backward(gradient, mask, first, sizes);
  torch::autograd::variable_list given(2);
  if (node.task_should_compute_output(0)) given[0] = node.accumulate ? gradient : backward.of_self();
  given[1] = backward.of_values();
  return given;
}

/// Strided 1x1 convolutions of images in channels_last with fewer channels than a vector has lanes: for the
/// gradient of their weight oneDNN writes beyond its scratchpad (uxlfoundation/oneDNN, issue 6035), and eager's
/// heap is lost.
bool writes_out_of_bounds(const generated::ConvolutionBackward0& node, const at::Tensor& input,
                          const at::Tensor& weight) {
  constexpr int64_t lanes = 16;
  if (node.transposed || node.groups != 1 || !input.is_cpu() || input.dim() != 4) return false;
  if (weight.size(1) >= lanes || weight.size(2) != 1 || weight.size(3) != 1) return false;
  const auto is_last = [](const at::Tensor& x) {
    return x.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  };
  const bool is_strided = std::ranges::any_of(node.stride, [](const c10::SymInt& step) { return step != 1; });
  const bool is_padded = std::ranges::any_of(node.padding, [](const c10::SymInt& size) { return size != 0; });
  return is_strided && !is_padded && (is_last(input) || is_last(weight));
}

/// The weight's gradient from the pixels that the strides meet, as of a convolution without strides.
torch::autograd::variable_list of_strided_pointwise(generated::ConvolutionBackward0& node,
                                                    const at::Tensor& gradient, const at::Tensor& input,
                                                    const at::Tensor& weight) {
  const auto through = [&](const at::Tensor& pixels, c10::SymIntArrayRef stride, std::array<bool, 3> wanted) {
    return at::convolution_backward_symint(gradient, pixels, weight, node.bias_sym_sizes_opt, stride, node.padding,
                                           node.dilation, node.transposed, node.output_padding, node.groups,
                                           wanted);
  };
  at::Tensor of_input, of_weight, of_bias;
  if (node.task_should_compute_output(0)) of_input = std::get<0>(through(input, node.stride, {true, false, false}));
  const at::Tensor met = input.slice_symint(2, 0, std::nullopt, node.stride[0])
                             .slice_symint(3, 0, std::nullopt, node.stride[1])
                             .contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<c10::SymInt> ones(2, 1);
  std::tie(std::ignore, of_weight, of_bias) =
      through(met, ones, {false, node.task_should_compute_output(1), node.task_should_compute_output(2)});
  return {of_input, of_weight, of_bias};
}

}  // namespace

std::optional<torch::autograd::variable_list> other_backward(Node& node,
                                                             const torch::autograd::variable_list& inputs) {
  if (inputs.empty() || !inputs[0].defined() || !c10::isFloatingType(inputs[0].scalar_type())) return {};
  const at::Tensor& gradient = inputs[0];
  using Gradients = torch::autograd::variable_list;
  if (auto* largest = as<generated::MaxBackward1>(node)) return Gradients{of_chooser(*largest, gradient)};
  if (auto* least = as<generated::MinBackward1>(node)) return Gradients{of_chooser(*least, gradient)};
  if (auto* middle = as<generated::MedianBackward0>(node)) return Gradients{of_chooser(*middle, gradient)};
  if (auto* middle = as<generated::NanmedianBackward0>(node)) return Gradients{of_chooser(*middle, gradient)};
  if (auto* product = as<generated::ProdBackward0>(node)) {
    const at::Tensor self = product->self_.unpack();
    if (self.sym_numel() == 0) return {};
    return Gradients{of_product(gradient, self, product->result_.unpack(node.getptr()))};
  }
  if (auto* product = as<generated::ProdBackward1>(node)) {
    const at::Tensor self = product->self_.unpack();
    if (self.sym_numel() == 0) return {};
    return Gradients{
        of_product_along(gradient, self, product->result_.unpack(node.getptr()), product->dim, product->keepdim)};
  }
  if (auto* product = as<generated::CumprodBackward0>(node)) {
    const at::Tensor self = product->self_.unpack();
    if (self.dim() == 0 || self.sym_numel() == 0 || self.scalar_type() != gradient.scalar_type()) return {};
    return Gradients{of_cumulative_product(gradient, self, product->result_.unpack(node.getptr()), product->dim)};
  }
  if (auto* fill = as<generated::MaskedFillBackward1>(node)) {
    const at::Tensor mask = fill->mask_.unpack();
    Gradients given(2);
    if (fill->task_should_compute_output(0)) given[0] = gradient.masked_fill(mask, 0);
    if (fill->task_should_compute_output(1)) given[1] = gradient.masked_fill(mask.logical_not(), 0).sum();
    return given;
  }
  if (auto* fill = as<generated::IndexFillBackward1>(node)) {
    const at::Tensor index = fill->index_.unpack();
    Gradients given(2);
    if (fill->task_should_compute_output(0)) given[0] = gradient.index_fill(fill->dim, index, 0);
    if (fill->task_should_compute_output(1)) given[1] = of_filling(gradient, fill->dim, index);
    return given;
  }
  if (auto* put = as<generated::IndexPutBackward0>(node)) return of_masked_put(*put, gradient);
  if (auto* put = as<generated::IndexPutImplBackward0>(node)) return of_masked_put(*put, gradient);
  if (auto* convolution = as<generated::ConvolutionBackward0>(node)) {
    const at::Tensor input = convolution->input_.unpack(), weight = convolution->weight_.unpack();
    if (convolution->task_should_compute_output(1) && writes_out_of_bounds(*convolution, input, weight))
      return Gradients{of_strided_pointwise(*convolution, gradient, input, weight)};
  }
  return {};
}

}  // namespace braze::capture
