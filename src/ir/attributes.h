// ir/attributes.h: what each attribute of ops.def holds, one row each. Sizes that are numbers are held as integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braze::ir {

/// In the order of AttrValue.
enum class AttrType : uint8_t { boolean, integer, number, text, integers, size, sizes };

struct AttrInfo {
  std::string_view name;
  AttrType type;
  bool required;  ///< By every op that has it. The others have a meaning when absent.
  std::string_view meaning;
};

// clang-format off
inline constexpr AttrInfo attributes[] = {
  {"value",      AttrType::number,   true,  "the number"},
  {"dim",        AttrType::integer,  true,  "0 ... rank-1"},
  {"dims",       AttrType::integers, true,  "0 ... rank-1 each; ascending but for permute"},
  {"start",      AttrType::size,     true,  ">= 0"},
  {"step",       AttrType::size,     true,  ">= 1"},
  {"origin",     AttrType::sizes,    true,  ">= 0, one a dimension of the operand"},
  {"map",        AttrType::sizes,    true,  "a matrix, row by row"},
  {"of",         AttrType::size,     true,  "what the number is"},
  {"combine",    AttrType::text,     true,  "set, add, mul, max or min"},
  {"low",        AttrType::sizes,    true,  "one a dimension"},
  {"high",       AttrType::sizes,    true,  "one a dimension"},
  {"keepdim",    AttrType::boolean,  false, "reduced dimensions stay with size 1; absent: false"},
  {"correction", AttrType::number,   false, "absent: 1"},
  {"tanh",       AttrType::boolean,  false, "absent: false"},
  {"rank",       AttrType::integer,  true,  "how many last dimensions"},
  {"eps",        AttrType::number,   true,  "added to the variance"},
  {"alpha",      AttrType::number,   false, "absent: 1"},
  {"beta",       AttrType::number,   false, "absent: 1"},
  {"causal",     AttrType::boolean,  false, "absent: false"},
  {"scale",      AttrType::number,   false, "absent: 1/sqrt(E)"},
  {"target",     AttrType::text,     true,  "ATen's name"},
  {"overload",   AttrType::text,     false, "of the target; absent: the one without a name"},
  {"arguments",  AttrType::text,     false, "in schema order (ir/library_call.h); absent: the operands"},
  {"written",    AttrType::integers, false, "operands that the call writes; absent: none"},
  {"results",    AttrType::text,     false, "where each is found after the call (ir/library_call.h); absent: in order"},
  {"effect",     AttrType::boolean,  false, "absent: false"},
  {"layouts",    AttrType::text,     false, "what the call asks of each operand's strides (loops/layout.h); absent: by its name"},
};
// clang-format on

constexpr const AttrInfo* find_attribute(std::string_view name) {
  for (const AttrInfo& row : attributes)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace braze::ir
