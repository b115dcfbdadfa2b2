// python/interpreter/watch/methods.h: methods of objects of builtin classes, and special methods called by name.
//
//   found in a class        torch.Tensor.__getitem__(x, 0), dict.__contains__(d, k)
//   bound to an object      x.__getitem__(0), super().__setitem__(k, v)
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Methods of builtin classes, and special methods called by name.
class Methods final : Domain {
 public:
  using Domain::Domain;

  bool call_method(PyObject* name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  /// What a builtin class has under a name: a method descriptor or a wrapped slot.
  bool call_descriptor(PyObject* descriptor, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  /// \param owner  the class that the slot is one of.
  bool call_slot(PyTypeObject* owner, std::string_view name, PyObject* self, PyObject* const* arguments,
                 Py_ssize_t count);
  /// A slot bound to an object: found through super(), or on the object.
  bool call_bound_slot(PyObject* slot, PyObject* const* arguments, Py_ssize_t count);

 private:
  bool bind_function(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  void put_new_empty();
  void put_other_of_its_type(PyObject* name, PyObject* self, PyObject* const* arguments);
  bool call_object_slot(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
