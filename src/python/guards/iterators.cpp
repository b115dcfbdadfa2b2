// python/guards/iterators.cpp
#include "python/guards/iterators.h"

#include <algorithm>
#include <utility>

#include "python/guards/keys.h"
#include "python/guards/range_iterator_312.h"

namespace braze::guards {

namespace {

// As CPython 3.11 and 3.12 lay them out; its headers do not say.

struct SequenceIterator {  // Of list, tuple and reversed list.
  PyObject_HEAD Py_ssize_t index;
  PyObject* sequence;
};

struct DictIterator {
  PyObject_HEAD PyObject* dict;
  Py_ssize_t used, position;
  PyObject* result;
  Py_ssize_t left;
};

/// Of an OrderedDict, which keeps its order in a list of nodes, and names the key that is next.
struct OrderedIterator {
  PyObject_HEAD int kind;
  PyObject* dict;
  Py_ssize_t size;
  size_t state;
  PyObject *current, *result;
};
constexpr int kOrderedItems = 2 | 4;  // Keys and values; 1: from the end.

struct OrderedNode {
  PyObject* key;
  Py_hash_t hash;
  OrderedNode *next, *previous;
};

struct OrderedDict {
  PyDictObject dict;
  OrderedNode *first, *last;
  OrderedNode** nodes;
  Py_ssize_t node_count;
  void* sentinel;
  size_t state;
};

struct Enumerate {
  PyObject_HEAD Py_ssize_t index;
  PyObject *iterator, *result, *long_index;
};

struct Zip {
  PyObject_HEAD Py_ssize_t size;
  PyObject *iterators, *result;
  int strict;
};

/// One row a type.
struct Row {
  PyTypeObject* type;
  IteratorKind kind;
  size_t source;                     ///< Where the pointer lies; 0: there is none.
  std::array<size_t, 4> words = {};  ///< Where the state lies; 0: no more.
};

constexpr size_t kDictWords[] = {offsetof(DictIterator, used), offsetof(DictIterator, position),
                                 offsetof(DictIterator, left)};

constexpr Row dict_row(PyTypeObject* type, IteratorKind kind) {
  return {type, kind, offsetof(DictIterator, dict), {kDictWords[0], kDictWords[1], kDictWords[2]}};
}

constexpr Row sequence_row(PyTypeObject* type, IteratorKind kind) {
  return {type, kind, offsetof(SequenceIterator, sequence), {offsetof(SequenceIterator, index)}};
}

const Row kRows[] = {
    sequence_row(&PyListIter_Type, IteratorKind::forward),
    sequence_row(&PyTupleIter_Type, IteratorKind::forward),
    sequence_row(&PyListRevIter_Type, IteratorKind::backward),
    {&PyRangeIter_Type, IteratorKind::range, 0, RangeIterator::state},
    dict_row(&PyDictIterKey_Type, IteratorKind::keys),
    dict_row(&PyDictIterValue_Type, IteratorKind::values),
    dict_row(&PyDictIterItem_Type, IteratorKind::items),
    {&PyODictIter_Type,
     IteratorKind::items,
     offsetof(OrderedIterator, dict),
     {offsetof(OrderedIterator, size), offsetof(OrderedIterator, state)}},
    {&PyEnum_Type, IteratorKind::enumerate, offsetof(Enumerate, iterator), {offsetof(Enumerate, index)}},
    {&PyZip_Type, IteratorKind::zip, offsetof(Zip, iterators)},
};

template <typename T>
T* field(PyObject* object, size_t offset) noexcept {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(object) + offset);
}

template <typename Layout>
Layout* as(PyObject* iterator) noexcept {
  return reinterpret_cast<Layout*>(iterator);
}

bool is_ordered(PyObject* iterator) noexcept {
  return Py_IS_TYPE(iterator, &PyODictIter_Type);
}

const Row* row_of(PyObject* iterator) noexcept {
  // One type for keys, values and items: of the others a guard on the type would not tell which it was.
  if (is_ordered(iterator) && as<OrderedIterator>(iterator)->kind != kOrderedItems) return nullptr;
  for (const Row& row : kRows)
    if (Py_IS_TYPE(iterator, row.type)) return &row;
  return nullptr;
}

/// Index of item `k` from now in the list or tuple; -1 if there is no such item.
Py_ssize_t sequence_index(PyObject* iterator, size_t k) noexcept {
  const SequenceIterator& own = *as<SequenceIterator>(iterator);
  if (!own.sequence || own.index < 0) return -1;
  const auto length = static_cast<size_t>(Py_SIZE(own.sequence)), first = static_cast<size_t>(own.index);
  if (first >= length) return -1;
  if (Py_IS_TYPE(iterator, &PyListRevIter_Type)) return k <= first ? static_cast<Py_ssize_t>(first - k) : -1;
  return k < length - first ? static_cast<Py_ssize_t>(first + k) : -1;
}

PyObject* sequence_item(PyObject* iterator, size_t k) noexcept {
  const Py_ssize_t index = sequence_index(iterator, k);
  if (index < 0) return nullptr;
  PyObject* sequence = as<SequenceIterator>(iterator)->sequence;
  return PyList_Check(sequence) ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index);
}

