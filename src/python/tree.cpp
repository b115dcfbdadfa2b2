// python/tree.cpp
#include "python/tree.h"

#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <bit>
#include <unordered_set>

#include "capture/trace.h"
#include "python/errors.h"
#include "python/guards/torch_values.h"
#include "python/imported.h"
#include "runtime/geometry.h"
#include "support/error.h"
#include "support/stack.h"

namespace braze::python {

namespace {

/// One level of a value that is walked through. Throws Python's RecursionError, for what contains itself too.
class Level {
 public:
  Level() {
    if (stack_is_short()) PyErr_SetString(PyExc_RecursionError, "a value is nested too deeply");
    if (PyErr_Occurred() || Py_EnterRecursiveCall(" in a nested value")) throw_python_error();
  }
  ~Level() { Py_LeaveRecursiveCall(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
};

PyObject* registry = nullptr;  // torch.utils._pytree.SUPPORTED_NODES; lives as long as torch.

/// The registry's row of a type, or null.
PyObject* registered(PyTypeObject* type) {
  return PyDict_GetItemWithError(registry, reinterpret_cast<PyObject*>(type));  // borrowed
}

bool is_named_tuple(PyObject* value) {
  return PyTuple_Check(value) && !PyTuple_CheckExact(value) && PyObject_HasAttrString(value, "_fields") &&
         PyObject_HasAttrString(value, "_make");
}

std::string repr_of(py::handle value) {
  PyObject* text = PyObject_Repr(value.ptr());
  if (!text) {
    PyErr_Clear();
    return "?";
  }
  return py::reinterpret_steal<py::str>(text).cast<std::string>();
}

std::string key_path(const std::string& path, py::handle key) {
  return path + "[" + repr_of(key) + "]";
}
std::string item_path(const std::string& path, size_t i) {
  return concat(path, "[", i, "]");
}
const char* type_name(py::handle value) {
  return Py_TYPE(value.ptr())->tp_name;
}

/// Calls a registered flatten function: (children as a list, context).
std::pair<py::list, py::object> flatten(const py::object& function, py::handle value) {
  const py::tuple both = function(value);
  return {py::list(both[0]), both[1]};
}

bool is_traced(PyObject* value) {
  return guards::is_tensor(value) && capture::is_tracer(THPVariable_Unpack(value));
}

/// Whether a traced tensor can be reached through containers and attributes. Looks no deeper than eight levels, and
/// not into modules, classes and functions, which outlive the call.
bool holds_traced(PyObject* value, std::unordered_set<PyObject*>& seen, int depth = 0) {
  if (is_traced(value)) return true;
  if (depth > 8 || PyType_Check(value) || PyModule_Check(value) || PyCallable_Check(value)) return false;
  if (PyUnicode_Check(value) || PyLong_Check(value) || PyFloat_Check(value) || value == Py_None) return false;
  if (!seen.insert(value).second) return false;
  if (PyTuple_Check(value) || PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      if (holds_traced(PySequence_Fast_GET_ITEM(value, i), seen, depth + 1)) return true;
  }
  if (PyDict_Check(value)) {
    PyObject *key, *item;
    Py_ssize_t at = 0;
    while (PyDict_Next(value, &at, &key, &item))
      if (holds_traced(item, seen, depth + 1)) return true;
  }
  PyObject** const attributes = _PyObject_GetDictPtr(value);
  return attributes && *attributes && holds_traced(*attributes, seen, depth + 1);
}

}  // namespace

void install_trees() {
  registry = py::object(imported("torch.utils._pytree").attr("SUPPORTED_NODES")).release().ptr();
}

std::string describe_value(py::handle value) {
  if (guards::is_tensor(value.ptr())) return "tensor " + runtime::describe(THPVariable_Unpack(value.ptr()));
  if (PyTuple_Check(value.ptr()) || PyList_Check(value.ptr()) || PyDict_Check(value.ptr()))
    return concat(type_name(value), " of ", py::len(value));
  if (value.is_none()) return "None";
  std::string text = repr_of(value);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return concat(type_name(value), " ", text);
}

Tree make_argument_tree(py::handle value, std::string path, LeafVisitor& visitor, py::object& replaced) {
  const Level level;
  Tree tree;
  tree.path = std::move(path);
  tree.type = py::type::of(value);
  PyObject* const object = value.ptr();
  auto add_child = [&](py::handle item, std::string where) {
    py::object child;
    tree.children.push_back(make_argument_tree(item, std::move(where), visitor, child));
    return child;
  };
  if (guards::is_tensor(object)) {
    tree.kind = TreeKind::tensor;
    tree.index = visitor.leaf(THPVariable_Unpack(object), tree.path, tree.repeated);
    replaced = visitor.replacement(tree.index);
  } else if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    const bool tuple = PyTuple_CheckExact(object);
    tree.kind = tuple ? TreeKind::tuple : TreeKind::list;
    py::list items;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      items.append(add_child(PySequence_Fast_GET_ITEM(object, i), item_path(tree.path, i)));
    replaced = tuple ? py::object(py::tuple(items)) : py::object(items);
  } else if (PyDict_CheckExact(object)) {
    tree.kind = TreeKind::dict;
    const py::dict copy;
    for (const auto& [key, item] : py::reinterpret_borrow<py::dict>(value))
      copy[key] = add_child(item, key_path(tree.path, key));
    tree.value = py::tuple(copy.attr("keys")());
    replaced = copy;
  } else if (is_named_tuple(object)) {
    tree.kind = TreeKind::named;
    const py::tuple fields = value.attr("_fields");
    py::list items;
    for (size_t i = 0; i < fields.size(); ++i)
      items.append(add_child(PyTuple_GET_ITEM(object, i), tree.path + "." + fields[i].cast<std::string>()));
    replaced = tree.type.attr("_make")(items);
  } else if (PyObject* row = registered(Py_TYPE(object))) {
    tree.kind = TreeKind::node;
    tree.flatten = py::handle(row).attr("flatten_fn");
    tree.unflatten = py::handle(row).attr("unflatten_fn");
    auto [children, context] = flatten(tree.flatten, value);
    tree.value = context;
    py::list items;
    for (size_t i = 0; i < children.size(); ++i) items.append(add_child(children[i], item_path(tree.path, i)));
    replaced = tree.unflatten(items, context);
  } else {
    tree.value = py::reinterpret_borrow<py::object>(value);
    replaced = tree.value;
  }
  return tree;
}

Tree make_result_tree(py::handle value, LeafVisitor& visitor) {
  const Level level;
  Tree tree;
  tree.type = py::type::of(value);
  PyObject* const object = value.ptr();
  auto add_child = [&](py::handle item) { tree.children.push_back(make_result_tree(item, visitor)); };
  if (THPSize_Check(object)) {  // Its row in the registry builds a plain tuple.
    tree.value = py::reinterpret_borrow<py::object>(value);
  } else if (guards::is_tensor(object)) {
    tree.kind = TreeKind::tensor;
    tree.index = visitor.leaf(THPVariable_Unpack(object), "", tree.repeated);
  } else if (PyTuple_CheckExact(object) || PyList_CheckExact(object) || is_named_tuple(object)) {
    tree.kind = PyTuple_CheckExact(object)  ? TreeKind::tuple
                : PyList_CheckExact(object) ? TreeKind::list
                                            : TreeKind::named;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      add_child(PySequence_Fast_GET_ITEM(object, i));
  } else if (PyDict_CheckExact(object)) {
    tree.kind = TreeKind::dict;
    const py::dict dict = py::reinterpret_borrow<py::dict>(value);
    tree.value = py::tuple(dict.attr("keys")());
    for (const auto& [key, item] : dict) add_child(item);
  } else if (PyObject* row = registered(Py_TYPE(object))) {
    tree.kind = TreeKind::node;
    tree.unflatten = py::handle(row).attr("unflatten_fn");
    const py::object flatten_function = py::handle(row).attr("flatten_fn");
    auto [children, context] = flatten(flatten_function, value);
    tree.value = context;
    for (py::handle child : children) add_child(child);
  } else {
    std::unordered_set<PyObject*> seen;
    PyObject** const attributes = _PyObject_GetDictPtr(object);
    if (!holds_traced(object, seen)) {
      tree.value = py::reinterpret_borrow<py::object>(value);
      return tree;
    }
    if (!attributes || !*attributes || PyDict_Check(object) || PyList_Check(object) || PyTuple_Check(object))
      throw UserError(
          concat("the traced function returned a `", type_name(value),
                 "` with tensors in it, and braze cannot build another one. Return the tensors in a tuple, list "
                 "or dict, or register the type with torch.utils._pytree.register_pytree_node"),
          UserError::Kind::type);
    tree.kind = TreeKind::object;
    const py::dict fields = py::reinterpret_borrow<py::dict>(*attributes);
    tree.value = py::tuple(fields.attr("keys")());
    for (const auto& [key, item] : fields) add_child(item);
  }
  return tree;
}

// ---- matching: the hot path of a call

namespace {

[[noreturn, gnu::noinline, gnu::cold]] void fail_match(const Tree& tree, PyObject* value) {
  const std::string expected =
      tree.kind == TreeKind::tensor     ? "a tensor"
      : tree.kind == TreeKind::constant ? describe_value(tree.value)
      : tree.kind == TreeKind::dict
          ? concat("a dict with the keys ", repr_of(tree.value), " in that order")
          : concat("a ", reinterpret_cast<PyTypeObject*>(tree.type.ptr())->tp_name, " of ", tree.children.size());
  const bool same_type = Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(tree.type.ptr());
  throw UserError(concat(tree.path, ": traced with ", expected, ", got ", describe_value(value),
                         tree.kind == TreeKind::constant
                             ? "; values that are not tensors are fixed when tracing: trace again for another value"
                             : "; trace again for another structure"),
                  same_type ? UserError::Kind::value : UserError::Kind::type);
}

[[noreturn, gnu::noinline, gnu::cold]] void fail_repeated(const Tree& tree) {
  throw UserError(tree.path +
                      ": when traced it was the same tensor as an earlier argument, and now it is another one; "
                      "trace again with different tensors",
                  UserError::Kind::value);
}

/// Exactly the same: 1, 1.0 and True differ, 0.0 and -0.0 differ, a NaN is itself.
bool same_constant(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a))
    return std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(a)) == std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(b));
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

