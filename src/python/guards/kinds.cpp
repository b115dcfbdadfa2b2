// python/guards/kinds.cpp: the table of guards, and the kinds that need nothing but CPython.
#include "python/guards/kinds.h"

#include "python/guards/imports.h"
#include "python/guards/iterators.h"
#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "support/error.h"

namespace braze::guards {

namespace {

/// ", was 3"; nothing when only the expectation is asked for.
std::string was(PyObject* const* values, const std::string& text) {
  return values ? ", was " + text : std::string();
}

std::string was(PyObject* const* values) {
  return values ? was(values, describe(values[0])) : std::string();
}

std::string list_text(const std::vector<std::string>& parts) {
  constexpr size_t kMost = 16;
  std::string text = "[";
  for (size_t i = 0; i < parts.size() && i < kMost; ++i) text += (i ? ", " : "") + parts[i];
  return text + (parts.size() > kMost ? ", ...]" : "]");
}

/// No keyword arguments are null or an empty tuple.
PyObject* names_or_null(PyObject* keywords) noexcept {
  return keywords && PyTuple_GET_SIZE(keywords) ? keywords : nullptr;
}

std::string call_text(size_t positional, PyObject* keywords) {
  std::string text = concat(positional, " positional");
  if (keywords)
    text += " and keywords " + list_text([&] {
              std::vector<std::string> names;
              for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i)
                names.push_back(describe(PyTuple_GET_ITEM(keywords, i)));
              return names;
            }());
  return text;
}

PyFunctionObject* as_function(PyObject* object) noexcept {
  return reinterpret_cast<PyFunctionObject*>(object);
}

}  // namespace

