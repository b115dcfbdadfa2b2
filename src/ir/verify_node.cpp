#include "ir/verify_node.h"

#include <algorithm>

#include "ir/attributes.h"
#include "ir/library_call.h"
#include "ir/shapes.h"
#include "ir/text.h"
#include "support/error.h"

namespace braze::ir {
namespace {

/// A rule broken: unwinds to complaint().
struct Broken {
  std::string what;
};

template <typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) throw Broken{concat(parts...)};
}

const Type& operand(const Node& node, size_t k) {
  return *Graph::resolve(node.operands[k])->type;
}
const Type& result(const Node& node, size_t k = 0) {
  return *node.results[k].type;
}

Sizes sizes_of(const Type& type) {
  return {type.sizes.begin(), type.sizes.end()};
}

std::string show(std::span<const int64_t> sizes) {
  std::string text = "[";
  for (const int64_t size : sizes) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

void require_sizes(const Type& type, const Sizes& wanted, std::string_view what = "result") {
  require(std::ranges::equal(type.sizes, wanted), "the ", what, " must have the shape ", show(wanted));
}

void require_dtype(const Type& type, DType wanted, std::string_view what = "result") {
  require(type.dtype == wanted, "the ", what, " must be ", name(wanted));
}

void require_same_dtype(const Node& node, size_t first = 0) {
  for (size_t k = first; k < node.operands.size(); ++k)
    require(operand(node, k).dtype == result(node).dtype, "operand ", k, " has not the result's dtype");
}

void require_index(const Type& type) {
  require(type.dtype == DType::i64 || type.dtype == DType::i32, "an index must be i64 or i32");
}

int64_t dim_attr(const Node& node, int64_t rank) {
  const int64_t dim = node.int_attr("dim");
  require(dim >= 0 && dim < rank, "dim must be in 0 ... rank-1");
  return dim;
}

// ---- attributes

/// Calls `visit` with every name in OpInfo::attributes.
template <typename Visit>
void for_each_attribute(std::string_view names, Visit&& visit) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    visit(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

void check_attributes(const Node& node) {
  size_t known = 0;
  for_each_attribute(info(node.op).attributes, [&](std::string_view name) {
    const AttrInfo* row = find_attribute(name);
    require(row, "attribute ", name, " is not in ir/attributes.h");
    const auto count = std::ranges::count(node.attrs, name, &Attr::name);
    require(count <= 1, "attribute ", name, " is there twice");
    require(count == 1 || !row->required, "attribute ", name, " is missing");
    if (count == 0) return;
    ++known;
    require(node.find(name)->value.index() == static_cast<size_t>(row->type), "attribute ", name,
            " has the wrong type");
  });
  require(known == node.attrs.size(), "an attribute that ", info(node.op).name, " does not have");
}

// ---- elementwise

// Ranges of ops.def in which every op wants numbers of one kind.
constexpr bool is_float_only(Op op) {
  static_assert(Op::exp < Op::sigmoid && Op::sqrt < Op::sigmoid && Op::exp < Op::erf && Op::erf < Op::sigmoid);
  static_assert(Op::atan2 < Op::hypot && Op::hypot < Op::nextafter);
  return (op >= Op::exp && op <= Op::sigmoid) || op == Op::div || (op >= Op::atan2 && op <= Op::nextafter);
}
constexpr bool is_bitwise(Op op) {
  static_assert(Op::bitwise_and < Op::bitwise_xor && Op::bitwise_xor < Op::shift_right);
  return (op >= Op::bitwise_and && op <= Op::shift_right) || op == Op::bitwise_not;
}

void check_elementwise(const Node& node) {
  Sizes sizes = sizes_of(operand(node, 0));
  for (size_t k = 1; k < node.operands.size(); ++k) {
    auto joined = broadcast(sizes, operand(node, k).sizes);
    require(joined.has_value(), "operand ", k, " does not broadcast with those before it");
    sizes = std::move(*joined);
  }
  require_sizes(result(node), sizes);

  switch (info(node.op).kind) {
    case OpKind::Cast: return;
    case OpKind::UnaryTest: return require_dtype(result(node), DType::b8);
    case OpKind::Compare:
      require(operand(node, 0).dtype == operand(node, 1).dtype, "operands of two dtypes");
      return require_dtype(result(node), DType::b8);
    case OpKind::Ternary:
      require_dtype(operand(node, 0), DType::b8, "condition");
      return require_same_dtype(node, 1);
    default: require_same_dtype(node);
  }
  const DType dtype = result(node).dtype;
  require(!is_float_only(node.op) || is_floating(dtype), info(node.op).name, " is for floating dtypes");
  require(!is_bitwise(node.op) || !is_floating(dtype), info(node.op).name, " is for integers and bool");
}

// ---- views and structure

/// operand[..., start:start+n*step:step, ...] with n from `part`.
void check_slice(const Node& node, const Type& whole, const Type& part) {
  const int64_t dim = dim_attr(node, whole.rank());
  const int64_t start = node.int_attr("start"), step = node.int_attr("step");
  require(start >= 0 && step >= 1, "start must be >= 0 and step >= 1");
  require(part.rank() == whole.rank(), "slicing keeps the rank");
  Sizes wanted = sizes_of(whole);
  const int64_t count = part.sizes[dim];
  wanted[dim] = count;
  require_sizes(part, wanted, "slice");
  require(count == 0 || start + (count - 1) * step < whole.sizes[dim], "the slice leaves the operand");
}

/// origin + map * i lies in the operand for every i of the result.
void check_index_map(const Node& node, const Type& from, const Type& to) {
  const auto origin = node.ints_attr("origin"), map = node.ints_attr("map");
  const size_t columns = to.sizes.size();
  require(std::ssize(origin) == from.rank() && map.size() == origin.size() * columns,
          "origin needs one number a dimension of the operand, map one for each pair of dimensions");
  require(std::ranges::all_of(map, [](int64_t factor) { return factor >= 0; }), "map must not be negative");
  for (size_t d = 0; d < origin.size(); ++d) {
    int64_t last = origin[d];
    for (size_t k = 0; k < columns; ++k) last += map[d * columns + k] * (to.sizes[k] - 1);
    require(to.numel() == 0 || (origin[d] >= 0 && last < from.sizes[d]), "the view leaves the operand");
  }
}

void check_view(const Node& node) {
  const Type& from = operand(node, 0);
  const Type& to = result(node);
  require_same_dtype(node);
  switch (node.op) {
    case Op::permute: {
      const auto dims = node.ints_attr("dims");
      require(static_cast<int64_t>(dims.size()) == from.rank(), "dims must name every dimension");
      Sizes sorted(dims.begin(), dims.end());
      std::ranges::sort(sorted);
      require(ascending_dims(sorted, from.rank()), "dims must be a permutation of 0 ... rank-1");
      Sizes wanted;
      for (const int64_t dim : dims) wanted.push_back(from.sizes[dim]);
      return require_sizes(to, wanted);
    }
    case Op::reshape: return require(from.numel() == to.numel(), "reshape keeps the number of elements");
    case Op::expand: {
      const auto joined = broadcast(from.sizes, to.sizes);
      return require(joined && std::ranges::equal(*joined, to.sizes), "the operand does not expand to the result");
    }
    case Op::slice: return check_slice(node, from, to);
    case Op::flip:
      require(ascending_dims(node.ints_attr("dims"), from.rank()), "dims must be ascending and in 0 ... rank-1");
      return require_sizes(to, sizes_of(from));
    case Op::index_map: return check_index_map(node, from, to);
    default: BRAZE_CHECK(false, "the verifier lacks a rule for the view ", info(node.op).name);
  }
}

void check_cat(const Node& node) {
  require_same_dtype(node);
  Sizes wanted = sizes_of(operand(node, 0));
  const int64_t dim = dim_attr(node, static_cast<int64_t>(wanted.size()));
  int64_t along = 0;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const Type& part = operand(node, k);
    require(part.rank() == static_cast<int64_t>(wanted.size()), "operand ", k, " has another rank");
    wanted[dim] = part.sizes[dim];
    require_sizes(part, wanted, concat("operand ", k));
    along += part.sizes[dim];
  }
  wanted[dim] = along;
  require_sizes(result(node), wanted);
}

void check_pad(const Node& node) {
  require_same_dtype(node);
  require(operand(node, 1).rank() == 0, "the filling must be 0-dim");
  const auto low = node.ints_attr("low"), high = node.ints_attr("high");
  Sizes wanted = sizes_of(operand(node, 0));
  require(low.size() == wanted.size() && high.size() == wanted.size(), "low and high need one number a dimension");
  for (size_t k = 0; k < wanted.size(); ++k) {
    wanted[k] += low[k] + high[k];
    require(wanted[k] >= 0, "dimension ", k, " is cropped below 0");
  }
  require_sizes(result(node), wanted);
}

void check_slice_scatter(const Node& node) {
  require_same_dtype(node);
  require_sizes(result(node), sizes_of(operand(node, 0)));
  check_slice(node, operand(node, 0), operand(node, 1));
}

// ---- gathers

/// The sizes of operand 0 with those of the indices, operands `first` and on, in the place of `dims`.
Sizes indexed_sizes(const Node& node, size_t first) {
  const Type& from = operand(node, 0);
  const auto dims = node.ints_attr("dims");
  require(!dims.empty() && dims.size() + first == node.operands.size(), "dims must name one dimension an index");
  require(ascending_dims(dims, from.rank()) && dims.back() - dims.front() + 1 == std::ssize(dims),
          "dims must be ascending and adjacent");
  Sizes joined;
  for (size_t k = first; k < node.operands.size(); ++k) {
    require_index(operand(node, k));
    auto more = broadcast(joined, operand(node, k).sizes);
    require(more.has_value(), "the indices do not broadcast");
    joined = std::move(*more);
  }
  Sizes sizes = sizes_of(from);
  sizes.erase(sizes.begin() + dims.front(), sizes.begin() + dims.back() + 1);
  sizes.insert(sizes.begin() + dims.front(), joined.begin(), joined.end());
  return sizes;
}

void check_update(const Node& node) {
  const Type& from = operand(node, 0);
  const Type& changes = operand(node, 1);
  require(from.dtype == result(node).dtype && changes.dtype == from.dtype,
          "operands 0 and 1 need the result's dtype");
  require_sizes(result(node), sizes_of(from));
  constexpr std::string_view words[] = {"set", "add", "mul", "max", "min"};
  const std::string_view combine = node.text_attr("combine");
  require(std::ranges::find(words, combine) != std::end(words), "combine must be set, add, mul, max or min");
  require(combine == "set" || compute_dtype(from.dtype) == from.dtype,
          "combining needs a dtype that is computed in: cast f16 and bf16 before and after");
  if (node.op == Op::index_put) return require_sizes(changes, indexed_sizes(node, 2), "operand 1");
  require_index(operand(node, 2));
  const int64_t dim = dim_attr(node, from.rank());
  require_sizes(operand(node, 2), sizes_of(changes), "index");
  require(changes.rank() == from.rank(), "operand 1 must have the rank of operand 0");
  for (int64_t k = 0; k < from.rank(); ++k)
    require(k == dim || changes.sizes[k] <= from.sizes[k], "operand 1 is longer than operand 0");
}

void check_gather(const Node& node) {
  const Type& from = operand(node, 0);
  const Type& index = operand(node, 1);
  require(from.dtype == result(node).dtype, "operand 0 has not the result's dtype");
  for (size_t k = 1; k < node.operands.size(); ++k) require_index(operand(node, k));
  Sizes wanted = sizes_of(from);
  switch (node.op) {
    case Op::embedding:
      require(from.rank() >= 1, "the table needs a dimension");
      wanted.erase(wanted.begin());
      wanted.insert(wanted.begin(), index.sizes.begin(), index.sizes.end());
      break;
    case Op::index_select:
      require(index.rank() == 1, "the index must have one dimension");
      wanted[dim_attr(node, from.rank())] = index.sizes[0];
      break;
    case Op::gather: {
      const int64_t dim = dim_attr(node, from.rank());
      require(index.rank() == from.rank(), "the index must have the operand's rank");
      for (int64_t k = 0; k < from.rank(); ++k)
        require(k == dim || index.sizes[k] <= from.sizes[k], "the index is longer than operand 0");
      wanted = sizes_of(index);
      break;
    }
    case Op::index: wanted = indexed_sizes(node, 1); break;
    default: BRAZE_CHECK(false, "the verifier lacks a rule for ", info(node.op).name);
  }
  require_sizes(result(node), wanted);
}

// ---- reductions, scans, composites

void check_reduced_sizes(const Node& node) {
  const Type& from = operand(node, 0);
  const auto dims = node.ints_attr("dims");
  require(ascending_dims(dims, from.rank()), "dims must be ascending and in 0 ... rank-1");
  require_sizes(result(node), reduced(from.sizes, dims, node.bool_attr("keepdim")));
}

void check_reduction(const Node& node) {
  check_reduced_sizes(node);
  if (node.op == Op::argmax || node.op == Op::argmin) return require_dtype(result(node), DType::i64);
  if (node.op == Op::any || node.op == Op::all) {
    require_dtype(operand(node, 0), DType::b8, "operand");
    return require_dtype(result(node), DType::b8);
  }
  require_same_dtype(node);
}

void check_layer_norm(const Node& node) {
  const Type& from = operand(node, 0);
  const int64_t rank = node.int_attr("rank");
  require(rank >= 1 && rank <= from.rank(), "rank must be in 1 ... the operand's rank");
  const Sizes inner(from.sizes.end() - rank, from.sizes.end());
  for (size_t k = 1; k < node.operands.size(); ++k) require_sizes(operand(node, k), inner, concat("operand ", k));
  require_same_dtype(node);
  require_sizes(result(node), sizes_of(from));
  Sizes outer = sizes_of(from);
  std::fill(outer.end() - rank, outer.end(), 1);
  for (size_t k = 1; k < 3; ++k) {
    require_sizes(result(node, k), outer, concat("result ", k));
    const DType dtype = result(node, k).dtype;
    require(dtype == from.dtype || dtype == compute_dtype(from.dtype), "mean and rstd must be ", name(from.dtype),
            " or ", name(compute_dtype(from.dtype)));
  }
}

void check_composite(const Node& node) {
  require(is_floating(operand(node, 0).dtype), info(node.op).name, " is for floating dtypes");
  switch (node.op) {
    case Op::mean:
    case Op::var: check_reduced_sizes(node); return require_same_dtype(node);
    case Op::layer_norm: return check_layer_norm(node);
    case Op::softmax:
    case Op::log_softmax: dim_attr(node, operand(node, 0).rank()); [[fallthrough]];
    default: require_same_dtype(node); require_sizes(result(node), sizes_of(operand(node, 0)));
  }
}

// ---- library calls

void require_rank(const Node& node, size_t k, int64_t rank) {
  require(operand(node, k).rank() == rank, "operand ", k, " must have ", rank, " dimensions");
}

/// [.., M, K] x [.., K, N]; operands `first` and `first + 1`; `rank` dimensions each.
void check_matmul(const Node& node, size_t first, int64_t rank) {
  require_rank(node, first, rank);
  require_rank(node, first + 1, rank);
  require_same_dtype(node);
  const auto a = operand(node, first).sizes, b = operand(node, first + 1).sizes;
  require(a[rank - 1] == b[rank - 2], "inner sizes differ");
  require(rank == 2 || a[0] == b[0], "batch sizes differ");
  Sizes wanted = sizes_of(operand(node, first));
  wanted[rank - 1] = b[rank - 1];
  require_sizes(result(node), wanted);
  if (first == 0) return;
  const auto joined = broadcast(operand(node, 0).sizes, wanted);
  require(joined && *joined == wanted, "operand 0 does not broadcast to the result");
}

void check_sdpa(const Node& node) {
  for (size_t k = 0; k < 3; ++k) require_rank(node, k, 4);
  const auto q = operand(node, 0).sizes, k = operand(node, 1).sizes, v = operand(node, 2).sizes;
  require(q[0] == k[0] && q[0] == v[0] && k[1] == v[1], "batch of q, k and v, or heads of k and v, differ");
  require(k[1] > 0 ? q[1] % k[1] == 0 : q[1] == 0, "the heads of q are no multiple of those of k and v");
  require(q[3] == k[3] && k[2] == v[2], "sizes of q, k and v do not fit");
  for (size_t i = 0; i < 3; ++i)
    require(operand(node, i).dtype == result(node).dtype, "operand ", i, " has not the result's dtype");
  require_sizes(result(node), {q[0], q[1], q[2], v[3]});
  if (node.operands.size() < 4) return;
  const Type& mask = operand(node, 3);
  require(mask.dtype == DType::b8 || mask.dtype == result(node).dtype, "the mask must be bool or of q's dtype");
  const Sizes scores = {q[0], q[1], q[2], k[2]};
  const auto joined = broadcast(mask.sizes, scores);
  require(joined && *joined == scores, "the mask does not broadcast to [B,H,L,S]");
}

/// What types the results have, only ATen knows.
void check_call(const Node& node) {
  LibraryCall call;
  try {
    call = library_call(node);
  } catch (const UserError& error) {
    throw Broken{error.what()};
  }
  int64_t operands = 0;
  require(names_operands(call.arguments, operands) && operands == static_cast<int64_t>(node.operands.size()),
          "the arguments must name every operand once, in order");
  for (const uint32_t operand : call.written)
    require(operand < node.operands.size(), "operand ", operand, ", which is written, does not exist");
  require(call.results.size() == node.results.size(), call.results.size(), " results are placed, there are ",
          node.results.size());
  for (const CallResult& result : call.results)
    require(result.returned >= 0 || static_cast<size_t>(result.element) < call.written.size(), "clone ",
            result.element, " of a written operand does not exist");
}

void check_library(const Node& node) {
  switch (node.op) {
    case Op::mm: return check_matmul(node, 0, 2);
    case Op::addmm: return check_matmul(node, 1, 2);
    case Op::bmm: return check_matmul(node, 0, 3);
    case Op::baddbmm: return check_matmul(node, 1, 3);
    case Op::sdpa: return check_sdpa(node);
    default: return check_call(node);
  }
}

void check_source(const Node& node) {
  const Type& type = result(node);
  if (node.op == Op::iota) {
    require(type.rank() == 1, "iota has one dimension");
    return require_dtype(type, DType::i64);
  }
  require_sizes(type, {});
  const Number value = node.number_attr("value");
  require(value.same_bits(round_to(value, type.dtype)), "the number is not one that ", name(type.dtype),
          " can hold");
}

void check(const Node& node) {
  check_attributes(node);
  switch (info(node.op).kind) {
    case OpKind::Source: return check_source(node);
    case OpKind::Unary:
    case OpKind::UnaryTest:
    case OpKind::Cast:
    case OpKind::Binary:
    case OpKind::Compare:
    case OpKind::Ternary: return check_elementwise(node);
    case OpKind::View: return check_view(node);
    case OpKind::Concat: return check_cat(node);
    case OpKind::Pad: return check_pad(node);
    case OpKind::Scatter: return check_slice_scatter(node);
    case OpKind::Gather: return check_gather(node);
    case OpKind::Update: return check_update(node);
    case OpKind::Reduction: return check_reduction(node);
    case OpKind::Scan:
      if (node.op == Op::cumargmax || node.op == Op::cumargmin)
        require_dtype(result(node), DType::i64);
      else
        require_same_dtype(node);
      require(node.op != Op::logcumsumexp || is_floating(result(node).dtype),
              "logcumsumexp is for floating dtypes");
      dim_attr(node, operand(node, 0).rank());
      return require_sizes(result(node), sizes_of(operand(node, 0)));
    case OpKind::Composite: return check_composite(node);
    case OpKind::Library: return check_library(node);
  }
}

}  // namespace

std::optional<std::string> complaint(const Node& node) {
  try {
    check(node);
  } catch (const Broken& broken) {
    return broken.what;
  }
  return std::nullopt;
}

}  // namespace braze::ir
