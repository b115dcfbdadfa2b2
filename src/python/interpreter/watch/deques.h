// python/interpreter/watch/deques.h: collections.deque.
//
//   what the run made          may be changed
//   what existed before        is read item by item, guarded; its changes are effects, repeated one by one
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// collections.deque.
class Deques final : Domain {
 public:
  using Domain::Domain;

  bool call_deque(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  /// Entry `key`, which is there, or an IndexError.
  bool store_in_deque(PyObject* deque, PyObject* key, PyObject* value);

 private:
  bool change_deque(std::string_view name, PyObject* deque, PyObject* const* arguments, Py_ssize_t count);
  bool is_data_deque(PyObject* deque) const;
};

}  // namespace braze::interpreter
