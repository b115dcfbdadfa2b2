// python/interpreter/watch/builtins.h: which calls of functions written in C are understood: a row each.
//
// A row says for which number of arguments it stands, and which function here looks at them. What has no row is
// judged by what it does (watch/rows.h), or ends the graph.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

class Builtins final : Domain {
 public:
  using Domain::Domain;

  bool call(PyObject* function, PyObject* const* arguments, Py_ssize_t count);

 private:
  struct Call {
    PyObject* function;
    PyObject* const* arguments;
    Py_ssize_t count;
    std::string_view module, name;
  };
  /// Nothing: the row is not about such arguments.
  using Understood = std::optional<bool>;
  struct Row {
    std::string_view module, name;  ///< No name: all functions of the module.
    Py_ssize_t fewest, most;
    Understood (Builtins::*how)(const Call& call);
    bool after_conversions = false;  ///< A class that says in Python what the function does comes first.
  };
  static std::span<const Row> rows();
  static const Row* find_row(const Call& call);

  bool end_graph(PyObject* why);
  bool call_of_torch(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  bool give_other_class(PyObject* const* arguments, Py_ssize_t count);
  bool use_mode_stack(ModeWorld::Use use, PyObject* const* arguments, Py_ssize_t count);
  bool holds_tensors(PyObject* value, int depth = 0) const;
  /// Has a factory make its tensor on the default device.
  bool put_default_device(PyObject* function);
  /// `tuple.__new__(cls, items)` and its like.
  bool make_instance(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool call_bound(PyObject* function, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  /// A function of module builtins that no row understands.
  bool call_by_what_it_does(const Call& call);
  PyObject* stand_in_for(PyObject* function);
  static bool makes_tensor(PyObject* function);

  Ref counted_;  ///< The latest answer about effects.

  Understood is_instance(const Call& call);
  Understood get_attribute(const Call& call);
  Understood set_attribute(const Call& call);
  Understood delete_attribute(const Call& call);
  Understood length(const Call& call);
  bool length_of_older(PyObject* of, const guards::Source* source);
  Understood is_callable(const Call& call);
  Understood iterate(const Call& call);
  Understood advance(const Call& call);
  Understood make(const Call& call);
  Understood address(const Call& call);
  Understood instance_dict(const Call& call);
  Understood global_dict(const Call& call);
  Understood divide(const Call& call);
  Understood hash(const Call& call);
  Understood make_text(const Call& call);
  Understood fold_sizes(const Call& call);
  Understood go_through(const Call& call);
  Understood take_text(const Call& call);
  Understood warn(const Call& call);
  Understood refer_weakly(const Call& call);
  Understood reduce(const Call& call);
  Understood check_abstract(const Call& call);
  Understood operate(const Call& call);
  Understood count_elements(const Call& call);
  Understood compute(const Call& call);
};

}  // namespace braze::interpreter
