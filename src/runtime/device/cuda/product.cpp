#include "runtime/device/cuda/product.h"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>

#include <charconv>
#include <functional>
#include <string_view>

#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/stopwatch.h"
#include "runtime/kept_measurements.h"
#include "runtime/product_form.h"
#include "support/error.h"
#include "support/size_bucket.h"

namespace braze::runtime {

namespace {

using device::cuda::Address;
using device::cuda::LtProduct;
using device::cuda::ProductAlgorithm;
using device::cuda::ProductShape;

/// Another way than ATen's must be worth more than noise.
constexpr double advantage = 0.97;
constexpr size_t most_proposals = 8;
constexpr uint64_t most_workspace = 32 << 20;  // what PyTorch gives the library on these devices

constexpr std::string_view by_aten = "aten";

/// "3f,0,...": its words in hexadecimal, the workspace last.
std::string print(const ProductAlgorithm& algorithm) {
  std::string text;
  const auto append = [&](uint64_t word) {
    char digits[17];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), word, 16).ptr;
    text.append(std::begin(digits), end).push_back(',');
  };
  for (const uint64_t word : algorithm.bytes) append(word);
  append(algorithm.workspace);
  return text;
}

std::optional<ProductAlgorithm> parse(std::string_view text) {
  ProductAlgorithm algorithm;
  const auto take = [&](uint64_t& word) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
    if (error != std::errc() || end == text.data() + text.size() || *end != ',') return false;
    text.remove_prefix(end + 1 - text.data());
    return true;
  };
  for (uint64_t& word : algorithm.bytes)
    if (!take(word)) return std::nullopt;
  if (!take(algorithm.workspace) || !text.empty() || algorithm.workspace > most_workspace) return std::nullopt;
  return algorithm;
}

/// For people.
std::string name_of(const std::optional<ProductAlgorithm>& algorithm) {
  return algorithm ? concat("cuBLASLt ", print(*algorithm)) : std::string(by_aten);
}

bool wants_tf32() {
  return at::globalContext().allowTF32CuBLAS();
}

/// How a matrix of an operand lies; none if not in a way that the library reads.
std::optional<ProductShape::Side> side_of(const loops::View& view) {
  const size_t dim = view.sizes.size();
  ProductShape::Side side;
  side.is_transposed = !has_rows(view);
  if (side.is_transposed && !has_columns(view)) return std::nullopt;
  const size_t along = side.is_transposed ? dim - 2 : dim - 1, across = side.is_transposed ? dim - 1 : dim - 2;
  side.leading = view.strides[across];
  if (view.sizes[across] == 1) side.leading = std::max(side.leading, view.sizes[along]);
  if (side.leading < view.sizes[along]) return std::nullopt;
  if (dim == 3) side.batch_stride = view.strides[0];
  return side;
}

Address address_of(const at::Tensor& tensor) {
  return reinterpret_cast<Address>(tensor.const_data_ptr());
}

}  // namespace

std::unique_ptr<GpuProduct> GpuProduct::plan(const loops::CallStep& step, const Geometry& out,
                                             bool use_disk_cache) {
  const size_t first = step.operands.size() - 2;  // after the bias, if any
  const loops::View &a = step.operands[first], &b = step.operands[first + 1];
  const auto dtype = ir_dtype(out.dtype);
  if (!out.device.is_cuda() || out.numel == 0 || a.sizes.back() == 0 || !is_plain(step.call)) return nullptr;
  if (!ir::is_floating(dtype) || a.dtype != dtype || b.dtype != dtype) return nullptr;
  if (!out.same_layout(out.sizes, ir::contiguous_strides(out.sizes))) return nullptr;
  const auto a_side = side_of(a), b_side = side_of(b);
  const size_t dim = a.sizes.size();
  ProductShape shape;
  shape.batch = dim == 3 ? a.sizes[0] : 1;
  shape.m = a.sizes[dim - 2];
  shape.n = b.sizes[dim - 1];
  shape.k = a.sizes[dim - 1];
  shape.dtype = dtype;
  shape.tf32 = dtype == ir::DType::f32 && wants_tf32();
  shape.adds_row = first == 1;
  if (!a_side || !b_side) return nullptr;
  const loops::View& bias = step.operands[0];
  if (shape.adds_row && (dim == 3 || bias.dtype != dtype || !is_row(bias, shape.n))) return nullptr;
  shape.a = *a_side, shape.b = *b_side;
  shape.out = {.is_transposed = false, .leading = shape.n, .batch_stride = shape.m * shape.n};
  std::string name = concat(step.call.name, " ", shape.batch > 1 ? concat(shape.batch, "x") : "", shape.m, "x",
                            shape.k, "x", shape.n, " ", ir::name(dtype), shape.tf32 ? " in TF32" : "");
  return std::unique_ptr<GpuProduct>(new GpuProduct(shape, out.device, std::move(name), use_disk_cache));
}

