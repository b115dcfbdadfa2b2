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

/// Items of a list, keys and values of a dict, alternating, or what is in a cell.
std::vector<Ref> contents_of(PyObject* container) {
  std::vector<Ref> items;
  if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i)
      items.push_back(Ref::borrow(PyList_GET_ITEM(container, i)));
  } else if (PyCell_Check(container)) {
    items.push_back(Ref::borrow(PyCell_GET(container)));
  } else {
    guards::for_each_key(container, [&](PyObject* key) {
      items.push_back(Ref::borrow(key));
      items.push_back(Ref::borrow(PyDict_GetItemWithError(container, key)));
      return true;
    });
  }
  return items;
}

/// Entries that stay are not moved: somebody may be iterating over them. Where the order differs, the dict is
/// emptied and filled again.
void set_entries(PyObject* dict, const std::vector<Ref>& items) {
  std::vector<Ref> surplus;
  size_t at = 0;
  bool same_order = true;
  guards::for_each_key(dict, [&](PyObject* key) {
    if (at < items.size())
      same_order &= items[at].get() == key;
    else
      surplus.push_back(Ref::borrow(key));
    at += 2;
    return same_order;
  });
  if (same_order) {
    for (const Ref& key : surplus) must(delete_entry_of(dict, key.get()));
  } else if (PyODict_Check(dict)) {
    must(static_cast<bool>(Ref::steal(PyObject_CallOneArg(clear_of(dict), dict))));
  } else {
    PyDict_Clear(dict);
  }
  for (size_t i = 0; i < items.size(); i += 2)
    if (PyDict_GetItemWithError(dict, items[i].get()) != items[i + 1].get())
      must(set_entry(dict, items[i].get(), items[i + 1].get()));
}

void set_contents(PyObject* container, const std::vector<Ref>& items) {
  if (PyCell_Check(container)) {
    must(PyCell_Set(container, items[0].get()) == 0);
  } else if (PyList_Check(container)) {
    const Ref list = Ref::steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
    must(static_cast<bool>(list));
    for (size_t i = 0; i < items.size(); ++i)
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].get()));
    must(PyList_SetSlice(container, 0, PyList_GET_SIZE(container), list.get()) == 0);
  } else {
    set_entries(container, items);
  }
}

void set_slot(PyObject* object, PyObject* descriptor, PyObject* value) {
  const Ref dropped = Ref::steal(std::exchange(slot_of(object, descriptor), Py_XNewRef(value)));
}

/// Null if the class itself has nothing of that name.
PyObject* class_value(PyObject* type, PyObject* name) {
  return PyDict_GetItemWithError(guards::class_dict(reinterpret_cast<PyTypeObject*>(type)), name);
}

void set_class_value(PyObject* type, PyObject* name, PyObject* value) {
  if (value || class_value(type, name)) must(PyType_Type.tp_setattro(type, name, value) == 0);
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
  snapshot.items = contents_of(container);
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

void Effects::call(PyObject* function, PyObject* callable, PyObject* names,
                   const std::vector<PyObject*>& arguments) {
  Effect effect{EffectKind::call, Ref::borrow(function), Ref::borrow(callable), Ref::borrow(names)};
  for (PyObject* argument : arguments) effect.rest.push_back(Ref::borrow(argument));
  log_.push_back(std::move(effect));
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

bool Effects::has_other_threads() {
  return PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) != nullptr;
}

bool Effects::is_live() const {
  return !snapshots_.empty() || !slots_.empty() || !class_entries_.empty() || !sets_.empty();
}

void Effects::hide() {
  if (is_hidden_ || !is_live()) return;
  is_hidden_ = true;
  for (auto& [container, snapshot] : snapshots_) hidden_.contents[container] = contents_of(container);
  for (const Slot& slot : slots_)
    hidden_.slots.push_back(Ref::borrow(slot_of(slot.object.get(), slot.descriptor.get())));
  for (const ClassEntry& entry : class_entries_)
    hidden_.class_entries.push_back(Ref::borrow(class_value(entry.type.get(), entry.name.get())));
  for (const SetTable& table : sets_) hidden_.sets.emplace_back(table.set());
  for (const auto& [container, snapshot] : snapshots_) set_contents(container, snapshot.items);
  for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot)
    set_slot(slot->object.get(), slot->descriptor.get(), slot->value.get());
  for (auto entry = class_entries_.rbegin(); entry != class_entries_.rend(); ++entry)
    set_class_value(entry->type.get(), entry->name.get(), entry->value.get());
  for (SetTable& table : sets_) must(table.restore());
}

bool Effects::is_as_before() const {
  return std::ranges::all_of(snapshots_,
                             [](const auto& each) {
                               return std::ranges::equal(contents_of(each.first), each.second.items,
                                                         std::equal_to(), &Ref::get, &Ref::get);
                             }) &&
         std::ranges::all_of(slots_,
                             [](const Slot& slot) {
                               return slot_of(slot.object.get(), slot.descriptor.get()) == slot.value.get();
                             }) &&
         std::ranges::all_of(class_entries_,
                             [](const ClassEntry& entry) {
                               return class_value(entry.type.get(), entry.name.get()) == entry.value.get();
                             }) &&
         std::ranges::all_of(sets_, [](const SetTable& table) { return table == SetTable(table.set()); });
}

bool Effects::show() {
  if (!is_hidden_) return true;
  if (!is_as_before()) {
    forget();
    return false;
  }
  is_hidden_ = false;
  Hidden run = std::exchange(hidden_, {});
  for (const auto& [container, items] : run.contents) set_contents(container, items);
  for (size_t i = 0; i < slots_.size(); ++i)
    set_slot(slots_[i].object.get(), slots_[i].descriptor.get(), run.slots[i].get());
  for (size_t i = 0; i < class_entries_.size(); ++i)
    set_class_value(class_entries_[i].type.get(), class_entries_[i].name.get(), run.class_entries[i].get());
  for (SetTable& table : run.sets) must(table.restore());
  return true;
}

void Effects::undo() {
  for (auto lock = locks_.rbegin(); lock != locks_.rend(); ++lock)
    must(static_cast<bool>(Ref::steal(PyObject_CallMethod(lock->get(), "release", nullptr))));
  locks_.clear();
  hide();
  for (auto setting = settings_.rbegin(); setting != settings_.rend(); ++setting)
    must(PyContextVar_Reset(setting->variable.get(), setting->token.get()) == 0);
  forget();
}

void Effects::forget() {
  settings_.clear();
  sets_.clear();
  written_.clear();
  class_entries_.clear();
  slots_.clear();
  snapshots_.clear();
  changed_lists_.clear();
  log_.clear();
  hidden_ = {};
  is_hidden_ = false;
}

}  // namespace braze::interpreter
