// python/interpreter/watch/special_names.h: the methods that operators ask for.
#pragma once

#include <Python.h>
#include <opcode.h>

#include <iterator>
#include <string>

namespace braze::interpreter {

/// Of a binary operator, in place or not, without underscores and without what says which operand is asked.
inline std::string name_of_operator(int operation) {
  static constexpr const char* names[] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                                          "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
  static_assert(NB_INPLACE_ADD == std::size(names));
  return names[operation % NB_INPLACE_ADD];
}

/// Of a comparison, what the operand on the left is asked for.
inline const char* name_of_comparison(int comparison) {
  static constexpr const char* names[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
  return names[comparison];
}

/// The comparison that asks the same of the operands the other way round.
inline int reflected_comparison(int comparison) {
  static constexpr int reflected[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  return reflected[comparison];
}

}  // namespace braze::interpreter
