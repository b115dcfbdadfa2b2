#include "capture/ask_shapes.h"

#include <ATen/ExpandUtils.h>

#include <algorithm>

#include "capture/arguments.h"
#include "capture/call.h"
#include "capture/devices.h"
#include "capture/numbers_in_calls.h"
#include "capture/own_calls.h"
#include "capture/reads.h"
#include "capture/silent.h"
#include "capture/size_node.h"
#include "capture/traceable.h"
#include "ir/size_code.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using torch::jit::Stack;

bool is_wrapped_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_tracer(tensor);
}

at::Tensor meta_of(const at::Tensor& tensor, const SizesAt& at) {
  const at::TensorOptions options = tensor.options().device(c10::kMeta);
  const Places sizes = at(dims_of(tensor)), strides = at(strides_of(tensor));
  const TracerTensor* tracer = as_tracer(tensor);
  const int64_t offset = tracer ? at(storage_offset(*tracer->view())) : tensor.storage_offset();
  if (offset == 0) return at::empty_strided(sizes, strides, options);
  const int64_t elements = offset + extent(sizes, strides);
  return at::empty({elements}, options).as_strided(sizes, strides, offset);
}

/// The arguments as the operator is asked with them.
/// \param stand_in  gives what stands for an argument.
template <typename StandIn>
Shapes stand_ins_for(std::span<const c10::IValue> arguments, const StandIn& stand_in) {
  Shapes shapes;
  for (const c10::IValue& argument : arguments) shapes.arguments.push_back(stand_in(argument));
  shapes.results = shapes.arguments;
  return shapes;
}

/// Runs the Meta kernel, with `outs` of the last arguments as empty tensors.
Shapes run_meta(const OpEntry& entry, std::span<const c10::IValue> arguments, const SizesAt& at, uint32_t outs) {
  const auto& schema = entry.op.schema().arguments();
  bool is_emptied = false;
  const auto meta = [&](const at::Tensor& tensor) {
    if (is_emptied) return at::empty({0}, tensor.options().device(c10::kMeta));
    if (tensor.is_meta() || is_wrapped_number(tensor)) return tensor;
    at::Tensor made = meta_of(tensor, at);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
    return made;
  };
  Shapes shapes = stand_ins_for(arguments, [&](const c10::IValue& argument) {
    const size_t k = &argument - arguments.data();
    const bool is_device = argument.isNone() && schema[k].name() == "device";
    is_emptied = k + outs >= arguments.size();
    return is_device || argument.isDevice() ? c10::IValue(c10::Device(c10::kMeta))
                                            : map_tensors(at(argument), meta);
  });
  const OwnCalls own;
  entry.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &shapes.results);
  return shapes;
}

/// Elementwise, and not tagged so.
constexpr std::string_view kUntagged[] = {"aten::gcd_", "aten::lcm_", "aten::heaviside_"};

bool is_elementwise_in_place(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  if (!entry.writes || entry.outs > 0 || !arguments[0].isTensor()) return false;
  return entry.op.hasTag(at::Tag::pointwise) ||
         std::ranges::find(kUntagged, entry.op.schema().name()) != std::end(kUntagged);
}

/// In place, of operands that are larger than where the result goes: the operator raises, but Meta kernels in
/// Python make it larger, and warn.
void check_it_fits(const OpEntry& entry, std::span<const c10::IValue> arguments, const SizesAt& at) {
  if (!is_elementwise_in_place(entry, arguments)) return;
  const Places room = at(dims_of(arguments[0].toTensor()));
  for_each_tensor(arguments.subspan(1), [&](const at::Tensor& tensor, uint32_t, int32_t) {
    TORCH_CHECK(at::is_expandable_to(at(dims_of(tensor)), room), entry.op.schema().name(),
                ": the result is larger than the tensor that it is written into");
  });
}

