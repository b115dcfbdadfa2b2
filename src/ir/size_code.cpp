#include "ir/size_code.h"

#include <algorithm>

#include "ir/size_table.h"
#include "support/error.h"

namespace braze::ir {

uint32_t SizeCode::emit(Instruction instruction) {
  code_.push_back(instruction);
  return static_cast<uint32_t>(code_.size() - 1);
}

uint32_t SizeCode::value(Size size) {
  using Kind = Instruction::Kind;
  if (const auto it = known_.find(size.bits()); it != known_.end()) return it->second;
  uint32_t sum = 0;
  if (const SizeExpr* expr = size.expr()) {
    bool first = true;
    for (const SizeTerm& term : expr->terms) {
      bool started = term.coefficient != 1 || term.product->degree == 0;
      uint32_t product = started ? value(term.coefficient) : 0;
      for (const auto& [atom, exponent] : term.product->powers) {
        uint32_t factor = 0;
        switch (atom->kind) {
          case SizeAtom::Kind::symbol: factor = emit({Kind::symbol, atom->slot, 0, 0}); break;
          case SizeAtom::Kind::floor_div:
          case SizeAtom::Kind::mod: {
            const uint32_t a = value(atom->operands[0]), b = value(atom->operands[1]);
            factor = emit({atom->kind == SizeAtom::Kind::mod ? Kind::mod : Kind::floor_div, 0, a, b});
            break;
          }
          case SizeAtom::Kind::max:
            factor = value(atom->operands[0]);
            for (size_t k = 1; k < atom->operands.size(); ++k) {
              const uint32_t other = value(atom->operands[k]);
              factor = emit({Kind::max, 0, factor, other});
            }
        }
        for (uint32_t k = 0; k < exponent; ++k) {
          product = started ? emit({Kind::multiply, 0, product, factor}) : factor;
          started = true;
        }
      }
      sum = first ? product : emit({Kind::add, 0, sum, product});
      first = false;
    }
  } else {
    sum = emit({Kind::number, size.constant(), 0, 0});
  }
  known_.emplace(size.bits(), sum);
  return sum;
}

size_t SizeCode::add(Size size) {
  results_.push_back(value(size));
  return results_.size() - 1;
}

bool SizeCode::run(std::span<const int64_t> symbols, std::span<int64_t> results) const {
  using Kind = Instruction::Kind;
  constexpr size_t usual = 64;
  int64_t few[usual];
  std::vector<int64_t> many(code_.size() > usual ? code_.size() : 0);
  int64_t* values = many.empty() ? few : many.data();
  for (size_t k = 0; k < code_.size(); ++k) {
    const Instruction& now = code_[k];
    const int64_t a = values[now.a], b = values[now.b];
    switch (now.kind) {
      case Kind::number: values[k] = now.number; break;
      case Kind::symbol: values[k] = symbols[static_cast<size_t>(now.number)]; break;
      case Kind::add:
        if (__builtin_add_overflow(a, b, &values[k])) return false;
        break;
      case Kind::multiply:
        if (__builtin_mul_overflow(a, b, &values[k])) return false;
        break;
      case Kind::floor_div:
      case Kind::mod:
        if (b <= 0) return false;
        values[k] = floor_div(a, b);
        if (now.kind == Kind::mod) values[k] = a - values[k] * b;
        break;
      case Kind::max: values[k] = std::max(a, b);
    }
  }
  for (size_t k = 0; k < results_.size(); ++k) results[k] = values[results_[k]];
  return true;
}

}  // namespace braze::ir
