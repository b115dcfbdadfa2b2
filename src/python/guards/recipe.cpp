// python/guards/recipe.cpp
#include "python/guards/recipe.h"

#include <structmember.h>

#include <algorithm>
#include <array>

#include "python/guards/storage_access.h"
#include "support/error.h"

namespace braze::guards {

// --------------------------------------------------------------------------------------------- builder

RecipeNode RecipeBuilder::add(Node node) {
  for (const uint32_t operand : node.operands)
    BRAZE_CHECK(operand < nodes_.size(), "a recipe node of another builder");
  nodes_.push_back(std::move(node));
  return {static_cast<uint32_t>(nodes_.size() - 1)};
}

namespace {

std::vector<uint32_t> numbers(std::span<const RecipeNode> nodes) {
  std::vector<uint32_t> all;
  all.reserve(nodes.size());
  for (const RecipeNode node : nodes) all.push_back(node.number);
  return all;
}

}  // namespace

RecipeNode RecipeBuilder::container(RecipeKind kind, std::span<const RecipeNode> items, PyTypeObject* type,
                                    PyTypeObject* base) {
  BRAZE_CHECK(!type || PyType_IsSubtype(type, base), type ? type->tp_name : "", " is no kind of ", base->tp_name);
  Ref own = type && type != base ? Ref::borrow(reinterpret_cast<PyObject*>(type)) : Ref();
  return add({.kind = kind, .object = std::move(own), .operands = numbers(items)});
}

RecipeNode RecipeBuilder::value(uint32_t index) {
  return add({.kind = RecipeKind::value, .index = index});
}
RecipeNode RecipeBuilder::constant(PyObject* object) {
  return add({.kind = RecipeKind::constant, .object = Ref::borrow(object)});
}
RecipeNode RecipeBuilder::output(uint32_t index) {
  return add({.kind = RecipeKind::output, .index = index});
}
RecipeNode RecipeBuilder::tuple(std::span<const RecipeNode> items, PyTypeObject* type) {
  return container(RecipeKind::tuple, items, type, &PyTuple_Type);
}
RecipeNode RecipeBuilder::list(std::span<const RecipeNode> items, PyTypeObject* type) {
  return container(RecipeKind::list, items, type, &PyList_Type);
}
RecipeNode RecipeBuilder::set(std::span<const RecipeNode> items, PyTypeObject* type) {
  return container(RecipeKind::set, items, type, &PySet_Type);
}
RecipeNode RecipeBuilder::frozenset(std::span<const RecipeNode> items, PyTypeObject* type) {
  return container(RecipeKind::frozenset, items, type, &PyFrozenSet_Type);
}
RecipeNode RecipeBuilder::dict(std::span<const RecipeNode> pairs, PyTypeObject* type) {
  BRAZE_CHECK(pairs.size() % 2 == 0, "a dict is made of keys and values");
  return container(RecipeKind::dict, pairs, type, &PyDict_Type);
}
RecipeNode RecipeBuilder::object(PyTypeObject* type) {
  return add({.kind = RecipeKind::object, .object = Ref::borrow(reinterpret_cast<PyObject*>(type))});
}
RecipeNode RecipeBuilder::slice(RecipeNode start, RecipeNode stop, RecipeNode step) {
  return add({.kind = RecipeKind::slice, .operands = {start.number, stop.number, step.number}});
}
RecipeNode RecipeBuilder::cell() {
  return add({.kind = RecipeKind::cell});
}
RecipeNode RecipeBuilder::cell(RecipeNode contents) {
  return add({.kind = RecipeKind::cell, .operands = {contents.number}});
}
RecipeNode RecipeBuilder::method(RecipeNode function, RecipeNode self) {
  return add({.kind = RecipeKind::method, .operands = {function.number, self.number}});
}
RecipeNode RecipeBuilder::function(std::span<const RecipeNode> parts) {
  BRAZE_CHECK(parts.size() >= 2 && parts.size() <= 8, "a function is made of two to eight parts");
  return add({.kind = RecipeKind::function, .operands = numbers(parts)});
}
RecipeNode RecipeBuilder::iterator(RecipeNode container, uint32_t taken) {
  return add({.kind = RecipeKind::iterator, .index = taken, .operands = {container.number}});
}
RecipeNode RecipeBuilder::call(PyObject* callable, std::span<const RecipeNode> arguments, PyObject* names) {
  const bool has_names = names && PyTuple_GET_SIZE(names) > 0;
  BRAZE_CHECK(!has_names || static_cast<size_t>(PyTuple_GET_SIZE(names)) <= arguments.size(), "too many keywords");
  return add({.kind = RecipeKind::call,
              .object = Ref::borrow(callable),
              .operands = numbers(arguments),
              .names = Ref::borrow(has_names ? names : nullptr)});
}

void RecipeBuilder::attribute(RecipeNode object, PyObject* name, RecipeNode value) {
  nodes_[object.number].attributes.emplace_back(Ref::borrow(name), value.number);
}
void RecipeBuilder::add_item(RecipeNode container, RecipeNode item) {
  Node& node = nodes_[container.number];
  const bool is_empty_cell = node.kind == RecipeKind::cell && node.operands.empty();
  BRAZE_CHECK(node.kind == RecipeKind::list || node.kind == RecipeKind::set || is_empty_cell,
              "only lists, sets and empty cells take items later");
  node.operands.push_back(item.number);
}
void RecipeBuilder::add_entry(RecipeNode dict, RecipeNode key, RecipeNode value) {
  Node& node = nodes_[dict.number];
  BRAZE_CHECK(node.kind == RecipeKind::dict, "only dicts take entries later");
  node.operands.push_back(key.number);
  node.operands.push_back(value.number);
}

void RecipeBuilder::effect(EffectKind kind, std::span<const RecipeNode> operands) {
  struct Arity {
    size_t least, most;
  };
  static const Arity arities[] = {{3, 3}, {2, 2}, {3, 3}, {2, 2}, {3, 3},       {2, 2},
                                  {2, 2}, {2, 2}, {1, 2}, {1, 1}, {1, SIZE_MAX}};
  static_assert(std::size(arities) == static_cast<size_t>(EffectKind::call) + 1);
  const Arity arity = arities[static_cast<size_t>(kind)];
  BRAZE_CHECK(operands.size() >= arity.least && operands.size() <= arity.most, "an effect with ", operands.size(),
              " operands");
  effects_.push_back({kind, numbers(operands)});
}

Recipe RecipeBuilder::finish(std::span<const RecipeNode> results) && {
  Recipe recipe;
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].kind == RecipeKind::value) recipe.values_.push_back(i);
  recipe.nodes_ = std::move(nodes_);
  recipe.effects_ = std::move(effects_);
  recipe.results_ = numbers(results);
  return recipe;
}

