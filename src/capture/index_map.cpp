#include "capture/index_map.h"

#include <algorithm>

#include "capture/types.h"

namespace braze::capture {

using ir::Op;

IndexMap diagonal_map(c10::IntArrayRef sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  const auto rank = static_cast<int64_t>(sizes.size());
  IndexMap view{Sizes(rank, 0), std::vector<int64_t>(static_cast<size_t>(rank * (rank - 1)), 0), {}};
  for (int64_t k = 0; k < rank; ++k) {
    if (k == dim1 || k == dim2) continue;
    view.map[static_cast<size_t>(k * (rank - 1)) + view.sizes.size()] = 1;
    view.sizes.push_back(sizes[k]);
  }
  view.origin[dim1] = std::max<int64_t>(0, -offset);
  view.origin[dim2] = std::max<int64_t>(0, offset);
  for (const int64_t dim : {dim1, dim2}) view.map[static_cast<size_t>(dim * (rank - 1) + rank - 2)] = 1;
  view.sizes.push_back(
      std::max<int64_t>(0, std::min(sizes[dim1] - view.origin[dim1], sizes[dim2] - view.origin[dim2])));
  return view;
}

IndexMap strided_map(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  return {{offset}, strides.vec(), Sizes(sizes.begin(), sizes.end())};
}

ir::Value* read_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, const ir::Type* type) {
  return graph.create(Op::index_map, {viewed},
                      {{"origin", to_span(map.origin)}, {"map", std::span<const int64_t>(map.map)}}, type);
}

ir::Value* write_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, ir::Value* source) {
  const ir::Type& type = *viewed->type;
  const auto rows = [&](ir::DType dtype, c10::IntArrayRef sizes) {
    return graph.contiguous_type(dtype, type.device, to_span(sizes));
  };
  const int64_t elements = numel(map.sizes), all = type.numel();
  if (elements == 0) return viewed;
  // The row-major place of each element, as a sum over the view's dimensions.
  const Sizes steps = contiguous(to_ref(type.sizes));
  const size_t columns = map.sizes.size();
  int64_t first = 0;
  for (size_t d = 0; d < map.origin.size(); ++d) first += map.origin[d] * steps[d];
  ir::Value* places = graph.scalar(ir::DType::i64, ir::Number::of_int(first), type.device);
  Sizes sizes(columns, 1);
  for (size_t k = 0; k < columns; ++k) {
    int64_t step = 0;
    for (size_t d = 0; d < map.origin.size(); ++d) step += map.map[d * columns + k] * steps[d];
    if (map.sizes[k] == 1) continue;
    Sizes shape(columns, 1);
    shape[k] = sizes[k] = map.sizes[k];
    ir::Value* count = graph.create(Op::iota, {}, {}, rows(ir::DType::i64, {map.sizes[k]}));
    if (columns > 1) count = graph.create(Op::reshape, {count}, {}, rows(ir::DType::i64, shape));
    ir::Value* factor = graph.scalar(ir::DType::i64, ir::Number::of_int(step), type.device);
    ir::Value* part = graph.create(Op::mul, {count, factor}, {}, rows(ir::DType::i64, shape));
    places = graph.create(Op::add, {places, part}, {}, rows(ir::DType::i64, sizes));
  }
  const auto flatten = [&](ir::Value* value, int64_t count) {
    if (value->type->rank() == 1) return value;
    return graph.create(Op::reshape, {value}, {}, rows(value->type->dtype, {count}));
  };
  ir::Value* changed =
      graph.create(Op::scatter, {flatten(viewed, all), flatten(source, elements), flatten(places, elements)},
                   {{"dim", int64_t{0}}, {"combine", std::string_view("set")}}, rows(type.dtype, {all}));
  return type.rank() == 1 ? changed
                          : graph.create(Op::reshape, {changed}, {}, rows(type.dtype, to_ref(type.sizes)));
}

}  // namespace braze::capture
