// Matrix products and attention: library calls.
#include "capture/call.h"

namespace braze::capture {
namespace {

struct Matrices {
  Operand a, b;
};

/// Arguments i and i+1 as matrices (rank 2) or batches of them (rank 3) that fit.
std::optional<Matrices> matrices(Call& call, size_t i, size_t rank) {
  auto a = call.operand(i), b = call.operand(i + 1);
  if (!a || !b || a->is_number() || b->is_number() || a->dtype != b->dtype) return std::nullopt;
  if (a->sizes.size() != rank || b->sizes.size() != rank || a->sizes[rank - 1] != b->sizes[rank - 2])
    return std::nullopt;
  if (rank == 3 && a->sizes[0] != b->sizes[0]) return std::nullopt;
  // What ATen has no products of raises whether or not the result is used, which a call is asked for.
  const bool is_refused =
      a->dtype == ScalarType::Bool || (call.tensor(i).is_cuda() && c10::isIntegralType(a->dtype, false));
  if (is_refused) return std::nullopt;
  return Matrices{std::move(*a), std::move(*b)};
}

Sizes product_sizes(const Matrices& m) {
  Sizes sizes = m.a.sizes;
  sizes.back() = m.b.sizes.back();
  return sizes;
}

/// mm and bmm; variant is the rank.
bool product(Call& call, const RuleRow& row) {
  const auto m = matrices(call, 0, row.variant);
  if (!m) return false;
  return call.give(call.node(row.op, {m->a.value, m->b.value}, call.contiguous(m->a.dtype, product_sizes(*m))));
}

/// addmm and baddbmm: (self, a, b, beta, alpha)
bool added_product(Call& call, const RuleRow& row) {
  const auto bias = call.operand(0);
  const auto m = matrices(call, 1, row.variant);
  if (!bias || bias->is_number() || !m || bias->dtype != m->a.dtype) return false;
  const Sizes sizes = product_sizes(*m);
  Sizes shape = sizes;
  if (!broadcast_into(shape, bias->sizes) || shape != sizes) return false;
  const bool floats = c10::isFloatingType(m->a.dtype);
  if (!floats && (call.number(3).isFloatingPoint() || call.number(4).isFloatingPoint())) return false;
  return call.give(call.node(row.op, {bias->value, m->a.value, m->b.value}, call.contiguous(m->a.dtype, sizes),
                             {{"alpha", ir::Number::of(call.real(4))}, {"beta", ir::Number::of(call.real(3))}}));
}

/// _scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout_p, is_causal, *, attn_mask, scale)
///   -> (output [B,H,L,E], logsumexp [B,H,L] f32)
/// The output is laid out as q. Where a gradient is wanted, which reads logsumexp, one call gives both; else it is
/// computed again if it is ever read.
bool attention(Call& call, const RuleRow&) {
  const auto q = call.operand(0), k = call.operand(1), v = call.operand(2);
  if (!q || !k || !v || call.real(3) != 0 || q->sizes.size() != 4 || k->sizes.size() != 4) return false;
  // Several heads of q may share one of k and v (enable_gqa).
  if (k->sizes[0] != q->sizes[0] || k->sizes[1] == 0 || q->sizes[1] % k->sizes[1] != 0) return false;
  if (q->dtype != k->dtype || q->dtype != v->dtype || k->sizes != v->sizes) return false;
  std::vector<ir::Value*> operands{q->value, k->value, v->value};
  if (call.has(5)) {
    const auto mask = call.operand(5);
    if (!mask) return false;
    operands.push_back(mask->value);
  }
  const Dim batch = q->sizes[0], heads = q->sizes[1], length = q->sizes[2];
  const ir::Type* type = call.type(q->dtype, q->sizes, preserved_strides(q->sizes, q->strides));
  const ScalarType statistics = q->dtype == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
  const ir::Type* rows = call.type(statistics, {batch, heads, length}, {length * heads, 1, heads});
  Recorder& recorder = call.recorder;
  CallPayload payload{call.entry.op, {call.arguments.begin(), call.arguments.end()}, {}, {}, {{0, -1}, {1, -1}}};
  uint32_t operand = 0;
  bool wants_gradient = false;
  for (uint32_t i : {0u, 1u, 2u, 5u}) {
    if (!call.has(i)) continue;
    wants_gradient |= at::GradMode::is_enabled() && call.tensor(i).requires_grad();
    payload.stack[i] = at::Tensor();
    payload.slots.push_back({i, -1, operand++});
  }
  const ir::Type* types[] = {type, rows};
  if (wants_gradient) {
    ir::Node* both = recorder.create_call(payload, operands, types, false);
    call.give(both->result(0));
    return call.give(both->result(1));
  }
  c10::SmallVector<ir::Attr, 2> attrs{{"causal", call.flag(4)}};
  if (call.has(6)) attrs.push_back({"scale", ir::Number::of(call.real(6))});
  ir::Node* node = call.graph().create(Op::sdpa, operands, {attrs.data(), attrs.size()}, {&type, 1});
  call.give(node->result());
  const auto again = [&recorder, payload = std::move(payload), operands = std::move(operands), type, rows] {
    const ir::Type* types[] = {type, rows};
    return recorder.create_call(payload, operands, types, false)->result(1);
  };
  return call.give_tensor(recorder.wrap_lazy(rows, statistics, call.device(), again));
}

/// Which attention scaled_dot_product_attention takes: by the shapes of the tracers, as the CPU's own kernel tells.
bool attention_choice(Call& call, const RuleRow&) {
  torch::jit::Stack stack(call.arguments.begin(), call.arguments.end());
  const bool cuda = call.tensor(0).is_cuda();
  call.entry.op.redispatchBoxed(c10::DispatchKeySet(cuda ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU), &stack);
  return call.give_tensor(stack.back());
}

}  // namespace

std::span<const RuleRow> matmul_rules() {
  static constexpr RuleRow rows[] = {
      {"mm", product, Op::mm, 2},
      {"bmm", product, Op::bmm, 3},
      {"addmm", added_product, Op::addmm, 2},
      {"baddbmm", added_product, Op::baddbmm, 3},
      {"_scaled_dot_product_flash_attention_for_cpu", attention},
      {"_fused_sdp_choice", attention_choice},
  };
  return rows;
}

}  // namespace braze::capture
