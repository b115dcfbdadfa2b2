// python/guards/iterators.h: reading the storage of builtin iterators, and how far they have come.
//
// What such an iterator gives next can be told without asking it. Items are borrowed from what it goes through;
// numbers, which a range or an enumerate makes anew, are made for whoever asks. No Python code runs, and no Python
// error is set. All of this is for exactly the types that iterator_kind() knows; for anything else there is
// nothing.
//
//   items_left(iterator, 1)       // 1: there is a next item; 0: it has come to its end
//   next_item(iterator, 2, made)  // the third item from now
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "python/guards/ref.h"

namespace braze::guards {

enum class IteratorKind : uint8_t {
  none,
  forward,   ///< iter() of a list or tuple.
  backward,  ///< reversed() of a list.
  range,     ///< iter() of a range of machine words.
  keys,      ///< iter() of a dict (not of an OrderedDict) or of its keys().
  values,
  items,      ///< Gives pairs of key and value.
  enumerate,  ///< Gives pairs of a number, of at most a machine word, and what the iterator within gives.
  zip,        ///< Gives tuples of what the iterators within give.
};
IteratorKind iterator_kind(PyObject* iterator) noexcept;

/// The list, tuple or dict that the iterator goes through, of the first kinds; the iterator within an enumerate;
/// the tuple of those within a zip. Where it keeps the pointer, which is null once it has ended; null for a range.
PyObject* const* iterator_source(PyObject* iterator) noexcept;

/// How many items are left, but no more than `most`; -1 for enumerate and zip, whose iterators say it, and for a
/// dict that has changed under its iterator: it will raise.
Py_ssize_t items_left(PyObject* iterator, Py_ssize_t most) noexcept;

/// Item `k` from now, from 0; the value, of pairs of a dict. Not of enumerate and zip.
/// \param made  keeps a number that is made.
PyObject* next_item(PyObject* iterator, size_t k, Ref& made) noexcept;
/// The key of pair `k` from now of a dict, or the number that an enumerate gives with it.
PyObject* next_key(PyObject* iterator, size_t k, Ref& made) noexcept;

/// A zip that raises where its iterators do not end together.
bool is_strict(PyObject* zip) noexcept;

/// How far an iterator has come, not counting those within it.
class IteratorState {
 public:
  /// \param iterator  of a kind but none.
  explicit IteratorState(PyObject* iterator);
  /// Puts the iterator back there. It must be the same one.
  void restore(PyObject* iterator) const;
  bool operator==(const IteratorState& other) const noexcept;

 private:
  std::array<int64_t, 4> words_{};
  Ref source_;
};

}  // namespace braze::guards