GpuProduct::GpuProduct(const ProductShape& shape, c10::Device place, std::string name, bool use_disk_cache)
    : shape_(shape), place_(place), use_disk_cache_(use_disk_cache) {
  facts_.kernel = std::move(name);
}

KernelTuningFacts GpuProduct::facts() const {
  const std::lock_guard lock(deciding_);
  return facts_;
}

Hash128 GpuProduct::key() const {
  Hasher hasher;
  hasher.add("product on a GPU 1").add(device::cuda::name_of(place_.index())).add(device::cuda::cublas_lt_name());
  for (const int64_t size : {shape_.batch, shape_.m, shape_.n, shape_.k}) hasher.add(size_bucket(size));
  hasher.add(shape_.a.is_transposed).add(shape_.b.is_transposed).add(shape_.dtype);
  return hasher.add(shape_.tf32).add(shape_.adds_row).finish();
}

bool GpuProduct::serves(const MatmulOperands& operands) const {
  const auto is_aligned = [](const at::Tensor& tensor) { return address_of(tensor) % LtProduct::alignment == 0; };
  return !at::globalContext().deterministicAlgorithms() &&
         (shape_.dtype != ir::DType::f32 || shape_.tf32 == wants_tf32()) && is_aligned(operands.out) &&
         is_aligned(operands.a) && is_aligned(operands.b) && (!operands.bias || is_aligned(*operands.bias));
}

void GpuProduct::compute(const Algorithm& algorithm, const MatmulOperands& operands, void* stream) const {
  const at::Tensor workspace = algorithm.workspace > 0
                                   ? CudaDevice::allocate(place_, static_cast<int64_t>(algorithm.workspace))
                                   : at::Tensor();
  described_->run(algorithm,
                  {.a = address_of(operands.a),
                   .b = address_of(operands.b),
                   .row = operands.bias ? address_of(*operands.bias) : 0,
                   .out = reinterpret_cast<Address>(operands.out.mutable_data_ptr()),
                   .workspace = workspace.defined() ? address_of(workspace) : 0},
                  static_cast<device::cuda::Stream>(stream));
}

void GpuProduct::run(const MatmulOperands& operands) const {
  if (!serves(operands)) return matmul_by_aten(operands);
  const c10::DeviceGuard guard(place_);
  void* const stream = current_stream(place_);
  const Choice* choice = choice_.load(std::memory_order_acquire);
  if (!choice) [[unlikely]] {
    if (!is_recording(stream)) decide(operands, stream);
    choice = choice_.load(std::memory_order_acquire);
  }
  if (choice && choice->algorithm)
    compute(*choice->algorithm, operands, stream);
  else
    matmul_by_aten(operands);
}

void GpuProduct::decide(const MatmulOperands& operands, void* stream) const {
  const std::unique_lock lock(deciding_, std::try_to_lock);
  if (!lock || choice_.load(std::memory_order_acquire)) return;
  matmul_by_aten(operands);  // PyTorch opens the library.
  described_ = LtProduct::of(shape_);
  if (described_) {
    const Hash128 key = this->key();
    const auto known = find_measurement(key, use_disk_cache_);
    const auto algorithm = known ? parse(*known) : std::nullopt;
    if (known == by_aten || (algorithm && described_->takes(*algorithm))) {
      made_.algorithm = algorithm;
      facts_.was_known = true;
    } else {
      try {
        measure(operands, stream, key, made_);
      } catch (const std::exception& error) {  // No memory for caches to be cleared with, say.
        facts_.failed = error.what();
      }
    }
  }
  facts_.chosen = name_of(made_.algorithm);
  choice_.store(&made_, std::memory_order_release);
}

void GpuProduct::measure(const MatmulOperands& operands, void* stream, const Hash128& key, Choice& choice) const {
  const std::vector<Algorithm> proposals = described_->proposals(most_proposals, most_workspace);
  std::vector<std::function<void()>> ways = {[&] { matmul_by_aten(operands); }};
  for (const Algorithm& algorithm : proposals) ways.emplace_back([&] { compute(algorithm, operands, stream); });
  const std::vector<int64_t> times = time_with_cold_caches(place_, stream, ways);
  for (size_t way = 0; way < times.size(); ++way)
    facts_.measured.emplace_back(name_of(way == 0 ? std::nullopt : std::optional(proposals[way - 1])), times[way]);
  const auto best = static_cast<size_t>(std::ranges::min_element(times) - times.begin());
  const bool wins = static_cast<double>(times[best]) <= advantage * static_cast<double>(times[0]);
  if (wins) choice.algorithm = proposals[best - 1];
  keep_measurement(key, wins ? print(*choice.algorithm) : std::string(by_aten), use_disk_cache_);
}

}  // namespace braze::runtime
