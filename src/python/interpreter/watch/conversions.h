// python/interpreter/watch/conversions.h: what builtins make of an object whose class says how: text, numbers, the
// reverse.
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// What builtins make of an object whose class says how.
class Conversions final : Domain {
 public:
  using Domain::Domain;

  /// Whether a class says in Python what a builtin does with its instance. If so, that code is entered.
  bool converts(std::string_view builtin, PyObject* object);
  /// reversed() of an object whose class has __len__ and __getitem__ in Python, and nothing more apt.
  bool reverses_by_index(PyObject* object);
  /// What `%` makes text of: data, or a named tuple of it, whose items it takes.
  bool formats_as_data(PyObject* object);
  /// object.__format__ without a specification is str().
  bool formats_as_text(PyObject* object);
  /// Its text is what its class's methods give, which C code calls: those in Python are watched then.
  bool writes_itself(PyObject* object);
  /// What `%` makes text of by way of such methods: an object, or a tuple with some among its items.
  bool formats_by_methods(PyObject* object);
  /// `text.format(...)` of data and such objects, of which it names no parts.
  bool fills_in(PyObject* text, PyObject* const* arguments, Py_ssize_t count);
  /// Text of an exception that the run made: that of its arguments.
  bool is_plain_exception(PyObject* object);
  /// str() or repr() of a class: its module and qualified name.
  bool text_of_class(PyObject* type);
};

}  // namespace braze::interpreter
