#include "ir/infer.h"

#include <algorithm>

#include "ir/shapes.h"
#include "support/error.h"

namespace braze::ir {
namespace {

using Results = std::vector<Inferred>;
using Dims = std::span<const int64_t>;

template <typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) throw InvalidNode{concat(parts...)};
}

/// One node, seen by its rule.
struct Context {
  const Node& node;
  const Stated& stated;
  const SizeRules& rules;

  size_t count() const { return node.operands.size(); }
  const Type& operand(size_t k = 0) const { return *Graph::resolve(node.operands[k])->type; }
  std::span<const Size> sizes(size_t k = 0) const { return operand(k).sizes.symbolic(); }
  std::span<const Size> strides(size_t k = 0) const { return operand(k).strides.symbolic(); }

  DType stated_dtype() const {
    require(stated.dtype.has_value(), info(node.op).name, " needs a stated dtype");
    return *stated.dtype;
  }
  const SymbolicSizes& stated_sizes() const {
    require(stated.sizes.has_value(), info(node.op).name, " needs stated sizes");
    return *stated.sizes;
  }
  int64_t dim(int64_t rank) const {
    const int64_t dim = node.int_attr("dim");
    require(dim >= 0 && dim < rank, "dim must be in 0 ... rank-1");
    return dim;
  }

  void require_sizes(size_t k, std::span<const Size> wanted, std::string_view what) const {
    require(rules.equal(sizes(k), wanted), "the ", what, " must have the shape ", to_text(wanted));
  }
  void require_dtype(size_t k, DType wanted, std::string_view what) const {
    require(operand(k).dtype == wanted, "the ", what, " must be ", name(wanted));
  }
  void require_index(size_t k) const {
    require(operand(k).dtype == DType::i64 || operand(k).dtype == DType::i32, "an index must be i64 or i32");
  }
  /// All operands from `first` on have one dtype.
  void require_one_dtype(size_t first = 0) const {
    for (size_t k = first + 1; k < count(); ++k)
      require(operand(k).dtype == operand(first).dtype, "operand ", k, " has not operand ", first, "'s dtype");
  }
  void require_rank(size_t k, int64_t rank) const {
    require(operand(k).rank() == rank, "operand ", k, " must have ", rank, " dimensions");
  }

  /// That of the first operand that is no number: a number may lie elsewhere.
  Device device() const {
    for (size_t k = 0; k < count(); ++k) {
      const Op op = Graph::resolve(node.operands[k])->def->op;
      if (op != Op::scalar && op != Op::size) return operand(k).device;
    }
    return operand().device;
  }
  /// Laid out as the first operand of these sizes, if that has no gaps as far as its strides tell, or row-major.
  Results computed(DType dtype, SymbolicSizes to) const;
  /// Strides of the operand's view.
  Results viewed(SymbolicSizes to, SymbolicSizes by) const {
    return {{operand().dtype, operand().device, std::move(to), std::move(by)}};
  }
};

SymbolicSizes copy(std::span<const Size> sizes) {
  return {sizes.begin(), sizes.end()};
}

/// Every place between the first and the last element is one element's.
bool is_dense(const SizeSpan& sizes, const SizeSpan& strides) {
  std::vector<size_t> order;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] != 1) order.push_back(k);
  std::ranges::sort(order, {}, [&](size_t k) { return strides[k]; });
  int64_t step = 1;
  for (const size_t k : order) {
    if (strides[k] != step) return false;
    step *= sizes[k];
  }
  return true;
}

Results Context::computed(DType dtype, SymbolicSizes to) const {
  const Device device = this->device();
  for (size_t k = 0; k < count(); ++k) {
    const Type& like = operand(k);
    if (!std::ranges::equal(like.sizes.symbolic(), to)) continue;
    const bool constant = like.sizes.is_constant() && like.strides.is_constant();
    if (!like.is_contiguous() && !(constant && is_dense(like.sizes, like.strides))) break;
    return {{dtype, device, std::move(to), copy(like.strides.symbolic())}};
  }
  SymbolicSizes rows = contiguous_strides(std::span<const Size>(to));
  return {{dtype, device, std::move(to), std::move(rows)}};
}

