// python/interpreter/watch/values.cpp
#include "python/interpreter/watch/values.h"

#include <algorithm>
#include <map>

#include "python/guards/deque.h"
#include "python/guards/drops.h"
#include "python/guards/iterators.h"
#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

namespace {

constexpr Py_ssize_t largest_container = 4096;  // Larger ones would make a guard an item.
constexpr int deepest_source = 400;             // Sources are evaluated and printed by recursion.
constexpr int deepest_container = 200;          // Levels.

/// Reached from what a call or frame is given.
bool is_given(const guards::Source* source) {
  while (source->parent) source = source->parent;
  return source->kind == guards::SourceKind::argument;
}

bool is_deep(const guards::Source* source) {
  int depth = 0;
  for (; source->parent; source = source->parent) ++depth;
  return depth > deepest_source;
}

/// An instance of a class statement's class that no weak reference can be made to, by its `__slots__`. Guards must
/// not keep it alive, and cannot tell that it is gone. Not the numbers of an IntEnum, which live as long as it
/// does.
bool is_out_of_sight(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (PyLong_Check(value)) return false;
  return type->tp_flags & Py_TPFLAGS_HEAPTYPE && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) &&
         !PyType_SUPPORTS_WEAKREFS(type);
}

bool is_sequence(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value);
}

}  // namespace

bool is_exact_dict(PyObject* value) {
  return PyDict_CheckExact(value) || PyODict_CheckExact(value);
}

PyTypeObject* storage_type(PyObject* value) {
  if (PyList_Check(value)) return &PyList_Type;
  if (PyTuple_Check(value)) return &PyTuple_Type;
  if (PyODict_Check(value)) return &PyODict_Type;
  if (PyDict_Check(value)) return &PyDict_Type;
  if (PySet_Check(value)) return &PySet_Type;
  return PyFrozenSet_Check(value) ? &PyFrozenSet_Type : nullptr;
}

bool is_builtin_container(PyObject* value) {
  return storage_type(value) == Py_TYPE(value);
}

void Values::learn_cell(PyObject* cell, const guards::Source* contents) {
  const guards::Source* before = source_of(cell);
  if (before && before->parent && contents->parent && !is_made(cell))
    guards_.same_object(before->parent, contents->parent);  // Functions that share a variable.
  learn_as(cell, contents);
}

void Values::learn_as(PyObject* object, const guards::Source* source) {
  if (known_.try_emplace(object, Known{source}).second) held_.push_back(guards::Ref::borrow(object));
  made_.erase(object);
}

bool Values::learn(PyObject* value, const guards::Source* source) {
  if (guards::is_scalar(value)) {
    guards_.constant(source, value);
    if (guards::is_unique(value)) return true;
    std::vector<const guards::Source*>& all = scalars_[value];
    if (all.empty()) held_.push_back(guards::Ref::borrow(value));
    if (std::ranges::find(all, source) == all.end()) all.push_back(source);
    return true;
  }
  if (const auto found = known_.find(value); found != known_.end()) {
    if (found->second.source != source) guards_.same_object(found->second.source, source);
    return true;
  }
  if (is_deep(source)) return false;
  if (tensors_.is_tensor(value)) {
    if (!tensors_.learn(value, source)) return false;
  } else if (is_builtin_container(value) || guards::iterator_kind(value) != guards::IteratorKind::none) {
    guards_.type(source, Py_TYPE(value));
  } else {
    guards_.type(source, Py_TYPE(value));
    const bool by_parts = is_given(source) || is_out_of_sight(value);
    if (!by_parts || !learn_given(value, source)) pin(value, source);
    if (PyFunction_Check(value)) guards_.function(source, value);
  }
  learn_as(value, source);
  return true;
}

