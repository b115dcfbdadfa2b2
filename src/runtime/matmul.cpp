#include "runtime/matmul.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "runtime/product_form.h"
#include "runtime/small_matmul.h"
#include "support/error.h"
#include "support/switches.h"
#include "target/target.h"

// Behind torch's own f32 products when torch.backends.mkldnn.matmul.fp32_precision says so; computes in f32
// otherwise. In libtorch_cpu since torch 1.13, in none of its headers: where a build has it not, the address is
// null.
namespace at::native {
[[gnu::weak]] void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result, float beta, float alpha);
}

namespace braze::runtime {

namespace {

// Beyond this many rows a library that packs its operands has won on every processor tried.
constexpr int64_t most_rows = 64;
// oneDNN adds up k one after the other. Longer sums are made of parts, so that their rounding error stays within
// twice that of eager's MKL, which sums by blocks.
constexpr int64_t longest_sum = 256;

/// BRAZE_MATMUL=aten, onednn, rows, panels or packed: always that one where it applies; for looking into results
/// and times.
std::optional<MatmulMethod> forced_method() {
  static const std::optional<MatmulMethod> forced = []() -> std::optional<MatmulMethod> {
    const std::string_view asked = switches::text(switches::matmul);
    for (size_t i = 0; i < matmul_method_count; ++i)
      if (name(static_cast<MatmulMethod>(i)) == asked) return static_cast<MatmulMethod>(i);
    return std::nullopt;
  }();
  return forced;
}

void by_onednn(const MatmulOperands& o) {
  if (o.bias) const_cast<at::Tensor&>(o.out).copy_(*o.bias);
  const int64_t k = o.a.size(-1);
  for (int64_t first = 0; first < k; first += longest_sum) {
    const int64_t length = std::min(longest_sum, k - first);
    const float beta = o.bias || first > 0 ? 1.0f : 0.0f;
    at::native::mkldnn_matmul(o.a.narrow(-1, first, length), o.b.narrow(-2, first, length), o.out, beta, 1.0f);
  }
}

}  // namespace

SmallMatmulFunction small_matmul() {
  static const SmallMatmulFunction function =
      Target::host().isa == Isa::avx512 ? small_matmul_avx512 : small_matmul_avx2;
  return function;
}

void matmul_by_aten(const MatmulOperands& o) {
  at::Tensor& out = const_cast<at::Tensor&>(o.out);
  if (out.dim() == 2 && !o.bias) {
    out.is_cpu() ? at::cpu::mm_out(out, o.a, o.b) : at::mm_out(out, o.a, o.b);
  } else if (out.dim() == 2) {
    out.is_cpu() ? at::cpu::addmm_out(out, *o.bias, o.a, o.b, o.beta, o.alpha)
                 : at::addmm_out(out, *o.bias, o.a, o.b, o.beta, o.alpha);
  } else if (!o.bias) {
    out.is_cpu() ? at::cpu::bmm_out(out, o.a, o.b) : at::bmm_out(out, o.a, o.b);
  } else {
    out.is_cpu() ? at::cpu::baddbmm_out(out, *o.bias, o.a, o.b, o.beta, o.alpha)
                 : at::baddbmm_out(out, *o.bias, o.a, o.b, o.beta, o.alpha);
  }
}

const PanelFunctions& panel_matmul() {
  return Target::host().isa == Isa::avx512 ? panel_matmul_avx512 : panel_matmul_avx2;
}

std::unique_ptr<Matmul> Matmul::plan(const loops::CallStep& step, const Geometry& out,
                                     const MatmulOptions& options) {
  const size_t first = step.operands.size() - 2;  // after the bias, if any
  const loops::View &a = step.operands[first], &b = step.operands[first + 1];
  const bool eligible = out.dtype == c10::kFloat && out.device.is_cpu() && out.numel > 0 &&
                        a.dtype == ir::DType::f32 && b.dtype == ir::DType::f32 && is_plain(step.call);
  const std::vector<int64_t> packed = ir::contiguous_strides(out.sizes);
  if (!eligible || a.sizes.back() == 0 || !out.same_layout(out.sizes, packed)) return nullptr;
  auto matmul = std::make_unique<Matmul>();
  MatmulShape& shape = matmul->shape_;
  const size_t dim = a.sizes.size();
  shape.batch = dim == 3 ? a.sizes[0] : 1;
  shape.m = a.sizes[dim - 2];
  shape.n = b.sizes[dim - 1];
  shape.k = a.sizes[dim - 1];
  shape.a_transposed = !has_rows(a);
  shape.b_transposed = !has_rows(b);
  shape.bias = first == 1;
  const bool adds_row = !shape.bias || (dim == 2 && is_row(step.operands[0], shape.n));
  const bool small = shape.m <= most_rows && has_rows(a) && (has_rows(b) || has_columns(b)) && adds_row;
  // Below this size oneDNN needs longer to find its kernel than to run it.
  const bool large = shape.batch * shape.m * shape.n * shape.k > 32 * 32 * 32;
  matmul->methods_.set(static_cast<size_t>(MatmulMethod::aten));
  matmul->methods_.set(static_cast<size_t>(MatmulMethod::onednn), large && at::native::mkldnn_matmul);
  matmul->methods_.set(static_cast<size_t>(MatmulMethod::rows), small);
  const bool by_panels = has_rows(a) && adds_row;
  matmul->methods_.set(static_cast<size_t>(MatmulMethod::panels), by_panels);
  matmul->measures_ = options.measure;
  matmul->use_disk_cache_ = options.use_disk_cache;
  if (dim == 3) matmul->a_batch_ = a.strides[0], matmul->b_batch_ = b.strides[0];
  // A narrow `b` that lies both ways is read along k.
  const bool transposed = !has_rows(b) || (shape.n < 16 && has_columns(b));
  matmul->rows_ = {.m = shape.m,
                   .n = shape.n,
                   .k = shape.k,
                   .a_stride = a.strides[dim - 2],
                   .b_stride = b.strides[transposed ? dim - 1 : dim - 2],
                   .out_stride = shape.n,
                   .b_transposed = transposed};
  matmul->panels_ = {.m = shape.m,
                     .n = shape.n,
                     .k = shape.k,
                     .a_stride = a.strides[dim - 2],
                     .b_rows = b.strides[dim - 2],
                     .b_columns = b.strides[dim - 1],
                     .out_stride = shape.n};
  if (const Geometry* weight = options.weight; weight && by_panels && dim == 2) {
    Hasher format;
    format.add("panels").add(panel_matmul().width).add(b.offset);
    for (const auto* numbers : {&weight->sizes, &weight->strides, &b.sizes, &b.strides}) {
      format.add(numbers->size());
      for (int64_t number : *numbers) format.add(number);
    }
    matmul->packed_ = std::make_unique<PackedWeight>(format.finish());
  }
  matmul->expected_ = shape.expected(matmul->methods_, matmul->packed_ != nullptr);
  return matmul->methods_.count() > 1 ? std::move(matmul) : nullptr;
}

void Matmul::by_rows(const MatmulOperands& o) const {
  constexpr int64_t strip = 64;            // columns a unit of work
  constexpr int64_t least_work = 1 << 20;  // multiplications worth a thread of their own
  SmallMatmul product = rows_;
  product.a = o.a.const_data_ptr<float>();
  product.b = o.b.const_data_ptr<float>();
  product.bias = o.bias ? o.bias->const_data_ptr<float>() : nullptr;
  product.out = o.out.mutable_data_ptr<float>();
  const int64_t strips = (product.n + strip - 1) / strip;
  // Below four rows reading `b` takes the time.
  const int64_t work = std::max<int64_t>(product.m, 4) * std::min(strip, product.n) * product.k;
  const SmallMatmulFunction function = small_matmul();
  at::parallel_for(0, shape_.batch * strips, std::max<int64_t>(1, least_work / work), [&](int64_t at, int64_t end) {
    while (at < end) {
      const int64_t which = at / strips, first = at % strips, last = std::min(strips, first + end - at);
      SmallMatmul part = product;
      part.a += which * a_batch_;
      part.b += which * b_batch_;
      part.out += which * product.m * product.n;
      function(part, first * strip, std::min(product.n, last * strip));
      at += last - first;
    }
  });
}

void Matmul::by_panels(const MatmulOperands& o, const at::Tensor& packed) const {
  constexpr int64_t least_work = 1 << 20;  // multiplications worth a thread of their own
  constexpr int64_t least_rows = 64;       // for which `b` is packed once more
  const PanelFunctions& functions = panel_matmul();
  PanelMatmul product = panels_;
  product.a = o.a.const_data_ptr<float>();
  product.b = o.b.const_data_ptr<float>();
  product.panels = packed.defined() ? packed.const_data_ptr<float>() : nullptr;
  product.bias = o.bias ? o.bias->const_data_ptr<float>() : nullptr;
  product.out = o.out.mutable_data_ptr<float>();
  const int64_t panels = functions.count(product.n);
  // Enough parts that no thread waits long for the last one, out of rows where there are few panels.
  const int64_t wanted = (8 * at::get_num_threads() - 1) / (shape_.batch * panels) + 1;
  const int64_t blocks = std::clamp<int64_t>(product.m / least_rows, 1, wanted);
  const int64_t work = product.m * functions.width * product.k / blocks;
  at::parallel_for(
      0, shape_.batch * panels * blocks, std::max<int64_t>(1, least_work / work), [&](int64_t at, int64_t end) {
        for (; at < end; ++at) {
          const int64_t matrix = at / (panels * blocks), panel = at / blocks % panels, block = at % blocks;
          PanelMatmul part = product;
          part.a += matrix * a_batch_;
          part.b += matrix * b_batch_;
          part.out += matrix * product.m * product.n;
          functions.multiply(part, panel, product.m * block / blocks, product.m * (block + 1) / blocks);
        }
      });
}

at::Tensor Matmul::packed_weight(const MatmulOperands& o) const {
  return packed_->copy(*o.weight, [&] {
    const PanelFunctions& functions = panel_matmul();
    PanelMatmul product = panels_;
    product.b = o.b.const_data_ptr<float>();
    const int64_t panels = functions.count(product.n);
    // ATen's allocator aligns it to a line of the cache.
    const at::Tensor copy =
        Geometry::of(ir::DType::f32, c10::Device(c10::kCPU), {panels * product.k * functions.width}, {1})
            .allocate();
    functions.pack(product, 0, panels, copy.mutable_data_ptr<float>());
    return copy;
  });
}

void Matmul::compute(MatmulMethod method, const MatmulOperands& operands) const {
  switch (method) {
    case MatmulMethod::aten: return matmul_by_aten(operands);
    case MatmulMethod::onednn: return by_onednn(operands);
    case MatmulMethod::rows: return by_rows(operands);
    case MatmulMethod::panels: return by_panels(operands, {});
    case MatmulMethod::packed: return by_panels(operands, packed_weight(operands));
  }
}

Choice& Matmul::choice(bool with_packed) const {
  std::atomic<ThreadedChoice*>& kept = choices_[with_packed];
  const int threads = at::get_num_threads();
  ThreadedChoice* known = kept.load(std::memory_order_acquire);
  if (!known || known->threads != threads) [[unlikely]] {
    MatmulMethods methods = methods_;
    methods.set(static_cast<size_t>(MatmulMethod::packed), with_packed);
    known = &matmul_choice(shape_, methods, threads, use_disk_cache_);
    kept.store(known, std::memory_order_release);
  }
  return known->choice;
}

void Matmul::run(const MatmulOperands& operands) const {
  const at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms() || !context.userEnabledMkldnn()) return matmul_by_aten(operands);
  const bool stays = packed_ && packed_->stays(*operands.weight);
  if (const auto forced = forced_method()) {
    const bool possible = *forced == MatmulMethod::packed ? stays : methods_[static_cast<size_t>(*forced)];
    return compute(possible ? *forced : MatmulMethod::aten, operands);
  }
  if (measures_) return measure(operands, stays);
  // What lies in panels already gives the bits of what is copied into them on the way.
  const bool packs = stays && expected_ == MatmulMethod::panels;
  if (stays && !packs) packed_->release();
  try {
    compute(packs ? MatmulMethod::packed : expected_, operands);
  } catch (const c10::Error&) {  // oneDNN refuses some operands, and the same ones on every call.
    if (expected_ == MatmulMethod::aten) throw;
    matmul_by_aten(operands);
  }
}

void Matmul::measure(const MatmulOperands& operands, bool with_packed) const {
  Choice& choice = this->choice(with_packed);
  const auto method = static_cast<MatmulMethod>(choice.next());
  if (choice.decided()) {
    if (with_packed && method != MatmulMethod::packed) packed_->release();
    return compute(method, operands);
  }
  // Packing happens once, and is no part of the time.
  if (method == MatmulMethod::packed && !packed_weight(operands).defined())
    return compute(MatmulMethod::panels, operands);
  const auto start = std::chrono::steady_clock::now();
  try {
    compute(method, operands);
  } catch (const c10::Error&) {
    if (method == MatmulMethod::aten) throw;
    choice.exclude(static_cast<size_t>(method));
    return matmul_by_aten(operands);
  }
  const auto time = std::chrono::steady_clock::now() - start;
  choice.record(static_cast<size_t>(method), std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace braze::runtime