// ------------------------------------------------------------------------------------------------- run

namespace {

/// The `__new__` of the nearest base that C code made: it prepares the builtin part and nothing else.
PyObject* allocate(PyTypeObject* type) {
  PyTypeObject* base = type;
  while (is_changeable(base) && base->tp_base) base = base->tp_base;
  const Ref empty = Ref::steal(PyTuple_New(0));
  if (!empty) return nullptr;
  return base->tp_new(type, empty.get(), nullptr);
}

/// \returns null with an AttributeError if there is none.
PyObject* needed_dict(PyObject* object, PyObject* name) {
  PyObject* dict = instance_dict(object);
  if (!dict) PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute %R", Py_TYPE(object)->tp_name, name);
  return dict;
}

/// Sets a slot or an entry of the instance dict, without `__setattr__`.
bool store_raw(PyObject* object, PyObject* name, PyObject* value) {
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(object), name);
  if (descriptor && Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
    return Py_TYPE(descriptor)->tp_descr_set(descriptor, object, value) == 0;
  PyObject* dict = needed_dict(object, name);
  return dict && PyDict_SetItem(dict, name, value) == 0;
}

/// Deletes an entry of the instance dict, without `__delattr__`.
bool delete_raw(PyObject* object, PyObject* name) {
  PyObject* dict = needed_dict(object, name);
  return dict && PyDict_DelItem(dict, name) == 0;
}

bool store_entry(PyObject* dict, PyObject* key, PyObject* value) {
  return (PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value)) == 0;
}

