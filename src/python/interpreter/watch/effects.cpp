// python/interpreter/watch/effects.cpp
#include "python/interpreter/watch/effects.h"

#include <structmember.h>

#include <algorithm>

#include "python/guards/scalar.h"
#include "python/guards/source.h"
#include "python/guards/storage_access.h"
#include "support/error.h"

namespace braze::interpreter {

using guards::EffectKind;
using guards::Ref;

namespace {

bool is_list_effect(const Effect& effect, PyObject* list) {
  return effect.kind == EffectKind::append && effect.target.get() == list;
}

PyObject*& slot_of(PyObject* object, PyObject* descriptor) {
  const Py_ssize_t offset = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->offset;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

/// The builtin `clear`, whatever a subclass makes of it.
PyObject* clear_of(PyObject* dict) {
  PyObject* clear =
      PyDict_GetItemString(guards::class_dict(PyODict_Check(dict) ? &PyODict_Type : &PyDict_Type), "clear");
  BRAZE_CHECK(clear, "a dict without clear()");
  return clear;
}

void must(bool succeeded) {
  if (succeeded) return;
  PyErr_Clear();
  throw InternalError("a change of an object could not be undone");
}

bool set_entry(PyObject* dict, PyObject* key, PyObject* value) {
  return (PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value)) == 0;
}

bool delete_entry_of(PyObject* dict, PyObject* key) {
  return (PyODict_Check(dict) ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key)) == 0;
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

Effects::Snapshot& Effects::note(PyObject* container) {
  const auto [at, added] = snapshots_.try_emplace(container);
  Snapshot& snapshot = at->second;
  if (!added) return snapshot;
  snapshot.container = Ref::borrow(container);
  if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i)
      snapshot.items.push_back(Ref::borrow(PyList_GET_ITEM(container, i)));
  } else if (PyCell_Check(container)) {
    snapshot.items.push_back(Ref::borrow(PyCell_GET(container)));
  } else {
    guards::for_each_key(container, [&](PyObject* key) {
      snapshot.items.push_back(Ref::borrow(key));
      snapshot.items.push_back(Ref::borrow(PyDict_GetItemWithError(container, key)));
      return true;
    });
  }
  return snapshot;
}

/// The key of `place` must be held by the effect, or by slots_.
/// What was stored at the same place before is not seen by anyone: the earlier effect takes the new value.
void Effects::store(Place place, Effect effect) {
  const auto found = written_.find(place);
  if (found != written_.end()) {
    if (log_[found->second].value) {
      log_[found->second].value = std::move(effect.value);
      return;
    }
    written_.erase(found);  // Its key may be another object.
  }
  log_.push_back(std::move(effect));
  written_.emplace(place, log_.size() - 1);
}

void Effects::store_entry(PyObject* dict, PyObject* key, PyObject* value, PyObject* owner) {
  note(dict);
  store({dict, key}, {owner ? EffectKind::store_in_dict_of : EffectKind::store_item,
                      Ref::borrow(owner ? owner : dict), Ref::borrow(key), Ref::borrow(value)});
}

void Effects::delete_entry(PyObject* dict, PyObject* key, PyObject* owner) {
  note(dict);
  log_.push_back({owner ? EffectKind::delete_attribute : EffectKind::delete_item, Ref::borrow(owner ? owner : dict),
                  Ref::borrow(key)});
  written_.erase({dict, key});
  written_.emplace(Place{dict, log_.back().key.get()}, log_.size() - 1);
}

void Effects::clear_dict(PyObject* dict) {
  note(dict).cleared = true;
  std::erase_if(written_, [&](const auto& entry) { return entry.first.storage == dict; });
  log_.push_back({EffectKind::call, Ref::borrow(clear_of(dict)), Ref::borrow(dict)});
}

void Effects::store_slot(PyObject* object, PyObject* descriptor, PyObject* value) {
  if (!wrote(object, descriptor))
    slots_.push_back({Ref::borrow(object), Ref::borrow(descriptor), Ref::borrow(slot_of(object, descriptor))});
  // slots_ holds the descriptor, which is the key of the place; the effect goes by the name.
  store({object, descriptor}, {EffectKind::store_in_dict_of, Ref::borrow(object),
                               Ref::borrow(PyDescr_NAME(descriptor)), Ref::borrow(value)});
}

