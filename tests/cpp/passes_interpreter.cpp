#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "graph_interpreter.h"
#include "ir/instantiate.h"
#include "ir/shape_env.h"
#include "ir/shapes.h"
#include "ir/text.h"
#include "scalar_math.h"
#include "support/error.h"

namespace braze::test {

using namespace ir;

namespace {

using Sizes = std::vector<int64_t>;

/// Rounds to nearest even, to `bits` of significand but no finer than 2**finest (where denormals are).
double round_significand(double value, int bits, int finest) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int quantum = std::max(exponent - bits, finest);
  return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

double round_value(double value, DType dtype) {
  switch (dtype) {
    case DType::f64: return value;
    case DType::f32: return static_cast<float>(value);
    case DType::bf16: {
      const double rounded = round_significand(value, 8, -133);
      return std::fabs(rounded) >= 0x1p128 ? std::copysign(INFINITY, value) : rounded;
    }
    case DType::f16:
      return std::fabs(value) >= 65520 ? std::copysign(INFINITY, value) : round_significand(value, 11, -24);
    case DType::b8: return value != 0;
    default:
      if (std::isnan(value) || std::fabs(value) >= 0x1p63) return 0;
      return static_cast<double>(round_to(Number::of_int(static_cast<int64_t>(std::trunc(value))), dtype).i);
  }
}

/// Row-major index of `position` (of shape `sizes`) in an operand that broadcasts to it.
int64_t broadcast_index(const Sizes& position, std::span<const int64_t> sizes) {
  int64_t index = 0;
  const size_t offset = position.size() - sizes.size();
  for (size_t k = 0; k < sizes.size(); ++k) index = index * sizes[k] + (sizes[k] == 1 ? 0 : position[offset + k]);
  return index;
}

template <typename Body>
void for_each_position(std::span<const int64_t> sizes, Body&& body) {
  const int64_t count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  Sizes position(sizes.size());
  for (int64_t flat = 0; flat < count; ++flat) {
    body(position, flat);
    for (size_t k = sizes.size(); k-- > 0;) {
      if (++position[k] < sizes[k]) break;
      position[k] = 0;
    }
  }
}

/// One element of an elementwise op; `f32` says that floating arithmetic is rounded to float by the caller.
double element(const Node& node, std::span<const double> v) {
  const double x = v[0], y = v.back();
  const bool is_bool = node.results[0].type->dtype == DType::b8;
  const auto i = [](double value) { return static_cast<int64_t>(value); };
  switch (node.op) {
    case Op::divisor:
    case Op::cast: return x;
    case Op::isnan: return std::isnan(x);
    case Op::isinf: return std::isinf(x);
    case Op::signbit: return std::signbit(x);
    case Op::logical_not: return x == 0;
    case Op::bitwise_not: return is_bool ? x == 0 : static_cast<double>(~i(x));
    case Op::floor_div: return std::floor(x / y);
    case Op::trunc_div: return std::trunc(x / y);
    case Op::bitwise_and: return static_cast<double>(i(x) & i(y));
    case Op::bitwise_or: return static_cast<double>(i(x) | i(y));
    case Op::bitwise_xor: return static_cast<double>(i(x) ^ i(y));
    case Op::shift_left: return static_cast<double>(i(x) << i(y));
    case Op::shift_right: return static_cast<double>(i(x) >> i(y));
    case Op::where: return v[0] != 0 ? v[1] : v[2];
    default: break;
  }
  if (is_bool && node.op == Op::add) return x != 0 || y != 0;
  if (const std::optional<bool> result = comparison(node.op, x, y)) return *result;
  const std::optional<double> result = real_math(node.op, x, y);
  BRAZE_CHECK(result, "not interpreted: ", info(node.op).name);
  return *result;
}

/// Of small matrices, without factors.
bool is_product(const Node& node) {
  constexpr int64_t most = 1 << 16;  // Multiplications that take no time worth mentioning.
  if (node.op != Op::mm && node.op != Op::addmm) return false;
  if (node.op == Op::addmm && (node.double_attr("alpha", 1) != 1 || node.double_attr("beta", 1) != 1)) return false;
  const Type& left = *node.operands[node.operands.size() - 2]->type;
  return left.sizes.is_constant() && node.results[0].type->sizes.is_constant() &&
         node.results[0].type->numel() * left.sizes[1] <= most;
}

class Interpreter {
 public:
  std::vector<Elements> run(const Graph& graph, const std::vector<Elements>& inputs) {
    for (size_t k = 0; k < inputs.size(); ++k) values_[graph.inputs()[k].value] = inputs[k];
    for_each_node(graph, [this](Node* node) { compute(*node); });
    std::vector<Elements> results;
    for (const Value* output : graph.outputs()) results.push_back(values_.at(output));
    for (const Mutation& mutation : graph.mutations()) results.push_back(values_.at(mutation.value));
    return results;
  }

