// python/interpreter/watch/changes.cpp
#include "python/interpreter/watch/changes.h"

#include <structmember.h>

#include <algorithm>

#include "python/guards/keys.h"
#include "python/guards/storage_access.h"
#include "support/error.h"

namespace braze::interpreter {

using guards::Ref;

void must(bool succeeded) {
  if (succeeded) return;
  PyErr_Clear();
  throw InternalError("a change of an object could not be undone");
}

namespace {

/// Unwraps what a C function made.
Ref made(PyObject* owned) {
  must(owned != nullptr);
  return Ref::steal(owned);
}

// ---- dicts

PyObject* entry_of(PyObject* dict, PyObject* key) {
  return guards::entry_of_key(dict, key);
}

/// \param value  null: the entry is removed, if there is one.
void put_entry(PyObject* dict, PyObject* key, PyObject* value) {
  if (entry_of(dict, key) == value) return;
  const bool is_ordered = PyODict_Check(dict);
  if (value)
    must((is_ordered ? PyODict_SetItem(dict, key, value) : guards::put_entry_of_key(dict, key, value)) == 0);
  else
    must((is_ordered ? PyODict_DelItem(dict, key) : guards::put_entry_of_key(dict, key, nullptr)) == 0);
}

/// An exact dict with the same entries in the same order. OrderedDict keeps the order apart.
Ref copy_of(PyObject* dict) {
  if (!PyODict_Check(dict)) return made(PyDict_Copy(dict));
  Ref copy = made(PyDict_New());
  guards::for_each_key(dict, [&](PyObject* key) {
    must(guards::put_entry_of_key(copy.get(), key, entry_of(dict, key)) == 0);
    return true;
  });
  return copy;
}

/// Entries that stay are not moved: somebody may be iterating over them. Where the order differs, the dict is
/// emptied and filled again.
void set_entries(PyObject* dict, PyObject* wanted) {
  std::vector<Ref> surplus;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  bool same_order = true, more = true;
  guards::for_each_key(dict, [&](PyObject* present) {
    more = more && PyDict_Next(wanted, &at, &key, &value);
    if (more)
      same_order &= key == present;
    else
      surplus.push_back(Ref::borrow(present));
    return same_order;
  });
  if (same_order)
    for (const Ref& each : surplus) put_entry(dict, each.get(), nullptr);
  else if (PyODict_Check(dict))
    made(PyObject_CallOneArg(clear_of(dict), dict));
  else
    PyDict_Clear(dict);
  for (at = 0; PyDict_Next(wanted, &at, &key, &value);) put_entry(dict, key, value);
}

/// The same objects in the same order.
bool has_entries(PyObject* dict, PyObject* wanted) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  const bool all = guards::for_each_key(dict, [&](PyObject* present) {
    return PyDict_Next(wanted, &at, &key, &value) && key == present && entry_of(dict, key) == value;
  });
  return all && !PyDict_Next(wanted, &at, &key, &value);
}

// ---- others

/// Of a list or tuple, whose storage is written even where nobody else may.
PyObject*& sequence_item(PyObject* sequence, Py_ssize_t index) {
  return PySequence_Fast_ITEMS(sequence)[index];
}

bool has_items(PyObject* list, PyObject* wanted) {
  const Py_ssize_t count = PyList_GET_SIZE(wanted);
  return PyList_GET_SIZE(list) == count &&
         std::equal(PySequence_Fast_ITEMS(list), PySequence_Fast_ITEMS(list) + count,
                    PySequence_Fast_ITEMS(wanted));
}

PyObject*& slot_of(PyObject* object, PyObject* descriptor) {
  const Py_ssize_t offset = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->offset;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

/// \returns what was there.
Ref exchange_slot(PyObject* object, PyObject* descriptor, PyObject* value) {
  return Ref::steal(std::exchange(slot_of(object, descriptor), Py_XNewRef(value)));
}

/// Null if the class itself has nothing of that name.
PyObject* class_value(PyObject* type, PyObject* name) {
  return entry_of(guards::class_dict(reinterpret_cast<PyTypeObject*>(type)), name);
}

void set_class_value(PyObject* type, PyObject* name, PyObject* value) {
  if (value || class_value(type, name)) must(PyType_Type.tp_setattro(type, name, value) == 0);
}

}  // namespace

PyObject* clear_of(PyObject* dict) {
  PyObject* clear =
      PyDict_GetItemString(guards::class_dict(PyODict_Check(dict) ? &PyODict_Type : &PyDict_Type), "clear");
  BRAZE_CHECK(clear, "a dict without clear()");
  return clear;
}

// ---- dicts

DictChange::DictChange(PyObject* dict)
    : dict_(Ref::borrow(dict)), before_(copy_of(dict)), touched_(made(PyDict_New())) {}

void DictChange::touch(PyObject* key) {
  must(guards::put_entry_of_key(touched_.get(), key, Py_None) == 0);
}

/// From now on all entries count, with what other threads have changed of those that the run has not touched.
void DictChange::rearrange() {
  if (is_rearranged_) return;
  const Ref base = copy_of(dict_.get());
  Py_ssize_t at = 0;
  PyObject *key, *none;
  while (PyDict_Next(touched_.get(), &at, &key, &none)) put_entry(base.get(), key, entry_of(before_.get(), key));
  before_ = base;
  is_rearranged_ = true;
}

void DictChange::take_back() {
  if (is_rearranged_) {
    after_ = copy_of(dict_.get());
    set_entries(dict_.get(), before_.get());
    return;
  }
  Py_ssize_t at = 0;
  PyObject *key, *none;
  while (PyDict_Next(touched_.get(), &at, &key, &none)) {
    entries_.emplace_back(Ref::borrow(key), Ref::borrow(entry_of(dict_.get(), key)));
    put_entry(dict_.get(), key, entry_of(before_.get(), key));
  }
}

void DictChange::note_left() {
  left_ = is_rearranged_ ? copy_of(dict_.get()) : made(PyDict_New());
  Py_ssize_t at = 0;
  PyObject *key, *none;
  while (!is_rearranged_ && PyDict_Next(touched_.get(), &at, &key, &none))
    put_entry(left_.get(), key, entry_of(dict_.get(), key));
}

bool DictChange::is_taken_back() const {
  if (is_rearranged_) return has_entries(dict_.get(), left_.get());
  Py_ssize_t at = 0;
  PyObject *key, *none;
  while (PyDict_Next(touched_.get(), &at, &key, &none))
    if (entry_of(dict_.get(), key) != entry_of(left_.get(), key)) return false;
  return true;
}

void DictChange::make_again() {
  if (is_rearranged_) set_entries(dict_.get(), std::exchange(after_, {}).get());
  for (const auto& [key, value] : std::exchange(entries_, {})) put_entry(dict_.get(), key.get(), value.get());
}

// ---- lists

ListChange::ListChange(PyObject* list)
    : list_(Ref::borrow(list)), before_(made(PyList_GetSlice(list, 0, PyList_GET_SIZE(list)))) {}

void ListChange::rearrange() {
  if (is_rearranged_) return;
  before_ = made(PyList_GetSlice(list_.get(), 0, PyList_GET_SIZE(before_.get())));
  is_rearranged_ = true;
}

void ListChange::take_back() {
  const Py_ssize_t first = is_rearranged_ ? 0 : PyList_GET_SIZE(before_.get()), all = PyList_GET_SIZE(list_.get());
  after_ = made(PyList_GetSlice(list_.get(), first, all));
  must(PyList_SetSlice(list_.get(), first, all, is_rearranged_ ? before_.get() : nullptr) == 0);
}

void ListChange::note_left() {
  if (is_rearranged_) left_ = made(PyList_GetSlice(list_.get(), 0, PyList_GET_SIZE(list_.get())));
}

bool ListChange::is_taken_back() const {
  return is_rearranged_ ? has_items(list_.get(), left_.get())
                        : PyList_GET_SIZE(list_.get()) == PyList_GET_SIZE(before_.get());
}

void ListChange::make_again() {
  const Ref after = std::exchange(after_, {});
  const Py_ssize_t all = PyList_GET_SIZE(list_.get());
  must(PyList_SetSlice(list_.get(), is_rearranged_ ? 0 : all, all, after.get()) == 0);
}

// ---- numbers

StandInChange::StandInChange(PyObject* container, PyObject* key, Py_ssize_t index, PyObject* stand_in)
    : container_(Ref::borrow(container)), key_(Ref::borrow(key)), stand_in_(Ref::borrow(stand_in)), index_(index) {
  number_ = Ref::borrow(present());
  put(stand_in);
}

PyObject* StandInChange::present() const {
  if (key_) return entry_of(container_.get(), key_.get());
  return index_ < PySequence_Fast_GET_SIZE(container_.get()) ? sequence_item(container_.get(), index_) : nullptr;
}

void StandInChange::put(PyObject* value) {
  if (key_) return put_entry(container_.get(), key_.get(), value);
  Ref::steal(std::exchange(sequence_item(container_.get(), index_), Py_NewRef(value)));
}

void StandInChange::take_back() {
  was_there_ = present() == stand_in_.get();
  if (was_there_) put(number_.get());
}

void StandInChange::make_again() {
  if (was_there_) put(stand_in_.get());
}

// ---- deques

namespace {

void set_items(PyObject* deque, PyObject* items) {
  made(PyObject_CallMethod(deque, "clear", nullptr));
  made(PyObject_CallMethod(deque, "extend", "O", items));
}

}  // namespace

DequeChange::DequeChange(PyObject* deque) : deque_(Ref::borrow(deque)), before_(made(PySequence_List(deque))) {}

void DequeChange::take_back() {
  after_ = made(PySequence_List(deque_.get()));
  set_items(deque_.get(), before_.get());
}

bool DequeChange::is_taken_back() const {
  return has_items(made(PySequence_List(deque_.get())).get(), before_.get());
}

void DequeChange::make_again() {
  set_items(deque_.get(), std::exchange(after_, {}).get());
}

// ---- single values

void CellChange::take_back() {
  after_ = contents();
  must(PyCell_Set(cell_.get(), before_.get()) == 0);
}

void CellChange::make_again() {
  must(PyCell_Set(cell_.get(), std::exchange(after_, {}).get()) == 0);
}

SlotChange::SlotChange(PyObject* object, PyObject* descriptor)
    : object_(Ref::borrow(object)),
      descriptor_(Ref::borrow(descriptor)),
      before_(Ref::borrow(slot_of(object, descriptor))) {}

void SlotChange::take_back() {
  after_ = exchange_slot(object_.get(), descriptor_.get(), before_.get());
}

bool SlotChange::is_taken_back() const {
  return slot_of(object_.get(), descriptor_.get()) == before_.get();
}

void SlotChange::make_again() {
  exchange_slot(object_.get(), descriptor_.get(), std::exchange(after_, {}).get());
}

ClassChange::ClassChange(PyObject* type, PyObject* name)
    : type_(Ref::borrow(type)), name_(Ref::borrow(name)), before_(Ref::borrow(class_value(type, name))) {}

void ClassChange::take_back() {
  after_ = Ref::borrow(class_value(type_.get(), name_.get()));
  set_class_value(type_.get(), name_.get(), before_.get());
}

bool ClassChange::is_taken_back() const {
  return class_value(type_.get(), name_.get()) == before_.get();
}

void ClassChange::make_again() {
  set_class_value(type_.get(), name_.get(), std::exchange(after_, {}).get());
}

void IteratorChange::take_back() {
  after_ = std::make_unique<guards::IteratorState>(iterator_.get());
  before_.restore(iterator_.get());
}

void IteratorChange::make_again() {
  after_->restore(iterator_.get());
  after_.reset();
}

void RandomDraws::draw(PyObject* generator, Ref one) {
  auto found = std::ranges::find_if(all_, [&](const Moved& moved) { return moved.generator.get() == generator; });
  if (found == all_.end())
    found = all_.insert(found, Moved{Ref::borrow(generator), guards::RandomState(generator)});
  found->draws.push_back(std::move(one));
}

const std::vector<Ref>& RandomDraws::of(PyObject* generator) const {
  static const std::vector<Ref> none;
  for (const Moved& moved : all_)
    if (moved.generator.get() == generator) return moved.draws;
  return none;
}

std::vector<PyObject*> RandomDraws::generators() const {
  std::vector<PyObject*> generators;
  for (const Moved& moved : all_) generators.push_back(moved.generator.get());
  return generators;
}

size_t RandomDraws::count() const {
  size_t count = 0;
  for (const Moved& moved : all_) count += moved.draws.size();
  return count;
}

void RandomDraws::take_back() {
  for (Moved& moved : all_) {
    moved.after = std::make_unique<guards::RandomState>(moved.generator.get());
    moved.before.put_back(moved.generator.get());
  }
}

bool RandomDraws::is_taken_back() const {
  return std::ranges::all_of(
      all_, [](const Moved& moved) { return guards::RandomState(moved.generator.get()) == moved.before; });
}

void RandomDraws::make_again() {
  for (Moved& moved : all_) std::exchange(moved.after, {})->put_back(moved.generator.get());
}

void SetChange::take_back() {
  after_ = std::make_unique<SetTable>(before_.set());
  must(before_.restore());
}

void SetChange::make_again() {
  must(after_->restore());
  after_.reset();
}

}  // namespace braze::interpreter
