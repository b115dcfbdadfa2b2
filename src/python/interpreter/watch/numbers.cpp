// python/interpreter/watch/numbers.cpp
#include "python/interpreter/watch/numbers.h"

#include <string_view>
#include <utility>

#include "python/guards/scalar.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

bool calls_for_items(PyTypeObject* type) {
  return type == &PyMap_Type || type == &PyFilter_Type || std::string_view(type->tp_name) == "itertools.starmap";
}

bool is_iterator_of_others(PyTypeObject* type) {
  return type == &PyZip_Type || type == &PyEnum_Type || type == &PyReversed_Type || calls_for_items(type) ||
         std::string_view(type->tp_name) == "itertools.chain" ||
         std::string_view(type->tp_name) == "itertools.accumulate";
}

/// Keys, values and items of a builtin container. Not of sets: what is put there is looked at.
template <typename Visit>
static void visit_items(PyObject* container, Visit visit) {
  if (PyAnySet_Check(container)) return;
  if (PyDict_Check(container)) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(container, &at, &key, &value)) visit(key), visit(value);
    return;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i)
    visit(PySequence_Fast_GET_ITEM(container, i));
}

PyObject* Numbers::defer(PyObject* number, const guards::Source* source) {
  const bool is_float = PyFloat_CheckExact(number) && !guards::is_nan(number);
  if (!is_float && !PyLong_CheckExact(number)) return nullptr;
  guards::Ref stand_in =
      guards::Ref::steal(is_float ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(number)) : fresh_int(number));
  if (!stand_in) {
    PyErr_Clear();
    return nullptr;
  }
  values_.guards().type(source, Py_TYPE(number));
  deferred_.emplace(stand_in.get(), Deferred{guards::Ref::borrow(number), source});
  values_.hold_stand_in(stand_in, source);
  return stand_in.get();
}

PyObject* Numbers::settle(PyObject* value) {
  const auto found = deferred_.find(value);
  if (found == deferred_.end()) return nullptr;
  PyObject* number = found->second.number.get();
  if (PyFloat_CheckExact(number))
    if (PyObject* one = vary_float(number, found->second.source)) {
      // A container goes on holding `value`, which C code may read there: it is another of the same number.
      if (const auto derived = derived_.find(one); derived != derived_.end())
        derived_.try_emplace(value, derived->second);
      return one;
    }
  if (const std::optional<ir::Size> size = symbol_of(number, found->second.source)) {
    sizes_.try_emplace(value, *size);
    return value;
  }
  values_.learn(number, found->second.source);
  return number;
}

void Numbers::settle_within(PyObject* container) {
  if (!storage_type(container)) return;
  std::unordered_set<PyObject*> seen;
  settle_within(container, seen);
}

void Numbers::settle_within(PyObject* container, std::unordered_set<PyObject*>& seen) {
  if (!storage_type(container) || !seen.insert(container).second) return;
  const auto visit = [&](PyObject* item) {
    if (!settle(item)) settle_within(item, seen);
  };
  visit_items(container, visit);
}

PyObject* Numbers::make_size(int64_t number, ir::Size size) {
  const guards::Ref plain = guards::Ref::steal(PyLong_FromLongLong(number));
  guards::Ref one = guards::Ref::steal(plain ? fresh_int(plain.get()) : nullptr);
  if (!one) throw std::bad_alloc();
  if (size.is_constant())
    settled_sizes_.insert(one.get());
  else
    sizes_.emplace(one.get(), size);
  values_.hold_stand_in(one, nullptr);
  return one.get();
}

std::optional<ir::Size> Numbers::symbol_of(PyObject* number, const guards::Source* source) {
  if (!PyLong_CheckExact(number)) return std::nullopt;
  if (const auto found = varied_.find(source); found != varied_.end()) return found->second;
  const std::optional<ir::Size> size = values_.tensors().sizes().vary_number(number, source);
  if (!size) return std::nullopt;
  values_.guards().type(source, &PyLong_Type);
  varied_.emplace(source, *size);
  return size;
}