 private:
  const Elements& in(const Node& node, size_t k) { return values_.at(node.operands[k]); }
  static std::span<const int64_t> sizes(const Node& node, size_t k) { return node.operands[k]->type->sizes; }

  void set(Node& node, size_t k, Elements elements) {
    for (double& value : elements) value = round_value(value, node.results[k].type->dtype);
    values_[node.result(k)] = std::move(elements);
  }

  void compute(Node& node) {
    if (node.op == Op::scalar) return set(node, 0, {node.number_attr("value").as_double()});
    if (node.op == Op::cat) return cat(node);
    if (node.op == Op::layer_norm) return layer_norm(node);
    if (is_product(node)) return product(node);
    if (is_elementwise(node.op)) return elementwise(node);
    switch (info(node.op).kind) {
      case OpKind::View: return view(node);
      case OpKind::Source: return iota(node);
      case OpKind::Pad: return pad(node);
      case OpKind::Scatter: return scatter(node);
      case OpKind::Update: return update(node);
      case OpKind::Reduction: return reduction(node);
      case OpKind::Scan: return scan(node);
      default: return composite(node);
    }
  }

  void product(Node& node) {
    const size_t first = node.operands.size() - 2;
    const Elements &a = in(node, first), &b = in(node, first + 1);
    const int64_t length = sizes(node, first)[1], columns = sizes(node, first + 1)[1];
    Elements out;
    for_each_position(node.results[0].type->sizes, [&](const Sizes& position, int64_t) {
      double& sum = out.emplace_back(first == 0 ? 0 : in(node, 0)[broadcast_index(position, sizes(node, 0))]);
      for (int64_t k = 0; k < length; ++k) sum += a[position[0] * length + k] * b[k * columns + position[1]];
    });
    set(node, 0, out);
  }

  void iota(Node& node) {
    Elements out(node.results[0].type->numel());
    std::iota(out.begin(), out.end(), 0.0);
    set(node, 0, out);
  }

  void elementwise(Node& node) {
    Elements out;
    std::vector<double> numbers(node.operands.size());
    for_each_position(node.results[0].type->sizes, [&](const Sizes& position, int64_t) {
      for (size_t k = 0; k < numbers.size(); ++k)
        numbers[k] = in(node, k)[broadcast_index(position, sizes(node, k))];
      out.push_back(element(node, numbers));
    });
    set(node, 0, out);
  }

  void view(Node& node) {
    const Elements& from = in(node, 0);
    const auto from_sizes = sizes(node, 0);
    if (node.op == Op::reshape) return set(node, 0, from);
    if (node.op == Op::index_map) return index_map(node);
    Elements out;
    for_each_position(node.results[0].type->sizes, [&](const Sizes& position, int64_t) {
      Sizes at = position;
      if (node.op == Op::permute)
        for (size_t k = 0; k < at.size(); ++k) at[node.ints_attr("dims")[k]] = position[k];
      if (node.op == Op::slice)
        at[node.int_attr("dim")] = node.int_attr("start") + position[node.int_attr("dim")] * node.int_attr("step");
      if (node.op == Op::flip)
        for (const int64_t dim : node.ints_attr("dims")) at[dim] = from_sizes[dim] - 1 - position[dim];
      out.push_back(from[broadcast_index(at, from_sizes)]);
    });
    set(node, 0, out);
  }

