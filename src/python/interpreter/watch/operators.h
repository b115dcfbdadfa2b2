// python/interpreter/watch/operators.h: operators and comparisons, by instruction or by function.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Operators and comparisons, by instruction or by function.
class Operators final : Domain {
 public:
  using Domain::Domain;

  bool unary(PyObject* value, const char* method);
  bool binary(PyObject* left, PyObject* right, int operation);
  bool comparison(PyObject* left, PyObject* right, int operation);
  bool compare_identity(PyObject* left, PyObject* right);
  bool truth(PyObject* value);
  /// A function of module operator: the instruction that does the same says what is understood.
  bool call_operator(std::string_view name, PyObject* const* arguments, Py_ssize_t count);

 private:
  /// What the class of an operand says about an operator.
  enum class Method : uint8_t { none, python, other };
  Method learn_operator(PyObject* operand, const std::string& name);
  bool user_operator(PyObject* left, PyObject* right, int operation);
  bool user_comparison(PyObject* left, PyObject* right, int operation);
  bool user_methods(PyObject* left, PyObject* right, const std::vector<std::pair<PyObject*, std::string>>& asked);
  bool leaves_it_to(PyObject* right) const;
  bool update_dict(PyObject* dict, PyObject* entries);
  bool compares_items(PyObject* left, PyObject* right, int operation);
  bool compare_items(PyObject* left, PyObject* right, int operation);
  bool compare(PyObject* left, PyObject* right, int operation);
};

}  // namespace braze::interpreter
