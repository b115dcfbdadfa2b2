// capture/index_map.h: views that ir::Op::index_map describes, read and written.
#pragma once

#include "capture/shapes.h"
#include "ir/graph.h"

namespace braze::capture {

/// Element i of the view is the viewed tensor's at origin + map i (see ir::Op::index_map).
struct IndexMap {
  Sizes origin;              ///< One number a dimension of the viewed tensor.
  std::vector<int64_t> map;  ///< One row a dimension of the viewed tensor, one column a dimension of the view.
  Sizes sizes;               ///< Of the view.
};

/// Elements (k + max(0, -offset), k + max(0, offset)) of dimensions dim1 and dim2, as the last dimension.
IndexMap diagonal_map(c10::IntArrayRef sizes, int64_t offset, int64_t dim1, int64_t dim2);
/// Elements of one-dimensional memory.
IndexMap strided_map(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);

ir::Value* read_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, const ir::Type* type);
/// `viewed` with the elements of `source`, which has the view's sizes, in their places; row-major.
ir::Value* write_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, ir::Value* source);

}  // namespace braze::capture