SymbolicSizes broadcast_all(const Context& c) {
  SymbolicSizes sizes = copy(c.sizes());
  for (size_t k = 1; k < c.count(); ++k) {
    auto joined = broadcast(sizes, c.sizes(k), c.rules);
    require(joined.has_value(), "operand ", k, " does not broadcast with those before it");
    sizes = std::move(*joined);
  }
  return sizes;
}

/// Whether the operand broadcasts to these very sizes.
bool expands(const Context& c, std::span<const Size> from, std::span<const Size> to) {
  const auto joined = broadcast(from, to, c.rules);
  return joined && c.rules.equal(*joined, to);
}

}  // namespace

/// The rules, by their names in ops.def.
namespace types {

Results stated(const Context&) {
  return {};
}

Results scalar(const Context& c) {
  return {{c.stated_dtype(), c.stated.device, {}, {}}};
}
Results size(const Context& c) {
  return {{DType::i64, c.stated.device, {}, {}}};
}
Results iota(const Context& c) {
  require(c.stated_sizes().size() == 1, "iota has one dimension");
  return {{DType::i64, c.stated.device, c.stated_sizes(), {1}}};
}

// ---- elementwise

Results same(const Context& c) {
  return c.computed(c.operand().dtype, copy(c.sizes()));
}
Results test(const Context& c) {
  return c.computed(DType::b8, copy(c.sizes()));
}
Results cast(const Context& c) {
  return c.computed(c.stated_dtype(), copy(c.sizes()));
}
Results elementwise(const Context& c) {
  SymbolicSizes sizes = broadcast_all(c);
  c.require_one_dtype();
  return c.computed(c.operand().dtype, std::move(sizes));
}
Results comparison(const Context& c) {
  SymbolicSizes sizes = broadcast_all(c);
  require(c.operand(0).dtype == c.operand(1).dtype, "operands of two dtypes");
  return c.computed(DType::b8, std::move(sizes));
}
Results choice(const Context& c) {
  SymbolicSizes sizes = broadcast_all(c);
  c.require_dtype(0, DType::b8, "condition");
  c.require_one_dtype(1);
  return c.computed(c.operand(1).dtype, std::move(sizes));
}

// ---- views

Results permute(const Context& c) {
  const Dims dims = c.node.ints_attr("dims");
  const int64_t rank = c.operand().rank();
  require(std::ssize(dims) == rank, "dims must name every dimension");
  Sizes sorted(dims.begin(), dims.end());
  std::ranges::sort(sorted);
  require(ascending_dims(sorted, rank), "dims must be a permutation of 0 ... rank-1");
  SymbolicSizes sizes, strides;
  for (const int64_t dim : dims) {
    sizes.push_back(c.sizes()[dim]);
    strides.push_back(c.strides()[dim]);
  }
  return c.viewed(std::move(sizes), std::move(strides));
}

Results reshape(const Context& c) {
  const SymbolicSizes& sizes = c.stated_sizes();
  Size count = 1;
  for (const Size size : sizes) count = count * size;
  require(c.rules.equal(c.operand().symbolic_numel(), count), "reshape keeps the number of elements");
  return c.viewed(sizes, contiguous_strides(std::span<const Size>(sizes)));
}

Results expand(const Context& c) {
  const SymbolicSizes& sizes = c.stated_sizes();
  const auto from = c.sizes();
  require(expands(c, from, sizes), "the operand does not expand to the result");
  SymbolicSizes strides(sizes.size(), 0);
  for (size_t k = sizes.size() - from.size(), own = 0; own < from.size(); ++k, ++own)
    if (from[own] == sizes[k]) strides[k] = c.strides()[own];
  return c.viewed(sizes, std::move(strides));
}

/// operand[..., start:start+n*step:step, ...] with n from `part`.
void check_slice(const Context& c, std::span<const Size> whole, std::span<const Size> part) {
  const int64_t dim = c.dim(std::ssize(whole));
  const Size start = c.node.size_attr("start"), step = c.node.size_attr("step");
  require(c.rules.at_least(start, 0) && c.rules.at_least(step, 1), "start must be >= 0 and step >= 1");
  require(part.size() == whole.size(), "slicing keeps the rank");
  const Size count = part[dim];
  SymbolicSizes wanted = copy(whole);
  wanted[dim] = count;
  require(c.rules.equal(part, wanted), "the slice must have the shape ", to_text(wanted));
  // In this order: where it is decided for an example, the guard is the one that matters.
  require(c.rules.less(start + (count - 1) * step, whole[dim]) || c.rules.equal(count, 0),
          "the slice leaves the operand");
}

Results slice(const Context& c) {
  const SymbolicSizes& part = c.stated_sizes();
  check_slice(c, c.sizes(), part);
  const int64_t dim = c.node.int_attr("dim");
  SymbolicSizes sizes = copy(c.sizes()), strides = copy(c.strides());
  sizes[dim] = part[dim];
  strides[dim] = strides[dim] * c.node.size_attr("step");
  return c.viewed(std::move(sizes), std::move(strides));
}

Results flip(const Context& c) {
  require(ascending_dims(c.node.ints_attr("dims"), c.operand().rank()),
          "dims must be ascending and in 0 ... rank-1");
  return c.computed(c.operand().dtype, copy(c.sizes()));
}

/// origin + map * i lies in the operand for every i of the result.
Results index_map(const Context& c) {
  const SymbolicSizes& to = c.stated_sizes();
  const auto from = c.sizes();
  const auto origin = c.node.sizes_attr("origin"), map = c.node.sizes_attr("map");
  const size_t columns = to.size();
  require(origin.size() == from.size() && map.size() == origin.size() * columns,
          "origin needs one number a dimension of the operand, map one for each pair of dimensions");
  require(std::ranges::all_of(map, [&](Size factor) { return c.rules.at_least(factor, 0); }),
          "map must not be negative");
  Size count = 1;
  for (const Size size : to) count = count * size;
  SymbolicSizes strides(columns, 0);
  for (size_t d = 0; d < origin.size(); ++d) {
    Size last = origin[d];
    for (size_t k = 0; k < columns; ++k) {
      last = last + map[d * columns + k] * (to[k] - 1);
      strides[k] = strides[k] + map[d * columns + k] * c.strides()[d];
    }
    const bool inside = c.rules.at_least(origin[d], 0) && c.rules.less(last, from[d]);
    require(inside || c.rules.equal(count, 0), "the view leaves the operand");
  }
  return c.viewed(to, std::move(strides));
}

// ---- structure

Results cat(const Context& c) {
  c.require_one_dtype();
  SymbolicSizes wanted = copy(c.sizes());
  const int64_t dim = c.dim(std::ssize(wanted));
  Size along = 0;
  for (size_t k = 0; k < c.count(); ++k) {
    const auto part = c.sizes(k);
    require(part.size() == wanted.size(), "operand ", k, " has another rank");
    wanted[dim] = part[dim];
    c.require_sizes(k, wanted, concat("operand ", k));
    along = along + part[dim];
  }
  wanted[dim] = along;
  return c.computed(c.operand().dtype, std::move(wanted));
}

Results pad(const Context& c) {
  c.require_one_dtype();
  require(c.operand(1).rank() == 0, "the filling must be 0-dim");
  const auto low = c.node.sizes_attr("low"), high = c.node.sizes_attr("high");
  SymbolicSizes sizes = copy(c.sizes());
  require(low.size() == sizes.size() && high.size() == sizes.size(), "low and high need one number a dimension");
  for (size_t k = 0; k < sizes.size(); ++k) {
    sizes[k] = sizes[k] + low[k] + high[k];
    require(c.rules.at_least(sizes[k], 0), "dimension ", k, " is cropped below 0");
  }
  return c.computed(c.operand().dtype, std::move(sizes));
}

Results slice_scatter(const Context& c) {
  c.require_one_dtype();
  check_slice(c, c.sizes(), c.sizes(1));
  return c.computed(c.operand().dtype, copy(c.sizes()));
}

// ---- gathers and updates

Results embedding(const Context& c) {
  c.require_index(1);
  require(c.operand().rank() >= 1, "the table needs a dimension");
  SymbolicSizes sizes = copy(c.sizes(1));
  sizes.insert(sizes.end(), c.sizes().begin() + 1, c.sizes().end());
  return c.computed(c.operand().dtype, std::move(sizes));
}

Results index_select(const Context& c) {
  c.require_index(1);
  require(c.operand(1).rank() == 1, "the index must have one dimension");
  SymbolicSizes sizes = copy(c.sizes());
  sizes[c.dim(c.operand().rank())] = c.sizes(1)[0];
  return c.computed(c.operand().dtype, std::move(sizes));
}

Results gather(const Context& c) {
  c.require_index(1);
  const int64_t rank = c.operand().rank(), dim = c.dim(rank);
  require(c.operand(1).rank() == rank, "the index must have the operand's rank");
  for (int64_t k = 0; k < rank; ++k)
    require(k == dim || c.rules.at_most(c.sizes(1)[k], c.sizes()[k]), "the index is longer than operand 0");
  return c.computed(c.operand().dtype, copy(c.sizes(1)));
}

/// The sizes of operand 0 with those of the indices, operands `first` and on, in the place of `dims`.
SymbolicSizes indexed_sizes(const Context& c, size_t first) {
  const Dims dims = c.node.ints_attr("dims");
  require(!dims.empty() && dims.size() + first == c.count(), "dims must name one dimension an index");
  require(ascending_dims(dims, c.operand().rank()) && dims.back() - dims.front() + 1 == std::ssize(dims),
          "dims must be ascending and adjacent");
  SymbolicSizes joined;
  for (size_t k = first; k < c.count(); ++k) {
    c.require_index(k);
    auto more = broadcast(joined, c.sizes(k), c.rules);
    require(more.has_value(), "the indices do not broadcast");
    joined = std::move(*more);
  }
  SymbolicSizes sizes = copy(c.sizes());
  sizes.erase(sizes.begin() + dims.front(), sizes.begin() + dims.back() + 1);
  sizes.insert(sizes.begin() + dims.front(), joined.begin(), joined.end());
  return sizes;
}

Results index(const Context& c) {
  return c.computed(c.operand().dtype, indexed_sizes(c, 1));
}

Results update(const Context& c) {
  const DType dtype = c.operand().dtype;
  require(c.operand(1).dtype == dtype, "operand 1 has not operand 0's dtype");
  constexpr std::string_view words[] = {"set", "add", "mul", "max", "min"};
  const std::string_view combine = c.node.text_attr("combine");
  require(std::ranges::find(words, combine) != std::end(words), "combine must be set, add, mul, max or min");
  require(combine == "set" || compute_dtype(dtype) == dtype,
          "combining needs a dtype that is computed in: cast f16 and bf16 before and after");
  return c.computed(dtype, copy(c.sizes()));
}

Results index_put(const Context& c) {
  Results results = update(c);
  c.require_sizes(1, indexed_sizes(c, 2), "operand 1");
  return results;
}

Results scatter(const Context& c) {
  Results results = update(c);
  c.require_index(2);
  const int64_t rank = c.operand().rank(), dim = c.dim(rank);
  c.require_sizes(2, c.sizes(1), "index");
  require(c.operand(1).rank() == rank, "operand 1 must have the rank of operand 0");
  for (int64_t k = 0; k < rank; ++k)
    require(k == dim || c.rules.at_most(c.sizes(1)[k], c.sizes()[k]), "operand 1 is longer than operand 0");
  return results;
}

// ---- reductions, scans, composites

Results reduced_to(const Context& c, DType dtype) {
  const Dims dims = c.node.ints_attr("dims");
  require(ascending_dims(dims, c.operand().rank()), "dims must be ascending and in 0 ... rank-1");
  return c.computed(dtype, reduced(c.sizes(), dims, c.node.bool_attr("keepdim")));
}
Results reduction(const Context& c) {
  return reduced_to(c, c.operand().dtype);
}
Results arg_reduction(const Context& c) {
  return reduced_to(c, DType::i64);
}
Results truth_reduction(const Context& c) {
  c.require_dtype(0, DType::b8, "operand");
  return reduced_to(c, DType::b8);
}

Results along_dim(const Context& c) {
  c.dim(c.operand().rank());
  return same(c);
}
Results scan(const Context& c) {
  return along_dim(c);
}
Results arg_scan(const Context& c) {
  c.dim(c.operand().rank());
  return c.computed(DType::i64, copy(c.sizes()));
}

Results layer_norm(const Context& c) {
  const Type& from = c.operand();
  const int64_t rank = c.node.int_attr("rank");
  require(rank >= 1 && rank <= from.rank(), "rank must be in 1 ... the operand's rank");
  const auto inner = c.sizes().last(static_cast<size_t>(rank));
  for (size_t k = 1; k < c.count(); ++k) c.require_sizes(k, inner, concat("operand ", k));
  c.require_one_dtype();
  const DType statistics = c.stated.dtype.value_or(compute_dtype(from.dtype));
  require(statistics == from.dtype || statistics == compute_dtype(from.dtype), "mean and rstd must be ",
          name(from.dtype), " or ", name(compute_dtype(from.dtype)));
  SymbolicSizes outer = copy(c.sizes());
  std::fill(outer.end() - rank, outer.end(), 1);
  Results results = c.computed(from.dtype, copy(c.sizes()));
  for (int k = 0; k < 2; ++k) results.push_back(c.computed(statistics, outer)[0]);
  return results;
}

// ---- library calls

/// [.., M, K] x [.., K, N] of operands `first` and `first + 1`.
SymbolicSizes product_sizes(const Context& c, size_t first) {
  const int64_t rank = c.operand(first).rank();
  const auto a = c.sizes(first), b = c.sizes(first + 1);
  require(c.rules.equal(a[rank - 1], b[rank - 2]), "inner sizes differ");
  require(rank == 2 || c.rules.equal(a[0], b[0]), "batch sizes differ");
  SymbolicSizes sizes = copy(a);
  sizes[rank - 1] = b[rank - 1];
  return sizes;
}

Results product_of(const Context& c, size_t first, int64_t rank) {
  c.require_rank(first, rank);
  c.require_rank(first + 1, rank);
  c.require_one_dtype();
  SymbolicSizes sizes = product_sizes(c, first);
  require(first == 0 || expands(c, c.sizes(), sizes), "operand 0 does not broadcast to the result");
  SymbolicSizes rows = contiguous_strides(std::span<const Size>(sizes));
  return {{c.operand().dtype, c.operand().device, std::move(sizes), std::move(rows)}};
}

Results matrix_product(const Context& c) {
  return product_of(c, 0, 2);
}
Results sum_of_matrix_product(const Context& c) {
  return product_of(c, 1, 2);
}
Results batched_product(const Context& c) {
  return product_of(c, 0, 3);
}
Results sum_of_batched_product(const Context& c) {
  return product_of(c, 1, 3);
}

Results attention(const Context& c) {
  for (size_t k = 0; k < 3; ++k) c.require_rank(k, 4);
  const auto q = c.sizes(0), k = c.sizes(1), v = c.sizes(2);
  const SizeRules& rules = c.rules;
  require(rules.equal(q[0], k[0]) && rules.equal(q[0], v[0]) && rules.equal(k[1], v[1]),
          "batch of q, k and v, or heads of k and v, differ");
  require(
      rules.equal(q[1], k[1]) || (rules.at_least(k[1], 1) ? rules.equal(mod(q[1], k[1]), 0) : rules.equal(q[1], 0)),
      "the heads of q are no multiple of those of k and v");
  require(rules.equal(q[3], k[3]) && rules.equal(k[2], v[2]), "sizes of q, k and v do not fit");
  const DType dtype = c.operand().dtype;
  for (size_t i = 1; i < 3; ++i) require(c.operand(i).dtype == dtype, "operand ", i, " has not operand 0's dtype");
  if (c.count() == 4) {
    const Type& mask = c.operand(3);
    require(mask.dtype == DType::b8 || mask.dtype == dtype, "the mask must be bool or of q's dtype");
    const Size scores[] = {q[0], q[1], q[2], k[2]};
    require(expands(c, mask.sizes.symbolic(), scores), "the mask does not broadcast to [B,H,L,S]");
  }
  return c.computed(dtype, {q[0], q[1], q[2], v[3]});
}

}  // namespace types

namespace {

constexpr std::vector<Inferred> (*const rules_of_rows[])(const Context&) = {
#define OP(name, kind, fewest, most, results, attributes, rule, traits, cost, meaning) types::rule,
#include "ir/ops.def"
#undef OP
};

}  // namespace

std::vector<Inferred> infer(const Node& node, const Stated& stated, const SizeRules& rules) {
  const Context context{node, stated, rules};
  Results results = rules_of_rows[static_cast<size_t>(node.op)](context);
  if (node.operands.empty() || results.empty()) return results;
  const DType dtype = context.operand().dtype;
  require(!has(node.op, traits::floats) || is_floating(dtype), info(node.op).name, " is for floating dtypes");
  require(!has(node.op, traits::integers) || !is_floating(dtype), info(node.op).name, " is for integers and bool");
  return results;
}

}  // namespace braze::ir
