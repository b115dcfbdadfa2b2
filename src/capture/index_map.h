// capture/index_map.h: views that ir::Op::index_map describes, read and written.
#pragma once

#include "capture/dim.h"
#include "capture/shapes.h"
#include "ir/graph.h"

namespace braze::capture {

/// Element i of the view is the viewed tensor's at origin + map i (see ir::Op::index_map).
struct IndexMap {
  Sizes origin;          ///< One number a dimension of the viewed tensor.
  std::vector<Dim> map;  ///< One row a dimension of the viewed tensor, one column a dimension of the view.
  Sizes sizes;           ///< Of the view.
};

/// A number that is a size, as an i64 without dimensions.
ir::Value* number_of(ir::Graph& graph, Dim number, ir::Device device);
/// The same as another type.
ir::Value* number_of(ir::Graph& graph, Dim number, ir::Device device, ir::DType dtype);
/// A number that varies is to be had in a narrower type: a guard keeps it within that, since eager raises for what
/// is beyond. UserError if it is beyond now.
void check_holds(ir::DType dtype, Dim number);

/// Elements (k + max(0, -offset), k + max(0, offset)) of dimensions dim1 and dim2, as the last dimension.
IndexMap diagonal_map(DimsRef sizes, Dim offset, int64_t dim1, int64_t dim2);
/// Elements of one-dimensional memory.
IndexMap strided_map(DimsRef sizes, DimsRef strides, Dim offset);

ir::Value* read_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, const ir::Type* type);
/// `viewed` with the elements of `source`, which has the view's sizes, in their places; row-major.
ir::Value* write_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, ir::Value* source);

}  // namespace braze::capture