/// Objects that a call or frame is given are often made for it. All that is read of them goes by their sources, so
/// that they need not be the same ones; where identity matters, pin() says so.
bool Values::learn_given(PyObject* value, const guards::Source* source) {
  if (PyFunction_Check(value)) {
    PyObject* globals = PyFunction_GET_GLOBALS(value);
    guards_.identity(sources().member(source, guards::Member::function_globals), globals);
    return true;
  }
  if (PyMethod_Check(value))
    return learn(PyMethod_GET_FUNCTION(value), sources().member(source, guards::Member::method_function)) &&
           learn(PyMethod_GET_SELF(value), sources().member(source, guards::Member::method_self));
  return (Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyType_Check(value) && !PyModule_Check(value);
}

void Values::pin(PyObject* value, const guards::Source* source) {
  guards_.identity(source, value, PyType_Check(value) ? guards::Hold::strong : guards::Hold::weak);
}

bool Values::pin(PyObject* value) {
  const guards::Source* source = source_of(value);
  if (source && (is_out_of_sight(value) || guards::iterator_kind(value) != guards::IteratorKind::none))
    return false;
  if (source) pin(value, source);
  keep_protocols(value);
  return source || is_known(value);
}

bool Values::has_known_order(PyObject* set) {
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t at = 0;
  if (source_of(set)) {
    if (effects_.changed(set) || !PyAnySet_CheckExact(set) || !open(set)) return false;
    while (_PySet_NextEntry(set, &at, &item, &hash))
      if (PyType_Check(item))
        learn_as(item, sources().object(item, reinterpret_cast<PyTypeObject*>(item)->tp_name));
    return true;
  }
  if (!is_made(set)) return false;
  while (_PySet_NextEntry(set, &at, &item, &hash))
    if (!guards::is_scalar(item) && !tensors_.is_plain(item)) return false;
  return true;
}

void Values::make(PyObject* value) {
  if (!value || guards::is_scalar(value) || known_.contains(value)) return;
  made_.insert(value);
  // Tensors release the GIL when they go, at any instruction that drops one, with all changes there to be seen.
  const bool holds_tensors = tensors_.is_tensor(value) || PyTuple_Check(value);
  if (holds_tensors && Effects::has_other_threads()) held_.push_back(guards::Ref::borrow(value));
}

void Values::make_constant(PyObject* value) {
  make(value);
  if (constants_.insert(value).second) held_.push_back(guards::Ref::borrow(value));
  if (!PyTuple_CheckExact(value)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) make_constant(PyTuple_GET_ITEM(value, i));
}

const guards::Source* Values::source_of(PyObject* value) const {
  const auto found = known_.find(value);
  return found == known_.end() ? nullptr : found->second.source;
}

std::vector<const guards::Source*> Values::scalar_sources(PyObject* scalar) const {
  const auto found = scalars_.find(scalar);
  return found == scalars_.end() ? std::vector<const guards::Source*>() : found->second;
}

bool Values::is_known(PyObject* value) const {
  return guards::is_scalar(value) || made_.contains(value) || known_.contains(value) || tensors_.is_plain(value) ||
         tensors_.is_computed(value);
}

bool Values::open(PyObject* container) {
  const auto found = known_.find(container);
  const bool is_container = storage_type(container) || guards::is_deque(container);
  if (found == known_.end() || found->second.opened || !is_container) return is_known(container);
  found->second.opened = true;
  const guards::Source* source = found->second.source;
  return effects_.changed(container) ? open_before(container, source) : open_items(container, source);
}

/// A container that the run has changed by now: guards are about what it held before.
bool Values::open_before(PyObject* container, const guards::Source* source) {
  PyObject* before = effects_.before(container);
  return PyDict_Check(container) ? open_dict(before, source) : open_sequence(before, source);
}

bool Values::open_sequence(PyObject* sequence, const guards::Source* source) {
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(sequence);
  guards_.length(source, static_cast<size_t>(length));
  for (Py_ssize_t i = 0; i < length; ++i)
    if (!learn(PySequence_Fast_GET_ITEM(sequence, i), sources().sequence_item(source, static_cast<uint32_t>(i))))
      return false;
  return true;
}

bool Values::open_items(PyObject* container, const guards::Source* source) {
  if (guards::length_of(container) > largest_container) return false;
  if (is_sequence(container)) return open_sequence(container, source);
  if (guards::is_deque(container)) return open_deque(container, source);
  if (PyAnySet_Check(container)) return PyAnySet_CheckExact(container) && guards_.deep(source, container);
  return open_dict(container, source);
}

bool Values::open_deque(PyObject* deque, const guards::Source* source) {
  guards_.length(source, static_cast<size_t>(Py_SIZE(deque)));
  for (Py_ssize_t i = 0; i < Py_SIZE(deque); ++i)
    if (!learn(guards::deque_item(deque, i), sources().sequence_item(source, static_cast<uint32_t>(i))))
      return false;
  return true;
}

bool Values::open_dict(PyObject* dict, const guards::Source* source) {
  if (!guards::has_plain_keys(dict)) return false;
  guards_.dict_keys(source, dict);
  uint32_t position = 0;
  return guards::for_each_key(dict, [&](PyObject* key) {
    if (!guards::is_scalar(key) && !learn(key, sources().dict_key(source, position))) return false;
    keep_protocols(key);
    ++position;
    PyObject* value = PyDict_GetItem(dict, key);
    return value && learn(value, sources().dict_item(source, key));
  });
}

void Values::guard_aliasing() {
  std::map<uint32_t, std::pair<const guards::Source*, PyObject*>> lists, dicts, objects, cells, sets, iterators,
      told;
  for (PyObject* object : told_apart_) {
    const guards::Source* source = source_of(object);
    told[source->number] = {source, object};
  }
  for (const auto& [object, known] : known_) {
    if (PySet_CheckExact(object) && effects_.changed_sets()) sets[known.source->number] = {known.source, object};
    if (effects_.changed_lists() && PyList_Check(object)) lists[known.source->number] = {known.source, object};
    const bool is_iterator = guards::iterator_kind(object) != guards::IteratorKind::none;
    if (is_iterator && !effects_.iterators().empty()) iterators[known.source->number] = {known.source, object};
    const bool is_cell = PyCell_Check(object);
    if (is_cell && effects_.changed_cells() && known.source->parent)
      cells[known.source->number] = {known.source->parent, object};
    const bool is_object = Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE && !tensors_.is_tensor(object);
    if (is_object && effects_.changed_slots()) objects[known.source->number] = {known.source, object};
    if (!effects_.changed_dicts() || is_cell) continue;
    // A dict may be given beside the object, function or module whose attributes it is.
    if (PyDict_Check(object)) dicts[known.source->number] = {known.source, object};
    const bool has_attributes = is_object || PyFunction_Check(object) || PyModule_Check(object);
    if (!has_attributes || PyType_Check(object)) continue;
    PyObject* dict = guards::instance_dict(object);
    const guards::Source* source = sources().dict_of(known.source);
    if (dict) dicts[source->number] = {source, dict};
  }
  for (const auto* group : {&lists, &dicts, &objects, &cells, &sets, &iterators, &told}) {
    std::vector<const guards::Source*> all;
    std::vector<PyObject*> members;
    for (const auto& [number, entry] : *group) {
      all.push_back(entry.first);
      members.push_back(entry.second);
    }
    guards_.objects(std::move(all), members);
  }
}

void Values::guard_iterators() {
  std::map<uint32_t, PyObject*> moved;  // In an order of their own, not by address.
  for (const auto& [iterator, change] : effects_.iterators())
    if (const guards::Source* source = source_of(iterator)) moved[source->number] = iterator;
  for (const auto& [number, iterator] : moved) {
    using enum guards::IteratorKind;
    const guards::IteratorKind kind = guards::iterator_kind(iterator);
    if (kind == enumerate || kind == zip) continue;  // Those within say it.
    const IteratorChange& change = *effects_.iterators().at(iterator);
    guards_.items_left(source_of(iterator), change.taken, change.ended);
  }
}

bool Values::drop(PyObject* value, const guards::Source* source, bool contents) {
  // What the run knows is held by it, by the frame as it was, and by the stack.
  const auto extra = [this](PyObject* object) -> Py_ssize_t { return known_.contains(object) ? 6 : 0; };
  for (const Drop& other : drops_)
    if (contents && other.contents && other.source == source) return true;
  drops_.push_back({source, contents});
  drops_objects_ |= value && !guards::is_scalar(value);
  if (!value) return true;
  if (!contents) return guards::goes_unnoticed(value, 1, extra);
  const guards::Ref items = guards::Ref::steal(PyDict_Check(value) ? PyDict_Items(value) : PySequence_List(value));
  bool all = static_cast<bool>(items);
  for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (!PyDict_Check(value))
      all = guards::goes_unnoticed(item, 2, extra);
    else
      all = guards::goes_unnoticed(PyTuple_GET_ITEM(item, 0), 2, extra) &&
            guards::goes_unnoticed(PyTuple_GET_ITEM(item, 1), 2, extra);
  }
  return all;
}