/// What the Meta kernel says. Those that are Python functions warn of out= tensors of other sizes than the
/// results', where the operator itself may not: they are first asked for the sizes alone.
Shapes ask_meta(const OpEntry& entry, std::span<const c10::IValue> arguments, const SizesAt& at) {
  if (entry.outs > 0) {
    Shapes resized = run_meta(entry, arguments, at, entry.outs);
    std::vector<Places> wanted, given;
    const size_t first = arguments.size() - entry.outs;
    for_each_tensor(arguments.subspan(first),
                    [&](const at::Tensor& out, uint32_t, int32_t) { given.push_back(at(dims_of(out))); });
    for_each_tensor(std::span<const c10::IValue>(resized.arguments).subspan(first),
                    [&](const at::Tensor& out, uint32_t, int32_t) { wanted.push_back(at(dims_of(out))); });
    if (wanted != given) return resized;
  }
  check_it_fits(entry, arguments, at);
  return run_meta(entry, arguments, at, 0);
}

/// For operators without a Meta kernel: their results on the example values have the shapes.
Shapes ask_example(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments) {
  const auto real = [&](const at::Tensor& tensor) {
    if (!is_operand(tensor)) return tensor;
    return recorder.known().materialize(tensor, concat(entry.op.schema().name(), only_for_real_data));
  };
  Shapes shapes =
      stand_ins_for(arguments, [&](const c10::IValue& argument) { return map_tensors(argument, real); });
  entry.op.callBoxed(shapes.results);
  return shapes;
}

/// Operators whose Meta kernels tell other strides, sizes or dtypes than the CPU's kernels give, or that have none;
/// none depends on the elements.
constexpr std::string_view kWrongMeta[] = {"aten::_linalg_svd",
                                           "aten::linalg_eig",
                                           "aten::_linalg_eigh",
                                           "aten::linalg_lstsq",
                                           "aten::max_unpool2d",
                                           "aten::max_unpool3d",
                                           "aten::nonzero_static",
                                           "aten::_native_batch_norm_legit",
                                           "aten::native_batch_norm",
                                           "aten::_batch_norm_with_update",
                                           "aten::native_layer_norm",
                                           "aten::log_sigmoid_forward",
                                           "aten::_fft_r2c",
                                           "aten::_fft_c2c",
                                           "aten::_fft_c2r",
                                           "aten::max_pool3d_with_indices",
                                           "aten::_ctc_loss",
                                           "aten::multilabel_margin_loss_forward",
                                           "aten::_embedding_bag",
                                           "aten::mkldnn_rnn_layer",
                                           "aten::mkldnn_rnn_layer_backward",
                                           "aten::batch_norm_update_stats",
                                           "aten::cudnn_batch_norm",
                                           "aten::_cudnn_rnn",
                                           "aten::_cudnn_rnn_backward",
                                           "aten::_thnn_fused_gru_cell",
                                           "aten::_thnn_fused_gru_cell_backward",
                                           "aten::cudnn_grid_sampler",
                                           "aten::cudnn_grid_sampler_backward",
                                           "aten::_cudnn_ctc_loss",
                                           "aten::_ctc_loss_backward",
                                           "aten::_dirichlet_grad",
                                           "aten::_masked_softmax",
                                           "aten::_masked_softmax_backward",
                                           "aten::_sample_dirichlet",
                                           "aten::_standard_gamma_grad",
                                           "aten::binomial",
                                           "aten::fake_quantize_per_tensor_affine_cachemask",
                                           "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
                                           "aten::fake_quantize_per_channel_affine_cachemask",
                                           "aten::_fake_quantize_learnable_per_tensor_affine",
                                           "aten::_fake_quantize_learnable_per_channel_affine",
                                           "aten::_fake_quantize_learnable_per_tensor_affine_backward",
                                           "aten::_fake_quantize_learnable_per_channel_affine_backward",
                                           "aten::fractional_max_pool3d_backward",
                                           "aten::geqrf",
                                           "aten::histogram",
                                           "aten::multi_margin_loss_backward",
                                           "aten::multilabel_margin_loss_backward"};

