// python/interpreter/watch/values.cpp
#include "python/interpreter/watch/values.h"

#include <algorithm>
#include <map>

#include "python/guards/array.h"
#include "python/guards/deque.h"
#include "python/guards/iterators.h"
#include "python/guards/keys.h"
#include "python/guards/referents.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/addresses.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/running_threads.h"

namespace braze::interpreter {

namespace {

constexpr Py_ssize_t largest_container = 4096;  // Larger ones would make a guard an item.
constexpr int deepest_source = 400;             // Sources are evaluated and printed by recursion.

/// Reached from what a call or frame is given.
bool is_given(const guards::Source* source) {
  while (source->parent) source = source->parent;
  return is_of_call(*source);
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
  return guards::is_changeable(type) && !PyType_SUPPORTS_WEAKREFS(type);
}

/// Of a class statement's class, or of SimpleNamespace: what a program keeps its state in.
bool is_instance(PyObject* value) {
  if (PyType_Check(value) || PyModule_Check(value)) return false;
  return (Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_a(value, "types.SimpleNamespace");
}

bool is_sequence(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value);
}

/// It must be this very object.
void pin_at(guards::GuardSet& guards, PyObject* value, const guards::Source* source) {
  guards.identity(source, value, PyType_Check(value) ? guards::Hold::strong : guards::Hold::weak);
}

/// A defaultdict is its entries, as other dicts are, and what makes those that are not there.
bool learn_factory(Values& values, PyObject* dict, const guards::Source* source) {
  PyObject* descriptor = PyDict_GetItemString(guards::class_dict(Py_TYPE(dict)), "default_factory");
  const guards::Ref factory = guards::Ref::steal(PyObject_GetAttrString(dict, "default_factory"));
  if (!factory || !descriptor) PyErr_Clear();
  return factory && descriptor && values.learn(factory.get(), values.sources().slot(source, descriptor));
}

/// A range is its three numbers.
bool learn_range(Values& values, PyObject* range, const guards::Source* source) {
  for (const char* name : {"start", "stop", "step"}) {
    const guards::Source* part = values.sources().slot(source, member_descriptor(&PyRange_Type, name));
    PyObject* number = guards::load(*part, range, {});
    if (!number || !values.learn(number, part)) return false;
  }
  return true;
}

/// A deque is its items, as lists are, and how many there may be.
bool learn_deque(Values& values, PyObject* deque, const guards::Source* source) {
  const guards::Source* limit = values.sources().member(source, guards::Member::deque_limit);
  PyObject* number = guards::load(*limit, deque, {});
  return number && values.learn(number, limit);
}

bool open_deque(Values& values, PyObject* deque, const guards::Source* source) {
  values.guards().length(source, static_cast<size_t>(Py_SIZE(deque)));
  for (Py_ssize_t i = 0; i < Py_SIZE(deque); ++i)
    if (!values.learn(guards::deque_item(deque, i),
                      values.sources().sequence_item(source, static_cast<uint32_t>(i))))
      return false;
  return true;
}

/// One of the classes, derived from one, or an instance of such.
bool is_of(const std::vector<guards::Ref>& classes, PyObject* value) {
  if (classes.empty()) return false;
  PyTypeObject* type = PyType_Check(value) ? as_type(value) : Py_TYPE(value);
  PyObject* bases = type->tp_mro;
  return std::ranges::any_of(classes, [&](const guards::Ref& reference) {
    PyObject* made = PyWeakref_GET_OBJECT(reference.get());
    if (!bases) return reinterpret_cast<PyObject*>(type) == made;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i)
      if (PyTuple_GET_ITEM(bases, i) == made) return true;
    return false;
  });
}

/// A number that varies is guarded by its type as yet, and what stands for it takes its place for as long as the
/// run lasts: whoever reads the container, by whatever instruction, finds that. Not in what was copied of a
/// container before the run changed it, which has no source.
bool learn_item(Values& values, PyObject* container, PyObject* key, Py_ssize_t index,
                const guards::Source* source) {
  PyObject* item = key ? guards::entry_of_key(container, key) : PySequence_Fast_GET_ITEM(container, index);
  if (!item) return false;
  PyObject* stand_in = values.source_of(container) ? values.numbers().vary(item, source) : nullptr;
  if (!stand_in) return values.learn(item, source);
  values.effects().put_stand_in(container, key, index, stand_in);
  return true;
}

/// What a dict held before the run. \param now  the dict itself: of what the run has written there nobody reads
/// what it was, and all else is there still.
bool open_entries(Values& values, PyObject* before, PyObject* now, const guards::Source* source) {
  guards::SourceTable& sources = values.sources();
  const bool is_plain = guards::has_plain_keys(before);
  if (!is_plain && !guards::has_distinct_hashes(before)) return false;
  values.guards().dict_keys(source, before);
  uint32_t position = 0;
  return guards::for_each_key(before, [&](PyObject* key) {
    if (values.tensors().is_tensor(key)) return false;
    if (!guards::is_scalar(key) && !values.learn(key, sources.dict_key(source, position))) return false;
    values.keep_protocols(key);
    ++position;
    if (guards::is_plain_key(key))
      return values.effects().wrote(now, key) || learn_item(values, now, key, 0, sources.dict_item(source, key));
    PyObject* value = guards::entry_of_object(before, key);
    return value && values.learn(value, sources.dict_item(source, key));
  });
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
    if (numbers_.stands_for_what_is_at(value, source)) return true;
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
  if (is_deep(source) || (made_anew_ && is_of(*made_anew_, value))) return false;
  if (tensors_.is_tensor(value)) {
    if (!tensors_.learn(value, source)) return false;
  } else if (is_builtin_container(value) || guards::is_torch_size(Py_TYPE(value)) ||
             guards::iterator_kind(value) != guards::IteratorKind::none || guards::is_number_array(value) ||
             guards::is_array_scalar(value)) {  // Whoever reads a number of NumPy's guards what it is: absorb().
    guards_.type(source, Py_TYPE(value));
  } else if (guards::is_deque(value)) {
    guards_.type(source, Py_TYPE(value));
    if (!learn_deque(*this, value, source)) return false;
  } else {
    guards_.type(source, Py_TYPE(value));
    const bool by_parts = is_given(source) || is_out_of_sight(value) || PyRange_Check(value) ||
                          (is_instance(value) && tensors_.sizes().is_replaced(value, source));
    const bool is_read_by_parts = is_a(value, "collections.defaultdict") ? learn_factory(*this, value, source)
                                                                         : by_parts && learn_given(value, source);
    if (!is_read_by_parts) pin_at(guards_, value, source);
    if (PyFunction_Check(value)) guards_.function(source, value);
  }
  learn_as(value, source);
  return true;
}

void Values::hold_stand_in(guards::Ref scalar, const guards::Source* source) {
  if (source) scalars_[scalar.get()] = {source};
  held_.push_back(std::move(scalar));
}

/// Objects that a call or frame is given are often made for it. All that is read of them goes by their sources, so
/// that they need not be the same ones; where identity matters, pin() says so.
bool Values::learn_given(PyObject* value, const guards::Source* source) {
  if (PyFunction_Check(value)) {
    PyObject* globals = PyFunction_GET_GLOBALS(value);
    guards_.identity(sources().member(source, guards::Member::function_globals), globals);
    return true;
  }
  if (PySlice_Check(value)) return true;  // What is read of it: absorb().
  if (PyRange_Check(value)) return learn_range(*this, value, source);
  if (Py_IS_TYPE(value, &PyDictProxy_Type)) return true;  // Nothing is read of it: Views::dict_behind().
  if (PyExceptionInstance_Check(value)) return true;      // Each call raises another one.
  if (PyWeakref_CheckRefExact(value)) return true;        // What it refers to: Library::call_weak_reference().
  if (is_a(value, "types.SimpleNamespace")) return true;  // All that it has is its dict.
  if (PyMethod_Check(value))
    return learn(PyMethod_GET_FUNCTION(value), sources().member(source, guards::Member::method_function)) &&
           learn(PyMethod_GET_SELF(value), sources().member(source, guards::Member::method_self));
  if (is_a(value, "operator.itemgetter") || is_a(value, "operator.attrgetter")) {
    const guards::Source* source_of_parts = sources().member(source, guards::Member::getter_parts);
    PyObject* parts = guards::load(*source_of_parts, value, {});
    return parts && is_data(parts) && learn(parts, source_of_parts) && open(parts);
  }
  // What operators give for each call; of its items each is read by its own source.
  if (PyTuple_Check(value) && std::string_view(Py_TYPE(value)->tp_name).starts_with("torch.return_types."))
    return true;
  // C code reads of its own objects what no source does: operator.methodcaller's. Of partials there are
  // sources.
  const bool is_of_c = Py_TYPE(value)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE && !is_a(value, "functools.partial");
  return (Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !is_of_c && !PyType_Check(value) &&
         !PyModule_Check(value);
}

bool Values::pin(PyObject* value) {
  const guards::Source* source = source_of(value);
  if (source && (is_out_of_sight(value) || guards::iterator_kind(value) != guards::IteratorKind::none))
    return false;
  if (source) pin_at(guards_, value, source);
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
      if (!guards::is_scalar(item) && !is_data(item) && !PyType_Check(item))
        return false;
      else if (PyType_Check(item))
        learn_as(item, sources().object(item, reinterpret_cast<PyTypeObject*>(item)->tp_name));
    return true;
  }
  if (!is_made(set)) return false;
  if (guards::length_of(set) <= 1) return true;
  while (_PySet_NextEntry(set, &at, &item, &hash))
    if (holds_address(*this, item)) return false;
  at = 0;
  while (_PySet_NextEntry(set, &at, &item, &hash))
    if (!guards::is_scalar(item) && !tensors_.is_plain(item)) return false;
  return true;
}

void Values::make(PyObject* value) {
  if (!value || guards::is_scalar(value) || known_.contains(value)) return;
  made_.insert(value);
  // Tensors release the GIL when they go, at any instruction that drops one, with all changes there to be seen.
  const bool holds_tensors = tensors_.is_tensor(value) || PyTuple_Check(value);
  if (holds_tensors && has_other_threads()) held_.push_back(guards::Ref::borrow(value));
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
  // Where it was stored decides what lies at each place.
  if (PyList_Check(container))
    for (PyObject* index : stored_at(effects_, container)) numbers_.settle_sizes_within(index);
  const auto found = known_.find(container);
  const bool is_container = storage_type(container) || guards::is_deque(container);
  if (found == known_.end() || found->second.opened || !is_container) return is_known(container);
  const guards::Source* source = found->second.source;
  found->second.opened = true;
  if (!effects_.changed(container)) return open_items(container, source);
  if (PyAnySet_Check(container)) return false;
  PyObject* before = effects_.before(container);  // Guards are about what it held then.
  return PyDict_Check(container) ? open_entries(*this, before, container, source) : open_sequence(before, source);
}

bool Values::open_sequence(PyObject* sequence, const guards::Source* source) {
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(sequence);
  guards_.length(source, static_cast<size_t>(length));
  for (Py_ssize_t i = 0; i < length; ++i)
    if (!learn_item(sequence, nullptr, i, sources().sequence_item(source, static_cast<uint32_t>(i)))) return false;
  return true;
}

bool Values::learn_item(PyObject* container, PyObject* key, Py_ssize_t index, const guards::Source* source) {
  return interpreter::learn_item(*this, container, key, index, source);
}

bool Values::open_items(PyObject* container, const guards::Source* source) {
  if (guards::length_of(container) > largest_container) return false;
  if (is_sequence(container)) return open_sequence(container, source);
  if (guards::is_deque(container)) return open_deque(*this, container, source);
  if (PyAnySet_Check(container)) return PyAnySet_CheckExact(container) && guards_.deep(source, container);
  return open_dict(container, source);
}

bool Values::open_dict(PyObject* dict, const guards::Source* source) {
  return open_entries(*this, dict, dict, source);
}

void Values::guard_aliasing() {
  std::map<uint32_t, std::pair<const guards::Source*, PyObject*>> lists, dicts, objects, cells, sets, iterators,
      deques, told;
  for (PyObject* object : told_apart_) {
    const guards::Source* source = source_of(object);
    told[source->number] = {source, object};
  }
  for (const auto& [object, known] : known_) {
    if (PySet_CheckExact(object) && effects_.changed(Storage::set))
      sets[known.source->number] = {known.source, object};
    if (effects_.changed(Storage::list) && PyList_Check(object))
      lists[known.source->number] = {known.source, object};
    if (effects_.changed(Storage::deque) && guards::is_deque(object))
      deques[known.source->number] = {known.source, object};
    const bool is_iterator = guards::iterator_kind(object) != guards::IteratorKind::none;
    if (is_iterator && !effects_.iterators().empty()) iterators[known.source->number] = {known.source, object};
    const bool is_cell = PyCell_Check(object);
    if (is_cell && effects_.changed(Storage::cell) && known.source->parent)
      cells[known.source->number] = {known.source->parent, object};
    const bool is_object = Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE && !tensors_.is_tensor(object);
    if (is_object && effects_.changed(Storage::slot)) objects[known.source->number] = {known.source, object};
    if (!effects_.changed(Storage::dict) || is_cell) continue;
    // A dict may be given beside the object, function or module whose attributes it is.
    if (PyDict_Check(object)) dicts[known.source->number] = {known.source, object};
    const bool has_attributes = is_object || PyFunction_Check(object) || PyModule_Check(object);
    if (!has_attributes || PyType_Check(object)) continue;
    PyObject* dict = guards::instance_dict(object);
    const guards::Source* source = sources().dict_of(known.source);
    if (dict) dicts[source->number] = {source, dict};
  }
  for (const auto* group : {&lists, &dicts, &objects, &cells, &sets, &iterators, &deques, &told}) {
    std::vector<const guards::Source*> all;
    std::vector<PyObject*> members;
    for (const auto& [number, entry] : *group) {
      all.push_back(entry.first);
      members.push_back(entry.second);
    }
    guards_.objects(std::move(all), members);
  }
}

void guard_iterators(Values& values) {
  std::map<uint32_t, PyObject*> moved;  // In an order of their own, not by address.
  for (const auto& [iterator, change] : values.effects().iterators())
    if (const guards::Source* source = values.source_of(iterator)) moved[source->number] = iterator;
  for (const auto& [number, iterator] : moved) {
    using Kind = guards::IteratorKind;
    const Kind kind = guards::iterator_kind(iterator);
    if (kind == Kind::enumerate || kind == Kind::zip) continue;  // Those within say it.
    const IteratorChange& change = *values.effects().iterators().at(iterator);
    values.guards().items_left(values.source_of(iterator), change.taken, change.ended);
  }
}

PyObject* mapping_of_proxy(PyObject* proxy) {
  return guards::first_referent(proxy);
}

bool Values::look_up_member(PyObject* set, PyObject* item) {
  const guards::Source* source = source_of(set);
  if (!source || !PyAnySet_CheckExact(set) || guards::is_scalar(item) || PyTuple_Check(item)) return false;
  if (!guards::is_plain_key(item) || !is_known(item) || !pin(item)) return false;
  const Py_hash_t hash_of_item = guards::hash_of_key(item);
  PyObject* other = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &other, &hash);) {
    keep_protocols(other);
    if (hash == hash_of_item && other != item) return false;  // It would be asked whether it is equal.
  }
  const std::optional<bool> was_in = effects_.held_before(set, item, hash_of_item);
  // Each read of a getter makes one, and all are equal.
  const bool is_equal_to_others = Py_IS_TYPE(item, &_PyMethodWrapper_Type);
  if (was_in && (!is_made(item) || is_equal_to_others)) guards_.membership(source, item, *was_in);
  return was_in.has_value();
}

bool Values::look_up(PyObject* dict, PyObject* key) {
  if (const guards::Ref exact = exact_key(key)) return absorb(*this, key) && look_up(dict, exact.get());
  const guards::Source* source = source_of(dict);
  if (holds_address(*this, key)) return false;
  if (!source || !PyDict_Check(dict) || !guards::can_look_up(dict, key)) return false;
  if (!guards::is_scalar(key) && !pin(key)) return false;
  if (effects_.wrote(dict, key)) return true;
  const guards::Source* entry = sources().dict_item(source, key);
  PyObject* value = _PyDict_GetItem_KnownHash(dict, key, guards::hash_of_key(key));
  // Not written: it is there as it was before the run, whatever else of the dict has changed.
  if (value && guards::is_plain_key(key)) return learn_item(dict, key, 0, entry);
  if (value) return learn(value, entry);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  guards_.absent(entry);
  return true;
}

}  // namespace braze::interpreter
