// python/interpreter/watch/size_sequences.cpp: what Python finds when it compares sizes with what lies in
// containers.
//
// It compares one item after the other; each comparison is decided for this call, and guarded, so that the answer
// is that of all calls that keep these guards.
#include <algorithm>
#include <optional>
#include <vector>

#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/sizes.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr Py_ssize_t most_compared = 16;  // Each comparison is a guard.

/// Lists are equal to lists alone, and tuples to tuples.
bool are_of_one_kind(PyObject* one, PyObject* other) {
  return is_sequence(one) && is_sequence(other) && PyList_CheckExact(one) == PyList_CheckExact(other);
}

/// No number is equal to one.
bool equals_no_number(PyObject* value) {
  return PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) || value == Py_None || is_sequence(value);
}

}  // namespace

bool is_plain_dict(PyObject* value) {
  return PyDict_CheckExact(value) || PyODict_CheckExact(value);
}

/// Nothing: C code compares what are no sizes.
std::optional<bool> Sizes::are_equal(PyObject* one, PyObject* other) {
  const std::optional<ir::Size> a = as_size(one), b = as_size(other);
  if (a && b) {
    if (is_varying(values_, one) || is_varying(values_, other))
      return values_.tensors().sizes().decide(ir::equal(*a, *b));
    return a->constant() == b->constant();
  }
  if ((a && equals_no_number(other)) || (b && equals_no_number(one))) return false;
  if (!are_of_one_kind(one, other)) return std::nullopt;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(one);
  if (count != PySequence_Fast_GET_SIZE(other)) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const std::optional<bool> equal =
        are_equal(PySequence_Fast_GET_ITEM(one, i), PySequence_Fast_GET_ITEM(other, i));
    if (!equal || !*equal) return equal;
  }
  return true;
}

/// Two lists or tuples: by the first items that differ. False: not all that is compared are numbers.
bool Sizes::compare_sequences(PyObject* left, PyObject* right, int comparison) {
  if (!are_of_one_kind(left, right)) return false;
  if (comparison == Py_EQ || comparison == Py_NE) return are_equal(left, right).has_value();
  const Py_ssize_t count = std::min(PySequence_Fast_GET_SIZE(left), PySequence_Fast_GET_SIZE(right));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *one = PySequence_Fast_GET_ITEM(left, i), *other = PySequence_Fast_GET_ITEM(right, i);
    const std::optional<bool> equal = are_equal(one, other);
    if (!equal) return false;
    if (*equal) continue;
    if (is_sequence(one) && is_sequence(other)) return compare_sequences(one, other, comparison);
    if (!as_size(one) || !as_size(other)) return false;
    if (is_varying(values_, one) || is_varying(values_, other)) compare_sizes(one, other, comparison);
    return true;
  }
  return true;
}

/// `n in (3, 4)`, at which place, and how often (`asks_all`). False: what is in it are not all numbers.
bool Sizes::contains_size(PyObject* container, PyObject* value, bool asks_all) {
  if (is_plain_dict(container) || PyAnySet_CheckExact(container)) return finds_key(container, value);
  if (!is_sequence(container)) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(container);
  if (count > most_compared) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const std::optional<bool> equal = are_equal(PySequence_Fast_GET_ITEM(container, i), value);
    if (!equal) return false;
    if (*equal && !asks_all) return true;
  }
  return true;
}

/// `list[n] = value` of a list that existed before: n is a place of it from the beginning, from the end, or none,
/// which a guard says. False: it is no such list.
static bool is_place(Values& values, PyObject* list, PyObject* index, ir::Size size) {
  if (!values.source_of(list) || !is_varying(values, index)) return false;
  const std::vector<PyObject*> stored = stored_at(values.effects(), list);
  if (!stored.empty() && stored.back() != index) return false;
  if (stored.empty() && values.effects().changed(list)) return false;  // It is replaced as a whole.
  SizeWorld& sizes = values.tensors().sizes();
  const Py_ssize_t length = PyList_GET_SIZE(list);
  if (!sizes.decide(ir::at_least(size, 0)))
    sizes.decide(ir::at_least(size, -length));
  else
    sizes.decide(ir::less(size, length));
  return true;
}

