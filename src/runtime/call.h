// runtime/call.h: one ATen call of a program: where its operands come from, how it is called, where its results go.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "capture/trace.h"
#include "runtime/attention_call.h"
#include "runtime/attention_gradients.h"
#include "runtime/device/cuda/product.h"
#include "runtime/frame.h"
#include "runtime/geometry.h"
#include "runtime/matmul.h"
#include "runtime/sort_call.h"

namespace braze::runtime {

/// How an ATen call sees memory of the plan as a tensor.
struct OperandRef {
  enum class Kind : uint8_t {
    input,  ///< The very tensor of graph input `index`.
    owned,  ///< The tensor that holds plan buffer `index` during this call.
    view,   ///< Prebuilt view `index`, which points into plan buffer `buffer`.
  } kind = Kind::input;
  uint32_t index = 0;
  uint32_t buffer = 0;
  int64_t byte_offset = 0;  ///< view: from the buffer's first element.
  bool in_arena = false;    ///< view: already points there.

  const at::Tensor& resolve(Frame& frame) const;
};

/// Where result number k of a call goes.
struct ResultRef {
  enum class Kind : uint8_t {
    unused,
    keep,  ///< The call's own tensor is kept as plan buffer `buffer`, if its geometry is the planned one.
    into,  ///< Memory that exists already.
  } kind = Kind::unused;
  uint32_t buffer = 0;
  OperandRef target;  ///< into.
  Geometry planned;
};

struct BoundCall;
using CallFunction = void (*)(const BoundCall& call, Frame& frame);

struct BoundCall {
  std::string name;  ///< "aten::addmm"
  CallFunction function = nullptr;
  std::vector<OperandRef> operands;
  std::vector<ResultRef> results;
  std::optional<capture::CallPayload> payload;  ///< What goes through the dispatcher.
  std::vector<Geometry> clones;                 ///< Of each operand that the operator writes.
  bool waits = false;                           ///< For the GPU: a result on the CPU is read off it.
  std::optional<SortCall> sort;                 ///< Of aten::sort or aten::topk.
  std::optional<AttentionCall> attention;       ///< Of attention on a CPU.
  std::optional<AttentionGradientsCall> attention_gradients;
  at::Scalar alpha = 1, beta = 1;       ///< Products with a bias.
  std::unique_ptr<Matmul> matmul;       ///< Products on a CPU; null where only ATen computes it.
  std::unique_ptr<GpuProduct> product;  ///< Products on a GPU, likewise.
  std::optional<uint32_t>
      weight;  ///< The graph input of which a packed copy may be kept (runtime/packed_weights.h).

  /// Picks the cheapest way to run the step. Needs `results`.
  void choose(const loops::CallStep& step, const std::vector<c10::IValue>& objects);
};

/// A copy of `source` in the planned geometry.
at::Tensor copy_to(const at::Tensor& source, const Geometry& planned);

}  // namespace braze::runtime