  void index_map(Node& node) {
    Elements out;
    const auto origin = node.ints_attr("origin"), map = node.ints_attr("map");
    for_each_position(node.results[0].type->sizes, [&](const Sizes& position, int64_t) {
      Sizes at(origin.begin(), origin.end());
      for (size_t d = 0; d < at.size(); ++d)
        for (size_t k = 0; k < position.size(); ++k) at[d] += map[d * position.size() + k] * position[k];
      out.push_back(in(node, 0)[broadcast_index(at, sizes(node, 0))]);
    });
    set(node, 0, out);
  }

  /// scatter and index_put.
  void update(Node& node) {
    Elements out = in(node, 0);
    const std::string_view combine = node.text_attr("combine");
    const bool full = node.op == Op::scatter;
    const auto first = static_cast<size_t>(full ? node.int_attr("dim") : node.ints_attr("dims")[0]);
    const size_t indexed = full ? 1 : node.ints_attr("dims").size();
    const size_t index_rank = sizes(node, 1).size() + indexed - sizes(node, 0).size();
    for_each_position(sizes(node, 1), [&](const Sizes& position, int64_t flat) {
      const Sizes part(position.begin() + static_cast<int64_t>(first),
                       position.begin() + static_cast<int64_t>(first + index_rank));
      Sizes at(position.begin(), position.begin() + static_cast<int64_t>(first));
      for (size_t k = 2; k < node.operands.size(); ++k) {
        const auto index =
            static_cast<int64_t>(in(node, k)[broadcast_index(full ? position : part, sizes(node, k))]);
        at.push_back(index < 0 ? index + sizes(node, 0)[at.size()] : index);
      }
      at.insert(at.end(), position.begin() + static_cast<int64_t>(first + index_rank), position.end());
      double& element = out[broadcast_index(at, sizes(node, 0))];
      const double value = in(node, 1)[flat];
      if (combine == "set") element = value;
      if (combine == "add") element = round_value(element + value, node.results[0].type->dtype);
      if (combine == "mul") element = round_value(element * value, node.results[0].type->dtype);
      if (combine == "max") element = extreme({element, value}, 1);
      if (combine == "min") element = extreme({element, value}, -1);
    });
    set(node, 0, out);
  }

  void cat(Node& node) {
    Elements out;
    const int64_t dim = node.int_attr("dim");
    for_each_position(node.results[0].type->sizes, [&](const Sizes& position, int64_t) {
      Sizes at = position;
      size_t part = 0;
      for (; at[dim] >= sizes(node, part)[dim]; ++part) at[dim] -= sizes(node, part)[dim];
      out.push_back(in(node, part)[broadcast_index(at, sizes(node, part))]);
    });
    set(node, 0, out);
  }

  void pad(Node& node) {
    Elements out;
    const auto low = node.ints_attr("low");
    for_each_position(node.results[0].type->sizes, [&](const Sizes& position, int64_t) {
      Sizes at = position;
      bool inside = true;
      for (size_t k = 0; k < at.size(); ++k) {
        at[k] -= low[k];
        inside = inside && at[k] >= 0 && at[k] < sizes(node, 0)[k];
      }
      out.push_back(inside ? in(node, 0)[broadcast_index(at, sizes(node, 0))] : in(node, 1)[0]);
    });
    set(node, 0, out);
  }

  void scatter(Node& node) {
    Elements out = in(node, 0);
    const int64_t dim = node.int_attr("dim");
    for_each_position(sizes(node, 1), [&](const Sizes& position, int64_t flat) {
      Sizes at = position;
      at[dim] = node.int_attr("start") + position[dim] * node.int_attr("step");
      out[broadcast_index(at, sizes(node, 0))] = in(node, 1)[flat];
    });
    set(node, 0, out);
  }

