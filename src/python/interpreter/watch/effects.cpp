// python/interpreter/watch/effects.cpp
#include "python/interpreter/watch/effects.h"

#include <algorithm>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "support/error.h"

namespace braze::interpreter {

using guards::EffectKind;
using guards::Ref;

namespace {

bool is_list_effect(const Effect& effect, PyObject* list) {
  const bool is_of_list = effect.kind == EffectKind::append || effect.kind == EffectKind::store_item;
  return is_of_list && effect.target.get() == list;
}

}  // namespace

bool Effects::Place::operator==(const Place& other) const {
  if (storage != other.storage) return false;
  return key == other.key || (key && other.key && guards::same_constant(key, other.key));
}

size_t Effects::PlaceHash::operator()(const Place& place) const {
  const size_t storage = reinterpret_cast<uintptr_t>(place.storage) >> 4;
  return storage * 0x9E3779B97F4A7C15u ^ static_cast<size_t>(place.key ? guards::constant_hash(place.key) : 0);
}

/// The change of that kind of an object, which begins now if there is none yet.
template <typename Kind>
Kind& Effects::change(std::unordered_map<PyObject*, Kind*>& all, PyObject* object) {
  Kind*& found = all[object];
  if (!found) found = &add<Kind>(object);
  return *found;
}

void Effects::Log::note(Effect effect) {
  push_back(std::move(effect));
  ++count;
}

/// The key of `place` must be held by the effect, or by a change.
/// What was stored at the same place before is not seen by anyone: the earlier effect takes the new value.
void Effects::store(Place place, Effect effect) {
  const auto found = written_.find(place);
  if (found != written_.end()) {
    if (log_[found->second].value) {
      log_[found->second].value = std::move(effect.value);
      ++log_.count;
      return;
    }
    written_.erase(found);  // Its key may be another object.
  }
  log_.note(std::move(effect));
  written_.emplace(place, log_.size() - 1);
}

void Effects::store_entry(PyObject* dict, PyObject* key, PyObject* value, PyObject* owner) {
  change(dicts_, dict).touch(key);
  store({dict, key}, {owner ? EffectKind::store_in_dict_of : EffectKind::store_item,
                      Ref::borrow(owner ? owner : dict), Ref::borrow(key), Ref::borrow(value)});
}

void Effects::delete_entry(PyObject* dict, PyObject* key, PyObject* owner) {
  change(dicts_, dict).rearrange();
  log_.note({owner ? EffectKind::delete_from_dict_of : EffectKind::delete_item, Ref::borrow(owner ? owner : dict),
             Ref::borrow(key)});
  written_.erase({dict, key});
  written_.emplace(Place{dict, log_.back().key.get()}, log_.size() - 1);
}

void Effects::clear_dict(PyObject* dict) {
  change(dicts_, dict).clear();
  std::erase_if(written_, [&](const auto& entry) { return entry.first.storage == dict; });
  log_.note({EffectKind::call, Ref::borrow(clear_of(dict)), Ref::borrow(dict)});
}

void Effects::store_slot(PyObject* object, PyObject* descriptor, PyObject* value) {
  if (!wrote(object, descriptor)) {
    add<SlotChange>(object, descriptor);
    changed_slots_ = true;
  }
  // The change holds the descriptor, which is the key of the place; the effect goes by the name.
  store({object, descriptor}, {EffectKind::store_in_dict_of, Ref::borrow(object),
                               Ref::borrow(PyDescr_NAME(descriptor)), Ref::borrow(value)});
}

void Effects::store_cell(PyObject* cell, PyObject* value) {
  change(cells_, cell);
  store({cell, nullptr}, {EffectKind::store_cell, Ref::borrow(cell), {}, Ref::borrow(value)});
}

void Effects::store_in_class(PyObject* type, PyObject* name, PyObject* value) {
  if (!wrote(type, name)) classes_.push_back(&add<ClassChange>(type, name));
  // The change holds the name, which is the key of the place.
  PyObject* key = name;
  for (const ClassChange* each : classes_)
    if (guards::same_constant(each->name(), name)) key = each->name();
  if (value) {
    store({type, key}, {EffectKind::store_attribute, Ref::borrow(type), Ref::borrow(name), Ref::borrow(value)});
    return;
  }
  log_.note({EffectKind::delete_attribute, Ref::borrow(type), Ref::borrow(name)});
  written_.erase({type, key});
  written_.emplace(Place{type, key}, log_.size() - 1);
}

bool Effects::is_new_in_class(PyObject* type, PyObject* name) const {
  return std::ranges::any_of(classes_, [&](const ClassChange* each) {
    return each->type() == type && each->is_new() && guards::same_constant(each->name(), name);
  });
}

void Effects::change_set(PyObject* set, const char* method, PyObject* argument) {
  change(sets_, set);
  PyObject* function = PyDict_GetItemString(guards::class_dict(&PySet_Type), method);
  BRAZE_CHECK(function, "a set without ", method);
  log_.note({EffectKind::call, Ref::borrow(function), Ref::borrow(set), Ref::borrow(argument)});
}

void Effects::change_deque(PyObject* deque, const char* method, const std::vector<PyObject*>& arguments) {
  change(deques_, deque);
  PyObject* function = PyDict_GetItemString(guards::class_dict(Py_TYPE(deque)), method);
  BRAZE_CHECK(function, "a deque without ", method);
  Effect effect{EffectKind::call, Ref::borrow(function), Ref::borrow(deque)};
  for (PyObject* argument : arguments) effect.rest.push_back(Ref::borrow(argument));
  log_.note(std::move(effect));
}

void Effects::move_to_end(PyObject* dict, PyObject* key, PyObject* last) {
  change(dicts_, dict).rearrange();
  PyObject* function = PyDict_GetItemString(guards::class_dict(&PyODict_Type), "move_to_end");
  BRAZE_CHECK(function, "an OrderedDict without move_to_end()");
  log_.note({EffectKind::call, Ref::borrow(function), Ref::borrow(dict), Ref::borrow(key), {Ref::borrow(last)}});
}

void Effects::call(PyObject* function, PyObject* callable, PyObject* names,
                   const std::vector<PyObject*>& arguments) {
  Effect effect{EffectKind::call, Ref::borrow(function), Ref::borrow(callable), Ref::borrow(names)};
  for (PyObject* argument : arguments) effect.rest.push_back(Ref::borrow(argument));
  log_.note(std::move(effect));
}

void Effects::store_data(PyObject* tensor, PyObject* name, PyObject* value) {
  log_.note({EffectKind::store_attribute, Ref::borrow(tensor), Ref::borrow(name), Ref::borrow(value)});
}

void Effects::advance(PyObject* iterator, bool ends) {
  IteratorChange& changed = change(iterators_, iterator);
  ++log_.count;
  changed.taken += !ends;
  changed.ended |= ends;
}

void Effects::ask_next(PyObject* iterator) {
  log_.note({EffectKind::ask_next, Ref::borrow(iterator)});
}

void Effects::append(PyObject* list, PyObject* value) {
  change(lists_, list);
  if (std::ranges::find(rearranged_lists_, list) != rearranged_lists_.end()) {
    ++log_.count;
    return;
  }
  log_.note({EffectKind::append, Ref::borrow(list), {}, Ref::borrow(value)});
}

/// One of the small numbers of which CPython keeps one object each: what stands for a number that varies is
/// another.
static bool is_kept_number(PyObject* index) {
  const Ref kept = Ref::steal(PyLong_FromSsize_t(PyLong_AsSsize_t(index)));
  PyErr_Clear();
  return kept.get() == index;
}

static bool is_from_end(PyObject* index) {
  return PyLong_AsSsize_t(index) < 0;
}

/// The latest store at that very place of the list which nothing has come in between that may be about the place:
/// what it has stored is not seen by anyone. Null if there is none.
static Effect* superseded(std::vector<Effect>& log, PyObject* list, PyObject* index) {
  for (auto effect = log.rbegin(); effect != log.rend(); ++effect) {
    if (!is_list_effect(*effect, list)) continue;
    if (effect->kind == EffectKind::append) {
      if (is_from_end(index)) return nullptr;
      continue;
    }
    PyObject* other = effect->key.get();
    if (other == index) return &*effect;
    const bool is_elsewhere =
        is_kept_number(index) && is_kept_number(other) && is_from_end(index) == is_from_end(other);
    if (!is_elsewhere) return nullptr;
  }
  return nullptr;
}

void store_in_list(Effects& effects, PyObject* list, PyObject* index, PyObject* value) {
  effects.change(effects.lists_, list).rearrange();
  if (std::ranges::find(effects.rearranged_lists_, list) != effects.rearranged_lists_.end()) {
    ++effects.log_.count;
    return;
  }
  effects.lists_stored_into_.insert(list);
  if (Effect* earlier = superseded(effects.log_, list, index)) {
    earlier->value = Ref::borrow(value);
    ++effects.log_.count;
    return;
  }
  effects.log_.note({EffectKind::store_item, Ref::borrow(list), Ref::borrow(index), Ref::borrow(value)});
}

std::vector<PyObject*> stored_at(const Effects& effects, PyObject* list) {
  std::vector<PyObject*> all;
  const auto& replaced = effects.rearranged_lists_;
  const bool is_replaced = std::ranges::find(replaced, list) != replaced.end();
  if (is_replaced || !effects.lists_stored_into_.contains(list)) return all;
  for (const Effect& effect : effects.log_)
    if (effect.kind == EffectKind::store_item && effect.target.get() == list) all.push_back(effect.key.get());
  return all;
}

void Effects::put_stand_in(PyObject* container, PyObject* key, Py_ssize_t index, PyObject* stand_in) {
  StandInChange& change = add<StandInChange>(container, key, index, stand_in);
  if (!is_hidden_) return;
  change.take_back();
  change.note_left();
}

void Effects::change_list(PyObject* list) {
  ListChange& changed = change(lists_, list);
  ++log_.count;
  if (std::ranges::find(rearranged_lists_, list) == rearranged_lists_.end()) rearranged_lists_.push_back(list);
  changed.rearrange();
}

void Effects::set_variable(PyObject* variable, PyObject* token) {
  settings_.push_back({Ref::borrow(variable), Ref::borrow(token)});
  ++log_.count;
}

bool Effects::reset_variable(PyObject* variable, PyObject* token) {
  for (size_t i = settings_.size(); i-- > 0;) {
    if (settings_[i].variable.get() != variable) continue;
    if (settings_[i].token.get() != token) return false;
    settings_.erase(settings_.begin() + static_cast<ptrdiff_t>(i));
    ++log_.count;
    return true;
  }
  return false;
}

bool Effects::is_set(PyObject* variable) const {
  return std::ranges::any_of(settings_, [&](const Setting& one) { return one.variable.get() == variable; });
}

bool Effects::wrote(PyObject* storage, PyObject* key) const {
  if (written_.contains({storage, key})) return true;
  const auto found = dicts_.find(storage);
  return found != dicts_.end() && found->second->was_cleared();
}

bool Effects::changed(Storage kind) const {
  switch (kind) {
    case Storage::list: return !lists_.empty();
    case Storage::dict: return !dicts_.empty();
    case Storage::set: return !sets_.empty();
    case Storage::cell: return !cells_.empty();
    case Storage::class_: return !classes_.empty();
    case Storage::slot: return changed_slots_;
    case Storage::deque: return !deques_.empty();
  }
  return true;
}

bool Effects::changed(PyObject* container) const {
  return dicts_.contains(container) || lists_.contains(container) || sets_.contains(container) ||
         deques_.contains(container);
}

std::optional<bool> Effects::held_before(PyObject* set, PyObject* item, Py_hash_t hash) const {
  const auto found = sets_.find(set);
  return found == sets_.end() ? SetTable(set).holds(item, hash) : found->second->before().holds(item, hash);
}

PyObject* Effects::before(PyObject* container) const {
  if (const auto deque = deques_.find(container); deque != deques_.end()) return deque->second->before();
  const auto found = lists_.find(container);
  return found != lists_.end() ? found->second->before() : dicts_.at(container)->before();
}

std::vector<PyObject*> Effects::rearranged_dicts() const {
  std::vector<PyObject*> all;
  for (const auto& [dict, change] : dicts_)
    if (change->is_rearranged()) all.push_back(dict);
  return all;
}

std::vector<Effect> Effects::log() const {
  std::vector<Effect> all;
  for (const Effect& effect : log_) {
    const bool superseded =
        std::ranges::any_of(rearranged_lists_, [&](PyObject* list) { return is_list_effect(effect, list); });
    if (!superseded) all.push_back(effect);
  }
  for (PyObject* list : rearranged_lists_) {
    Ref contents = Ref::steal(PyList_AsTuple(list));
    BRAZE_CHECK(contents, "no memory for the contents of a list");
    all.push_back({EffectKind::replace_list, Ref::borrow(list), {}, std::move(contents)});
  }
  PyObject* set = PyDict_GetItemString(guards::class_dict(&PyContextVar_Type), "set");
  for (const Setting& setting : settings_) {
    PyObject* value = nullptr;
    const bool read = PyContextVar_Get(setting.variable.get(), nullptr, &value) == 0;
    BRAZE_CHECK(set && read && value, "a context variable that was set has no value");
    all.push_back({EffectKind::call, Ref::borrow(set), setting.variable, Ref::steal(value)});
  }
  return all;
}

void Effects::hide() {
  if (is_hidden_) return;
  is_hidden_ = true;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) (*change)->take_back();
  for (const auto& change : changes_) change->note_left();
}

bool Effects::show() {
  if (!is_hidden_) return true;
  if (!std::ranges::all_of(changes_, [](const auto& change) { return change->is_taken_back(); })) {
    forget();
    return false;
  }
  is_hidden_ = false;
  for (const auto& change : changes_) change->make_again();
  return true;
}

void Effects::undo() {
  locks_.release_all();
  hide();
  for (auto setting = settings_.rbegin(); setting != settings_.rend(); ++setting)
    must(PyContextVar_Reset(setting->variable.get(), setting->token.get()) == 0);
  forget();
}

void Effects::forget() {
  settings_.clear();
  written_.clear();
  rearranged_lists_.clear();
  lists_stored_into_.clear();
  log_.clear();
  dicts_.clear();
  lists_.clear();
  deques_.clear();
  cells_.clear();
  sets_.clear();
  iterators_.clear();
  draws_ = nullptr;
  classes_.clear();
  changed_slots_ = false;
  changes_.clear();
  is_hidden_ = false;
}

}  // namespace braze::interpreter
