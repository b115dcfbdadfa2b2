// python/guards/deep.cpp: builtin containers of scalars, compared all through.
//
// The snapshot is the value in preorder: a list of n is one entry, then its items; a dict of n one entry, then key,
// value, key, value. Order counts in dicts and sets too, because iteration shows it. Of the objects in a set the
// identity and the hash that the set keeps are compared.
#include <algorithm>

#include "python/guards/kinds.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "support/error.h"

namespace braze::guards {

namespace {

constexpr int kDeepest = 64;             // levels; what is deeper, or contains itself, is not guarded
constexpr size_t kMostEntries = 100000;  // a check would take longer than what it guards

struct Entry {
  PyTypeObject* type;  ///< Exact; builtin types and torch.Size, which live forever.
  uint32_t count;      ///< Items of a container, pairs of a dict.
  Ref scalar;          ///< Or what there is but one of. Null for containers.
  Ref object = {};     ///< An object in a set; a weak reference to it where there may be one.
  bool is_weak = false;
  Py_hash_t hash = 0;  ///< That the set keeps of it.

  bool is_object(PyObject* value, Py_hash_t own_hash) const noexcept {
    return (is_weak ? PyWeakref_GET_OBJECT(object.get()) : object.get()) == value && own_hash == hash;
  }
};

bool is_sequence(PyTypeObject* type) noexcept {
  return type == &PyList_Type || type == &PyTuple_Type || is_torch_size(type);
}
bool is_set(PyTypeObject* type) noexcept {
  return type == &PySet_Type || type == &PyFrozenSet_Type;
}

/// There is but one of it, for good: builtin classes and dtypes. Sets keep them in an order of their own.
bool is_lasting(PyObject* value) noexcept {
  if (PyType_Check(value))
    return PyType_HasFeature(reinterpret_cast<PyTypeObject*>(value), Py_TPFLAGS_IMMUTABLETYPE);
  return std::string_view(Py_TYPE(value)->tp_name) == "torch.dtype" &&
         !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE);
}

struct Snapshot : Payload {
  std::vector<Entry> entries;

  bool equals(const Payload& other) const noexcept override {
    const auto& theirs = static_cast<const Snapshot&>(other).entries;
    return std::equal(entries.begin(), entries.end(), theirs.begin(), theirs.end(),
                      [](const Entry& a, const Entry& b) {
                        if (a.type != b.type || a.count != b.count) return false;
                        if (a.object.get() != b.object.get() || a.hash != b.hash) return false;
                        return !a.scalar || same_scalar(a.scalar.get(), b.scalar.get());
                      });
  }

  bool add(PyObject* value, int depth) {
    if (depth > kDeepest || entries.size() >= kMostEntries) return false;
    PyTypeObject* type = Py_TYPE(value);
    if (is_scalar(value) || is_lasting(value)) {
      if (is_nan(value)) return false;  // Its address counts too.
      entries.push_back({type, 0, Ref::borrow(value)});
      return true;
    }
    if (is_sequence(type)) {
      entries.push_back({type, static_cast<uint32_t>(Py_SIZE(value)), {}});
      for (size_t i = 0; i < static_cast<size_t>(Py_SIZE(value)); ++i)
        if (!add(item_at(value, i), depth + 1)) return false;
      return true;
    }
    Py_ssize_t at = 0;
    PyObject *key, *item;
    if (type == &PyDict_Type) {
      entries.push_back({type, static_cast<uint32_t>(PyDict_GET_SIZE(value)), {}});
      while (PyDict_Next(value, &at, &key, &item))
        if (!add(key, depth + 1) || !add(item, depth + 1)) return false;
      return true;
    }
    if (!is_set(type)) return false;
    entries.push_back({type, static_cast<uint32_t>(PySet_GET_SIZE(value)), {}});
    Py_hash_t hash;
    while (_PySet_NextEntry(value, &at, &key, &hash))
      if (!(is_object(key) ? add_object(key, hash) : add(key, depth + 1))) return false;
    return true;
  }