PyObject* Numbers::vary_float(PyObject* number, const guards::Source* source) {
  if (const auto known = varied_floats_.find(source); known != varied_floats_.end()) return known->second;
  DerivedNumber derived = values_.tensors().sizes().vary_float(number, source);
  if (!derived) return nullptr;
  values_.guards().type(source, &PyFloat_Type);
  PyObject* one = make_derived(PyFloat_AS_DOUBLE(number), std::move(derived));
  values_.hold_stand_in(guards::Ref::borrow(one), source);
  return varied_floats_[source] = one;
}

PyObject* Numbers::vary(PyObject* number, const guards::Source* source) {
  if (PyFloat_CheckExact(number)) return vary_float(number, source);
  const std::optional<ir::Size> size = symbol_of(number, source);
  if (!size) return nullptr;
  PyObject* one = make_size(PyLong_AsLongLong(number), *size);
  values_.hold_stand_in(guards::Ref::borrow(one), source);
  return one;
}

bool Numbers::stands_for_what_is_at(PyObject* value, const guards::Source* source) const {
  if (!sizes_.contains(value) && !derived_.contains(value)) return false;
  const std::vector<const guards::Source*> sources = values_.scalar_sources(value);
  return sources.size() == 1 && sources.front() == source;
}

bool Numbers::learn_read(PyObject* value, const guards::Source* source) {
  settle_read();
  const bool varies =
      PyFloat_CheckExact(value) ? vary_float(value, source) != nullptr : symbol_of(value, source).has_value();
  if (!varies) return values_.learn(value, source);
  read_ = {guards::Ref::borrow(value), source};
  return true;
}

PyObject* Numbers::take_read(PyObject* top) {
  if (!read_ || read_->number.get() != top) return nullptr;
  const Read read = *std::exchange(read_, std::nullopt);
  return vary(top, read.source);
}

void Numbers::settle_read() {
  hands_on_read_ = false;
  if (!read_) return;
  const Read read = *std::exchange(read_, std::nullopt);
  values_.learn(read.number.get(), read.source);
}

const ir::Size* Numbers::size_of(PyObject* value) const {
  const auto found = sizes_.find(value);
  return found == sizes_.end() ? nullptr : &found->second;
}

void Numbers::settle_size(PyObject* value) {
  if (const auto derived = derived_.find(value); derived != derived_.end()) {
    values_.tensors().sizes().decide(derived->second, value);
    derived_.erase(derived);
    return;
  }
  const auto found = sizes_.find(value);
  if (found == sizes_.end()) return;
  values_.tensors().sizes().decide(ir::equal(found->second, PyLong_AsLongLong(value)));
  sizes_.erase(found);
  settled_sizes_.insert(value);
}

void Numbers::settle_sizes_within(PyObject* container) {
  std::unordered_set<PyObject*> seen;
  settle_sizes_within(container, seen);
}

void Numbers::settle_sizes_within(PyObject* value, std::unordered_set<PyObject*>& seen) {
  if (sizes_.empty() && derived_.empty()) return;
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) settle_size(part);
    return;
  }
  if (is_iterator_of_others(Py_TYPE(value)) || Py_IS_TYPE(value, &PyListIter_Type) ||
      Py_IS_TYPE(value, &PyTupleIter_Type)) {
    for (const guards::Ref& one : std::exchange(handed_, {})) settle_sizes_within(one.get(), seen);
    return;
  }
  if (is_a(value, "functools.partial")) {
    for (const char* part : {"args", "keywords"})
      if (const guards::Ref held = guards::Ref::steal(PyObject_GetAttrString(value, part)))
        settle_sizes_within(held.get(), seen);
      else
        PyErr_Clear();
    return;
  }
  if (PyDictKeys_Check(value) || PyDictValues_Check(value) || PyDictItems_Check(value))
    value = reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(value)->dv_dict);
  if (!storage_type(value)) return settle_size(value);
  if (!seen.insert(value).second) return;
  visit_items(value, [&](PyObject* item) { settle_sizes_within(item, seen); });
}

}  // namespace braze::interpreter
