// loops/layout.h: in which strides values are stored, and what library calls ask of the memory of their operands.
//
// A kernel reads and writes any strides; a library call may refuse some, or be slow on them. What it asks stands on
// its node, one demand an operand, or follows from a table by the operator's name:
//
//   %y = call %x, %w, target="aten::convolution" layouts="prefer (0,2,3,1), any" : f32[8,64,56,56]
//
//   any               whatever comes
//   STRENGTH traced   the strides of the operand's type: what eager would hand over
//   STRENGTH rows     the last dimension has stride 1
//   STRENGTH matrix   of the last two dimensions one has stride 1 and the other at least its size
//   STRENGTH (0,2,3,1)  no gaps, dimensions in this order from the outermost in (here: channels_last)
//
// STRENGTH is `prefer` or `require`. What a kernel computes for such a call is stored in the layout that costs the
// fewest bytes of copies; a required layout that an operand has not, is copied to before the call. A preference
// never causes a copy of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace braze::loops {

struct Window;

struct LayoutDemand {
  enum class Strength : uint8_t { any, prefer, require } strength = Strength::any;
  enum class Form : uint8_t { traced, rows, matrix, order } form = Form::traced;
  std::vector<int64_t> order;  ///< order: a permutation of the dimensions.
  bool operator==(const LayoutDemand&) const = default;

  /// Whether an operand of these sizes and strides, with `traced` as its type, is as asked.
  bool holds(const ir::Type& traced, std::span<const int64_t> sizes, std::span<const int64_t> strides) const;
  /// Strides that are as asked, with as few changes to the type's own as that takes. Without gaps, except that
  /// `traced` keeps those of its type where no element overlaps another.
  std::vector<int64_t> strides(const ir::Type& traced) const;
};

/// Text as above, one demand an operand. Throws UserError with the column.
std::vector<LayoutDemand> parse_layouts(std::string_view text);
std::string print(std::span<const LayoutDemand> demands);

/// What a library call asks: its attribute `layouts`, else the table. One a operand; missing ones are `any`.
std::vector<LayoutDemand> demands_of(const ir::Node& call);

/// The elements fill their extent in memory without gaps or overlap, in whatever order of dimensions.
bool is_dense(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// The strides in which every value that is not a view is stored, by Value::id.
class Layouts {
 public:
  /// Those of the values' types where they are dense, else row-major. Inputs, and what library calls allocate,
  /// keep theirs whatever they are.
  explicit Layouts(const ir::Graph& graph);
  const std::vector<int64_t>& of(const ir::Value* value) const { return strides_[value->id]; }
  void set(const ir::Value* value, std::vector<int64_t> strides) { strides_[value->id] = std::move(strides); }
  /// demands_of() a library call, worked out once.
  const std::vector<LayoutDemand>& demands(const ir::Node& call);

 private:
  std::vector<std::vector<int64_t>> strides_;
  std::unordered_map<const ir::Node*, std::vector<LayoutDemand>> demands_;
};

/// Chooses for every value that braze's kernels store, or that a call writes into given memory, by weighing what
/// the calls that read it ask.
Layouts assign_layouts(const ir::Graph& graph);

/// Library calls that write into memory given to them; the others allocate their results.
bool writes_into(ir::Op op);

}  // namespace braze::loops
