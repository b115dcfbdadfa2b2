#include "passes/bounds.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "passes/affine.h"

namespace braze::passes {

using namespace ir;

namespace {

using Result = std::optional<Bounds>;

/// The analysis follows operands this deep; masks are shallower, and a deep tree would cost time.
constexpr int max_depth = 12;

double largest(DType dtype) {
  return dtype == DType::f64 ? DBL_MAX : FLT_MAX;
}

/// Beside `number`, what it is rounded to: kernels round each result, or only the last one.
Bounds rounded(double number, DType dtype) {
  if (dtype == DType::f64) return {number, number};
  // A step of bf16 is 2^-8 of a number; so small numbers are rounded to multiples of f32's smallest.
  const double one = dtype == DType::f32 ? static_cast<double>(static_cast<float>(number)) : number;
  const double step = dtype == DType::f32 ? 0 : std::abs(number) * 0x1p-8;
  return {std::min(number, one) - step, std::max(number, one) + step};
}

/// Nothing where rounding to `dtype` could overflow.
Result checked(Bounds b, DType dtype) {
  const bool fits = std::isfinite(b.low) && std::isfinite(b.high) && std::max(-b.low, b.high) <= largest(dtype);
  return fits ? Result({rounded(b.low, dtype).low, rounded(b.high, dtype).high}) : std::nullopt;
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

/// No tensor has more elements.
constexpr double most_elements = 0x1p48;
/// Integers up to here are doubles, and so are sums of two of them.
constexpr double most_exact = 0x1p52;

/// Nothing where a double may be another number, or the integer another one by overflow.
Result exact(Bounds b, DType dtype) {
  const Result all = of_dtype(dtype);
  const bool fits = b.low >= std::max(all->low, -most_exact) && b.high <= std::min(all->high, most_exact);
  return fits ? Result(b) : std::nullopt;
}

/// Of each kind of number what it must fit into.
Result fitting(Bounds b, DType dtype) {
  return is_floating(dtype) ? checked(b, dtype) : exact(b, dtype);
}

Result of_pair(Op op, const Bounds& a, const Bounds& b, DType dtype) {
  switch (op) {
    case Op::add: return fitting({a.low + b.low, a.high + b.high}, dtype);
    case Op::sub: return fitting({a.low - b.high, a.high - b.low}, dtype);
    case Op::mul: {
      const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
      return fitting({low, high}, dtype);
    }
    case Op::maximum: return Bounds{std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::minimum: return Bounds{std::min(a.low, b.low), std::min(a.high, b.high)};
    default: return std::nullopt;
  }
}

/// Of two integers: 1 where it holds for all pairs, 0 where for none.
Bounds of_comparison(Op op, const Bounds& a, const Bounds& b) {
  const auto told = [](bool always, bool never) { return Bounds{always ? 1. : 0., never ? 0. : 1.}; };
  switch (op) {
    case Op::ge: return told(a.low >= b.high, a.high < b.low);
    case Op::gt: return told(a.low > b.high, a.high <= b.low);
    case Op::le: return told(a.high <= b.low, a.low > b.high);
    case Op::lt: return told(a.high < b.low, a.low >= b.high);
    case Op::eq: return told(a.low == b.high && a.high == b.low, a.high < b.low || a.low > b.high);
    case Op::ne: return told(a.high < b.low || a.low > b.high, a.low == b.high && a.high == b.low);
    default: return {0, 1};
  }
}

/// What follows from where the elements of the operands lie.
Bounds of_places(const Node& comparison) {
  const std::optional<Affine> truth = affine(&comparison.results[0]);
  if (!truth) return {0, 1};
  const auto number = static_cast<double>(truth->constant);
  return {number, number};
}

/// What is known of integers and truth values beyond their type.
Result of_integer(const Node& node, int depth) {
  const Type& type = *node.results[0].type;
  if (node.op == Op::iota) {
    const Size count = type.symbolic_numel();
    return Bounds{0, count.is_constant() ? static_cast<double>(count.constant()) : most_elements};
  }
  if (node.op == Op::scalar) {
    const auto number = static_cast<double>(node.number_attr("value").i);
    return exact({number, number}, type.dtype);
  }
  const OpKind kind = info(node.op).kind;
  const auto operand = [&](size_t k) -> Result {
    const Value* value = Graph::resolve(node.operands[k]);
    return is_floating(value->type->dtype) ? std::nullopt : of(value, depth);
  };
  if (kind == OpKind::View || node.op == Op::cast) {
    const Result x = operand(0);
    return x ? exact(*x, type.dtype) : x;
  }
  if (node.op == Op::logical_not) {
    const Result x = operand(0);
    return x ? Result(of_comparison(Op::eq, *x, {0, 0})) : x;
  }
  if (kind != OpKind::Compare && kind != OpKind::Binary) return std::nullopt;
  const Result a = operand(0), b = operand(1);
  if (kind == OpKind::Compare) {
    const Bounds told = a && b ? of_comparison(node.op, *a, *b) : Bounds{0, 1};
    return told.low == told.high ? told : of_places(node);
  }
  if (!a || !b) return std::nullopt;
  if (type.dtype != DType::b8) return of_pair(node.op, *a, *b, type.dtype);
  if (node.op == Op::bitwise_and) return Bounds{std::min(a->low, b->low), std::min(a->high, b->high)};
  if (node.op == Op::bitwise_or) return Bounds{std::max(a->low, b->low), std::max(a->high, b->high)};
  return std::nullopt;
}

Result of_floating(const Node& node, int depth) {
  if (node.op == Op::scalar) {
    const double number = node.number_attr("value").f;
    return checked({number, number}, node.results[0].type->dtype);
  }
  const auto operand = [&](size_t k) { return of(Graph::resolve(node.operands[k]), depth); };
  if (info(node.op).kind == OpKind::Binary) {
    const Result a = operand(0), b = operand(1);
    return a && b ? of_pair(node.op, *a, *b, node.results[0].type->dtype) : std::nullopt;
  }
  if (info(node.op).kind == OpKind::View) return operand(0);
  if (node.op == Op::cast || node.op == Op::neg) {
    const Result inner = operand(0);
    if (!inner) return std::nullopt;
    return node.op == Op::cast ? checked(*inner, node.results[0].type->dtype) : Bounds{-inner->high, -inner->low};
  }
  if (node.op != Op::where) return std::nullopt;
  // Few levels: it is a third operand that the walk branches into.
  if (const Result condition = of(Graph::resolve(node.operands[0]), std::min(depth, 6));
      condition->low == condition->high)
    return operand(condition->low == 1 ? 1 : 2);
  const Result x = operand(1), y = operand(2);
  if (!x || !y) return std::nullopt;
  return Bounds{std::min(x->low, y->low), std::max(x->high, y->high)};
}

Result of(const Value* value, int depth) {
  const DType dtype = value->type->dtype;
  if (!is_floating(dtype)) {
    if (!of_dtype(dtype)) return std::nullopt;
    const Result known = depth == 0 ? std::nullopt : of_integer(*value->def, depth - 1);
    return known ? known : of_dtype(dtype);
  }
  // The largest f16 is far below f32's, whose bounds are checked here.
  if (depth == 0 || dtype == DType::f16) return std::nullopt;
  return of_floating(*value->def, depth - 1);
}

}  // namespace

Result bounds(const Value* value) {
  return of(value, max_depth);
}

bool is_throughout(const Value* value, double number) {
  const Result known = bounds(value);
  return known && known->low == number && known->high == number;
}

}  // namespace braze::passes
