// python/tree.h: nested Python values around tensors: what the arguments looked like, how the results are rebuilt.
//
// Exact tuples, lists and dicts are known here; named tuples by their fields; every other container through the
// registry of torch.utils._pytree (where transformers' ModelOutput and registered dataclasses are). Anything else
// that is not a tensor is a constant of the trace.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace braze::python {

namespace py = pybind11;

enum class TreeKind : uint8_t {
  tensor,    ///< Number `index`.
  constant,  ///< `value`.
  tuple,
  list,
  dict,    ///< `value` is the tuple of keys, in order.
  named,   ///< A named tuple of type `type`.
  node,    ///< In the registry; `value` is its context.
  object,  ///< Results only: an instance of `type` whose attributes (names in `value`) hold tensors.
};

struct Tree {
  TreeKind kind = TreeKind::constant;
  bool repeated = false;  ///< tensor: the same tensor as an earlier leaf.
  uint32_t index = 0;
  py::object value;
  py::object type;
  py::object flatten, unflatten;  ///< node.
  std::vector<Tree> children;
  std::string path;  ///< arguments: "batch['ids']", for messages.
};

/// Loads the registry. Once, at import.
void install_trees();

/// Called for every tensor leaf while a tree is made; gives the leaf's number and what takes the tensor's place.
struct LeafVisitor {
  virtual ~LeafVisitor() = default;
  /// \returns the number; sets `repeated` when the tensor was seen before.
  virtual uint32_t leaf(const at::Tensor& tensor, const std::string& path, bool& repeated) = 0;
  /// The object that stands for leaf `index`.
  virtual py::object replacement(uint32_t index) = 0;
};

/// The tree of an argument. `replaced` becomes the same value with every tensor replaced.
Tree make_argument_tree(py::handle value, std::string path, LeafVisitor& visitor, py::object& replaced);

/// The tree of a result. Objects outside of the registry are opened if they hold a traced tensor.
/// Throws UserError for those that cannot be rebuilt.
Tree make_result_tree(py::handle value, LeafVisitor& visitor);

/// What matching found. Temporaries keep what flattened containers made alive during the call.
struct Match {
  const at::Tensor** tensors;  ///< By leaf number; null before it is found.
  std::vector<py::object> temporaries;
};

/// Looks for the tensors of `value`, which must be built as `tree` says. Throws UserError that names the first
/// place where it is not.
void match(const Tree& tree, PyObject* value, Match& found);

/// A new reference to the value that `tree` describes, around `results`.
py::object rebuild(const Tree& tree, const at::Tensor* results);

/// "int 3", "f32[4,8]", "list of 2": for messages.
std::string describe_value(py::handle value);

}  // namespace braze::python
