// python/interpreter/watch/generic_types.h: types with parameters, which annotations of inner functions compute.
//
//   List[int], Optional[Tensor]     objects of module typing
//   Callable[[int], str], Base[T]   classes with a __class_getitem__ of the library's
//
// What such a subscript gives depends on its parts alone, and is what it is for good.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Types with parameters.
class GenericTypes final : Domain {
 public:
  using Domain::Domain;

  /// It has parameters, or is to be given them.
  bool is_generic(PyObject* object);
  bool subscript_type(PyObject* container, PyObject* key);
  /// `dict[str, int]()` makes what `dict()` makes. Null, and no abandonment, for what is no such type.
  PyObject* builtin_origin(PyObject* alias);
  /// `list[int] | None`, of which one at least has parameters or is a union. False, and no abandonment, for all
  /// else.
  bool unites_types(PyObject* left, PyObject* right);
  /// Types, texts, and lists and tuples of them. They are asked for their hashes.
  bool is_part_of_type(PyObject* part);
};

}  // namespace braze::interpreter
