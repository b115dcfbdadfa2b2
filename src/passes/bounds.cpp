#include "passes/bounds.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace braze::passes {

using namespace ir;

namespace {

using Result = std::optional<Bounds>;

/// The analysis follows operands this deep; masks are shallower, and a deep tree would cost time.
constexpr int max_depth = 12;

double largest(DType dtype) {
  return dtype == DType::f64 ? DBL_MAX : FLT_MAX;
}

/// Nothing where rounding to `dtype` could overflow.
Result checked(Bounds b, DType dtype) {
  const bool fits = std::isfinite(b.low) && std::isfinite(b.high) && std::max(-b.low, b.high) <= largest(dtype);
  return fits ? Result(b) : std::nullopt;
}

Result of_dtype(DType dtype) {
  switch (dtype) {
    case DType::b8: return Bounds{0, 1};
    case DType::u8: return Bounds{0, 255};
    case DType::i8: return Bounds{-0x1p7, 0x1p7};
    case DType::i16: return Bounds{-0x1p15, 0x1p15};
    case DType::i32: return Bounds{-0x1p31, 0x1p31};
    case DType::i64: return Bounds{-0x1p63, 0x1p63};
    default: return std::nullopt;
  }
}

Result of(const Value* value, int depth);

Result of_binary(const Node& node, int depth) {
  const Result a = of(Graph::resolve(node.operands[0]), depth), b = of(Graph::resolve(node.operands[1]), depth);
  if (!a || !b) return std::nullopt;
  const DType dtype = node.results[0].type->dtype;
  switch (node.op) {
    case Op::add: return checked({a->low + b->low, a->high + b->high}, dtype);
    case Op::sub: return checked({a->low - b->high, a->high - b->low}, dtype);
    case Op::mul: {
      const auto [low, high] =
          std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
      return checked({low, high}, dtype);
    }
    case Op::maximum: return Bounds{std::max(a->low, b->low), std::max(a->high, b->high)};
    case Op::minimum: return Bounds{std::min(a->low, b->low), std::min(a->high, b->high)};
    default: return std::nullopt;
  }
}

Result of_floating(const Node& node, int depth) {
  if (node.op == Op::scalar) {
    const double number = node.number_attr("value").f;
    return checked({number, number}, node.results[0].type->dtype);
  }
  const auto operand = [&](size_t k) { return of(Graph::resolve(node.operands[k]), depth); };
  if (info(node.op).kind == OpKind::Binary) return of_binary(node, depth);
  if (info(node.op).kind == OpKind::View) return operand(0);
  if (node.op == Op::cast || node.op == Op::neg) {
    const Result inner = operand(0);
    if (!inner) return std::nullopt;
    return node.op == Op::cast ? checked(*inner, node.results[0].type->dtype) : Bounds{-inner->high, -inner->low};
  }
  if (node.op != Op::where) return std::nullopt;
  const Result x = operand(1), y = operand(2);
  if (!x || !y) return std::nullopt;
  return Bounds{std::min(x->low, y->low), std::max(x->high, y->high)};
}

Result of(const Value* value, int depth) {
  const DType dtype = value->type->dtype;
  if (!is_floating(dtype)) return of_dtype(dtype);
  // The largest f16 is far below f32's, whose bounds are checked here.
  if (depth == 0 || dtype == DType::f16) return std::nullopt;
  return of_floating(*value->def, depth - 1);
}

}  // namespace

Result bounds(const Value* value) {
  return of(value, max_depth);
}

}  // namespace braze::passes
