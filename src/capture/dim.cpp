#include "capture/dim.h"

#include "capture/asked_by.h"
#include "capture/numbers_in_calls.h"
#include "capture/tracer_tensor.h"
#include "ir/size_bounds.h"
#include "support/error.h"

namespace braze::capture {

thread_local Symbols* SymbolsScope::current_ = nullptr;

namespace {

Symbols& symbols() {
  Symbols* current = SymbolsScope::current();
  BRAZE_CHECK(current, "a size of a trace is asked about outside of it");
  return *current;
}

}  // namespace

std::string who_asks() {
  const std::string& why = symbols().why;
  Tracer* const tracer = Tracer::current();
  if (!why.empty() || !tracer) return why;
  ir::Graph& graph = tracer->impl().graph();
  update_source(graph);
  return std::string(graph.source());
}

namespace {

/// Both are not negative, or a guard says so.
void expect_natural(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) return;
  ir::ShapeEnv& env = *symbols().env;
  if (!env.decide(ir::at_least(a.size(), 0), who_asks()) || !env.decide(ir::at_least(b.size(), 1), who_asks()))
    throw UserError(concat("braze: ", who_asks(), " divides a negative size"));
  ir::known_positive(env.table(), b.size());
}

}  // namespace

Dim operator/(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) return static_cast<int64_t>(a) / static_cast<int64_t>(b);
  expect_natural(a, b);
  return ir::floor_div(a.size(), b.size());
}

Dim operator%(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) return static_cast<int64_t>(a) % static_cast<int64_t>(b);
  expect_natural(a, b);
  return ir::mod(a.size(), b.size());
}

Dim larger(Dim a, Dim b) {
  return a.is_number() && b.is_number() ? Dim(std::max<int64_t>(a, b)) : Dim(ir::max(a.size(), b.size()));
}

Dim smaller(Dim a, Dim b) {
  return a.is_number() && b.is_number() ? Dim(std::min<int64_t>(a, b)) : Dim(ir::min(a.size(), b.size()));
}

Dim ceil_div(Dim a, Dim b) {
  if (a.is_number() && b.is_number())
    return (static_cast<int64_t>(a) + static_cast<int64_t>(b) - 1) / static_cast<int64_t>(b);
  expect_natural(a, b);
  return ir::ceil_div(a.size(), b.size());
}

Dim whole(Dim dim) {
  if (dim.is_number()) return dim;
  ir::ShapeEnv& env = *symbols().env;
  const ir::Size before = env.simplify(dim.size());
  const ir::SizeExpr* expr = before.expr();
  if (!expr) return before;
  bool any = false;
  for (const ir::SizeTerm& term : expr->terms)
    for (const auto& power : term.product->powers) {
      const ir::SizeAtom& atom = *power.atom;
      const bool divides = atom.kind == ir::SizeAtom::Kind::floor_div || atom.kind == ir::SizeAtom::Kind::mod;
      if (!divides || !atom.operands[1].is_constant()) continue;
      const ir::Size rest = ir::mod(atom.operands[0], atom.operands[1]);
      if (env.example(rest) == 0) any |= env.decide(ir::equal(rest, 0), who_asks());
    }
  return any ? Dim(env.simplify(before)) : dim;
}

int64_t Dim::hint() const {
  return is_number() ? number(*this) : symbols().env->example(size_);
}

bool Dim::is_surely(int64_t value) const {
  return is_number() ? number(*this) == value : symbols().env->prove(ir::equal(size_, value)).value_or(false);
}

bool Dim::decide(const ir::SizeTest& test) {
  return symbols().env->decide(test, who_asks());
}

int64_t Dim::specialised() const {
  Symbols& all = symbols();
  const ir::Size known = all.env->simplify(size_);
  if (known.is_constant()) return known.constant();
  if (WithinRule::refuses_sizes()) throw NumberWanted();
  const std::string why = who_asks();
  const int64_t value = all.env->specialise(size_, why);
  all.specialised.push_back(
      concat(ir::to_text(known), " == ", value, ", asked for by ", why.empty() ? "a function in C" : why));
  ++all.specialisations;
  return value;
}

c10::IntArrayRef DimsRef::numbers() const {
  if (is_numbers()) return {reinterpret_cast<const int64_t*>(data_), count_};
  return symbols().numbers.emplace_back(begin(), end());
}

DimsRef dims_of(const at::Tensor& tensor) {
  if (const TracerTensor* tracer = as_tracer(tensor)) return tracer->view()->type->sizes;
  return tensor.sizes();
}

DimsRef strides_of(const at::Tensor& tensor) {
  if (const TracerTensor* tracer = as_tracer(tensor)) return tracer->view()->type->strides;
  return tensor.strides();
}

}  // namespace braze::capture