  /// Calls `reduce` with the elements that go into each result.
  template <typename Reduce>
  Elements over(const Elements& from, std::span<const int64_t> from_sizes, std::span<const int64_t> dims,
                Reduce reduce) {
    const Sizes kept = ir::reduced(from_sizes, dims, true);
    std::vector<Elements> groups(std::accumulate(kept.begin(), kept.end(), int64_t{1}, std::multiplies<>()));
    for_each_position(from_sizes, [&](const Sizes& position, int64_t flat) {
      groups[broadcast_index(position, kept)].push_back(from[flat]);
    });
    Elements out;
    for (const Elements& group : groups) out.push_back(reduce(group));
    return out;
  }

  static double mean(const Elements& group) {
    return std::accumulate(group.begin(), group.end(), 0.0) / static_cast<double>(group.size());
  }
  static double squares(const Elements& group) {
    const double middle = mean(group);
    return std::accumulate(group.begin(), group.end(), 0.0,
                           [&](double sum, double x) { return sum + (x - middle) * (x - middle); });
  }
  static double extreme(const Elements& group, double direction) {
    double best = -direction * INFINITY;
    for (const double x : group)
      if (std::isnan(x) || direction * x > direction * best) best = x;
    return std::ranges::any_of(group, [](double x) { return std::isnan(x); }) ? NAN : best;
  }

  void reduction(Node& node) {
    const auto reduce = [&](const Elements& group) -> double {
      switch (node.op) {
        case Op::sum: return std::accumulate(group.begin(), group.end(), 0.0);
        case Op::prod: return std::accumulate(group.begin(), group.end(), 1.0, std::multiplies<>());
        case Op::amax: return extreme(group, 1);
        case Op::amin: return extreme(group, -1);
        case Op::any: return std::ranges::any_of(group, [](double x) { return x != 0; });
        case Op::all: return std::ranges::all_of(group, [](double x) { return x != 0; });
        default: BRAZE_CHECK(false, "not interpreted: ", info(node.op).name);
      }
    };
    set(node, 0, over(in(node, 0), sizes(node, 0), node.ints_attr("dims"), reduce));
  }

  void scan(Node& node) {
    struct State {
      double value;
      int64_t index;
    };
    const int64_t dim = node.int_attr("dim");
    const Sizes kept = ir::reduced(sizes(node, 0), std::span(&dim, 1), true);
    std::vector<State> states(std::accumulate(kept.begin(), kept.end(), int64_t{1}, std::multiplies<>()));
    Elements out;
    for_each_position(sizes(node, 0), [&](const Sizes& position, int64_t flat) {
      State& state = states[broadcast_index(position, kept)];
      const double x = in(node, 0)[flat];
      const int64_t index = position[dim];
      const bool first = index == 0;
      const auto take_if = [&](bool better) {
        if (first || std::isnan(x) || better) state = {x, index};
      };
      switch (node.op) {
        case Op::cumsum: state.value = first ? x : state.value + x; break;
        case Op::cumprod: state.value = first ? x : state.value * x; break;
        case Op::logcumsumexp: state.value = first ? x : std::log(std::exp(state.value) + std::exp(x)); break;
        case Op::cummax:
        case Op::cumargmax: take_if(x >= state.value); break;
        case Op::cummin:
        case Op::cumargmin: take_if(x <= state.value); break;
        default: BRAZE_CHECK(false, "not interpreted: ", info(node.op).name);
      }
      const bool indexed = node.op == Op::cumargmax || node.op == Op::cumargmin;
      out.push_back(indexed ? static_cast<double>(state.index) : state.value);
    });
    set(node, 0, out);
  }

  /// Joins every element with its group's result.
  template <typename Join>
  Elements along(const Node& node, const Elements& from, const Elements& group, std::span<const int64_t> dims,
                 Join join) {
    const Sizes kept = ir::reduced(sizes(node, 0), dims, true);
    Elements out;
    for_each_position(sizes(node, 0), [&](const Sizes& position, int64_t flat) {
      out.push_back(join(from[flat], group[broadcast_index(position, kept)]));
    });
    return out;
  }