/// Item `key` of a list, as the list would count it: negative ones from the end.
bool list_place(PyObject* list, PyObject* key, Py_ssize_t& place) {
  place = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (place == -1 && PyErr_Occurred()) return false;
  if (place < 0) place += PyList_GET_SIZE(list);
  return true;
}

bool store_item(PyObject* container, PyObject* key, PyObject* value) {
  if (PyDict_Check(container)) return store_entry(container, key, value);
  if (PyList_Check(container) && PyIndex_Check(key)) {
    Py_ssize_t place;
    return list_place(container, key, place) && PyList_SetItem(container, place, Py_NewRef(value)) == 0;
  }
  return PyObject_SetItem(container, key, value) == 0;
}

bool delete_item(PyObject* container, PyObject* key) {
  if (PyODict_Check(container)) return PyODict_DelItem(container, key) == 0;
  if (PyDict_Check(container)) return PyDict_DelItem(container, key) == 0;
  return PyObject_DelItem(container, key) == 0;
}

bool set_function_parts(PyObject* function, std::span<PyObject* const> parts) {
  const auto part = [&](size_t i) { return i < parts.size() && parts[i] != Py_None ? parts[i] : nullptr; };
  if (part(2) && PyFunction_SetDefaults(function, part(2)) < 0) return false;
  if (part(3) && PyFunction_SetKwDefaults(function, part(3)) < 0) return false;
  if (part(4) && PyFunction_SetClosure(function, part(4)) < 0) return false;
  if (part(5) && PyObject_SetAttrString(function, "__name__", part(5)) < 0) return false;
  return !part(7) || PyFunction_SetAnnotations(function, part(7)) == 0;
}

}  // namespace

/// One run: the objects made so far.
class Recipe::Run {
 public:
  Run(const Recipe& recipe, std::span<PyObject* const> values, std::span<PyObject* const> outputs)
      : recipe_(recipe), outputs_(outputs) {
    if (recipe.nodes_.size() > few_.size()) {
      many_.resize(recipe.nodes_.size());
      made_ = many_.data();
    }
    for (const uint32_t node : recipe.values_) made_[node] = Ref::borrow(values[recipe.nodes_[node].index]);
  }

  bool run(Ref* results) {
    for (const uint32_t node : recipe_.results_)
      if (!make(node)) return false;
    for (const RecipeBuilder::Effect& effect : recipe_.effects_)
      for (const uint32_t node : effect.operands)
        if (!make(node)) return false;
    if (!fill_all()) return false;
    for (const RecipeBuilder::Effect& effect : recipe_.effects_)
      if (!act(effect)) return false;
    for (size_t i = 0; i < recipe_.results_.size(); ++i) results[i] = made_[recipe_.results_[i]];
    return true;
  }

 private:
  using Node = RecipeBuilder::Node;

  PyObject* made(uint32_t node) const { return made_[node].get(); }

  /// The object of a node, borrowed. Mutable containers are made empty and filled later, so that what they contain
  /// may contain them.
  PyObject* make(uint32_t number) {
    if (made_[number]) return made(number);
    const Node& node = recipe_.nodes_[number];
    const bool filled_later = node.kind == RecipeKind::list || node.kind == RecipeKind::set ||
                              node.kind == RecipeKind::dict || node.kind == RecipeKind::object ||
                              (node.kind == RecipeKind::cell && !node.operands.empty());
    if (!filled_later)
      for (const uint32_t operand : node.operands)
        if (!make(operand)) return nullptr;
    // What others look into must be whole.
    const bool looks_in =
        node.kind == RecipeKind::call || node.kind == RecipeKind::frozenset || node.kind == RecipeKind::iterator;
    if (looks_in && !fill_all()) return nullptr;
    if (made_[number]) return made(number);  // A container that was filled holds it.
    made_[number] = Ref::steal(create(node));
    if (made_[number] && (filled_later || !node.attributes.empty())) unfilled_.push_back(number);
    return made(number);
  }