/// A size as a key of a dict or set: it is one of its keys, or none of them. All keys are guarded, as another call
/// asks for another one.
/// \param stores  `d[n] = value`: n is one of its keys, or a further one, and a replay stores the value under the
///                number of that call. False: it is no such dict.
bool Sizes::finds_key(PyObject* container, PyObject* key, bool stores) {
  if (stores && PyList_CheckExact(container)) {
    const std::optional<ir::Size> size = as_size(key);
    return size && is_place(values_, container, key, *size);
  }
  const bool is_ours = values_.source_of(container) || values_.is_made(container);
  if (stores && (!is_varying(values_, key) || !is_plain_dict(container) || !is_ours)) return false;
  const bool among_sizes = size_keyed_.contains(container);
  if (among_sizes && equals_no_number(key)) return true;
  if (!(is_varying(values_, key) || among_sizes) || !as_size(key) || PyObject_Size(container) > most_compared)
    return false;
  const Ref keys = Ref::steal(PySequence_List(container));
  if (!keys) throw std::bad_alloc();
  PyObject** const all = PySequence_Fast_ITEMS(keys.get());
  const Py_ssize_t count = PyList_GET_SIZE(keys.get());
  if (!std::all_of(all, all + count, [&](PyObject* one) { return as_size(one) || equals_no_number(one); }))
    return false;
  if (!values_.open(container)) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (are_equal(all[i], key).value_or(false)) break;
  if (stores) size_keyed_.insert(container);
  return true;
}

/// A dict or set is asked for a key.
void Sizes::look_at_key(PyObject* container, PyObject* key) {
  if (is_plain_dict(container) && finds_key(container, key)) return;
  values_.numbers().settle_sizes_within(key);
  if (size_keyed_.contains(container)) values_.numbers().settle_sizes_within(container);
}

/// `any` and `all` of a sequence of numbers: whether each is 0, up to the first whose truth is `until`. False: not
/// all are numbers.
bool Sizes::tells_truths(PyObject* sequence, bool until) {
  PyObject** const items = PySequence_Fast_ITEMS(sequence);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  if (count > most_compared || !std::all_of(items, items + count, [&](PyObject* one) { return as_size(one); }))
    return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const ir::Size one = *as_size(items[i]);
    const bool truth =
        is_varying(values_, items[i]) ? values_.tensors().sizes().decide(ir::differs(one, 0)) : one.constant() != 0;
    if (truth == until) break;
  }
  return true;
}

/// In which order items come that are sorted: stands while each of those that end up beside one another stays on
/// its side. False: not all are numbers.
bool Sizes::sorts_sizes(PyObject* sequence, bool is_reverse) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  if (count > most_compared) return false;
  std::vector<Py_ssize_t> order(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!as_size(PySequence_Fast_GET_ITEM(sequence, i))) return false;
    order[static_cast<size_t>(i)] = i;
  }
  const auto item = [&](Py_ssize_t at) { return PySequence_Fast_GET_ITEM(sequence, at); };
  std::ranges::stable_sort(order, [&](Py_ssize_t a, Py_ssize_t b) {
    const long long one = PyLong_AsLongLong(item(a)), other = PyLong_AsLongLong(item(b));
    return is_reverse ? other < one : one < other;
  });
  for (size_t k = 1; k < order.size(); ++k) {
    PyObject *before = item(order[k - 1]), *after = item(order[k]);
    if (!is_varying(values_, before) && !is_varying(values_, after)) continue;
    if (is_reverse) std::swap(before, after);
    const ir::Size small = *as_size(before), large = *as_size(after);
    // Equal ones keep their order.
    values_.tensors().sizes().decide(order[k - 1] < order[k] ? ir::at_most(small, large) : ir::less(small, large));
  }
  return true;
}

}  // namespace braze::interpreter
