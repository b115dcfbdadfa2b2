#include "capture/index_map.h"

#include <algorithm>
#include <cstdint>

#include "capture/types.h"
#include "support/error.h"

namespace braze::capture {

using ir::Op;

ir::Value* number_of(ir::Graph& graph, Dim number, ir::Device device) {
  if (number.is_number()) return graph.scalar(ir::DType::i64, ir::Number::of_int(number), device);
  return graph.create(Op::size, {}, {{"of", number.size()}}, graph.type(ir::DType::i64, device, {}, {}));
}

void check_holds(ir::DType dtype, Dim number) {
  int64_t low = 0, high = 0;
  switch (dtype) {
    case ir::DType::u8: high = UINT8_MAX; break;
    case ir::DType::i8: low = INT8_MIN, high = INT8_MAX; break;
    case ir::DType::i16: low = INT16_MIN, high = INT16_MAX; break;
    case ir::DType::i32: low = INT32_MIN, high = INT32_MAX; break;
    case ir::DType::f16: low = -65504, high = 65504; break;
    default: return;
  }
  if (number < low || number > high)
    throw UserError(
        concat("braze: a number that ", ir::name(dtype), " does not hold. Eager says what it is there."));
}

ir::Value* number_of(ir::Graph& graph, Dim number, ir::Device device, ir::DType dtype) {
  check_holds(dtype, number);
  ir::Value* value = number_of(graph, number, device);
  return dtype == ir::DType::i64 ? value : graph.create(Op::cast, {value}, {}, graph.type(dtype, device, {}, {}));
}

IndexMap diagonal_map(DimsRef sizes, Dim offset, int64_t dim1, int64_t dim2) {
  const auto rank = static_cast<int64_t>(sizes.size());
  IndexMap view{Sizes(rank, 0), std::vector<Dim>(static_cast<size_t>(rank * (rank - 1)), 0), {}};
  for (int64_t k = 0; k < rank; ++k) {
    if (k == dim1 || k == dim2) continue;
    view.map[static_cast<size_t>(k * (rank - 1)) + view.sizes.size()] = 1;
    view.sizes.push_back(sizes[k]);
  }
  view.origin[dim1] = larger(0, -offset);
  view.origin[dim2] = larger(0, offset);
  for (const int64_t dim : {dim1, dim2}) view.map[static_cast<size_t>(dim * (rank - 1) + rank - 2)] = 1;
  view.sizes.push_back(larger(0, smaller(sizes[dim1] - view.origin[dim1], sizes[dim2] - view.origin[dim2])));
  return view;
}

IndexMap strided_map(DimsRef sizes, DimsRef strides, Dim offset) {
  return {{offset}, std::vector<Dim>(strides.begin(), strides.end()), Sizes(sizes.begin(), sizes.end())};
}

ir::Value* read_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, const ir::Type* type) {
  return graph.create(
      Op::index_map, {viewed},
      {{"origin", DimsRef(map.origin).symbolic()}, {"map", DimsRef(map.map.data(), map.map.size()).symbolic()}},
      type);
}

ir::Value* write_through(ir::Graph& graph, ir::Value* viewed, const IndexMap& map, ir::Value* source) {
  const ir::Type& type = *viewed->type;
  const auto rows = [&](ir::DType dtype, DimsRef sizes) { return rows_in(graph, dtype, type.device, sizes); };
  if (is_empty(map.sizes)) return viewed;
  const Dim elements = numel(map.sizes), all = numel(type.sizes);
  // The row-major place of each element, as a sum over the view's dimensions.
  const Sizes steps = contiguous(to_ref(type.sizes));
  const size_t columns = map.sizes.size();
  Dim first = 0;
  for (size_t d = 0; d < map.origin.size(); ++d) first += map.origin[d] * steps[d];
  ir::Value* places = number_of(graph, first, type.device);
  Sizes sizes(columns, 1);
  for (size_t k = 0; k < columns; ++k) {
    Dim step = 0;
    for (size_t d = 0; d < map.origin.size(); ++d) step += map.map[d * columns + k] * steps[d];
    if (map.sizes[k] == 1) continue;
    Sizes shape(columns, 1);
    shape[k] = sizes[k] = map.sizes[k];
    ir::Value* count = graph.create(Op::iota, {}, {}, rows(ir::DType::i64, {map.sizes[k]}));
    if (columns > 1) count = graph.create(Op::reshape, {count}, {}, rows(ir::DType::i64, shape));
    ir::Value* factor = number_of(graph, step, type.device);
    ir::Value* part = graph.create(Op::mul, {count, factor}, {}, rows(ir::DType::i64, shape));
    places = graph.create(Op::add, {places, part}, {}, rows(ir::DType::i64, sizes));
  }
  const auto flatten = [&](ir::Value* value, Dim count) {
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
