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
//   -> (0,2,3,1)      at the end, after all operands: in which order the call lays out its (first) result. Else as
//                     its type says.
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
#include "loops/sizes.h"

namespace braze::loops {

struct Window;

struct LayoutDemand {
  enum class Strength : uint8_t { any, prefer, require } strength = Strength::any;
  enum class Form : uint8_t { traced, rows, matrix, order } form = Form::traced;
  std::vector<int64_t> order;  ///< order: a permutation of the dimensions.
  bool operator==(const LayoutDemand&) const = default;

  /// Whether an operand of these sizes and strides, with `traced` as its type, is as asked, as far as is known.
  bool holds(const ir::Type& traced, std::span<const Size> sizes, std::span<const Size> strides,
             const SizeRules& rules = {}) const;
  /// Strides that are as asked, with as few changes to the type's own as that takes. Without gaps, except that
  /// `traced` keeps those of its type where no element overlaps another.
  Sizes strides(const ir::Type& traced, const SizeRules& rules = {}) const;
};

/// What a library call says of the memory that it reads and allocates.
struct CallLayouts {
  std::vector<LayoutDemand> operands;  ///< One an operand; missing ones are `any`.
  std::vector<int64_t> result;         ///< Order of the first result's dimensions; empty: as its type says.
};

/// Text as above. Throws UserError with the column.
CallLayouts parse_layouts(std::string_view text);
std::string print(const CallLayouts& layouts);

/// Calls that are lowered with other layouts than their attribute or the table says.
using LayoutOverrides = std::unordered_map<const ir::Node*, std::string_view>;

/// What a library call says: its attribute `layouts`, else the table. One demand an operand.
CallLayouts layouts_of(const ir::Node& call);

/// The elements fill their extent in memory without gaps or overlap, in whatever order of dimensions. Of sizes that
/// are expressions: false where that is not known.
bool is_dense(std::span<const Size> sizes, std::span<const Size> strides, const SizeRules& rules = {});

/// The strides in which every value that is not a view is stored, by Value::id.
class Layouts {
 public:
  /// Those of the values' types where they are dense, else row-major. Inputs, and what library calls allocate,
  /// keep theirs whatever they are, unless the call says otherwise.
  explicit Layouts(const ir::Graph& graph, const LayoutOverrides& overrides = {})
      : Layouts(graph, overrides, graph.prove()) {}
  Layouts(const ir::Graph& graph, const LayoutOverrides& overrides, const SizeRules& rules);
  const Sizes& of(const ir::Value* value) const { return strides_[value->id]; }
  void set(const ir::Value* value, Sizes strides) { strides_[value->id] = std::move(strides); }
  /// layouts_of() a library call, or what overrides it.
  const std::vector<LayoutDemand>& demands(const ir::Node& call) const { return calls_.at(&call).operands; }
  /// Some call says in which order it lays out a result, and that is not its type's or not row-major.
  bool lays_out_results() const { return lays_out_results_; }

 private:
  std::vector<Sizes> strides_;
  std::unordered_map<const ir::Node*, CallLayouts> calls_;
  bool lays_out_results_ = false;
};

/// Chooses for every value that braze's kernels store, or that a call writes into given memory, by weighing what
/// the calls that read it ask. Where a call lays out its result otherwise than eager, kernels that read it carry
/// its order on: through elementwise operators, windows, reductions, padding, gathers and cats.
/// \param pliable  Outputs of the graph that need not lie as their types say.
Layouts assign_layouts(const ir::Graph& graph, const LayoutOverrides& overrides = {},
                       std::span<ir::Value* const> pliable = {});

/// Library calls that write into memory given to them; the others allocate their results.
bool writes_into(ir::Op op);

}  // namespace braze::loops