Py_ssize_t sequence_left(PyObject* iterator) noexcept {
  const SequenceIterator& own = *as<SequenceIterator>(iterator);
  if (sequence_index(iterator, 0) < 0) return 0;
  return Py_IS_TYPE(iterator, &PyListRevIter_Type) ? own.index + 1 : Py_SIZE(own.sequence) - own.index;
}

Py_ssize_t range_left(PyObject* iterator) noexcept {
  return std::max(as<RangeIterator>(iterator)->left(), 0L);
}

PyObject* number(size_t value, Ref& made) noexcept {
  made = Ref::steal(PyLong_FromSsize_t(static_cast<Py_ssize_t>(value)));
  if (!made) PyErr_Clear();
  return made.get();
}

PyObject* range_item(PyObject* iterator, size_t k, Ref& made) noexcept {
  if (range_left(iterator) <= static_cast<Py_ssize_t>(k)) return nullptr;
  const RangeIterator& own = *as<RangeIterator>(iterator);
  // As CPython has it: the product may wrap around, the sum does not.
  return number(static_cast<size_t>(own.start) + (k + own.given()) * static_cast<size_t>(own.step), made);
}

/// As for_each_entry_left().
template <typename Visit>
bool for_each_node_left(PyObject* iterator, Visit visit) noexcept {
  const OrderedIterator& own = *as<OrderedIterator>(iterator);
  if (!own.dict || !own.current) return true;
  const OrderedDict& dict = *as<OrderedDict>(own.dict);
  if (own.state != dict.state || own.size != PyDict_GET_SIZE(own.dict)) return false;
  const OrderedNode* node = dict.first;
  while (node && node->key != own.current) node = node->next;
  if (!node) return false;
  for (; node; node = node->next) {
    PyObject* value = entry_of_object(own.dict, node->key);  // No Python code is asked.
    if (!value) return false;
    if (!visit(node->key, value)) return true;
  }
  return true;
}

/// Goes through the entries that are left until `visit(key, value)` returns false. \returns false if the iterator
/// will raise, as its dict has changed.
template <typename Visit>
bool for_each_entry_left(PyObject* iterator, Visit visit) noexcept {
  if (is_ordered(iterator)) return for_each_node_left(iterator, visit);
  const DictIterator& own = *as<DictIterator>(iterator);
  if (!own.dict) return true;
  if (own.used != PyDict_GET_SIZE(own.dict)) return false;
  Py_ssize_t at = own.position, left = own.left;
  PyObject *key, *value;
  while (PyDict_Next(own.dict, &at, &key, &value)) {
    if (left-- == 0) return false;
    if (!visit(key, value)) return true;
  }
  return true;
}

PyObject* dict_part(PyObject* iterator, size_t k, bool is_key) noexcept {
  PyObject* found = nullptr;
  for_each_entry_left(iterator, [&](PyObject* key, PyObject* value) {
    if (k-- > 0) return true;
    found = is_key ? key : value;
    return false;
  });
  return found;
}

