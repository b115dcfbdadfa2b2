// loops/window.h: views as strided windows onto realised values.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "loops/layout.h"

namespace braze::loops {

/// What a chain of views shows of `base`: element (i0, i1, ...) is base's element at offset + sum of i_k *
/// strides[k], counted in elements from base's first.
struct Window {
  const ir::Value* base = nullptr;
  Sizes sizes, strides;
  Size offset = 0;
};

/// The window one view further, or nothing where no strides can express it (a reshape that would copy), or where
/// that is not known.
std::optional<Window> apply_view(const ir::Node* view, const Window& operand, const SizeRules& rules);

/// What a slice shows of `window`, or a slice_scatter writes of it: elements `start`, `start` + `step`, ... of
/// `dim`.
Window part_of(Window window, const ir::Node& node, Sizes sizes);

/// The strides of `view`'s operand that give its result these ones, where it shows every element once by permuting
/// or reshaping; nothing where there are none.
std::optional<Sizes> undo_view(const ir::Node* view, const Sizes& strides, const SizeRules& rules);

/// Windows of every value of a graph. A view that no strides can express is its own base: it is computed, as a
/// copy.
class Windows {
 public:
  Windows(const ir::Graph& graph, const Layouts& layouts, const SizeRules& rules);
  Windows(const ir::Graph& graph, const Layouts& layouts) : Windows(graph, layouts, graph.prove()) {}
  explicit Windows(const ir::Graph& graph) : Windows(graph, Layouts(graph)) {}
  const Window& of(const ir::Value* value) const { return windows_[value->id]; }
  /// The value that `value` shows part of: itself unless it is a view.
  const ir::Value* base(const ir::Value* value) const { return windows_[value->id].base; }
  bool is_base(const ir::Value* value) const { return base(value) == value; }
  /// That the address of a base value's first element is a multiple of, in bytes.
  int64_t alignment(const ir::Value* base) const;
  void set_alignment(const ir::Value* base, int64_t bytes) { alignment_[base->id] = bytes; }
  /// In which strides a base value is stored.
  const Sizes& storage(const ir::Value* base) const { return of(base).strides; }
  const SizeRules& rules() const { return rules_; }

 private:
  SizeRules rules_;
  std::vector<Window> windows_;
  std::unordered_map<uint32_t, int64_t> alignment_;  ///< Where it is not as usual.
};

}  // namespace braze::loops
