// python/interpreter/watch/given.h: what C code is given to call, and operators as functions.
//
// `map`, `sorted`, `filter`, `reduce` and their like call what they are given, and no instruction shows it. Python
// functions are watched when they are entered. C functions are looked up by type and name (rows.h): those that only
// compute may be given what is guarded all through; what they would change is left to native code.
#pragma once

#include <optional>
#include <string_view>

#include "python/interpreter/watch/domain.h"
#include "python/interpreter/watch/rows.h"

namespace braze::interpreter {

/// What C code is given to call.
class Given final : Domain {
 public:
  using Domain::Domain;

  /// What the C function does with the items of what it is given.
  enum class Items : uint8_t {
    looked_into,
    handed_on,  ///< To the Python function that it is given too, and nothing else.
  };

  /// Arguments of a C function that looks into them and may call those that are functions.
  bool absorb_given(PyObject* const* arguments, Py_ssize_t count, Items items = Items::looked_into);
  /// Before it: of a class whose instances call the first argument.
  bool put_caller(std::string_view callee, PyObject* const* arguments, Py_ssize_t count);
  static Items items_given_to(std::string_view name);
  bool call_reduce(PyObject* const* arguments, Py_ssize_t count);

 private:
  std::optional<Does> what_given_does(PyObject* callable);
  std::optional<Does> what_partial_does(PyObject* partial);
  Does what_bound_does(PyObject* self, PyObject* name);
  Does what_method_does(PyObject* self, PyTypeObject* type, PyObject* name);
  bool hands_on(PyObject* value);
  bool calls_python(PyObject* callable);
  bool maps_by_python(PyObject* value);
  bool reduces_in_place(PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