  PyObject* create(const Node& node) {
    auto* type = reinterpret_cast<PyTypeObject*>(node.object.get());
    switch (node.kind) {
      case RecipeKind::value: return nullptr;  // made before all others
      case RecipeKind::constant: return Py_NewRef(node.object.get());
      case RecipeKind::output: return Py_NewRef(outputs_[node.index]);
      case RecipeKind::tuple: return create_tuple(node, type);
      case RecipeKind::list: return type ? allocate(type) : PyList_New(0);
      case RecipeKind::set: return type ? allocate(type) : PySet_New(nullptr);
      case RecipeKind::frozenset: return create_frozenset(node, type);
      case RecipeKind::dict: return type ? allocate(type) : PyDict_New();
      case RecipeKind::object: return allocate(type);
      case RecipeKind::slice:
        return PySlice_New(made(node.operands[0]), made(node.operands[1]), made(node.operands[2]));
      case RecipeKind::cell: return PyCell_New(nullptr);
      case RecipeKind::method: return PyMethod_New(made(node.operands[0]), made(node.operands[1]));
      case RecipeKind::function: return create_function(node);
      case RecipeKind::iterator: return create_iterator(node);
      case RecipeKind::call: return call(node.object.get(), node.operands, node.names.get());
    }
    return nullptr;
  }

  PyObject* create_tuple(const Node& node, PyTypeObject* type) {
    const auto size = static_cast<Py_ssize_t>(node.operands.size());
    PyObject* tuple = type ? type->tp_alloc(type, size) : PyTuple_New(size);
    if (!tuple) return nullptr;
    for (Py_ssize_t i = 0; i < size; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(made(node.operands[i])));
    return tuple;
  }

  PyObject* create_frozenset(const Node& node, PyTypeObject* type) {
    const Ref items = Ref::steal(create_tuple(node, nullptr));
    if (!items) return nullptr;
    if (!type) return PyFrozenSet_New(items.get());
    const Ref arguments = Ref::steal(PyTuple_Pack(1, items.get()));
    return arguments ? PyFrozenSet_Type.tp_new(type, arguments.get(), nullptr) : nullptr;
  }

  PyObject* create_function(const Node& node) {
    std::array<PyObject*, 8> parts{};
    const size_t count = node.operands.size();
    for (size_t i = 0; i < count; ++i) parts[i] = made(node.operands[i]);
    PyObject* qualified = count > 6 && parts[6] != Py_None ? parts[6] : nullptr;
    Ref function = Ref::steal(PyFunction_NewWithQualName(parts[0], parts[1], qualified));
    if (!function || !set_function_parts(function.get(), {parts.data(), count})) return nullptr;
    return function.release();
  }

  PyObject* create_iterator(const Node& node) {
    Ref iterator = Ref::steal(PyObject_GetIter(made(node.operands[0])));
    if (!iterator) return nullptr;
    for (uint32_t i = 0; i < node.index; ++i) {
      const Ref taken = Ref::steal(PyIter_Next(iterator.get()));
      if (!taken) return PyErr_Occurred() ? nullptr : iterator.release();
    }
    return iterator.release();
  }

  PyObject* call(PyObject* callable, std::span<const uint32_t> operands, PyObject* names = nullptr) {
    std::vector<PyObject*> arguments;
    for (const uint32_t operand : operands) arguments.push_back(made(operand));
    const size_t named = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    return PyObject_Vectorcall(callable, arguments.data(), arguments.size() - named, names);
  }

