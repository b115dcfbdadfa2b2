// python/guards/recipe.h: how a replayed call makes its results and repeats its effects.
//
// A recipe is a graph of nodes over the values that guards asked for (GuardSet::want), constants, and the outputs
// of the compiled graph, and a list of effects in the order in which they happened. Each node is made at most once
// a call, so that what was one object is one object again; lists, dicts, sets and objects may contain themselves.
//
//   RecipeBuilder builder;
//   auto y = builder.output(0);
//   auto pair = builder.tuple({y, builder.constant(two)});
//   builder.effect(EffectKind::call, builder.constant(list_append), {builder.value(log), y});
//   Recipe recipe = std::move(builder).finish({pair});
//   Ref results[1];
//   if (!recipe.run(values, outputs, results)) return nullptr;    // a Python error is set
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

#include "python/guards/ref.h"

namespace braze::guards {

enum class RecipeKind : uint8_t {
  value,     ///< Number `index` of the values that the guards read.
  constant,  ///< `object` itself.
  output,    ///< Number `index` of the graph's outputs.
  tuple,     ///< Of the operands; an instance of `object` (a tuple type: named tuples) if given, without `__new__`.
  list,      ///< Likewise; `object` may be a list type.
  set,       ///< Likewise.
  frozenset,  ///< Likewise.
  dict,       ///< Operands are key, value, key, value...; `object` may be a dict type (OrderedDict, defaultdict).
  object,     ///< An instance of type `object`, without `__new__` and `__init__`.
  slice,      ///< Operands start, stop, step.
  cell,       ///< A closure cell with operand 0 as contents, empty without operands.
  method,     ///< Operand 0 bound to operand 1.
  function,   ///< Operands: code, globals, defaults, keyword defaults, closure, name, qualified name, annotations;
              ///< None where there are none.
  iterator,   ///< iter(operand 0), which has given `index` items already. For exact builtin containers.
  call,       ///< `object`, a C function or builtin type without effects, called with the operands; the last
              ///< ones by keyword if there are names.
};

enum class EffectKind : uint8_t {
  store_attribute,      ///< target.name = value, by what the type does (operands: target, name, value).
  delete_attribute,     ///< (target, name).
  store_in_dict_of,     ///< target.__dict__[name] = value, without `__setattr__` (target, name, value).
  delete_from_dict_of,  ///< del target.__dict__[name], without `__delattr__` and descriptors (target, name).
  store_item,           ///< Entry of a dict or item of a list, without `__setitem__` (target, key, value).
  delete_item,          ///< (target, key).
  append,               ///< (list, value).
  replace_list,         ///< list[:] = the tuple or list (list, sequence).
  store_cell,           ///< (cell, value); without value the cell is emptied.
  ask_next,             ///< (iterator): it gives its next item, which is dropped, or comes to its end.
  call,                 ///< Operand 0 called with the others; the result is dropped.
};

class Recipe;

/// A node of one builder.
struct RecipeNode {
  uint32_t number;
};

class RecipeBuilder {
 public:
  RecipeNode value(uint32_t index);
  RecipeNode constant(PyObject* object);
  RecipeNode output(uint32_t index);
  /// \param type  null, or a subclass of the builtin type.
  RecipeNode tuple(std::span<const RecipeNode> items, PyTypeObject* type = nullptr);
  RecipeNode list(std::span<const RecipeNode> items, PyTypeObject* type = nullptr);
  RecipeNode set(std::span<const RecipeNode> items, PyTypeObject* type = nullptr);
  RecipeNode frozenset(std::span<const RecipeNode> items, PyTypeObject* type = nullptr);
  /// \param pairs  key, value, key, value, in order.
  RecipeNode dict(std::span<const RecipeNode> pairs, PyTypeObject* type = nullptr);
  RecipeNode object(PyTypeObject* type);
  RecipeNode slice(RecipeNode start, RecipeNode stop, RecipeNode step);
  RecipeNode cell();
  RecipeNode cell(RecipeNode contents);
  RecipeNode method(RecipeNode function, RecipeNode self);
  /// \param parts  as RecipeKind::function says; trailing ones may be left out from `defaults` on.
  RecipeNode function(std::span<const RecipeNode> parts);
  RecipeNode iterator(RecipeNode container, uint32_t taken);
  /// \param names  null, or a tuple: the names of the last arguments.
  RecipeNode call(PyObject* callable, std::span<const RecipeNode> arguments, PyObject* names = nullptr);

  /// Sets what a new object, dict, list or set has beside its items: entry `name` of its instance dict, or the slot
  /// of that name, without `__setattr__`. May name nodes made later: that is how cycles are built.
  void attribute(RecipeNode object, PyObject* name, RecipeNode value);
  /// Adds an item to a list or set, an entry to a dict, or the contents to an empty cell, after it was made: for
  /// containers that contain themselves.
  void add_item(RecipeNode container, RecipeNode item);
  void add_entry(RecipeNode dict, RecipeNode key, RecipeNode value);

  void effect(EffectKind kind, std::span<const RecipeNode> operands);

  /// \param results  what run() gives, in order.
  Recipe finish(std::span<const RecipeNode> results) &&;

 private:
  friend class Recipe;
  struct Node {
    RecipeKind kind;
    uint32_t index = 0;
    Ref object = {};
    std::vector<uint32_t> operands = {};
    /// Of lists, sets, dicts and objects: what is put in once the object itself is there.
    std::vector<std::pair<Ref, uint32_t>> attributes = {};
    Ref names = {};  ///< Of call: the keywords.
  };
  struct Effect {
    EffectKind kind;
    std::vector<uint32_t> operands;
  };
  RecipeNode add(Node node);
  RecipeNode container(RecipeKind kind, std::span<const RecipeNode> items, PyTypeObject* type, PyTypeObject* base);

  std::vector<Node> nodes_;
  std::vector<Effect> effects_;
};

/// Immutable. May be run by several threads, each with its own values.
class Recipe {
 public:
  /// Makes every node that a result or an effect needs, then does the effects in order.
  /// \param values   what the guards read; references are taken before anything else happens.
  /// \param outputs  the graph's outputs.
  /// \param results  room for one reference per result.
  /// \returns false with a Python error set when making a node or an effect raised; earlier effects stay done.
  bool run(std::span<PyObject* const> values, std::span<PyObject* const> outputs, Ref* results) const;

  size_t result_count() const noexcept { return results_.size(); }
  /// An effect gives a list its contents as a whole: what others add after the guards were checked would be lost.
  bool replaces_lists() const noexcept;
  /// Every object held, for tp_traverse.
  int visit(visitproc visit, void* argument) const;

 private:
  friend class RecipeBuilder;
  class Run;
  std::vector<RecipeBuilder::Node> nodes_;
  std::vector<RecipeBuilder::Effect> effects_;
  std::vector<uint32_t> results_;
  std::vector<uint32_t> values_;  ///< Nodes of kind value, whose references are taken first.
};

}  // namespace braze::guards
