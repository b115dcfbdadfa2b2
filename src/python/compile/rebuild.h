// python/compile/rebuild.h: objects of a captured run as nodes of a recipe.
//
// What the run returned, left in a frame or stored somewhere is made anew by every replay. An object that existed
// before the call is read from its source; a tensor that the run computed is an output of its graph; what the run
// made is built again from the same parts, once a replay, so that identities and cycles are kept.
//
//   guards::RecipeBuilder builder;
//   Rebuilder rebuilder(builder, watcher.values(), guards);
//   const guards::RecipeNode result = rebuilder.node(value);      // throws NotRebuilt
//   trace = tracer.finish(tensors of rebuilder.outputs());
//   guards::Recipe recipe = std::move(builder).finish({&result, 1});
//
// Everything is asked of exact builtin types or read from storage: no Python code runs.
#pragma once

#include <Python.h>

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/guards/recipe.h"
#include "python/interpreter/watch/values.h"

namespace braze::python {

/// An object that no recipe makes.
struct NotRebuilt {
  std::string reason;
};

class Rebuilder {
 public:
  Rebuilder(guards::RecipeBuilder& builder, interpreter::Values& values, guards::GuardSet& guards)
      : builder_(builder), values_(values), guards_(guards) {}

  /// The node that makes `value`; the same one for the same object. Throws NotRebuilt.
  ///
  ///   scalars, dtypes, constants of code   constants
  ///   sizes that may vary                  outputs
  ///   what has a source                    the value that guards read there
  ///   tensors computed by the run          outputs of the graph
  ///   wrappers of tensors                  by _make_wrapper_subclass(), with what they hold
  ///   classes of namedtuple() that the run made, and their instances: by namedtuple(), new at each call
  ///   tuples, lists, dicts, sets           and subclasses: ModelOutput, OrderedDict, defaultdict, named tuples
  ///   arrays of NumPy's                    a copy, or a view of the array whose memory it is; of those that the
  ///                                        graph computes their tensors' numpy()
  ///   instances of classes                 instance dict and slots
  ///   deques, functions, cells, methods, partials, slices, ranges, views of dicts, builtin iterators in flight
  guards::RecipeNode node(PyObject* value);

  /// There is a node for `value` already.
  bool makes(PyObject* value) const { return nodes_.contains(value); }

  /// The node of a tuple whose items are told as nodes.
  guards::RecipeNode tuple_of(PyObject* tuple, std::span<const guards::RecipeNode> items);

  /// Adds a change of an object that existed before to the recipe. Throws NotRebuilt.
  void effect(const interpreter::Effect& effect);

  /// Tensors and sizes that were computed by the run, in the order of output(k). Owned by the rebuilder.
  const std::vector<PyObject*>& outputs() const { return outputs_; }

 private:
  using Node = guards::RecipeNode;

  Node node_of(PyObject* value);
  Node create(PyObject* value);
  Node scalar(PyObject* scalar);
  Node remember(PyObject* value, Node node);
  Node sourced(PyObject* value, const guards::Source* source);
  Node tensor(PyObject* tensor);
  Node tuple(PyObject* tuple);
  Node set(PyObject* set);
  Node instance(PyObject* object);
  Node function(PyObject* function);
  Node partial(PyObject* partial);
  Node deque(PyObject* deque);
  Node weak_reference(PyObject* reference);
  Node getter(PyObject* getter);
  Node array(PyObject* array);
  Node traced_array(PyObject* array);
  Node range(PyObject* range);
  Node view(PyObject* view, const char* method);
  Node proxy(PyObject* proxy);
  Node iterator(PyObject* iterator);
  Node dict_iterator(PyObject* iterator);
  struct Lazy;      ///< Iterators of itertools.
  struct Wrapper;   ///< A tensor that holds others.
  struct OwnClass;  ///< What the run has made by namedtuple().
  Node own_dict(PyObject* dict);
  Node attribute(PyObject* object, const char* name);
  std::optional<Node> dict_of_hooks(PyObject* dict);
  void hooks(const interpreter::Effect& effect);
  std::vector<Node> nodes_of(PyObject* tuple, Py_ssize_t from = 0);
  Node constant(PyObject* value) { return builder_.constant(value); }
  Node call(PyObject* callable, Node argument) { return builder_.call(callable, {&argument, 1}); }
  Node call_with(PyObject* callable, std::vector<Node> arguments, PyObject* keywords);
  Node call(PyTypeObject* type, Node argument) { return call(reinterpret_cast<PyObject*>(type), argument); }

  void fill(PyObject* object, Node node);
  void fill_attributes(PyObject* object, Node node);
  void fill_slots(PyObject* object, Node node);
  void fill_entries(PyObject* dict, Node node);
  void hold(PyObject* object) { held_.push_back(guards::Ref::borrow(object)); }

  guards::RecipeBuilder& builder_;
  interpreter::Values& values_;
  guards::GuardSet& guards_;
  std::unordered_map<PyObject*, Node> nodes_;
  std::unordered_set<PyObject*> instance_dicts_;  ///< Of objects that were built: no node of their own.
  std::vector<std::pair<PyObject*, Node>> unfilled_;
  std::vector<PyObject*> outputs_;
  int depth_ = 0;                  ///< Of what is being created.
  bool binds_methods_ = false;     ///< What is being created is a hook, or stored by an effect.
  std::vector<guards::Ref> held_;  ///< Keys of nodes_.
};

}  // namespace braze::python
