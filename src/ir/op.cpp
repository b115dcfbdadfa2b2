#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/graph.h"

namespace braze::ir {
namespace {

using namespace traits;

constexpr OpInfo rows[] = {
#define OP(name, kind, fewest, most, results, attributes, types, traits, cost, meaning) \
  {#name, OpKind::kind, fewest, most, results, attributes, traits, cost, meaning},
#include "ir/ops.def"
#undef OP
};

/// FNV-1a, 32 bits (http://www.isthe.com/chongo/tech/comp/fnv/).
constexpr uint32_t hash_of(std::string_view text) {
  uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

constexpr auto keys = [] {
  std::array<uint32_t, std::size(rows)> of_rows{};
  for (size_t i = 0; i < std::size(rows); ++i) of_rows[i] = hash_of(rows[i].name);
  return of_rows;
}();
static_assert(
    [] {
      auto sorted = keys;
      std::ranges::sort(sorted);
      return std::ranges::adjacent_find(sorted) == sorted.end();
    }(),
    "two operators of one key: hash their names otherwise");

}  // namespace

const OpInfo& info(Op op) {
  return rows[static_cast<size_t>(op)];
}

uint32_t key(Op op) {
  return keys[static_cast<size_t>(op)];
}

std::optional<Op> parse_op(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Op> by_name;
    for (size_t i = 0; i < std::size(rows); ++i) by_name.emplace(rows[i].name, static_cast<Op>(i));
    return by_name;
  }();
  const auto found = table.find(name);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

bool is_elementwise(Op op) {
  const OpKind kind = info(op).kind;
  return kind >= OpKind::Unary && kind <= OpKind::Ternary;
}

}  // namespace braze::ir
