// python/guards/entries.cpp: what classes and objects have and lack under names that C code asks them for.
#include <algorithm>

#include "python/guards/kinds.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "support/error.h"

namespace braze::guards {

namespace {

PyObject* look_up(PyObject* type, PyObject* name) noexcept {
  return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name);
}

/// Many names in one guard: most are special methods, nearly all of them missing.
struct ClassEntries : Payload {
  struct Entry {
    Ref name, found;  ///< Found: null if there is nothing.
  };
  std::vector<Entry> entries;

  bool equals(const Payload& payload) const noexcept override {
    const auto& theirs = static_cast<const ClassEntries&>(payload).entries;
    return std::equal(entries.begin(), entries.end(), theirs.begin(), theirs.end(),
                      [](const Entry& a, const Entry& b) {
                        return a.name.get() == b.name.get() && a.found.get() == b.found.get();
                      });
  }
  int visit(visitproc visit, void* arg) const override {
    for (const Entry& entry : entries) Py_VISIT(entry.found.get());
    return 0;
  }
  /// Null if none does.
  const Entry* changed(PyObject* type) const noexcept {
    for (const Entry& entry : entries)
      if (look_up(type, entry.name.get()) != entry.found.get()) return &entry;
    return nullptr;
  }
};

}  // namespace

std::shared_ptr<Payload> make_class_entries_payload(PyTypeObject* type, std::span<PyObject* const> names) {
  auto payload = std::make_shared<ClassEntries>();
  for (PyObject* name : names)
    payload->entries.push_back({Ref::borrow(name), Ref::borrow(_PyType_Lookup(type, name))});
  return payload;
}

bool test_class_entries(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return PyType_Check(values[0]) && !static_cast<const ClassEntries*>(expected.payload)->changed(values[0]);
}
std::string explain_class_entries(const Expected& expected, PyObject* const* values, const Call&,
                                  const Texts& texts) {
  const auto* payload = static_cast<const ClassEntries*>(expected.payload);
  const ClassEntries::Entry* changed = values && PyType_Check(values[0]) ? payload->changed(values[0]) : nullptr;
  if (!changed) return concat(texts[0], " has and lacks the special methods that it had and lacked");
  const auto text = [](PyObject* found) { return found ? describe(found) : std::string("not there"); };
  return concat(texts[0], ".", PyUnicode_AsUTF8(changed->name.get()), " is ", text(changed->found.get()), ", was ",
                text(look_up(values[0], changed->name.get())));
}

bool test_lacks(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  PyObject* dict = instance_dict(values[0]);
  return !dict || PyDict_GET_SIZE(dict) == 0 || !dict_entry(dict, expected.object, PyObject_Hash(expected.object));
}
std::string explain_lacks(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  return concat(texts[0], " has no attribute ", describe(expected.object), " of its own",
                values ? ", had one" : "");
}

}  // namespace braze::guards