Py_ssize_t entries_left(PyObject* iterator, Py_ssize_t most) noexcept {
  Py_ssize_t count = 0;
  if (most == 0) return 0;
  const bool stays = for_each_entry_left(iterator, [&](PyObject*, PyObject*) { return ++count < most; });
  return stays ? count : -1;
}

}  // namespace

IteratorKind iterator_kind(PyObject* iterator) noexcept {
  const Row* row = row_of(iterator);
  if (!row) return IteratorKind::none;
  const bool is_long = row->kind == IteratorKind::enumerate && as<Enumerate>(iterator)->long_index;
  return is_long ? IteratorKind::none : row->kind;
}

PyObject* const* iterator_source(PyObject* iterator) noexcept {
  const Row* row = row_of(iterator);
  return row && row->source ? field<PyObject*>(iterator, row->source) : nullptr;
}

Py_ssize_t items_left(PyObject* iterator, Py_ssize_t most) noexcept {
  switch (iterator_kind(iterator)) {
    case IteratorKind::forward:
    case IteratorKind::backward: return std::min(sequence_left(iterator), most);
    case IteratorKind::range: return std::min(range_left(iterator), most);
    case IteratorKind::keys:
    case IteratorKind::values:
    case IteratorKind::items: return entries_left(iterator, most);
    default: return -1;
  }
}

PyObject* next_item(PyObject* iterator, size_t k, Ref& made) noexcept {
  switch (iterator_kind(iterator)) {
    case IteratorKind::forward:
    case IteratorKind::backward: return sequence_item(iterator, k);
    case IteratorKind::range: return range_item(iterator, k, made);
    case IteratorKind::keys: return dict_part(iterator, k, true);
    case IteratorKind::values:
    case IteratorKind::items: return dict_part(iterator, k, false);
    default: return nullptr;
  }
}

PyObject* next_key(PyObject* iterator, size_t k, Ref& made) noexcept {
  switch (iterator_kind(iterator)) {
    case IteratorKind::items: return dict_part(iterator, k, true);
    case IteratorKind::enumerate: {
      const auto index = static_cast<size_t>(as<Enumerate>(iterator)->index);
      return index + k < static_cast<size_t>(PY_SSIZE_T_MAX) ? number(index + k, made) : nullptr;
    }
    default: return nullptr;
  }
}

bool is_strict(PyObject* zip) noexcept {
  return Py_IS_TYPE(zip, &PyZip_Type) && as<Zip>(zip)->strict;
}

IteratorState::IteratorState(PyObject* iterator) {
  const Row& row = *row_of(iterator);
  for (size_t i = 0; i < row.words.size() && row.words[i]; ++i) words_[i] = *field<int64_t>(iterator, row.words[i]);
  if (row.source) source_ = Ref::borrow(*field<PyObject*>(iterator, row.source));
  // The key that is next is one of the dict's, which keeps it.
  if (is_ordered(iterator)) words_[3] = reinterpret_cast<intptr_t>(as<OrderedIterator>(iterator)->current);
}

void IteratorState::restore(PyObject* iterator) const {
  const Row& row = *row_of(iterator);
  for (size_t i = 0; i < row.words.size() && row.words[i]; ++i) *field<int64_t>(iterator, row.words[i]) = words_[i];
  if (is_ordered(iterator)) {
    Ref next = Ref::borrow(reinterpret_cast<PyObject*>(words_[3]));
    const Ref other = Ref::steal(std::exchange(as<OrderedIterator>(iterator)->current, next.release()));
  }
  if (!row.source) return;
  // Dropped when the iterator is whole again.
  const Ref before = Ref::steal(std::exchange(*field<PyObject*>(iterator, row.source), Ref(source_).release()));
}

bool IteratorState::operator==(const IteratorState& other) const noexcept {
  return words_ == other.words_ && source_.get() == other.source_.get();
}

}  // namespace braze::guards