  bool fill_all() {
    while (!unfilled_.empty()) {
      const uint32_t number = unfilled_.back();
      unfilled_.pop_back();
      if (!fill(number)) return false;
    }
    return true;
  }

  bool fill(uint32_t number) {
    const Node& node = recipe_.nodes_[number];
    PyObject* object = made(number);
    for (const auto& [name, value] : node.attributes)
      if (!make(value) || !store_raw(object, name.get(), made(value))) return false;
    const bool hashes = node.kind == RecipeKind::dict || node.kind == RecipeKind::set;
    if (hashes || node.kind == RecipeKind::list || node.kind == RecipeKind::cell)
      for (const uint32_t operand : node.operands)
        if (!make(operand)) return false;
    if (hashes && !fill_all()) return false;  // what is hashed must be whole
    switch (node.kind) {
      case RecipeKind::list:
        for (const uint32_t item : node.operands)
          if (PyList_Append(object, made(item)) < 0) return false;
        return true;
      case RecipeKind::set:
        for (const uint32_t item : node.operands)
          if (PySet_Add(object, made(item)) < 0) return false;
        return true;
      case RecipeKind::dict:
        for (size_t i = 0; i < node.operands.size(); i += 2)
          if (!store_entry(object, made(node.operands[i]), made(node.operands[i + 1]))) return false;
        return true;
      case RecipeKind::cell: return node.operands.empty() || PyCell_Set(object, made(node.operands[0])) == 0;
      default: return true;
    }
  }

  bool act(const RecipeBuilder::Effect& effect) {
    const std::vector<uint32_t>& operands = effect.operands;
    PyObject* target = made(operands[0]);
    PyObject* key = operands.size() > 1 ? made(operands[1]) : nullptr;
    PyObject* value = operands.size() > 2 ? made(operands[2]) : nullptr;
    switch (effect.kind) {
      case EffectKind::store_attribute: return PyObject_SetAttr(target, key, value) == 0;
      case EffectKind::delete_attribute: return PyObject_DelAttr(target, key) == 0;
      case EffectKind::store_in_dict_of: return store_raw(target, key, value);
      case EffectKind::delete_from_dict_of: return delete_raw(target, key);
      case EffectKind::store_item: return store_item(target, key, value);
      case EffectKind::delete_item: return delete_item(target, key);
      case EffectKind::append: return PyList_Append(target, key) == 0;
      case EffectKind::replace_list: return PyList_SetSlice(target, 0, PyList_GET_SIZE(target), key) == 0;
      case EffectKind::store_cell: return PyCell_Set(target, key) == 0;
      case EffectKind::ask_next: {
        const Ref item = Ref::steal(PyIter_Next(target));
        return item || !PyErr_Occurred();
      }
      case EffectKind::call: {
        const Ref result = Ref::steal(call(target, std::span(operands).subspan(1)));
        return static_cast<bool>(result);
      }
    }
    return true;
  }

  const Recipe& recipe_;
  std::span<PyObject* const> outputs_;
  std::array<Ref, 32> few_;  ///< Most recipes: no allocation.
  std::vector<Ref> many_;
  Ref* made_ = few_.data();
  std::vector<uint32_t> unfilled_;
};

bool Recipe::run(std::span<PyObject* const> values, std::span<PyObject* const> outputs, Ref* results) const {
  return Run(*this, values, outputs).run(results);
}

bool Recipe::replaces_lists() const noexcept {
  return std::ranges::any_of(
      effects_, [](const RecipeBuilder::Effect& effect) { return effect.kind == EffectKind::replace_list; });
}

int Recipe::visit(visitproc visit, void* arg) const {
  for (const RecipeBuilder::Node& node : nodes_) {
    Py_VISIT(node.object.get());
    Py_VISIT(node.names.get());
    for (const auto& attribute : node.attributes) Py_VISIT(attribute.first.get());
  }
  return 0;
}

}  // namespace braze::guards