/// Operators whose results' shapes the elements of one argument decide, and nothing else's.
struct DecidesShape {
  std::string_view name;
  size_t argument;
};
constexpr DecidesShape kDecideShapes[] = {
    {"aten::index", 1},
    {"aten::masked_select", 1},
    {"aten::_pack_padded_sequence", 1},
};

/// Operators whose integers count from one: a zero would be a place before the first.
constexpr std::string_view kCountFromOne[] = {"aten::linalg_ldl_solve", "aten::linalg_lu_solve", "aten::lu_unpack"};

/// Both have the same sizes. Of an expanded tensor, which may not be written into, each element once.
void copy_elements(at::Tensor to, at::Tensor from) {
  for (int64_t dim = 0; dim < to.dim(); ++dim) {
    if (to.stride(dim) != 0 || to.size(dim) < 2) continue;
    to = to.narrow(dim, 0, 1);
    from = from.narrow(dim, 0, 1);
  }
  to.copy_(from);
}

/// The real kernel's answer for zeros in the place of the arguments that are not known.
Shapes ask_zeros(Recorder* recorder, const OpEntry& entry, std::span<const c10::IValue> arguments,
                 const SizesAt& at) {
  const std::string& name = entry.op.schema().name();
  const bool from_one = std::ranges::find(kCountFromOne, name) != std::end(kCountFromOne);
  const auto zeros = [&](const at::Tensor& tensor) {
    if (!is_operand(tensor)) return tensor;
    at::Tensor like = at::empty_strided(at(dims_of(tensor)), at(strides_of(tensor)), tensor.options());
    const at::Tensor real = recorder ? recorder->known().find(tensor) : at::Tensor();
    if (real.defined()) {
      copy_elements(like, real);
      return like;
    }
    return from_one && !tensor.is_floating_point() && !tensor.is_complex() ? like.fill_(1) : like.zero_();
  };
  Shapes shapes =
      stand_ins_for(arguments, [&](const c10::IValue& argument) { return map_tensors(at(argument), zeros); });
  std::optional<KeptGenerators> generators;
  if (entry.random) generators.emplace();
  entry.op.callBoxed(shapes.results);
  return shapes;
}

/// Right on other layouts: often called on them and costly, or with results that lie as their first argument does,
/// places before it and gaps included.
constexpr std::string_view kRightMeta[] = {"aten::_scaled_dot_product_flash_attention_for_cpu",
                                           "aten::_scaled_dot_product_flash_attention",
                                           "aten::_scaled_dot_product_efficient_attention",
                                           "aten::_scaled_dot_product_cudnn_attention",
                                           "aten::multinomial",
                                           "aten::mm",
                                           "aten::bmm",
                                           "aten::addmm",
                                           "aten::baddbmm",
                                           "aten::slice_scatter",
                                           "aten::select_scatter",
                                           "aten::diagonal_scatter",
                                           "aten::as_strided_scatter"};