const GuardRow& row(GuardKind kind) noexcept {
  static const GuardRow rows[] = {
#define GUARD(name, cost, stable, sources) \
  {#name, cost, stable, GuardRow::Sources::sources, test_##name, explain_##name},
#include "python/guards/guards.def"
#undef GUARD
  };
  return rows[static_cast<size_t>(kind)];
}

// -------------------------------------------------------------------------------- constant, identity

bool test_constant(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return same_scalar(expected.object, values[0]);
}
std::string explain_constant(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  return concat(texts[0], " == ", describe(expected.object), was(values));
}

bool test_identity(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return values[0] == expected.object;
}
std::string explain_identity(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const bool alike = values && describe(values[0]) == describe(expected.object);
  return concat(texts[0], " is ", describe(expected.object), alike ? ", was another one" : was(values));
}

bool test_weak_identity(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  // A dead referent reads as None; no weak reference to None can be made.
  PyObject* alive = PyWeakref_GET_OBJECT(expected.object);
  return values[0] == alive && alive != Py_None;
}
std::string explain_weak_identity(const Expected& expected, PyObject* const* values, const Call& call,
                                  const Texts& texts) {
  PyObject* alive = PyWeakref_GET_OBJECT(expected.object);
  if (alive == Py_None) return concat(texts[0], " is an object that has died", was(values));
  return explain_identity({.object = alive}, values, call, texts);
}

// Another array may lie there once that one has died. Nothing is known of arrays but which is which, and among
// those that live an address tells it.
bool test_address(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return reinterpret_cast<uintptr_t>(values[0]) == expected.bits;
}
std::string explain_address(const Expected&, PyObject* const* values, const Call&, const Texts& texts) {
  return concat(texts[0], " is the array that it was", values ? ", was another one" : "");
}

// -------------------------------------------------------------------------------- type, length

bool test_type(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return reinterpret_cast<PyObject*>(Py_TYPE(values[0])) == expected.object;
}
std::string explain_type(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const char* name = reinterpret_cast<PyTypeObject*>(expected.object)->tp_name;
  const char* other = values ? Py_TYPE(values[0])->tp_name : name;
  if (values && std::string(name) == other)
    return concat("type(", texts[0], ") is ", name, ", was another ", other);
  return concat("type(", texts[0], ") is ", name, was(values, other));
}

bool test_length(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return length_of(values[0]) == static_cast<Py_ssize_t>(expected.bits);
}
std::string explain_length(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const Py_ssize_t length = values ? length_of(values[0]) : 0;
  return concat("len(", texts[0], ") == ", expected.bits,
                length < 0 ? was(values) : was(values, std::to_string(length)));
}

bool test_items_left(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  const auto count = static_cast<Py_ssize_t>(expected.bits >> 1);
  const bool exactly = expected.bits & 1;
  const Py_ssize_t left = items_left(values[0], count + exactly);
  return left == count;
}
std::string explain_items_left(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const auto count = static_cast<Py_ssize_t>(expected.bits >> 1);
  const bool exactly = expected.bits & 1;
  const std::string text = concat(texts[0], exactly ? " has " : " has at least ", count, " items left");
  if (!values) return text;
  const Py_ssize_t left = items_left(values[0], count + 1);
  return left > count ? text + ", had more" : text + was(values, std::to_string(left));
}

// ------------------------------------------------------------------------------------------- dict_keys

namespace {

/// In the order of the table.
template <typename Visit>
bool for_each_hash(PyObject* dict, Visit visit) {
  Py_ssize_t at = 0;
  Py_hash_t hash;
  PyObject *key, *value;
  while (_PyDict_Next(dict, &at, &key, &value, &hash))
    if (!visit(hash)) return false;
  return true;
}

}  // namespace

KeyList::KeyList(PyObject* dict) {
  for_each_key(dict, [&](PyObject* key) {
    keys.push_back(Ref::borrow(key));
    return true;
  });
  if (has_plain_keys(dict)) return;
  for_each_hash(dict, [&](Py_hash_t hash) {
    hashes.push_back(hash);
    return true;
  });
}

bool KeyList::equals(const Payload& other) const noexcept {
  const auto& theirs = static_cast<const KeyList&>(other).keys;
  if (theirs.size() != keys.size() || static_cast<const KeyList&>(other).hashes != hashes) return false;
  for (size_t i = 0; i < keys.size(); ++i)
    if (!same_constant(keys[i].get(), theirs[i].get())) return false;
  return true;
}

int KeyList::visit(visitproc visit, void* arg) const {
  for (const Ref& key : keys) Py_VISIT(key.get());
  return 0;
}

bool test_dict_keys(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  const auto& keys = static_cast<const KeyList*>(expected.payload)->keys;
  const auto& hashes = static_cast<const KeyList*>(expected.payload)->hashes;
  if (!PyDict_Check(values[0]) || PyDict_GET_SIZE(values[0]) != static_cast<Py_ssize_t>(keys.size())) return false;
  const Ref* next = keys.data();
  if (!for_each_key(values[0], [&](PyObject* key) { return same_constant((next++)->get(), key); })) return false;
  const Py_hash_t* hash = hashes.data();
  return hashes.empty() || for_each_hash(values[0], [&](Py_hash_t own) { return *hash++ == own; });
}
std::string explain_dict_keys(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  std::vector<std::string> theirs, ours;
  for (const Ref& key : static_cast<const KeyList*>(expected.payload)->keys) theirs.push_back(describe(key.get()));
  if (values && !PyDict_Check(values[0])) return concat("list(", texts[0], ") == ", list_text(theirs), was(values));
  if (values)
    for_each_key(values[0], [&](PyObject* key) {
      ours.push_back(describe(key));
      return true;
    });
  return concat("list(", texts[0], ") == ", list_text(theirs), was(values, list_text(ours)));
}

// ---------------------------------------------------------------------------------------------- absent

bool test_absent(const Expected& expected, PyObject* const* values, const Call& call) noexcept {
  const Source& target = *static_cast<const AbsentTarget*>(expected.payload)->target;
  if (load(target, values[0], call)) return false;
  // Nothing is found either where keys of the user's classes would have to be asked.
  return target.kind != SourceKind::dict_item || !values[0] || !PyDict_Check(values[0]) ||
         can_look_up(values[0], target.key.get()) || is_missing(values[0], target.key.get(), target.hash);
}
std::string explain_absent(const Expected& expected, PyObject* const* values, const Call& call, const Texts&) {
  const Source* target = static_cast<const AbsentTarget*>(expected.payload)->target;
  return concat(to_text(target), " is not there",
                values ? was(values, describe(load(*target, values[0], call))) : std::string());
}

// -------------------------------------------------------------------------------------------- function

FunctionParts::FunctionParts(PyObject* function)
    : code(Ref::borrow(as_function(function)->func_code)),
      defaults(Ref::borrow(as_function(function)->func_defaults)),
      keyword_defaults(Ref::borrow(as_function(function)->func_kwdefaults)) {}

bool FunctionParts::equals(const Payload& other) const noexcept {
  const auto& theirs = static_cast<const FunctionParts&>(other);
  return code.get() == theirs.code.get() && defaults.get() == theirs.defaults.get() &&
         keyword_defaults.get() == theirs.keyword_defaults.get();
}

int FunctionParts::visit(visitproc visit, void* arg) const {
  Py_VISIT(code.get());
  Py_VISIT(defaults.get());
  Py_VISIT(keyword_defaults.get());
  return 0;
}

uint64_t abc_token() noexcept {
  // Kept for good: a module of the interpreter's own.
  static PyObject* const get = [] {
    const Ref module = import_module("_abc");
    return module ? PyObject_GetAttrString(module.get(), "get_cache_token") : nullptr;
  }();
  const Ref token = Ref::steal(get ? PyObject_CallNoArgs(get) : nullptr);
  const uint64_t value = token ? PyLong_AsUnsignedLongLong(token.get()) : 0;
  PyErr_Clear();
  return value;
}

bool test_abc_registrations(const Expected& expected, PyObject* const*, const Call&) noexcept {
  return abc_token() == expected.bits;
}
std::string explain_abc_registrations(const Expected&, PyObject* const*, const Call&, const Texts&) {
  return "no class is registered with an abstract base class";
}

/// As CPython counts them: down. 3.12 has another name for the field.
template <typename Thread>
Py_ssize_t frames_left(const Thread* thread) noexcept {
  if constexpr (requires { thread->py_recursion_remaining; })
    return thread->py_recursion_remaining;
  else
    return thread->recursion_remaining;
}

bool test_recursion(const Expected& expected, PyObject* const*, const Call&) noexcept {
  return frames_left(PyThreadState_Get()) >= static_cast<Py_ssize_t>(expected.bits);
}
std::string explain_recursion(const Expected& expected, PyObject* const* values, const Call&, const Texts&) {
  return concat(expected.bits, " calls fit below the recursion limit",
                values ? was(values, std::to_string(frames_left(PyThreadState_Get()))) : std::string());
}

// Linear, but no element is asked whether it is equal.
bool test_membership(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  PyObject* const expected_item = expected.bits & 2 ? PyWeakref_GET_OBJECT(expected.object) : expected.object;
  if (!PyAnySet_Check(values[0])) return false;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  bool found = false;
  for (Py_ssize_t at = 0; !found && _PySet_NextEntry(values[0], &at, &item, &hash);) found = item == expected_item;
  return found == static_cast<bool>(expected.bits & 1);
}
std::string explain_membership(const Expected& expected, PyObject* const*, const Call&, const Texts& texts) {
  PyObject* const item = expected.bits & 2 ? PyWeakref_GET_OBJECT(expected.object) : expected.object;
  return concat(describe(item), expected.bits & 1 ? " is in " : " is not in ", texts[0]);
}

bool test_function(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  if (!PyFunction_Check(values[0])) return false;
  const auto* parts = static_cast<const FunctionParts*>(expected.payload);
  const PyFunctionObject* function = as_function(values[0]);
  return function->func_code == parts->code.get() && function->func_defaults == parts->defaults.get() &&
         function->func_kwdefaults == parts->keyword_defaults.get();
}
std::string explain_function(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const auto* parts = static_cast<const FunctionParts*>(expected.payload);
  if (!values) return concat(texts[0], " has the code and defaults that it had");
  if (!PyFunction_Check(values[0])) return concat(texts[0], " is a function", was(values));
  const PyFunctionObject* function = as_function(values[0]);
  const char* what = function->func_code != parts->code.get()           ? "__code__"
                     : function->func_defaults != parts->defaults.get() ? "__defaults__"
                                                                        : "__kwdefaults__";
  return concat(texts[0], ".", what, " is the object that it was, was another one");
}

// -------------------------------------------------------------------------------- same_object, call_shape

bool test_same_object(const Expected&, PyObject* const* values, const Call&) noexcept {
  return values[0] == values[1];
}
std::string explain_same_object(const Expected&, PyObject* const* values, const Call&, const Texts& texts) {
  return concat(texts[0], " is ", texts[1], values ? ", were two objects" : "");
}

bool test_call_shape(const Expected& expected, PyObject* const*, const Call& call) noexcept {
  if (call.positional != expected.bits) return false;
  PyObject* names = names_or_null(call.keywords);
  if (names == expected.object) return true;
  return names && expected.object && same_constant(expected.object, names);
}
std::string explain_call_shape(const Expected& expected, PyObject* const* values, const Call& call, const Texts&) {
  return concat("the call has ", call_text(expected.bits, expected.object), " arguments",
                was(values, call_text(call.positional, names_or_null(call.keywords))));
}

}  // namespace braze::guards
