// python/interpreter/watch/array_memory.cpp
#include "python/interpreter/watch/array_memory.h"

#include "python/guards/array.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

namespace {

constexpr Py_ssize_t most_bytes = 1 << 20;  // A guard compares them at each call, and keeps a copy.

/// Reached over an attribute, a global or what a function has closed over. What a call or a frame is given, as it
/// is or in containers, are other numbers at nearly every call.
bool is_lasting(const guards::Source* source) {
  using enum guards::SourceKind;
  for (; source->parent; source = source->parent) {
    const bool is_of_function = source->kind == member &&
                                static_cast<guards::Member>(source->index) != guards::Member::cell_contents &&
                                static_cast<guards::Member>(source->index) != guards::Member::iterated;
    if (is_of_function || source->kind == dict_of || source->kind == slot || source->kind == type_attribute)
      return true;
  }
  return source->kind == object;
}

}  // namespace

PyObject* ArrayMemory::root_of(PyObject* array) {
  for (;;) {
    PyObject* base = guards::parts_of_array(array).base;
    if (!base || !guards::is_number_array(base)) return array;
    array = base;
  }
}

bool ArrayMemory::is_own(PyObject* root) const {
  if (computed_.contains(root)) return false;
  return guards::parts_of_array(root).owns_memory() && !values_.source_of(root) && !older_.contains(root);
}

bool ArrayMemory::read(PyObject* array) {
  if (!values_.is_known(array)) return false;
  PyObject* root = root_of(array);
  if (const guards::Source* source = values_.source_of(array)) {
    const guards::ArrayParts parts = guards::parts_of_array(array);
    if (!is_lasting(source) || parts.bytes() > most_bytes || values_.tensors().has_written_older() ||
        changed_.contains(array))
      return false;
    if (is_constant(array)) return true;
    held_.push_back(guards::Ref::borrow(root));
    // A tensor can lie over it.
    if (parts.is_writeable() && has_changed(array, source)) {
      changed_.insert(array);
      return false;
    }
    guarded_.insert(array);
    older_.insert(root);
    values_.guards().array(source, array);
    return true;
  }
  if (const auto shared = shared_.find(root); shared != shared_.end())
    return shared->second == values_.tensors().writes();
  if (is_own(root)) return true;
  // A view of an older one, which has been read for it.
  return older_.contains(root) && !values_.tensors().has_written_older();
}

bool ArrayMemory::has_changed(PyObject* array, const guards::Source* source) {
  return notes_ && notes_(guards::to_text(source), guards::hash_of_array(array));
}

bool ArrayMemory::may_write(PyObject* array) const {
  PyObject* root = root_of(array);
  return !values_.source_of(array) && is_own(root) && !shared_.contains(root);
}

bool ArrayMemory::may_rebuild(PyObject* array) const {
  PyObject* root = root_of(array);
  if (!guards::parts_of_array(array).is_writeable() || shared_.contains(root)) return false;
  return values_.source_of(root) || is_own(root);
}

bool ArrayMemory::share(PyObject* array) {
  PyObject* root = root_of(array);
  if (values_.source_of(array) || !is_own(root)) return false;
  if (shared_.try_emplace(root, values_.tensors().writes()).second) held_.push_back(guards::Ref::borrow(root));
  return true;
}

void ArrayMemory::compute(PyObject* array, guards::Ref traced) {
  held_.push_back(guards::Ref::borrow(array));
  computed_.emplace(array, std::move(traced));
}

PyObject* ArrayMemory::computed(PyObject* array) const {
  const auto found = computed_.find(array);
  return found == computed_.end() ? nullptr : found->second.get();
}

}  // namespace braze::interpreter
