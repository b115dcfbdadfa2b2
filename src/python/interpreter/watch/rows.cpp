// python/interpreter/watch/rows.cpp
#include "python/interpreter/watch/rows.h"

#include <opcode.h>

#include <unordered_map>

namespace braze::interpreter {

namespace {

using Names = std::unordered_map<std::string_view, Does>;
constexpr Does computes = Does::computes, writes_text = Does::writes_text, changes = Does::changes;

Does find(const Names& rows, std::string_view name) {
  const auto found = rows.find(name);
  return found == rows.end() ? Does::unknown : found->second;
}

/// Of module builtins. `iter` and `next` move iterators on.
const Names& builtins() {
  static const Names rows = {
      {"abs", computes},       {"all", computes},      {"any", computes}, {"ascii", writes_text},
      {"bin", computes},       {"callable", computes}, {"chr", computes}, {"divmod", computes},
      {"format", writes_text}, {"hash", writes_text},  {"hex", computes}, {"iter", changes},
      {"len", computes},       {"max", computes},      {"min", computes}, {"next", changes},
      {"oct", computes},       {"ord", computes},      {"pow", computes}, {"repr", writes_text},
      {"round", computes},     {"sorted", computes},   {"sum", computes},
  };
  return rows;
}

/// Of module operator, what changes its first argument. The others compute, but for `call`.
const Names& operators() {
  static const Names rows = {
      {"call", Does::unknown}, {"delitem", changes}, {"iadd", changes},    {"iand", changes}, {"iconcat", changes},
      {"ifloordiv", changes},  {"ilshift", changes}, {"imatmul", changes}, {"imod", changes}, {"imul", changes},
      {"ior", changes},        {"ipow", changes},    {"irshift", changes}, {"isub", changes}, {"itruediv", changes},
      {"ixor", changes},       {"setitem", changes},
  };
  return rows;
}

/// Of list, tuple, dict, set and frozenset, methods and slots that only read.
const Names& reading_methods() {
  static const Names rows = {
      {"copy", computes},         {"count", computes},
      {"get", computes},          {"index", computes},
      {"items", computes},        {"keys", computes},
      {"values", computes},       {"union", computes},
      {"issubset", computes},     {"issuperset", computes},
      {"intersection", computes}, {"difference", computes},
      {"isdisjoint", computes},   {"__contains__", computes},
      {"__getitem__", computes},  {"__len__", computes},
      {"__iter__", computes},     {"__eq__", computes},
      {"__ne__", computes},       {"__lt__", computes},
      {"__le__", computes},       {"__gt__", computes},
      {"__ge__", computes},       {"__add__", computes},
      {"__mul__", computes},      {"__rmul__", computes},
      {"__reversed__", computes}, {"__and__", computes},
      {"__or__", computes},       {"__sub__", computes},
      {"__xor__", computes},      {"symmetric_difference", computes},
      {"__repr__", writes_text},  {"__str__", writes_text},
      {"__hash__", writes_text},  {"__format__", writes_text},
  };
  return rows;
}

const Names& classes() {
  static const Names rows = {
      {"bool", computes},       {"int", computes},
      {"float", computes},      {"complex", computes},
      {"list", computes},       {"tuple", computes},
      {"dict", computes},       {"range", computes},
      {"slice", computes},      {"zip", computes},
      {"enumerate", computes},  {"reversed", computes},
      {"torch.Size", computes}, {"collections.OrderedDict", computes},
      {"str", writes_text},     {"bytes", writes_text},
      {"set", writes_text},     {"frozenset", writes_text},
  };
  return rows;
}

}  // namespace

Does what_function_does(std::string_view module, std::string_view name) {
  if (module == "builtins") return find(builtins(), name);
  if (module == "math") return computes;
  if (module == "sys") return name == "intern" ? writes_text : Does::unknown;
  if (module != "_operator") return Does::unknown;
  const auto found = operators().find(name);
  return found == operators().end() ? computes : found->second;
}

Does what_container_method_does(PyTypeObject*, std::string_view name) {
  const Does known = find(reading_methods(), name);
  return known == Does::unknown ? changes : known;
}

Does what_class_does(std::string_view name) {
  return find(classes(), name);
}

const OperatorRow* operator_row(std::string_view name) {
  using As = OperatorRow::As;
  static const std::unordered_map<std::string_view, OperatorRow> rows = {
      {"add", {As::binary, NB_ADD}},
      {"and_", {As::binary, NB_AND}},
      {"concat", {As::binary, NB_ADD}},
      {"floordiv", {As::binary, NB_FLOOR_DIVIDE}},
      {"lshift", {As::binary, NB_LSHIFT}},
      {"matmul", {As::binary, NB_MATRIX_MULTIPLY}},
      {"mod", {As::binary, NB_REMAINDER}},
      {"mul", {As::binary, NB_MULTIPLY}},
      {"or_", {As::binary, NB_OR}},
      {"pow", {As::binary, NB_POWER}},
      {"rshift", {As::binary, NB_RSHIFT}},
      {"sub", {As::binary, NB_SUBTRACT}},
      {"truediv", {As::binary, NB_TRUE_DIVIDE}},
      {"xor", {As::binary, NB_XOR}},
      {"iadd", {As::binary, NB_INPLACE_ADD}},
      {"iand", {As::binary, NB_INPLACE_AND}},
      {"iconcat", {As::binary, NB_INPLACE_ADD}},
      {"ifloordiv", {As::binary, NB_INPLACE_FLOOR_DIVIDE}},
      {"ilshift", {As::binary, NB_INPLACE_LSHIFT}},
      {"imatmul", {As::binary, NB_INPLACE_MATRIX_MULTIPLY}},
      {"imod", {As::binary, NB_INPLACE_REMAINDER}},
      {"imul", {As::binary, NB_INPLACE_MULTIPLY}},
      {"ior", {As::binary, NB_INPLACE_OR}},
      {"ipow", {As::binary, NB_INPLACE_POWER}},
      {"irshift", {As::binary, NB_INPLACE_RSHIFT}},
      {"isub", {As::binary, NB_INPLACE_SUBTRACT}},
      {"itruediv", {As::binary, NB_INPLACE_TRUE_DIVIDE}},
      {"ixor", {As::binary, NB_INPLACE_XOR}},
      {"lt", {As::comparison, Py_LT}},
      {"le", {As::comparison, Py_LE}},
      {"eq", {As::comparison, Py_EQ}},
      {"ne", {As::comparison, Py_NE}},
      {"gt", {As::comparison, Py_GT}},
      {"ge", {As::comparison, Py_GE}},
      {"neg", {As::unary, 0, "__neg__"}},
      {"pos", {As::unary, 0, "__pos__"}},
      {"invert", {As::unary, 0, "__invert__"}},
      {"inv", {As::unary, 0, "__invert__"}},
      {"contains", {As::contains}},
      {"getitem", {As::subscript}},
      {"setitem", {As::store}},
      {"delitem", {As::remove}},
      {"is_", {As::identity}},
      {"is_not", {As::identity}},
      {"truth", {As::truth}},
      {"not_", {As::truth}},
      {"call", {As::call}},
  };
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : &found->second;
}

}  // namespace braze::interpreter
