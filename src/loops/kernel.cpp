// loops/kernel.cpp: the small facts about kernels that kernel.h declares.
#include "loops/kernel.h"

#include <algorithm>
#include <array>

#include "support/error.h"

namespace braze::loops {

namespace {

bool is_zero(const Extent& extent) {
  return extent.constant == 0 && extent.is_constant();
}

/// a + b. An extent holds one symbol, so two different ones cannot be added.
Extent sum(const Extent& a, const Extent& b) {
  Extent result(a.constant + b.constant);
  BRAZE_CHECK(a.is_constant() || b.is_constant() || a.symbol == b.symbol,
              "an extent has one symbol, this sum has two: #", a.symbol, " and #", b.symbol);
  result.symbol = a.is_constant() ? b.symbol : a.symbol;
  result.factor = (a.is_constant() ? 0 : a.factor) + (b.is_constant() ? 0 : b.factor);
  if (result.factor == 0) result.symbol = none;
  return result;
}

// contribution, state: one row per Combine, in its order.
constexpr std::array<std::array<int, 2>, 9> arities = {{
    {1, 1},    // sum
    {1, 1},    // prod
    {1, 1},    // max
    {1, 1},    // min
    {1, 1},    // any
    {1, 1},    // all
    {2, 2},    // argmax
    {2, 2},    // argmin
    {-1, -1},  // serial
}};
static_assert(arities.size() == static_cast<size_t>(Combine::serial) + 1);

bool has_checks(const Block& block) {
  for (const Stmt& stmt : block) {
    if (stmt.kind == StmtKind::checked || has_checks(stmt.body)) return true;
    if (stmt.kind == StmtKind::compute && status_of(stmt.op) != 0) return true;
    if (stmt.loop && has_checks(stmt.loop->body)) return true;
  }
  return false;
}

}  // namespace

void Affine::add(Extent factor, ValueId value) {
  if (is_zero(factor)) return;
  const auto same =
      std::find_if(terms.begin(), terms.end(), [value](const Term& term) { return term.value == value; });
  if (same == terms.end()) {
    terms.push_back({factor, value});
    return;
  }
  same->factor = sum(same->factor, factor);
  if (is_zero(same->factor)) terms.erase(same);
}

int contribution_size(Combine combine) {
  return arities[static_cast<size_t>(combine)][0];
}
int state_size(Combine combine) {
  return arities[static_cast<size_t>(combine)][1];
}

uint32_t Kernel::parameter_count() const {
  return static_cast<uint32_t>(
      std::count_if(buffers.begin(), buffers.end(), [](const Buffer& buffer) { return buffer.is_parameter; }));
}

bool has_checks(const Kernel& kernel) {
  return has_checks(kernel.body);
}

}  // namespace braze::loops
