// python/interpreter/watch/attributes.h: what reading an attribute reads.
//
// Plan of a lookup on an ordinary object, as object.__getattribute__ does it:
//   1. find the name along the type's MRO; a guard says what is there, or that nothing is
//   2. a property: its getter is Python code that is watched in turn
//   3. the instance's dict; a guard says what is there, or that nothing is
//   4. what 1. found: a function becomes a bound method, other values are themselves
//   5. a __getattr__ written in Python, watched in turn (torch.nn.Module finds parameters so)
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Reading and changing attributes.
class Attributes final : Domain {
 public:
  using Domain::Domain;

  bool attribute(PyObject* object, PyObject* name);
  /// The lookup of object.__getattribute__, whatever the class has of its own.
  bool plain_attribute(PyObject* object, PyObject* name);
  bool class_attribute(PyObject* type, PyObject* name);
  bool super_lookup(PyObject* this_class, PyObject* self_class, PyObject* name);
  bool store_attribute(PyObject* object, PyObject* name, PyObject* value);
  /// What object.__setattr__ does, whatever the class has of its own. Without a value: object.__delattr__.
  bool plain_store(PyObject* object, PyObject* name, PyObject* value);
  /// An entry of its instance dict, for which no descriptor of the class stands. Without a value it is deleted.
  bool store_in_dict(PyObject* object, PyObject* name, PyObject* value);
  bool delete_attribute(PyObject* object, PyObject* name);
  /// \param source  of the property.
  bool property_getter(PyObject* property, const guards::Source* source, PyObject* name);

 private:
  bool reads_class_entry(PyObject* found, const guards::Source* entry);
  bool instance_attribute(PyObject* object, PyObject* name);
  bool function_attribute(PyObject* function, PyObject* name);
  bool function_field(PyObject* function, const guards::Source* source, PyObject* name);
  bool class_of(PyObject* object, PyObject* name);
  bool class_field(PyObject* type, PyObject* meta, PyObject* name);
  bool attribute_behind_proxy(PyObject* proxy, PyObject* name);
  bool module_attribute(PyObject* module, PyObject* name);
  bool lacks_in_module(PyObject* module, PyObject* name);
  bool super_attribute(PyObject* object, PyObject* name);
  bool bind_in_metaclass(PyObject* type, PyObject* found, PyObject* name);
  bool learn_class_of(PyObject* object);
  bool named_tuple_field(PyObject* object, PyObject* field, const guards::Source* source);
  bool store_in_class(PyObject* type, PyObject* name, PyObject* value);
  bool find_written(PyObject* type, PyObject* name);
};

}  // namespace braze::interpreter
