#include "runtime/sized_program.h"

#include <c10/util/SmallVector.h>

#include <algorithm>

#include "ir/shape_env.h"
#include "support/error.h"

namespace braze::runtime {

using capture::SymbolSource;

namespace {

bool mentions(ir::Size size, uint32_t slot) {
  const ir::SizeExpr* expr = size.expr();
  if (!expr) return false;
  for (const ir::SizeTerm& term : expr->terms)
    for (const auto& power : term.product->powers) {
      const ir::SizeAtom& atom = *power.atom;
      if (atom.kind == ir::SizeAtom::Kind::symbol && atom.slot == slot) return true;
      if (std::ranges::any_of(atom.operands, [&](ir::Size operand) { return mentions(operand, slot); }))
        return true;
    }
  return false;
}

/// Every size that was said to vary does: else the caller learns at once where it has become a number.
void check_all_vary(const capture::Trace& trace) {
  ir::ShapeEnv& env = trace.graph->shape_env();
  for (uint32_t slot = 0; slot < trace.symbols.size(); ++slot) {
    const std::string_view name = env.table().name(slot);
    const ir::Size known = env.simplify(*env.table().find(name));
    if (!known.is_constant()) continue;
    const SymbolSource& source = trace.symbols[slot];
    const auto guard = std::ranges::find_if(env.guards(), [&](const ir::ShapeEnv::Guard& one) {
      return one.test.kind == ir::SizeTest::Kind::equal && mentions(one.test.left, slot);
    });
    std::string asked;
    if (guard != env.guards().end())
      asked =
          concat(": ", ir::to_text(guard->test), guard->why.empty() ? "" : concat(", asked for by ", guard->why));
    throw UserError(concat("dynamic: ", name, " was to vary, which is size ", source.dim, " of `", source.name,
                           "`, and the function needs it to be ", known.constant(), asked,
                           ". Leave it out of what is dynamic, or make the function depend on the size there"),
                    UserError::Kind::value);
  }
}

}  // namespace

SizedProgram::SizedProgram(capture::Trace trace, ProgramOptions options, PhaseTimes times)
    : family_(std::move(trace), std::move(options), std::move(times)),
      env_(*family_.trace().graph->find_shape_env()) {
  check_all_vary(family_.trace());
  const std::vector<ir::Input>& inputs = family_.trace().graph->inputs();
  for (uint32_t k = 0; k < inputs.size(); ++k) {
    argument_of_.push_back(static_cast<uint32_t>(arguments_.size()));
    if (inputs[k].kind != ir::InputKind::argument) continue;
    const auto argument = static_cast<uint32_t>(arguments_.size());
    arguments_.push_back(k);
    const ir::Type& type = *inputs[k].value->type;
    for (const bool is_stride : {false, true}) {
      const auto dims = is_stride ? type.strides.symbolic() : type.sizes.symbolic();
      for (uint32_t dim = 0; dim < dims.size(); ++dim) fits_.push_back({argument, dim, is_stride, dims[dim]});
    }
  }
  for (const Fit& fit : fits_) code_.add(fit.size);
  for (const SymbolSource& symbol : family_.trace().symbols)
    BRAZE_CHECK(symbol.kind != SymbolSource::Kind::number, "a number varies that is no argument of a program");
}

int64_t SizedProgram::read(const at::Tensor* const* arguments, uint32_t argument, uint32_t dim,
                           bool is_stride) const {
  const at::Tensor& tensor = *arguments[argument];
  return is_stride ? tensor.strides()[dim] : tensor.sizes()[dim];
}

std::string SizedProgram::label(uint32_t argument, const std::vector<std::string>& labels) const {
  if (argument < labels.size()) return labels[argument];
  return concat("argument ", argument, " (`", trace().graph->inputs()[arguments_[argument]].name, "`)");
}

std::string SizedProgram::values(std::span<const int64_t> symbols, const std::vector<std::string>& labels) const {
  std::string all;
  for (uint32_t slot = 0; slot < symbols.size(); ++slot) {
    const SymbolSource& source = trace().symbols[slot];
    const bool is_stride = source.kind == SymbolSource::Kind::stride;
    all += concat(slot ? ", " : "", env_.table().name(slot), " is ", is_stride ? "stride " : "size ", source.dim,
                  " of ", label(argument_of_[source.input], labels), ", ", symbols[slot]);
  }
  return all;
}

void SizedProgram::check(const at::Tensor* const* arguments, std::span<const int64_t> symbols,
                         const std::vector<std::string>& labels) const {
  for (uint32_t slot = 0; slot < symbols.size(); ++slot) {
    const ir::SizeRange range = env_.declared(slot).range;
    if (range.has(symbols[slot])) continue;
    const std::string most = range.high == ir::SizeRange::infinity ? "" : concat(" and at most ", range.high);
    throw UserError(
        concat(env_.table().name(slot), " must be at least ", range.low, most, "; ", values(symbols, labels)),
        UserError::Kind::value);
  }
  c10::SmallVector<int64_t, 16> wanted(fits_.size());
  if (!code_.run(symbols, {wanted.data(), wanted.size()}))
    throw UserError(concat("a size has no value where ", values(symbols, labels)), UserError::Kind::value);
  for (size_t k = 0; k < fits_.size(); ++k) {
    const Fit& fit = fits_[k];
    const int64_t found = read(arguments, fit.argument, fit.dim, fit.is_stride);
    if (found == wanted[k]) continue;
    const std::string relation =
        fit.size.is_constant() ? concat(wanted[k]) : concat(ir::to_text(fit.size), " = ", wanted[k]);
    throw UserError(concat(label(fit.argument, labels), ": ", fit.is_stride ? "stride " : "size ", fit.dim, " is ",
                           found, ", and must be ", relation, "; ", values(symbols, labels)),
                    UserError::Kind::value);
  }
  if (const auto guard = env_.broken(symbols)) {
    const ir::ShapeEnv::Guard& one = env_.guards()[*guard];
    throw UserError(concat("the program is for ", ir::to_text(one.test),
                           one.why.empty() ? "" : concat(" (", one.why, ")"), "; ", values(symbols, labels)),
                    UserError::Kind::value);
  }
}

std::shared_ptr<Program> SizedProgram::at(const at::Tensor* const* arguments,
                                          const std::vector<std::string>& labels) const {
  const std::vector<ir::Input>& inputs = trace().graph->inputs();
  for (uint32_t k = 0; k < arguments_.size(); ++k) {
    const size_t rank = inputs[arguments_[k]].value->type->sizes.size();
    const at::Tensor& tensor = *arguments[k];
    if (!tensor.defined() || tensor.layout() != c10::kStrided || static_cast<size_t>(tensor.dim()) != rank)
      throw UserError(concat(label(k, labels), ": a tensor of ", rank, " dimensions is wanted"),
                      UserError::Kind::type);
  }
  c10::SmallVector<int64_t, 8> symbols;
  for (const SymbolSource& source : trace().symbols)
    symbols.push_back(
        read(arguments, argument_of_[source.input], source.dim, source.kind == SymbolSource::Kind::stride));
  check(arguments, {symbols.data(), symbols.size()}, labels);
  std::vector<at::Tensor> tensors;
  for (size_t k = 0; k < arguments_.size(); ++k) tensors.push_back(*arguments[k]);
  return family_.at({symbols.data(), symbols.size()}, tensors);
}

}  // namespace braze::runtime