  /// Neither a value nor a container of such.
  static bool is_object(PyObject* item) noexcept {
    return !is_scalar(item) && !is_lasting(item) && !is_set(Py_TYPE(item)) && !is_sequence(Py_TYPE(item));
  }

  bool add_object(PyObject* object, Py_hash_t hash) {
    if (is_tensor(object)) return false;
    const bool weak = PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
    Ref kept = weak ? Ref::steal(PyWeakref_NewRef(object, nullptr)) : Ref::borrow(object);
    if (!kept) PyErr_Clear();
    const bool is_held = static_cast<bool>(kept);
    if (is_held) entries.push_back({Py_TYPE(object), 0, {}, std::move(kept), weak, hash});
    return is_held;
  }
};

/// Where two values first differ, for messages.
struct Difference {
  std::vector<std::string> path;  ///< From the inside out: "[3]", "["w"]".
  std::string expected, found;
};

std::string text_of(const Entry& entry) {
  if (entry.scalar) return describe(entry.scalar.get());
  if (entry.object) return concat("an object of type ", entry.type->tp_name);
  return concat("a ", entry.type->tp_name, " of ", entry.count);
}

std::string text_of(PyObject* value) {
  const Py_ssize_t length = is_scalar(value) ? -1 : length_of(value);
  return length < 0 ? describe(value) : concat("a ", Py_TYPE(value)->tp_name, " of ", length);
}

class Walker {
 public:
  /// \param difference  filled when the values differ; may be null.
  Walker(const Snapshot& snapshot, Difference* difference)
      : next_(snapshot.entries.data()), difference_(difference) {}

  /// \param hash  that a set keeps of the value.
  bool same(PyObject* value, Py_hash_t hash = 0) {
    const Entry& entry = *next_++;
    if (Py_TYPE(value) != entry.type) return differ(entry, value);
    if (entry.object) return entry.is_object(value, hash) || differ(entry, value);
    if (entry.scalar) return same_scalar(entry.scalar.get(), value) || differ(entry, value);
    if (length_of(value) != static_cast<Py_ssize_t>(entry.count)) return differ(entry, value);
    if (is_sequence(entry.type)) {
      for (uint32_t i = 0; i < entry.count; ++i)
        if (!same(item_at(value, i))) return below([&] { return concat("[", i, "]"); });
      return true;
    }
    Py_ssize_t at = 0;
    PyObject *key, *item;
    if (entry.type == &PyDict_Type) {
      while (PyDict_Next(value, &at, &key, &item)) {
        if (!same(key)) return below([] { return std::string(".keys()"); });
        if (!same(item)) return below([&] { return concat("[", describe(key), "]"); });
      }
      return true;
    }
    while (_PySet_NextEntry(value, &at, &key, &hash))
      if (!same(key, hash)) return below([] { return std::string(" (in order)"); });
    return true;
  }

 private:
  bool differ(const Entry& entry, PyObject* value) {
    if (difference_) {
      difference_->expected = text_of(entry);
      difference_->found = text_of(value);
    }
    return false;
  }
  template <typename Text>
  bool below(Text text) {
    if (difference_) difference_->path.push_back(text());
    return false;
  }

  const Entry* next_;
  Difference* difference_;
};

}  // namespace

std::shared_ptr<Payload> make_deep_payload(PyObject* value) {
  auto snapshot = std::make_shared<Snapshot>();
  return snapshot->add(value, 0) ? snapshot : nullptr;
}

bool test_deep(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return Walker(*static_cast<const Snapshot*>(expected.payload), nullptr).same(values[0]);
}

std::string explain_deep(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const auto& snapshot = *static_cast<const Snapshot*>(expected.payload);
  Difference difference;
  if (!values || Walker(snapshot, &difference).same(values[0]))
    return concat(texts[0], " == ", text_of(snapshot.entries[0]), ", all through");
  std::string path = texts[0];
  for (auto step = difference.path.rbegin(); step != difference.path.rend(); ++step) path += *step;
  return concat(path, " == ", difference.expected, ", was ", difference.found);
}

}  // namespace braze::guards