/// Operators whose Meta kernels are Python functions, the first of which imports some 500 modules (250 ms). None's
/// shapes depend on the elements.
constexpr std::string_view kPythonMeta[] = {
    "aten::_cdist_forward",
    "aten::_embedding_bag_forward_only",
    "aten::_linalg_det",
    "aten::_linalg_slogdet",
    "aten::_linalg_solve_ex",
    "aten::_native_multi_head_attention",
    "aten::_pdist_forward",
    "aten::_transformer_encoder_layer_fwd",
    "aten::_trilinear",
    "aten::addbmm",
    "aten::addmv",
    "aten::affine_grid_generator",
    "aten::col2im",
    "aten::complex",
    "aten::convolution",
    "aten::dot",
    "aten::exponential",
    "aten::exponential_",
    "aten::histc",
    "aten::i0",
    "aten::igamma",
    "aten::igammac",
    "aten::im2col",
    "aten::isin",
    "aten::kthvalue",
    "aten::linalg_cholesky_ex",
    "aten::linalg_inv_ex",
    "aten::linalg_ldl_factor_ex",
    "aten::linalg_lu",
    "aten::linalg_lu_factor_ex",
    "aten::linalg_lu_solve",
    "aten::linalg_matrix_exp",
    "aten::linalg_qr",
    "aten::linalg_solve_triangular",
    "aten::linspace",
    "aten::logspace",
    "aten::mv",
    "aten::normal",
    "aten::normal_",
    "aten::poisson",
    "aten::polar",
    "aten::polygamma",
    "aten::rand",
    "aten::rand_like",
    "aten::randint",
    "aten::randint_like",
    "aten::randn",
    "aten::randn_like",
    "aten::randperm",
    "aten::renorm",
    "aten::searchsorted",
    "aten::sort",
    "aten::topk",
    "aten::triangular_solve",
    "aten::vdot",
};
/// The gradients of query, key and value, each as `make(like)` has it.
template <typename Make>
Shapes attention_gradients(const OpEntry& entry, std::span<const c10::IValue> arguments, Make&& make) {
  Shapes shapes = stand_ins_for(arguments, [](const c10::IValue& argument) { return argument; });
  shapes.results.clear();
  for (const char* name : {"query", "key", "value"}) {
    const auto index = entry.op.schema().argumentIndexWithName(name);
    shapes.results.emplace_back(make(arguments[static_cast<size_t>(index.value())].toTensor()));
  }
  return shapes;
}

/// Memory in the order of (batch, length, heads, width), whatever that of the operands is.
Shapes gradients_by_length(const OpEntry& entry, std::span<const c10::IValue> arguments, const SizesAt& at) {
  return attention_gradients(entry, arguments, [&](const at::Tensor& like) {
    return at::empty_permuted(at(dims_of(like)), {0, 2, 1, 3}, like.options().device(c10::kMeta));
  });
}

/// They lie as query, key and value do. cuDNN builds a plan for what it is asked, which takes 50 to 900 ms.
Shapes gradients_as_operands(const OpEntry& entry, std::span<const c10::IValue> arguments, const SizesAt& at) {
  return attention_gradients(entry, arguments, [&](const at::Tensor& like) {
    return at::empty_like(
        at::empty_strided(at(dims_of(like)), at(strides_of(like)), like.options().device(c10::kMeta)));
  });
}

/// (output, mean, rstd), those of f32 where the weight is that beside a half type: the Meta kernel does not tell.
Shapes group_norm(const OpEntry&, std::span<const c10::IValue> arguments, const SizesAt& at) {
  Shapes shapes = stand_ins_for(arguments, [](const c10::IValue& argument) { return argument; });
  shapes.results.clear();
  const at::Tensor& x = arguments[0].toTensor();
  const auto format = x.is_cpu() ? x.suggest_memory_format() : at::MemoryFormat::Contiguous;
  shapes.results.emplace_back(at::empty(at(dims_of(x)), x.options().device(c10::kMeta), format));
  const auto is_wide = [](const c10::IValue& part) {
    return part.isTensor() && part.toTensor().defined() && part.toTensor().scalar_type() == c10::kFloat;
  };
  const auto dtype = is_wide(arguments[1]) || is_wide(arguments[2]) ? c10::kFloat : x.scalar_type();
  const int64_t batch = at(dims_of(x))[0];
  for (int statistics = 0; statistics < 2; ++statistics)
    shapes.results.emplace_back(
        at::empty({batch, at(arguments[6]).toInt()}, x.options().dtype(dtype).device(c10::kMeta)));
  return shapes;
}