  void composite(Node& node) {
    const Elements& x = in(node, 0);
    Elements out = x;
    switch (node.op) {
      case Op::gelu:
        for (double& v : out)
          v = node.bool_attr("tanh") ? 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
                                     : 0.5 * v * (1 + std::erf(v * M_SQRT1_2));
        return set(node, 0, out);
      case Op::silu:
        for (double& v : out) v = v / (1 + std::exp(-v));
        return set(node, 0, out);
      case Op::mean: return set(node, 0, over(x, sizes(node, 0), node.ints_attr("dims"), mean));
      case Op::var: {
        const double correction = node.double_attr("correction", 1);
        return set(node, 0, over(x, sizes(node, 0), node.ints_attr("dims"), [&](const Elements& group) {
                     return squares(group) / std::max(0.0, static_cast<double>(group.size()) - correction);
                   }));
      }
      case Op::softmax:
      case Op::log_softmax: {
        const int64_t dim[] = {node.int_attr("dim")};
        const Elements top = over(x, sizes(node, 0), dim, [](const Elements& group) { return extreme(group, 1); });
        const Elements off = along(node, x, top, dim, std::minus<>());
        const Elements sum = over(off, sizes(node, 0), dim, [](const Elements& group) {
          return std::accumulate(group.begin(), group.end(), 0.0,
                                 [](double s, double v) { return s + std::exp(v); });
        });
        const bool is_log = node.op == Op::log_softmax;
        return set(node, 0, along(node, off, sum, dim, [&](double v, double s) {
                     return is_log ? v - std::log(s) : std::exp(v) / s;
                   }));
      }
      default: BRAZE_CHECK(false, "not interpreted: ", info(node.op).name);
    }
  }

  void layer_norm(Node& node) {
    Sizes dims;
    const int64_t rank = node.operands[0]->type->rank();
    for (int64_t dim = rank - node.int_attr("rank"); dim < rank; ++dim) dims.push_back(dim);
    const Elements& x = in(node, 0);
    const double eps = node.number_attr("eps").as_double();
    const Elements means = over(x, sizes(node, 0), dims, mean);
    const Elements rstd = over(x, sizes(node, 0), dims, [&](const Elements& group) {
      return 1 / std::sqrt(squares(group) / static_cast<double>(group.size()) + eps);
    });
    Elements y = along(node, x, means, dims, std::minus<>());
    y = along(node, y, rstd, dims, std::multiplies<>());
    for_each_position(sizes(node, 0), [&](const Sizes& position, int64_t flat) {
      if (node.operands.size() > 1) y[flat] *= in(node, 1)[broadcast_index(position, sizes(node, 1))];
      if (node.operands.size() > 2) y[flat] += in(node, 2)[broadcast_index(position, sizes(node, 2))];
    });
    set(node, 0, y);
    set(node, 1, means);
    set(node, 2, rstd);
  }