void Values::guard_drops() {
  for (const Drop& drop : drops_) guards_.drops(drop.source, drop.contents, drops_.size());
}

bool Values::absorb(PyObject* value) {
  std::unordered_set<PyObject*> seen;
  return absorb(value, seen);
}

bool Values::absorb(PyObject* value, std::unordered_set<PyObject*>& seen) {
  if (absorbing_ >= deepest_container) return false;
  ++absorbing_;
  const bool is_guarded = absorb_here(value, seen);
  --absorbing_;
  return is_guarded;
}

bool Values::absorb_here(PyObject* value, std::unordered_set<PyObject*>& seen) {
  if (value && has_deferred()) settle(value);
  if (!value || guards::is_scalar(value) || tensors_.is_plain(value)) return true;
  keep_protocols(value);
  if (tensors_.is_tensor(value)) return is_known(value);
  const bool is_container = is_builtin_container(value);
  // A builtin class tells nothing but its name.
  const bool is_builtin_class =
      PyType_Check(value) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(value), Py_TPFLAGS_IMMUTABLETYPE);
  if (is_builtin_class && is_known(value)) return true;
  if (is_derived_scalar(value) && source_of(value)) return absorb_derived(value);
  // In what the run made: C code put it there, as in tuple(d.items()).
  if (absorbing_ > 1 && PyTuple_CheckExact(value)) make(value);
  if (guards::is_deque(value) && source_of(value)) return absorb_items(value, seen);
  const bool is_tuple = !is_container && is_known(value) && acts_as_tuple(value);
  if (!is_container && !is_tuple) return is_made(value) && absorb_held(value, seen);
  return is_known(value) && absorb_items(value, seen);
}