/// As many places as the caller says, which spares adding up the repeats.
Shapes repeated_places(const OpEntry&, std::span<const c10::IValue> arguments, const SizesAt& at) {
  Shapes shapes = stand_ins_for(arguments, [](const c10::IValue& argument) { return argument; });
  const at::TensorOptions options = arguments[0].toTensor().options().device(c10::kMeta);
  shapes.results = {at::empty({at(arguments[1]).toInt()}, options)};
  return shapes;
}

/// Operators whose answer is known here: their real kernels take long, and their Meta kernels are Python functions.
struct OwnAnswer {
  std::string_view name;
  Shapes (*ask)(const OpEntry& entry, std::span<const c10::IValue> arguments, const SizesAt& at);
};
constexpr OwnAnswer kOwnAnswers[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", gradients_by_length},
    {"aten::_scaled_dot_product_cudnn_attention_backward", gradients_as_operands},
    {"aten::native_group_norm", group_norm},
    {"aten::repeat_interleave", repeated_places},
};

/// Bytes of operands up to which the real kernel answers sooner; at sizes that are no example's, which are larger,
/// as the first import in the midst of a capture makes its guards about classes fail.
constexpr int64_t kSooner = 1 << 20, kSoonerAtOthers = 4 << 20;

/// What is like those: prefixes of names. Elementwise functions, and resampling.
constexpr std::string_view kPythonMetaPrefixes[] = {"aten::special_", "aten::upsample_", "aten::_upsample_"};

/// Multiplications of a convolution up to which it is tried at other sizes: of small operands there may be very
/// many.
constexpr int64_t kFewProducts = 1 << 26;

bool multiplies_much(std::span<const c10::IValue> arguments, const SizesAt& at) {
  const Places image = at(dims_of(arguments[0].toTensor())), weight = at(dims_of(arguments[1].toTensor()));
  int64_t products = 1;
  for (size_t k = 0; k < image.size(); ++k)
    if (k != 1 && __builtin_mul_overflow(products, image[k], &products)) return true;
  for (const int64_t size : weight)
    if (__builtin_mul_overflow(products, size, &products)) return true;
  return products > kFewProducts;
}

bool is_asked_sooner_for_real(const OpEntry& entry, std::span<const c10::IValue> arguments, const SizesAt& at,
                              int64_t limit) {
  const std::string& name = entry.op.schema().name();
  if (entry.random && !uses_default_generator(entry, arguments)) return false;
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (std::ranges::none_of(kPythonMetaPrefixes, begins) &&
      std::ranges::find(kPythonMeta, name) == std::end(kPythonMeta))
    return false;
  int64_t bytes = 0;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    bytes += extent(at(dims_of(tensor)), at(strides_of(tensor))) * static_cast<int64_t>(tensor.itemsize());
  });
  // What is drawn without a tensor that tells how much.
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (entry.op.schema().arguments()[i].name() != "size") continue;
    const c10::IValue size = at(arguments[i]);
    int64_t elements = 1;
    for (const int64_t each : size.toIntVector())
      if (__builtin_mul_overflow(elements, each, &elements)) return false;
    if (__builtin_mul_overflow(elements, sizeof(double), &elements)) return false;
    bytes += elements;
  }
  return bytes <= limit;
}

/// Meta kernels tell the right strides for row-major operands that are not empty; elsewhere many do not.
bool is_meta_right(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  const std::string& name = entry.op.schema().name();
  // Nor can they tell on which of several devices a result lies.
  if (!device_of(arguments).is_one) return false;
  if (entry.random && !uses_default_generator(entry, arguments)) return true;
  if (std::ranges::find(kWrongMeta, name) != std::end(kWrongMeta)) return false;
  // What an operator of the user's does is not to be done once more.
  if (!name.starts_with("aten::") || std::ranges::find(kRightMeta, name) != std::end(kRightMeta)) return true;
  bool row_major = true;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    const DimsRef sizes = dims_of(tensor);
    row_major &= !is_empty(sizes) && strides_of(tensor) == contiguous(sizes);
  });
  return row_major;
}

}  // namespace