void match_children(const Tree& tree, PyObject* const* items, size_t count, PyObject* value, Match& found) {
  if (count != tree.children.size()) fail_match(tree, value);
  for (size_t i = 0; i < count; ++i) match(tree.children[i], items[i], found);
}

void match_dict(const Tree& tree, PyObject* value, Match& found) {
  if (!PyDict_CheckExact(value) || static_cast<size_t>(PyDict_GET_SIZE(value)) != tree.children.size())
    fail_match(tree, value);
  PyObject *key, *item;
  Py_ssize_t at = 0;
  for (size_t i = 0; PyDict_Next(value, &at, &key, &item); ++i) {
    if (!same_constant(PyTuple_GET_ITEM(tree.value.ptr(), i), key)) fail_match(tree, value);
    match(tree.children[i], item, found);
  }
}

void match_node(const Tree& tree, PyObject* value, Match& found) {
  if (Py_TYPE(value) != reinterpret_cast<PyTypeObject*>(tree.type.ptr())) fail_match(tree, value);
  auto [children, context] = flatten(tree.flatten, value);
  if (children.size() != tree.children.size() || !context.equal(tree.value)) fail_match(tree, value);
  for (size_t i = 0; i < children.size(); ++i) match(tree.children[i], children[i].ptr(), found);
  found.temporaries.push_back(std::move(children));
}

}  // namespace

