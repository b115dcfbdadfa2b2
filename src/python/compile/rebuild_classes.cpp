// python/compile/rebuild_classes.cpp: classes that the run has made, which each replay makes anew.
#include "python/compile/rebuild_parts.h"
#include "python/guards/imports.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::python {

using guards::Ref;

namespace {

/// namedtuple() has nothing else of the class to tell than what it keeps in it. typing.NamedTuple adds annotations.
bool is_of_namedtuple(PyObject* type) {
  return PyType_IsSubtype(interpreter::as_type(type), &PyTuple_Type) &&
         interpreter::class_entry(type, "_field_defaults") && !interpreter::class_entry(type, "__orig_bases__") &&
         !PyDict_GetItemString(guards::class_dict(interpreter::as_type(type)), "__annotations__");
}

}  // namespace

/// namedtuple(name, fields, defaults=..., module=..., rename=True), of what the class says of itself: fields that
/// were renamed are given the names that they have.
guards::RecipeNode Rebuilder::OwnClass::make(Rebuilder& rebuilder, PyObject* type) {
  if (!is_of_namedtuple(type)) refuse("a class that the function makes", type);
  const Ref module = guards::import_module("collections");
  const Ref maker = taken(module ? PyObject_GetAttrString(module.get(), "namedtuple") : nullptr, type);
  const Ref name = taken(PyObject_GetAttrString(type, "__name__"), type);
  const Ref fields = taken(PyObject_GetAttrString(type, "_fields"), type);
  const Ref by_field = taken(PyObject_GetAttrString(type, "_field_defaults"), type);
  const Ref defaults = taken(PySequence_Tuple(taken(PyMapping_Values(by_field.get()), type).get()), type);
  const Ref place = taken(PyObject_GetAttrString(type, "__module__"), type);
  const Ref names = taken(Py_BuildValue("(sss)", "defaults", "module", "rename"), type);
  for (const Ref* part : {&maker, &name, &fields, &by_field, &defaults, &place, &names})
    rebuilder.hold(part->get());
  const Node arguments[] = {rebuilder.constant(name.get()), rebuilder.constant(fields.get()),
                            rebuilder.constant(defaults.get()), rebuilder.constant(place.get()),
                            rebuilder.constant(Py_True)};
  return rebuilder.builder_.call(maker.get(), arguments, names.get());
}

guards::RecipeNode Rebuilder::OwnClass::instance(Rebuilder& rebuilder, PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (!is_of_namedtuple(type)) refuse("an object of a class that the function makes", object);
  static PyObject* const make = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyTuple_Type), "__new__");
  if (!make) throw NotRebuilt{"no memory"};
  const Node arguments[] = {rebuilder.node_of(type), rebuilder.builder_.tuple(rebuilder.nodes_of(object))};
  return rebuilder.builder_.call(make, arguments);
}

}  // namespace braze::python