int64_t SizesAt::operator()(Dim dim) const {
  if (dim.is_number() || !symbols_) return dim.hint();
  ir::SizeCode code;
  code.add(dim.size());
  int64_t value = 0;
  if (!code.run(*symbols_, {&value, 1})) throw UserError("a size has no value for these symbols");
  return value;
}

Places SizesAt::operator()(DimsRef dims) const {
  Places values;
  for (const Dim dim : dims) values.push_back((*this)(dim));
  return values;
}

c10::IValue SizesAt::operator()(const c10::IValue& value) const {
  if (!has_symbols(value)) return value;
  if (const std::optional<double> example = example_behind(value)) return *example;
  if (value.isSymInt()) return (*this)(dim_of(value));
  if (!value.isList()) return specialised(value);
  c10::List<int64_t> numbers;
  for (const c10::IValue& each : value.toListRef()) numbers.push_back((*this)(dim_of(each)));
  return numbers;
}

bool is_operand(const at::Tensor& tensor) {
  return !is_wrapped_number(tensor) && !tensor.is_meta();
}

bool uses_default_generator(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  return entry.random && std::ranges::none_of(arguments, [](const c10::IValue& v) { return v.isGenerator(); });
}

bool is_dynamic(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  const bool is_told = entry.op.schema().name() == "aten::repeat_interleave" && !arguments[1].isNone();
  return entry.dynamic && !is_told;
}

bool has_known_shape(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments) {
  const auto row = std::ranges::find(kDecideShapes, entry.op.schema().name(), &DecidesShape::name);
  if (row == std::end(kDecideShapes) || entry.writes) return false;
  bool is_known = true;
  for_each_tensor(arguments.subspan(row->argument, 1), [&](const at::Tensor& tensor, uint32_t, int32_t) {
    is_known &= recorder.known().find(tensor).defined();
  });
  return is_known;
}

/// Kernels that PyTorch means for its own calls, and a few others, do not look whether the sizes of several tensors
/// go together: at sizes that the program never has, they would read and write beside their arguments.
static bool is_unchecked(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  const std::string& name = entry.op.schema().name();
  if (!name.starts_with("aten::_") && name != "aten::lu_unpack") return false;
  size_t tensors = 0;
  for_each_tensor(arguments, [&](const at::Tensor&, uint32_t, int32_t) { ++tensors; });
  return tensors > 1;
}

Shapes ask_shapes(Recorder* recorder, const OpEntry& entry, std::span<const c10::IValue> arguments,
                  const SizesAt& at) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Silent silent;
  const auto own = std::ranges::find(kOwnAnswers, entry.op.schema().name(), &OwnAnswer::name);
  if (own != std::end(kOwnAnswers)) return own->ask(entry, arguments, at);
  if (!recorder && is_unchecked(entry, arguments)) return ask_meta(entry, arguments, at);
  try {
    const bool is_known = recorder && has_known_shape(*recorder, entry, arguments);
    const int64_t limit = recorder ? kSooner : kSoonerAtOthers;
    const bool is_long = entry.op.schema().name() == "aten::convolution" && multiplies_much(arguments, at);
    const bool is_real = !(is_long && !recorder) && (!is_meta_right(entry, arguments) ||
                                                     is_asked_sooner_for_real(entry, arguments, at, limit));
    if (is_known || (entry.outs == 0 && is_real)) return ask_zeros(recorder, entry, arguments, at);
  } catch (const c10::LinAlgError&) {
    // Not for zeros.
  } catch (const std::exception&) {
    // Of other sizes that are no example's what the kernel refuses is refused.
    if (!recorder) throw;
  }
  try {
    return ask_meta(entry, arguments, at);
  } catch (const std::exception&) {
    // No Meta kernel, or one that refuses: the real kernel has the last word, and the right exception.
    if (entry.random || !recorder) throw;
  }
  return ask_example(*recorder, entry, arguments);
}

}  // namespace braze::capture