  std::map<const Value*, Elements> values_;
};

bool is_rough(const Graph& graph) {
  bool rough = false;
  for_each_node(graph, [&](const Node* node) {
    const OpKind kind = info(node->op).kind;
    rough = rough || kind == OpKind::Reduction || kind == OpKind::Composite || node->op == Op::pow;
  });
  return rough;
}

bool equal(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return tolerance > 0 || std::signbit(a) == std::signbit(b);
  return std::fabs(a - b) <= tolerance * std::max({1.0, std::fabs(a), std::fabs(b)});
}

/// One element of an input. Round 0 has special values, which would drown the others in reductions.
double draw(DType dtype, bool special, std::mt19937& random) {
  static constexpr double specials[] = {0.0,       -0.0, 1.0,   -1.0,   0.5,    INFINITY,
                                        -INFINITY, NAN,  1e-45, -1e-40, 3.4e38, -2.5};
  if (dtype == DType::b8) return static_cast<double>(random() % 2);
  if (!is_floating(dtype)) return round_value(static_cast<double>(random() % 11) - 5, dtype);
  if (special) return round_value(specials[random() % std::size(specials)], dtype);
  return round_value(std::normal_distribution<double>(0, 2)(random), dtype);
}

}  // namespace

bool can_interpret(const Graph& graph) {
  bool can = true;
  for_each_node(graph, [&](const Node* node) {
    const OpKind kind = info(node->op).kind;
    can = can && (kind != OpKind::Library || is_product(*node)) && kind != OpKind::Gather;
  });
  return can;
}

std::vector<Elements> interpret(const Graph& graph, const std::vector<Elements>& inputs) {
  return Interpreter().run(graph, inputs);
}

std::optional<std::string> compare_at_sizes(const Graph& a, const Graph& b, size_t* computed) {
  const ShapeEnv* env = a.find_shape_env();
  if (!env) return compare(a, b);
  std::mt19937 random(1);
  std::vector<int64_t> symbols(env->examples().begin(), env->examples().end());
  for (int round = 0; round < 12; ++round) {
    // The examples; then all of one value; then any.
    for (int64_t& symbol : symbols)
      if (round > 0) symbol = round < 5 ? round - 1 : static_cast<int64_t>(random() % 8);
    std::unique_ptr<Graph> before, after;
    try {
      before = instantiate(a, symbols);
      after = instantiate(b, symbols);
    } catch (const UserError&) {
      BRAZE_CHECK(round > 0, "the examples break a guard");
      continue;
    }
    std::string values;
    for (size_t k = 0; k < symbols.size(); ++k)
      values += concat(k ? ", " : "at ", env->table().name(k), " = ", symbols[k]);
    try {
      verify(*before);
      verify(*after);
    } catch (const InternalError& error) {
      return concat(values, ": ", error.what());
    }
    if (computed) ++*computed;
    if (const auto difference = compare(*before, *after, 4)) return concat(values, ": ", *difference);
  }
  return std::nullopt;
}

std::optional<std::string> compare(const Graph& a, const Graph& b, int rounds) {
  std::mt19937 random(1);
  const bool rough = is_rough(a) || is_rough(b);
  for (int round = 0; round < rounds; ++round) {
    const bool special = round % 2 == 0 && !rough;
    std::vector<Elements> inputs;
    for (const Input& input : a.inputs()) {
      Elements elements(input.value->type->numel());
      for (double& value : elements) value = draw(input.value->type->dtype, special, random);
      inputs.push_back(elements);
    }
    const auto wanted = interpret(a, inputs), got = interpret(b, inputs);
    for (size_t k = 0; k < wanted.size(); ++k)
      for (size_t i = 0; i < wanted[k].size(); ++i) {
        const DType dtype = k < a.outputs().size() ? a.outputs()[k]->type->dtype : DType::f32;
        const double tolerance = !rough ? 0 : compute_dtype(dtype) != dtype ? 2e-2 : 1e-5;
        if (!equal(wanted[k][i], got[k][i], tolerance))
          return concat("result ", k, ", element ", i, ": ", wanted[k][i], " became ", got[k][i]);
      }
  }
  return std::nullopt;
}

}  // namespace braze::test

TEST_CASE("the interpreter computes what it should, and sees differences") {
  using namespace braze;
  const auto graph = ir::parse(R"(graph @g(%x: f32[2,3]) {
  %0 = permute %x, dims=[1,0] : f32[3,2]
  %1 = sum %0, dims=[0] keepdim=false : f32[2]
  %2 = scalar value=2.0 : f32[]
  %3 = mul %0, %2 : f32[3,2]
  %4 = add %3, %1 : f32[3,2]
  %5 = mean %x, dims=[1] keepdim=true : f32[2,1]
  return %4, %5
})");
  const auto results = test::interpret(*graph, {{1, 2, 3, 4, 5, 6}});
  CHECK(results[0] == test::Elements{8, 23, 10, 25, 12, 27});
  CHECK(results[1] == test::Elements{2, 5});

  const auto signed_zero =
      ir::parse("graph @g(%x: f32[9]) {%0 = scalar value=0.0 : f32[] %1 = add %x, %0 : f32[9] return %1}");
  const auto identity = ir::parse("graph @g(%x: f32[9]) {return %x}");
  CHECK(test::compare(*signed_zero, *identity).has_value());
  CHECK_FALSE(test::compare(*identity, *identity).has_value());
}
