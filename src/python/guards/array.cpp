// python/guards/array.cpp: arrays of NumPy's as guards see them, and the guard on what is in one.
#include "python/guards/array.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "python/guards/class_kind.h"
#include "python/guards/kinds.h"
#include "support/error.h"

namespace braze::guards {

namespace {

/// The head of PyArrayObject.
struct ArrayObject {
  PyObject head;
  char* data;
  int rank;
  Py_ssize_t *sizes, *strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};

/// The head of PyArray_Descr: what follows lies elsewhere in 1.x than in 2.x.
struct DtypeObject {
  PyObject head;
  PyTypeObject* type;
  char kind, letter, order, unused;
};

/// Row-major, column-major, its own memory, aligned, writeable: what code sees of an array beside its items.
constexpr int kept_flags = 0x1 | 0x2 | 0x4 | 0x100 | 0x400;

/// By the letters of its types; 0 for those that hold no numbers.
Py_ssize_t bytes_of_letter(char letter) noexcept {
  switch (letter) {
    case '?':
    case 'b':
    case 'B': return 1;
    case 'h':
    case 'H':
    case 'e': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 'l':
    case 'L': return sizeof(long);
    case 'q':
    case 'Q':
    case 'd':
    case 'F': return 8;
    case 'D': return 16;
    default: return 0;
  }
}

/// Calls `visit` with pieces of memory, in the order of the indices, until it says no.
template <typename Visit>
bool for_each_piece(const ArrayParts& parts, char* at, size_t dim, Visit visit) {
  if (parts.is_contiguous()) return visit(at, parts.bytes());
  if (dim == parts.sizes.size()) return visit(at, parts.item_bytes);
  for (Py_ssize_t i = 0; i < parts.sizes[dim]; ++i)
    if (!for_each_piece(parts, at + i * parts.strides[dim], dim + 1, visit)) return false;
  return true;
}

struct ArrayContents : Payload {
  Ref dtype;
  std::vector<Py_ssize_t> sizes, strides;
  std::vector<char> bytes;
  int flags;

  explicit ArrayContents(PyObject* array) {
    const ArrayParts parts = parts_of_array(array);
    dtype = Ref::borrow(parts.dtype);
    sizes.assign(parts.sizes.begin(), parts.sizes.end());
    strides.assign(parts.strides.begin(), parts.strides.end());
    flags = parts.flags & kept_flags;
    for_each_piece(parts, parts.data, 0, [this](const char* at, Py_ssize_t count) {
      bytes.insert(bytes.end(), at, at + count);
      return true;
    });
  }

  bool equals(const Payload& other) const noexcept override {
    const auto& theirs = static_cast<const ArrayContents&>(other);
    return dtype.get() == theirs.dtype.get() && sizes == theirs.sizes && strides == theirs.strides &&
           flags == theirs.flags && bytes == theirs.bytes;
  }
  int visit(visitproc visit, void* arg) const override {
    Py_VISIT(dtype.get());
    return 0;
  }

  bool has_form_of(const ArrayParts& parts) const noexcept {
    return parts.dtype == dtype.get() && (parts.flags & kept_flags) == flags &&
           std::equal(sizes.begin(), sizes.end(), parts.sizes.begin(), parts.sizes.end()) &&
           std::equal(strides.begin(), strides.end(), parts.strides.begin(), parts.strides.end());
  }
};

}  // namespace

bool is_array_dtype(PyObject* value) noexcept {
  const PyTypeObject* type = Py_TYPE(value);
  if (!is_exact_builtin(type) || !std::string_view(type->tp_name).starts_with("numpy.dtype")) return false;
  const auto* dtype = reinterpret_cast<const DtypeObject*>(value);
  return (dtype->order == '=' || dtype->order == '|') && bytes_of_letter(dtype->letter) > 0;
}

bool is_number_array(PyObject* value) noexcept {
  const PyTypeObject* type = Py_TYPE(value);
  if (!is_exact_builtin(type) || type->tp_name != std::string_view("numpy.ndarray")) return false;
  PyObject* dtype = reinterpret_cast<ArrayObject*>(value)->dtype;
  return dtype && is_array_dtype(dtype);
}

Py_ssize_t ArrayParts::bytes() const noexcept {
  Py_ssize_t count = item_bytes;
  for (const Py_ssize_t size : sizes) count *= size;
  return count;
}

ArrayParts parts_of_array(PyObject* value) noexcept {
  const auto* array = reinterpret_cast<ArrayObject*>(value);
  const auto rank = static_cast<size_t>(array->rank);
  return {array->data,
          {array->sizes, rank},
          {array->strides, rank},
          array->base,
          array->dtype,
          array->flags,
          bytes_of_letter(reinterpret_cast<DtypeObject*>(array->dtype)->letter)};
}

size_t hash_of_array(PyObject* array) noexcept {
  const ArrayParts parts = parts_of_array(array);
  size_t hash = std::hash<const void*>()(parts.dtype);
  const auto add = [&hash](size_t one) { hash = (hash ^ one) * 0x9E3779B97F4A7C15u; };
  for (const std::span<const Py_ssize_t> numbers : {parts.sizes, parts.strides})
    for (const Py_ssize_t one : numbers) add(static_cast<size_t>(one));
  for_each_piece(parts, parts.data, 0, [&](const char* at, Py_ssize_t count) {
    add(std::hash<std::string_view>()({at, static_cast<size_t>(count)}));
    return true;
  });
  return hash;
}

std::shared_ptr<Payload> make_array_payload(PyObject* array) {
  return std::make_shared<ArrayContents>(array);
}

bool test_array(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  const auto& contents = *static_cast<const ArrayContents*>(expected.payload);
  if (!is_number_array(values[0])) return false;
  const ArrayParts parts = parts_of_array(values[0]);
  if (!contents.has_form_of(parts)) return false;
  const char* own = contents.bytes.data();
  return for_each_piece(parts, parts.data, 0, [&](const char* at, Py_ssize_t count) {
    const bool is_same = count == 0 || std::memcmp(own, at, static_cast<size_t>(count)) == 0;
    own += count;
    return is_same;
  });
}

std::string explain_array(const Expected& expected, PyObject* const* values, const Call& call, const Texts& texts) {
  const auto& contents = *static_cast<const ArrayContents*>(expected.payload);
  std::string text = concat(texts[0], " is an array of the ", contents.bytes.size(), " bytes that it was");
  if (!values || test_array(expected, values, call)) return text;
  const bool is_array = is_number_array(values[0]);
  if (!is_array) return text + ", was something else";
  return text +
         (contents.has_form_of(parts_of_array(values[0])) ? ", was one of others" : ", was another form of one");
}

}  // namespace braze::guards
