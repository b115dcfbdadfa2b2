#include "capture/recurrent_layers.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "capture/arguments.h"
#include "capture/known_values.h"
#include "capture/recorder.h"
#include "capture/traceable.h"
#include "capture/tracer_tensor.h"

namespace braze::capture {
namespace {

using Arguments = std::span<const c10::IValue>;
using Tensors = std::vector<at::Tensor>;

/// cudnnRNNMode_t
enum class Mode : uint8_t { relu = 0, tanh = 1, lstm = 2, gru = 3 };

struct Row {
  std::string_view name;
  Mode mode;
};
/// Each as "input", of (input, state, weights, biases, layers, dropout, train, bidirectional, batch_first), and as
/// "data", of a packed sequence: (data, batch_sizes, state, weights, biases, layers, dropout, train,
/// bidirectional).
constexpr Row rows[] = {{"aten::lstm", Mode::lstm},
                        {"aten::gru", Mode::gru},
                        {"aten::rnn_tanh", Mode::tanh},
                        {"aten::rnn_relu", Mode::relu}};

struct Layer {
  Mode mode;
  at::Tensor input, hidden = {}, cell = {};  ///< Without a cell where it is no LSTM.
  Tensors weights;
  bool has_biases, train, is_bidirectional, is_batch_first;
  int64_t layers;
  std::vector<int64_t> batch_sizes = {};  ///< Of a packed sequence.

