// python/interpreter/watch/tree_nodes.cpp
#include "python/interpreter/watch/tree_nodes.h"

#include <string_view>

#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

namespace {

constexpr std::string_view module_of_trees = "torch.utils._pytree";

/// torch.utils._pytree.SUPPORTED_NODES, or null.
PyObject* node_types() {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), module_of_trees.data());
  PyObject* nodes = module && PyModule_Check(module)
                        ? PyDict_GetItemString(PyModule_GetDict(module), "SUPPORTED_NODES")
                        : nullptr;
  return nodes && PyDict_CheckExact(nodes) ? nodes : nullptr;
}

const guards::Source* source_of(Values& values, PyObject* nodes) {
  return values.sources().object(nodes, "torch.utils._pytree.SUPPORTED_NODES");
}

/// What objects of the class are taken apart with. Null: nothing is registered.
PyObject* flattening(PyTypeObject* type) {
  PyObject* const nodes = node_types();
  PyObject* const definition = nodes ? PyDict_GetItemWithError(nodes, reinterpret_cast<PyObject*>(type)) : nullptr;
  return definition && PyTuple_Check(definition) && PyTuple_GET_SIZE(definition) > 1
             ? PyTuple_GET_ITEM(definition, 1)
             : nullptr;
}

}  // namespace

bool is_of_trees(PyObject* function) {
  PyObject* const globals = PyFunction_Check(function) ? PyFunction_GET_GLOBALS(function) : nullptr;
  return globals && PyDict_CheckExact(globals) &&
         text_of(PyDict_GetItemString(globals, "__name__")) == module_of_trees;
}

void keep_node_types(Values& values) {
  PyObject* const nodes = node_types();
  if (!nodes) return;
  const guards::Source* source = source_of(values, nodes);
  values.guards().length(source, static_cast<size_t>(PyDict_GET_SIZE(nodes)));
  Py_ssize_t at = 0;
  PyObject *type, *definition;
  while (PyDict_Next(nodes, &at, &type, &definition))
    values.guards().identity(values.sources().dict_item(source, type), definition);
}

PyObject* learn_node_function(Values& values, PyObject* function) {
  PyObject* const nodes = node_types();
  Py_ssize_t at = 0;
  PyObject *type, *definition;
  while (nodes && PyDict_Next(nodes, &at, &type, &definition)) {
    if (!PyTuple_Check(definition)) continue;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(definition); ++i) {
      PyObject* const found = PyTuple_GET_ITEM(definition, i);
      const bool is_method = Py_IS_TYPE(found, &PyMethod_Type) && PyMethod_GET_FUNCTION(found) == function;
      if (found != function && !is_method) continue;
      // keep_node_types() has guarded which object the definition is, and a tuple never changes.
      guards::SourceTable& sources = values.sources();
      const guards::Source* entry = sources.dict_item(source_of(values, nodes), type);
      return values.learn(found, sources.sequence_item(entry, static_cast<uint32_t>(i))) ? found : nullptr;
    }
  }
  return nullptr;
}

bool is_taken_apart_by_user(PyTypeObject* type) {
  PyObject* const function = flattening(type);
  return function && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !is_of_trees(function);
}

PyObject* fields_of_node(PyTypeObject* type) {
  PyObject* const function = flattening(type);
  if (!function || !is_of_trees(function)) return nullptr;
  PyObject* const fields = find_in_type(type, "__dataclass_fields__");
  return fields && PyDict_CheckExact(fields) ? fields : nullptr;
}

}  // namespace braze::interpreter
