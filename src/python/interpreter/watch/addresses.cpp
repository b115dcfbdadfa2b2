// python/interpreter/watch/addresses.cpp
#include "python/interpreter/watch/addresses.h"

#include <algorithm>

#include "python/guards/keys.h"

namespace braze::interpreter {

namespace {

enum class Held : uint8_t { none, plain, address };

/// Whether a key is, or holds, a number that is large enough to be the address of an object.
Held numbers_in(const Values& values, PyObject* key) {
  constexpr size_t fewest_bits = 24;
  if (PyLong_CheckExact(key)) {
    if (values.is_address(key)) return Held::address;
    return _PyLong_NumBits(key) >= fewest_bits ? Held::plain : Held::none;
  }
  Held all = Held::none;
  if (PyTuple_CheckExact(key))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      all = std::max(all, numbers_in(values, PyTuple_GET_ITEM(key, i)));
  return all;
}

}  // namespace

bool holds_address(const Values& values, PyObject* key) {
  return numbers_in(values, key) == Held::address;
}

bool keys_fit(const Values& values, PyObject* container, PyObject* key) {
  const Held own = numbers_in(values, key);
  if (own == Held::none) return true;
  const auto fits = [&](PyObject* other) {
    const Held numbers = numbers_in(values, other);
    return numbers == Held::none || numbers == own;
  };
  if (PyDict_Check(container)) {
    Py_ssize_t at = 0;
    PyObject *other, *value;
    while (PyDict_Next(container, &at, &other, &value))
      if (!fits(other)) return false;
    return true;
  }
  PyObject* other = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; PyAnySet_Check(container) && _PySet_NextEntry(container, &at, &other, &hash);)
    if (!fits(other)) return false;
  return true;
}

}  // namespace braze::interpreter