/// What C code reads from the storage of a container.
bool Values::absorb_items(PyObject* container, std::unordered_set<PyObject*>& seen) {
  if (!open(container)) return false;
  if (!seen.insert(container).second) return true;
  if (is_sequence(container)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i)
      if (!absorb(PySequence_Fast_GET_ITEM(container, i), seen)) return false;
    return true;
  }
  if (PyAnySet_Check(container)) return has_known_order(container);
  if (guards::is_deque(container)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(container); ++i)
      if (!absorb(guards::deque_item(container, i), seen)) return false;
    return true;
  }
  if (!PyDict_Check(container)) return false;
  iterate_dict(container);
  Py_ssize_t at = 0;
  PyObject *key, *item;
  while (PyDict_Next(container, &at, &key, &item))
    if (!absorb(item, seen)) return false;
  return true;
}

/// What an iterator, a view or another C container that the run made holds: C code reads it from there.
bool Values::absorb_held(PyObject* value, std::unordered_set<PyObject*>& seen) {
  PyTypeObject* type = Py_TYPE(value);
  if (storage_type(value)) return absorb_items(value, seen);  // Of a subclass.
  if (!is_exact_builtin(type) || !type->tp_traverse || !(type->tp_iternext || type->tp_iter) ||
      PyGen_CheckExact(value))
    return true;
  if (!seen.insert(value).second) return true;
  std::vector<PyObject*> held;
  const visitproc take = [](PyObject* referent, void* list) {
    static_cast<std::vector<PyObject*>*>(list)->push_back(referent);
    return 0;
  };
  type->tp_traverse(value, take, &held);
  for (PyObject* referent : held) {
    const bool holds_items = storage_type(referent) || Py_TYPE(referent)->tp_iternext;
    if (!holds_items || PyGen_CheckExact(referent)) continue;
    make_held(value, referent);
    // Views of dicts and their iterators read the storage, whatever the class of the dict makes of it.
    const bool reads_storage = PyDict_Check(referent) && is_known(referent);
    if (!(reads_storage ? absorb_items(referent, seen) : absorb(referent, seen))) return false;
  }
  return true;
}

/// The iterators that a made one has made for itself; zip and map keep theirs in a tuple.
void Values::make_held(PyObject* holder, PyObject* referent) {
  if (!storage_type(referent)) return make(referent);
  if (!PyTuple_CheckExact(referent) || !(Py_IS_TYPE(holder, &PyZip_Type) || Py_IS_TYPE(holder, &PyMap_Type)))
    return;
  make(referent);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(referent); ++i)
    if (Py_TYPE(PyTuple_GET_ITEM(referent, i))->tp_iternext) make(PyTuple_GET_ITEM(referent, i));
}

PyObject* mapping_of_proxy(PyObject* proxy) {
  PyObject* mapping = nullptr;
  const visitproc take = [](PyObject* referent, void* place) {
    *static_cast<PyObject**>(place) = referent;
    return 1;
  };
  PyDictProxy_Type.tp_traverse(proxy, take, &mapping);
  return mapping;
}

bool Values::look_up_member(PyObject* set, PyObject* item) {
  const guards::Source* source = source_of(set);
  if (!source || !PyAnySet_CheckExact(set) || guards::is_scalar(item) || PyTuple_Check(item)) return false;
  if (!guards::is_plain_key(item) || !is_known(item) || !pin(item)) return false;
  const Py_hash_t hash_of_item = PyObject_Hash(item);
  PyObject* other = nullptr;
  Py_hash_t hash = 0;
  bool found = false;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &other, &hash);) {
    found |= other == item;
    keep_protocols(other);
    if (hash == hash_of_item && other != item) return false;  // It would be asked whether it is equal.
  }
  if (!is_made(item)) guards_.membership(source, item, found);
  return true;
}

bool Values::look_up(PyObject* dict, PyObject* key) {
  if (const guards::Ref exact = exact_key(key)) return absorb(key) && look_up(dict, exact.get());
  const guards::Source* source = source_of(dict);
  if (!source || !PyDict_Check(dict) || !guards::can_look_up(dict, key)) return false;
  if (!guards::is_scalar(key) && !pin(key)) return false;
  if (effects_.wrote(dict, key)) return true;
  const guards::Source* entry = sources().dict_item(source, key);
  PyObject* value = _PyDict_GetItem_KnownHash(dict, key, guards::hash_of_key(key));
  if (value) return learn(value, entry);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  guards_.absent(entry);
  return true;
}

}  // namespace braze::interpreter