void Effects::store_cell(PyObject* cell, PyObject* value) {
  note(cell);
  store({cell, nullptr}, {EffectKind::store_cell, Ref::borrow(cell), {}, Ref::borrow(value)});
}

void Effects::store_in_class(PyObject* type, PyObject* name, PyObject* value) {
  if (!wrote(type, name)) {
    PyObject* before = PyDict_GetItemWithError(guards::class_dict(reinterpret_cast<PyTypeObject*>(type)), name);
    class_entries_.push_back({Ref::borrow(type), Ref::borrow(name), Ref::borrow(before)});
  }
  // class_entries_ holds the name, which is the key of the place.
  PyObject* key = name;
  for (const ClassEntry& entry : class_entries_)
    if (guards::same_constant(entry.name.get(), name)) key = entry.name.get();
  if (value) {
    store({type, key}, {EffectKind::store_attribute, Ref::borrow(type), Ref::borrow(name), Ref::borrow(value)});
    return;
  }
  log_.push_back({EffectKind::delete_attribute, Ref::borrow(type), Ref::borrow(name)});
  written_.erase({type, key});
  written_.emplace(Place{type, key}, log_.size() - 1);
}

bool Effects::is_new_in_class(PyObject* type, PyObject* name) const {
  return std::ranges::any_of(class_entries_, [&](const ClassEntry& entry) {
    return entry.type.get() == type && !entry.value && guards::same_constant(entry.name.get(), name);
  });
}

bool Effects::changed_set(PyObject* set) const {
  return std::ranges::any_of(sets_, [&](const SetTable& table) { return table.set() == set; });
}

void Effects::change_set(PyObject* set, const char* method, PyObject* argument) {
  if (!changed_set(set)) sets_.emplace_back(set);
  PyObject* function = PyDict_GetItemString(guards::class_dict(&PySet_Type), method);
  BRAZE_CHECK(function, "a set without ", method);
  log_.push_back({EffectKind::call, Ref::borrow(function), Ref::borrow(set), Ref::borrow(argument)});
}

void Effects::move_to_end(PyObject* dict, PyObject* key, PyObject* last) {
  note(dict);
  PyObject* function = PyDict_GetItemString(guards::class_dict(&PyODict_Type), "move_to_end");
  BRAZE_CHECK(function, "an OrderedDict without move_to_end()");
  log_.push_back(
      {EffectKind::call, Ref::borrow(function), Ref::borrow(dict), Ref::borrow(key), {Ref::borrow(last)}});
}

void Effects::take_lock(PyObject* lock) {
  locks_.push_back(Ref::borrow(lock));
}

void Effects::release_lock(PyObject* lock) {
  const auto last = std::find_if(locks_.rbegin(), locks_.rend(), [&](const Ref& one) { return one.get() == lock; });
  if (last != locks_.rend()) locks_.erase(std::next(last).base());
}

void Effects::append(PyObject* list, PyObject* value) {
  note(list);
  if (std::ranges::find(changed_lists_, list) != changed_lists_.end()) return;
  log_.push_back({EffectKind::append, Ref::borrow(list), {}, Ref::borrow(value)});
}

void Effects::change_list(PyObject* list) {
  note(list);
  if (std::ranges::find(changed_lists_, list) == changed_lists_.end()) changed_lists_.push_back(list);
}

void Effects::set_variable(PyObject* variable, PyObject* token) {
  settings_.push_back({Ref::borrow(variable), Ref::borrow(token)});
}