  int64_t input_size() const { return dims_of(input).back(); }
  int64_t output_size() const { return dims_of(hidden)[2]; }
  int64_t hidden_size() const { return cell.defined() ? int64_t{dims_of(cell)[2]} : output_size(); }
  int64_t projection_size() const { return output_size() == hidden_size() ? 0 : output_size(); }
  int64_t weights_a_layer() const { return (has_biases ? 4 : 2) + (projection_size() != 0); }
};

std::optional<Layer> layer_of(Recorder& recorder, const c10::OperatorName& name, Arguments arguments) {
  const auto row = std::ranges::find(rows, name.name, &Row::name);
  const bool is_packed = name.overload_name == "data";
  if (row == std::end(rows) || (!is_packed && name.overload_name != "input")) return std::nullopt;
  const size_t state = is_packed ? 2 : 1;
  Layer layer{.mode = row->mode,
              .input = arguments[0].toTensor(),
              .weights = arguments[state + 1].toTensorVector(),
              .has_biases = arguments[state + 2].toBool(),
              .train = arguments[state + 5].toBool(),
              .is_bidirectional = arguments[state + 6].toBool(),
              .is_batch_first = !is_packed && arguments[state + 7].toBool(),
              .layers = arguments[state + 3].toInt()};
  const double dropout = arguments[state + 4].toDouble();
  Tensors states =
      row->mode == Mode::lstm ? arguments[state].toTensorVector() : Tensors{arguments[state].toTensor()};
  if (layer.weights.empty() || states.size() != (row->mode == Mode::lstm ? 2 : 1) || (dropout > 0 && layer.train))
    return std::nullopt;
  layer.hidden = std::move(states[0]);
  if (states.size() > 1) layer.cell = std::move(states[1]);
  if (!is_packed) return layer;
  const at::Tensor &given = arguments[1].toTensor(),
                   known = as_tracer(given) ? recorder.known().find(given) : given;
  if (!known.defined() || !known.is_cpu() || known.scalar_type() != at::kLong || known.dim() != 1)
    return std::nullopt;
  const RunForReal real;
  const at::Tensor numbers = known.contiguous();
  layer.batch_sizes.assign(numbers.const_data_ptr<int64_t>(), numbers.const_data_ptr<int64_t>() + numbers.numel());
  return layer;
}

/// What eager hands to cuDNN: tensors of one type on one GPU, no autocast (which casts and lays out weights
/// itself), and a gradient wanted. Sizes may be expressions but for those of the weights; widths become numbers
/// where they are read.
bool is_for_cudnn(const Layer& layer) {
  if (!at::GradMode::is_enabled() || at::autocast::is_autocast_enabled(at::kCUDA) || layer.input.dim() < 2)
    return false;
  Tensors all = layer.weights;
  all.insert(all.end(), {layer.input, layer.hidden});
  if (layer.cell.defined()) all.push_back(layer.cell);
  const bool fits = std::ranges::all_of(all, [&](const at::Tensor& one) {
    return one.defined() && one.is_cuda() && one.device() == layer.input.device() && is_strided(one) &&
           one.scalar_type() == layer.input.scalar_type() && !one.is_conj() && !one.is_neg();
  });
  const auto has_numbers = [](const at::Tensor& one) { return dims_of(one).is_numbers(); };
  const auto is_state = [](const at::Tensor& state) { return !state.defined() || state.dim() == 3; };
  return fits && is_state(layer.hidden) && is_state(layer.cell) &&
         std::ranges::all_of(layer.weights, has_numbers) &&
         std::ranges::any_of(all, [](const at::Tensor& one) { return one.requires_grad(); }) &&
         at::cudnn_is_acceptable(layer.input);
}

/// The tensors that the trace's weights stand for; nothing where one was computed by the trace.
std::optional<Tensors> real_weights(Recorder& recorder, const Layer& layer) {
  Tensors real;
  for (const at::Tensor& weight : layer.weights) {
    const at::Tensor* bound = as_tracer(weight) ? recorder.bound_as(recorder.view_of(weight)) : &weight;
    if (!bound || !bound->is_contiguous()) return std::nullopt;
    real.push_back(*bound);
  }
  return real;
}

/// Where in cuDNN's buffer each weight lies, and how long it is: it lays copies out.
struct WeightLayout {
  std::vector<int64_t> offsets;
  int64_t length;
};
WeightLayout layout_of(const Layer& layer, const Tensors& real) {
  Tensors copies;
  for (const at::Tensor& weight : real) copies.push_back(at::empty_like(weight));
  const at::Tensor buffer = at::_cudnn_rnn_flatten_weight(
      copies, layer.weights_a_layer(), layer.input_size(), static_cast<int64_t>(layer.mode), layer.hidden_size(),
      layer.projection_size(), layer.layers, layer.is_batch_first, layer.is_bidirectional);
  WeightLayout layout{{}, buffer.numel()};
  for (const at::Tensor& copy : copies) layout.offsets.push_back(copy.storage_offset());
  return layout;
}

/// They lie as cuDNN wants them already, from the beginning of one memory on.
bool are_flat(const Tensors& real, const WeightLayout& layout) {
  for (size_t k = 0; k < real.size(); ++k)
    if (!real[k].storage().is_alias_of(real[0].storage()) || real[k].storage_offset() != layout.offsets[k])
      return false;
  return real[0].storage().nbytes() >= static_cast<size_t>(layout.length) * real[0].element_size();
}

/// The buffer, of the weights, zeros between them.
at::Tensor flat_weights(const Layer& layer, const WeightLayout& layout) {
  const at::NoGradGuard no_grad;
  std::vector<size_t> order(layer.weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t k) { return layout.offsets[k]; });
  Tensors parts;
  int64_t end = 0;
  const auto fill_up_to = [&](int64_t offset) {
    if (offset > end) parts.push_back(at::zeros({offset - end}, layer.input.options()));
    end = std::max(end, offset);
  };
  for (const size_t k : order) {
    fill_up_to(layout.offsets[k]);
    parts.push_back(layer.weights[k].detach().reshape({-1}));
    end += layer.weights[k].numel();
  }
  fill_up_to(layout.length);
  return at::cat(parts);
}

/// What eager would find; nothing where it would warn.
std::optional<at::Tensor> buffer_of(Recorder& recorder, const Layer& layer) {
  const std::optional<Tensors> real = real_weights(recorder, layer);
  if (!real) return std::nullopt;
  const WeightLayout layout = [&] {
    const RunForReal outside;
    const at::NoGradGuard no_grad;
    return layout_of(layer, *real);
  }();
  return are_flat(*real, layout) ? std::optional(flat_weights(layer, layout)) : std::nullopt;
}

}  // namespace

bool open_recurrent_layer(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const Arguments arguments(stack->data() + stack->size() - count, count);
  const std::optional<Layer> layer = layer_of(recorder, op.operator_name(), arguments);
  if (!layer || !is_for_cudnn(*layer)) return false;
  auto [output, hidden, cell, reserve, weights] = at::_cudnn_rnn_symint(
      layer->input, layer->weights, layer->weights_a_layer(), buffer_of(recorder, *layer), layer->hidden,
      layer->cell.defined() ? std::optional(layer->cell) : std::nullopt, static_cast<int64_t>(layer->mode),
      layer->hidden_size(), layer->projection_size(), layer->layers, layer->is_batch_first, 0.0, layer->train,
      layer->is_bidirectional, c10::fromIntArrayRefSlow(layer->batch_sizes), std::nullopt);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, std::move(output), std::move(hidden));
  if (layer->mode == Mode::lstm) torch::jit::push(*stack, std::move(cell));
  return true;
}

}  // namespace braze::capture
