// python/interpreter/watch/array_rows.cpp
#include "python/interpreter/watch/array_rows.h"

#include <unordered_map>
#include <unordered_set>

namespace braze::interpreter {

namespace {

constexpr int any = 1 << 20;

using Operands = std::unordered_map<std::string_view, int>;

/// Those of which the second argument, too, may be an array, and no other.
const std::unordered_set<std::string_view>& functions_of_two() {
  static const std::unordered_set<std::string_view> names = {
      // What makes arrays.
      "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "blackman", "bartlett",
      "copy", "diag", "diagflat", "empty", "empty_like", "eye", "full", "full_like", "geomspace", "hamming",
      "hanning", "identity", "indices", "kaiser", "linspace", "logspace", "ones", "ones_like", "tri", "tril",
      "tril_indices", "triu", "triu_indices", "vander", "zeros", "zeros_like",
      // What moves items.
      "append", "argpartition", "argsort", "argwhere", "array_split", "broadcast_to", "column_stack", "concatenate",
      "delete", "diagonal", "dsplit", "dstack", "expand_dims", "flatnonzero", "flip", "fliplr", "flipud", "hsplit",
      "hstack", "moveaxis", "nonzero", "pad", "partition", "ravel", "repeat", "reshape", "roll", "rollaxis",
      "rot90", "searchsorted", "sort", "split", "squeeze", "stack", "swapaxes", "take", "tile", "transpose",
      "trim_zeros", "unique", "vsplit", "vstack",
      // Reductions and scans.
      "all", "amax", "amin", "any", "argmax", "argmin", "average", "bincount", "count_nonzero", "cumprod", "cumsum",
      "diff", "max", "mean", "median", "min", "nanmax", "nanmean", "nanmin", "nanstd", "nansum", "nanvar",
      "percentile", "prod", "ptp", "quantile", "std", "sum", "trace", "var",
      // Of each item.
      "absolute", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
      "around", "bitwise_and", "bitwise_or", "bitwise_xor", "cbrt", "ceil", "conjugate", "copysign", "cos", "cosh",
      "deg2rad", "degrees", "divide", "divmod", "equal", "exp", "exp2", "expm1", "fabs", "float_power", "floor",
      "floor_divide", "fmax", "fmin", "fmod", "gcd", "greater", "greater_equal", "heaviside", "hypot", "i0", "imag",
      "invert", "isclose", "isfinite", "isin", "isinf", "isnan", "lcm", "ldexp", "left_shift", "less", "less_equal",
      "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
      "maximum", "minimum", "mod", "multiply", "nan_to_num", "negative", "nextafter", "not_equal", "positive",
      "power", "rad2deg", "radians", "real", "reciprocal", "remainder", "right_shift", "rint", "round", "sign",
      "signbit", "sin", "sinc", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "true_divide", "trunc",
      // Of arrays as a whole.
      "allclose", "array_equal", "convolve", "correlate", "cross", "digitize", "dot", "ediff1d", "fftfreq",
      "fftshift", "gradient", "histogram", "ifftshift", "inner", "intersect1d", "iscomplexobj", "isrealobj",
      "isscalar", "kron", "matmul", "ndim", "outer", "polyval", "ravel_multi_index", "rfftfreq", "setdiff1d",
      "shape", "size", "tensordot", "trapezoid", "union1d", "unravel_index", "vdot",
      // Of numpy.errstate.
      "_make_extobj",
      // Linear algebra.
      "det", "inv", "matrix_power", "matrix_rank", "norm", "pinv", "solve"};
  return names;
}

/// Those of which others may be.
const Operands& other_functions() {
  static const Operands rows = {{"atleast_1d", any},
                                {"atleast_2d", any},
                                {"atleast_3d", any},
                                {"broadcast_arrays", any},
                                {"clip", 3},
                                {"interp", 3},
                                {"insert", 3},
                                {"ix_", any},
                                {"meshgrid", any},
                                {"polyfit", 2},
                                {"result_type", any},
                                {"select", 2},
                                {"take_along_axis", 2},
                                {"where", 3}};
  return rows;
}

const std::unordered_map<std::string_view, ArrayMethod>& methods() {
  static const std::unordered_map<std::string_view, ArrayMethod> rows = {
      {"all", {0, false}},       {"any", {0, false}},    {"argmax", {0, false}},       {"argmin", {0, false}},
      {"argsort", {0, false}},   {"astype", {0, false}}, {"clip", {2, false}},         {"conj", {0, false}},
      {"conjugate", {0, false}}, {"copy", {0, false}},   {"cumprod", {0, false}},      {"cumsum", {0, false}},
      {"diagonal", {0, false}},  {"dot", {1, false}},    {"flatten", {0, false}},      {"is_integer", {0, false}},
      {"item", {0, false}},      {"max", {0, false}},    {"mean", {0, false}},         {"min", {0, false}},
      {"nonzero", {0, false}},   {"prod", {0, false}},   {"ravel", {0, false}},        {"repeat", {1, false}},
      {"reshape", {0, false}},   {"round", {0, false}},  {"searchsorted", {1, false}}, {"squeeze", {0, false}},
      {"std", {0, false}},       {"sum", {0, false}},    {"swapaxes", {0, false}},     {"take", {1, false}},
      {"tobytes", {0, false}},   {"tolist", {0, false}}, {"trace", {0, false}},        {"transpose", {0, false}},
      {"var", {0, false}},       {"fill", {1, true}},    {"sort", {0, true}}};
  return rows;
}

}  // namespace

std::optional<int> operands_of_array_function(std::string_view name) {
  if (functions_of_two().contains(name)) return 2;
  const auto found = other_functions().find(name);
  return found == other_functions().end() ? std::nullopt : std::optional(found->second);
}

std::optional<ArrayMethod> array_method(std::string_view name) {
  const auto found = methods().find(name);
  return found == methods().end() ? std::nullopt : std::optional(found->second);
}

bool is_array_attribute(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {
      "T",    "char", "dtype", "imag",  "itemsize", "kind", "mT",      "name", "nbytes",
      "ndim", "num",  "real",  "shape", "size",     "str",  "strides", "type"};
  return names.contains(name);
}

}  // namespace braze::interpreter