bool Effects::reset_variable(PyObject* variable, PyObject* token) {
  for (size_t i = settings_.size(); i-- > 0;) {
    if (settings_[i].variable.get() != variable) continue;
    if (settings_[i].token.get() != token) return false;
    settings_.erase(settings_.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }
  return false;
}

bool Effects::is_set(PyObject* variable) const {
  return std::ranges::any_of(settings_, [&](const Setting& one) { return one.variable.get() == variable; });
}

bool Effects::wrote(PyObject* storage, PyObject* key) const {
  if (written_.contains({storage, key})) return true;
  const auto found = snapshots_.find(storage);
  return found != snapshots_.end() && found->second.cleared;
}

std::vector<PyObject*> Effects::containers() const {
  std::vector<PyObject*> all;
  for (const auto& entry : snapshots_)
    if (!PyCell_Check(entry.first)) all.push_back(entry.first);
  return all;
}

bool Effects::changed_cells() const {
  return std::ranges::any_of(snapshots_, [](const auto& entry) { return PyCell_Check(entry.first); });
}

std::vector<Effect> Effects::log() const {
  std::vector<Effect> all;
  for (const Effect& effect : log_) {
    const bool superseded =
        std::ranges::any_of(changed_lists_, [&](PyObject* list) { return is_list_effect(effect, list); });
    if (!superseded) all.push_back(effect);
  }
  for (PyObject* list : changed_lists_) {
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

void Effects::restore_dict(const Snapshot& snapshot) {
  PyObject* dict = snapshot.container.get();
  std::vector<Ref> added;
  // What other threads have stored meanwhile stays.
  const auto is_ours = [&](PyObject* key) { return snapshot.cleared || written_.contains({dict, key}); };
  size_t at = 0;
  bool same_order = true;
  guards::for_each_key(dict, [&](PyObject* key) {
    if (at < snapshot.items.size())
      same_order &= snapshot.items[at].get() == key;
    else
      added.push_back(Ref::borrow(key));
    at += 2;
    return same_order;
  });
  const bool in_place = same_order && at >= snapshot.items.size();
  if (in_place) {
    for (const Ref& key : added)
      if (is_ours(key.get())) must(delete_entry_of(dict, key.get()));
  } else if (PyODict_Check(dict)) {
    // Emptied and filled again: entries that were deleted go back to their place in the order.
    must(static_cast<bool>(Ref::steal(PyObject_CallOneArg(clear_of(dict), dict))));
  } else {
    PyDict_Clear(dict);
  }
  for (size_t i = 0; i < snapshot.items.size(); i += 2)
    if ((!in_place || is_ours(snapshot.items[i].get())) &&
        PyDict_GetItemWithError(dict, snapshot.items[i].get()) != snapshot.items[i + 1].get())
      must(set_entry(dict, snapshot.items[i].get(), snapshot.items[i + 1].get()));
}

void Effects::undo() {
  for (auto lock = locks_.rbegin(); lock != locks_.rend(); ++lock)
    must(static_cast<bool>(Ref::steal(PyObject_CallMethod(lock->get(), "release", nullptr))));
  locks_.clear();
  for (auto entry = class_entries_.rbegin(); entry != class_entries_.rend(); ++entry) {
    auto* type = reinterpret_cast<PyTypeObject*>(entry->type.get());
    if (entry->value || PyDict_GetItemWithError(guards::class_dict(type), entry->name.get()))
      must(PyType_Type.tp_setattro(entry->type.get(), entry->name.get(), entry->value.get()) == 0);
  }
  for (SetTable& table : sets_) must(table.restore());
  for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot) {
    PyObject*& place = slot_of(slot->object.get(), slot->descriptor.get());
    const Ref dropped = Ref::steal(std::exchange(place, slot->value.release()));
  }
  for (auto& [container, snapshot] : snapshots_) {
    if (PyCell_Check(container)) {
      must(PyCell_Set(container, snapshot.items[0].get()) == 0);
    } else if (PyList_Check(container)) {
      const Ref items = Ref::steal(PyList_New(static_cast<Py_ssize_t>(snapshot.items.size())));
      must(static_cast<bool>(items));
      for (size_t i = 0; i < snapshot.items.size(); ++i)
        PyList_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), Py_NewRef(snapshot.items[i].get()));
      must(PyList_SetSlice(container, 0, PyList_GET_SIZE(container), items.get()) == 0);
    } else {
      restore_dict(snapshot);
    }
  }
  for (auto setting = settings_.rbegin(); setting != settings_.rend(); ++setting)
    must(PyContextVar_Reset(setting->variable.get(), setting->token.get()) == 0);
  settings_.clear();
  sets_.clear();
  written_.clear();
  class_entries_.clear();
  slots_.clear();
  snapshots_.clear();
  changed_lists_.clear();
  log_.clear();
}

}  // namespace braze::interpreter