void match(const Tree& tree, PyObject* value, Match& found) {
  switch (tree.kind) {
    case TreeKind::tensor: {
      if (!guards::is_tensor(value)) fail_match(tree, value);
      const at::Tensor* tensor = &THPVariable_Unpack(value);
      if (tree.repeated && !tensor->is_same(*found.tensors[tree.index])) fail_repeated(tree);
      found.tensors[tree.index] = tensor;
      return;
    }
    case TreeKind::constant:
      if (!same_constant(tree.value.ptr(), value)) fail_match(tree, value);
      return;
    case TreeKind::tuple:
      if (!PyTuple_CheckExact(value)) fail_match(tree, value);
      return match_children(tree, &PyTuple_GET_ITEM(value, 0), PyTuple_GET_SIZE(value), value, found);
    case TreeKind::list:
      if (!PyList_CheckExact(value)) fail_match(tree, value);
      return match_children(tree, PySequence_Fast_ITEMS(value), PyList_GET_SIZE(value), value, found);
    case TreeKind::named:
      if (Py_TYPE(value) != reinterpret_cast<PyTypeObject*>(tree.type.ptr())) fail_match(tree, value);
      return match_children(tree, &PyTuple_GET_ITEM(value, 0), PyTuple_GET_SIZE(value), value, found);
    case TreeKind::dict: return match_dict(tree, value, found);
    case TreeKind::node: return match_node(tree, value, found);
    case TreeKind::object: break;
  }
  BRAZE_CHECK(false, "arguments have no object trees");
}

// ---- rebuilding results

namespace {

py::object rebuild_object(const Tree& tree, const at::Tensor* results) {
  const py::object made = tree.type.attr("__new__")(tree.type);
  const py::dict fields = made.attr("__dict__");
  for (size_t i = 0; i < tree.children.size(); ++i)
    fields[py::handle(PyTuple_GET_ITEM(tree.value.ptr(), i))] = rebuild(tree.children[i], results);
  return made;
}

}  // namespace

py::object rebuild(const Tree& tree, const at::Tensor* results) {
  const size_t count = tree.children.size();
  switch (tree.kind) {
    case TreeKind::tensor: {
      PyObject* wrapped = THPVariable_Wrap(results[tree.index]);
      if (!wrapped) throw_python_error();
      return py::reinterpret_steal<py::object>(wrapped);
    }
    case TreeKind::constant: return tree.value;
    case TreeKind::tuple: {
      py::tuple made(count);
      for (size_t i = 0; i < count; ++i)
        PyTuple_SET_ITEM(made.ptr(), i, rebuild(tree.children[i], results).release().ptr());
      return made;
    }
    case TreeKind::dict: {
      py::dict made;
      for (size_t i = 0; i < count; ++i)
        made[py::handle(PyTuple_GET_ITEM(tree.value.ptr(), i))] = rebuild(tree.children[i], results);
      return made;
    }
    case TreeKind::object: return rebuild_object(tree, results);
    case TreeKind::list:
    case TreeKind::named:
    case TreeKind::node: break;
  }
  py::list items(count);
  for (size_t i = 0; i < count; ++i)
    PyList_SET_ITEM(items.ptr(), i, rebuild(tree.children[i], results).release().ptr());
  if (tree.kind == TreeKind::named) return tree.type.attr("_make")(items);
  if (tree.kind == TreeKind::node) return tree.unflatten(items, tree.value);
  return items;
}

}  // namespace braze::python
