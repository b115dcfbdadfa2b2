// python/guards/guard_set.cpp: guards under construction.
#include <utility>

#include "python/guards/guard.h"
#include "python/guards/kinds.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "support/error.h"

namespace braze::guards {

namespace {

bool same_guard(const Guard& a, const Guard& b) {
  if (a.kind != b.kind || a.sources != b.sources || a.bits != b.bits) return false;
  if (!a.payload != !b.payload || (a.payload && !a.payload->equals(*b.payload))) return false;
  PyObject *x = a.object.get(), *y = b.object.get();
  return x == y || (x && y && a.kind == GuardKind::constant && same_scalar(x, y));
}

}  // namespace

GuardSet::GuardSet() : sources_(std::make_unique<SourceTable>()) {}

void GuardSet::add(Guard guard) {
  // Guards of one source are few; those without or with many sources are few in all.
  std::vector<uint32_t>& same_source = by_source_[guard.sources.empty() ? nullptr : guard.sources[0]];
  for (const uint32_t i : same_source)
    if (same_guard(guards_[i], guard)) return;
  same_source.push_back(static_cast<uint32_t>(guards_.size()));
  guards_.push_back(std::move(guard));
}

void GuardSet::constant(const Source* source, PyObject* value) {
  BRAZE_CHECK(is_scalar(value) || is_array_scalar(value), "a constant guard on ", describe(value));
  if (is_nan(value)) return identity(source, value);
  add({.kind = GuardKind::constant, .sources = {source}, .object = Ref::borrow(value)});
}

void GuardSet::identity(const Source* source, PyObject* object, Hold hold) {
  // torch.utils.swap_tensors refuses tensors with weak references.
  if (hold == Hold::weak && is_tensor(object) && tensor(source, object, 1, Which::same)) return;
  // Neither does an array that somebody refers to change its size.
  if (hold == Hold::weak && is_array(Py_TYPE(object)))
    return add({.kind = GuardKind::address, .sources = {source}, .bits = reinterpret_cast<uintptr_t>(object)});
  if (hold == Hold::weak && PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
    // The plain weak reference of an object is one object, so that equal guards are found equal.
    Ref reference = Ref::steal(PyWeakref_NewRef(object, nullptr));
    BRAZE_CHECK(reference, "no weak reference to ", describe(object));
    return add({.kind = GuardKind::weak_identity, .sources = {source}, .object = std::move(reference)});
  }
  add({.kind = GuardKind::identity, .sources = {source}, .object = Ref::borrow(object)});
}

void GuardSet::type(const Source* source, PyTypeObject* type) {
  add({.kind = GuardKind::type, .sources = {source}, .object = Ref::borrow(reinterpret_cast<PyObject*>(type))});
}

void GuardSet::length(const Source* source, size_t length) {
  add({.kind = GuardKind::length, .sources = {source}, .bits = length});
}

void GuardSet::dict_keys(const Source* source, PyObject* dict) {
  BRAZE_CHECK(PyDict_Check(dict), "a guard on the keys of ", describe(dict));
  add({.kind = GuardKind::dict_keys, .sources = {source}, .payload = std::make_shared<KeyList>(dict)});
}

void GuardSet::absent(const Source* source) {
  BRAZE_CHECK(source->parent, "an argument cannot be guarded as absent: ", to_text(source));
  if (!absent_.insert(source).second) return;  // Asked for often: of each instance of a class.
  add({.kind = GuardKind::absent, .sources = {source->parent}, .payload = std::make_shared<AbsentTarget>(source)});
}

void GuardSet::drops(const Source* source, bool contents, size_t count) {
  add({.kind = GuardKind::drops,
       .sources = {source->parent ? source->parent : source},
       .bits = count,
       .payload = std::make_shared<DropTarget>(source, contents)});
}

void GuardSet::class_entries(const Source* source, PyTypeObject* type, std::span<PyObject* const> names) {
  add({.kind = GuardKind::class_entries, .sources = {source}, .payload = make_class_entries_payload(type, names)});
}

void GuardSet::lacks(const Source* source, PyObject* name) {
  add({.kind = GuardKind::lacks, .sources = {source}, .object = Ref::borrow(name)});
}

void GuardSet::function(const Source* source, PyObject* function) {
  BRAZE_CHECK(PyFunction_Check(function), "a guard on the code of ", describe(function));
  add({.kind = GuardKind::function, .sources = {source}, .payload = std::make_shared<FunctionParts>(function)});
}

bool GuardSet::deep(const Source* source, PyObject* value) {
  std::shared_ptr<Payload> snapshot = make_deep_payload(value);
  if (!snapshot) return false;
  add({.kind = GuardKind::deep, .sources = {source}, .payload = std::move(snapshot)});
  return true;
}

void GuardSet::array(const Source* source, PyObject* array) {
  add({.kind = GuardKind::array, .sources = {source}, .payload = make_array_payload(array)});
}

void GuardSet::membership(const Source* set, PyObject* item, bool is_in) {
  // Where it is guarded that the item lives, for which it need not be held.
  const bool weak = PyType_SUPPORTS_WEAKREFS(Py_TYPE(item));
  Ref object = weak ? Ref::steal(PyWeakref_NewRef(item, nullptr)) : Ref::borrow(item);
  BRAZE_CHECK(object, "no weak reference to ", describe(item));
  add({.kind = GuardKind::membership,
       .sources = {set},
       .object = std::move(object),
       .bits = static_cast<uint64_t>(is_in) | static_cast<uint64_t>(weak) << 1});
}

bool GuardSet::tensor(const Source* source, PyObject* tensor, uint32_t alignment, Which which) {
  std::shared_ptr<Payload> properties = make_tensor_payload(tensor, alignment, which == Which::same);
  if (!properties) return false;
  add({.kind = GuardKind::tensor, .sources = {source}, .payload = std::move(properties)});
  return true;
}

bool GuardSet::tensor_of_rank(const Source* source, PyObject* tensor) {
  std::shared_ptr<Payload> properties = make_tensor_payload(tensor, 1, false, /*any_sizes=*/true);
  if (!properties) return false;
  add({.kind = GuardKind::tensor, .sources = {source}, .payload = std::move(properties)});
  return true;
}

void GuardSet::shapes(std::vector<const Source*> sources, std::shared_ptr<Payload> payload) {
  add({.kind = GuardKind::shapes, .sources = std::move(sources), .payload = std::move(payload)});
}

void GuardSet::same_object(const Source* a, const Source* b) {
  if (a == b) return;
  if (b->number < a->number) std::swap(a, b);
  add({.kind = GuardKind::same_object, .sources = {a, b}});
}

void GuardSet::objects(std::vector<const Source*> sources, std::span<PyObject* const> values) {
  BRAZE_CHECK(sources.size() == values.size(), "a value for each source");
  if (sources.size() < 2) return;
  add({.kind = GuardKind::objects, .sources = std::move(sources), .payload = make_objects_payload(values)});
}

void GuardSet::storages(std::vector<const Source*> sources, std::span<PyObject* const> tensors) {
  BRAZE_CHECK(sources.size() == tensors.size(), "a tensor for each source");
  if (sources.size() < 2) return;
  add({.kind = GuardKind::storages, .sources = std::move(sources), .payload = make_storages_payload(tensors)});
}

void GuardSet::torch_state() {
  add({.kind = GuardKind::torch_state, .payload = make_torch_state_payload()});
}

void GuardSet::abc_registrations() {
  add({.kind = GuardKind::abc_registrations, .bits = abc_token()});
}

void GuardSet::items_left(const Source* source, size_t count, bool exactly) {
  add({.kind = GuardKind::items_left,
       .sources = {source},
       .bits = static_cast<uint64_t>(count) << 1 | static_cast<uint64_t>(exactly)});
}

void GuardSet::no_default_device() {
  add({.kind = GuardKind::default_device});
}

void GuardSet::recursion(size_t frames) {
  add({.kind = GuardKind::recursion, .bits = frames});
}

void GuardSet::call_shape(const Call& call) {
  Guard guard{.kind = GuardKind::call_shape, .bits = call.positional};
  if (call.keywords && PyTuple_GET_SIZE(call.keywords)) guard.object = Ref::borrow(call.keywords);
  add(std::move(guard));
}

bool GuardSet::says_type(const Source* source, PyTypeObject* type) const noexcept {
  const auto found = by_source_.find(source);
  if (found == by_source_.end()) return false;
  for (const uint32_t i : found->second)
    if (guards_[i].kind == GuardKind::type && guards_[i].object.get() == reinterpret_cast<PyObject*>(type))
      return true;
  return false;
}

uint32_t GuardSet::want(const Source* source) {
  const auto [at, added] = places_.try_emplace(source, static_cast<uint32_t>(wanted_.size()));
  if (added) wanted_.push_back(source);
  return at->second;
}

}  // namespace braze::guards
