// python/compile/size_history.cpp
#include "python/compile/size_history.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "python/guards/ref.h"
#include "python/guards/storage_access.h"

namespace braze::python {

namespace {

constexpr size_t most_paths = 4096;  // Of one function; more are not watched.

/// The numbers of a set.
std::vector<int64_t> numbers_of(PyObject* set) {
  std::vector<int64_t> numbers;
  if (!set || !PyAnySet_CheckExact(set)) return numbers;
  PyObject* item;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &item, &hash);)
    if (PyLong_CheckExact(item)) numbers.push_back(PyLong_AsLongLong(item));
  return numbers;
}

/// One of them, or an item or attribute of what is there.
bool is_within(const std::vector<std::string>& paths, const std::string& path) {
  return std::ranges::any_of(paths, [&](const std::string& one) {
    return path.starts_with(one) &&
           (path.size() == one.size() || path[one.size()] == '[' || path[one.size()] == '.');
  });
}

int64_t field(PyObject* range, const char* name, int64_t otherwise) {
  const guards::Ref value = guards::Ref::steal(PyObject_GetAttrString(range, name));
  PyErr_Clear();
  return value && PyLong_CheckExact(value.get()) ? PyLong_AsLongLong(value.get()) : otherwise;
}

}  // namespace

bool VaryingForm::any() const {
  return std::ranges::any_of(sizes, &capture::Varying::varies) ||
         std::any_of(strides.begin(), strides.end(), [](bool varies) { return varies; });
}

SizeMarks marks_of(PyObject* tensor) {
  SizeMarks marks;
  PyObject* dict = guards::instance_dict(tensor);
  if (!dict || PyDict_GET_SIZE(dict) == 0) return marks;
  const auto entry = [&](const char* name) { return PyDict_GetItemString(dict, name); };
  // What PyTorch would know nothing of is a symbol like others: 0 and 1 are captured by themselves, as ever.
  for (const char* name :
       {"_dynamo_dynamic_indices", "_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"})
    for (const int64_t dim : numbers_of(entry(name))) marks.dynamic[dim].varies = true;
  marks.maybe = numbers_of(entry("_dynamo_weak_dynamic_indices"));
  marks.fixed = numbers_of(entry("_dynamo_static_indices"));
  // A set of ranges: named tuples, or instances likewise, with dim, min and max.
  if (PyObject* ranges = entry("_dynamo_dynamic_range"); ranges && PyAnySet_CheckExact(ranges)) {
    PyObject* range;
    Py_hash_t hash;
    for (Py_ssize_t at = 0; _PySet_NextEntry(ranges, &at, &range, &hash);) {
      const auto found = marks.dynamic.find(field(range, "dim", -1));
      if (found == marks.dynamic.end()) continue;
      found->second.range.low = std::max<int64_t>(2, field(range, "min", 2));
      found->second.range.high = field(range, "max", ir::SizeRange::infinity);
    }
  }
  return marks;
}

void SizeHistory::expect_data(const std::string& path) {
  if (std::ranges::find(data_paths_, path) == data_paths_.end()) data_paths_.push_back(path);
}

void SizeHistory::expect_numbers(const std::string& path) {
  if (std::ranges::find(number_paths_, path) == number_paths_.end()) number_paths_.push_back(path);
}

bool SizeHistory::expects_any_number(const std::string& path) const {
  return counter_paths_.contains(path) || is_within(number_paths_, path);
}

VaryingForm SizeHistory::note(const std::string& path, const at::Tensor& tensor, const SizeMarks& marks,
                              Dynamic dynamic) {
  const auto rank = static_cast<size_t>(tensor.dim());
  VaryingForm varying{std::vector<capture::Varying>(rank), c10::SmallVector<bool, 5>(rank, false)};
  const bool of_data = is_within(data_paths_, path);
  // Without being asked to, and where nothing is to: what is marked does.
  const bool may_vary = dynamic != Dynamic::never || of_data;
  if ((!may_vary && marks.empty()) || state_ != State::open || forms_.size() > most_paths) return varying;
  const auto [at, is_new] = forms_.try_emplace(path);
  Form& form = at->second;
  if (is_new || form.sizes.size() != rank)
    form = {{}, {}, c10::SmallVector<bool, 5>(rank, false), c10::SmallVector<bool, 5>(rank, false)};
  else
    for (size_t k = 0; k < rank; ++k) {
      form.sizes_vary[k] |= form.sizes[k] != tensor.sizes()[k];
      form.strides_vary[k] |= form.strides[k] != tensor.strides()[k];
    }
  if (of_data && rank > 0) form.sizes_vary[0] = true;
  for (size_t k = 0; k < rank && dynamic != Dynamic::never; ++k)
    form.sizes_vary[k] |= std::ranges::find(sizes_of_data_, tensor.sizes()[k]) != sizes_of_data_.end();
  form.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  form.strides.assign(tensor.strides().begin(), tensor.strides().end());
  const auto has = [](const std::vector<int64_t>& dims, size_t k) {
    return std::ranges::find(dims, static_cast<int64_t>(k)) != dims.end();
  };
  for (size_t k = 0; k < rank; ++k) {
    capture::Varying& one = varying.sizes[k];
    one.varies = dynamic == Dynamic::always || (may_vary && form.sizes_vary[k]) || has(marks.maybe, k);
    if (const auto found = marks.dynamic.find(static_cast<int64_t>(k)); found != marks.dynamic.end())
      one = found->second;
    const int64_t size = tensor.sizes()[k];
    one.varies = one.varies && !has(marks.fixed, k) && one.range.has(size);
    varying.strides[k] = form.strides_vary[k];
  }
  return varying;
}

bool SizeHistory::note_number(const std::string& path, int64_t number, Dynamic dynamic, bool counts) {
  const bool of_data = is_within(data_paths_, path);
  if ((dynamic == Dynamic::never && !of_data) || state_ != State::open || numbers_.size() > most_paths)
    return false;
  const auto [at, is_new] = numbers_.try_emplace(path, Number<int64_t>{number});
  at->second.varies |= of_data || expects_any_number(path) || at->second.value != number;
  at->second.value = number;
  if (number < 2 && at->second.varies && is_no_switch(path, number)) counter_paths_.insert(path);
  return at->second.varies &&
         (number >= 2 || counts || counter_paths_.contains(path) || (has_counters_ && !of_data));
}

/// Those of a switch are 0 and 1.
bool SizeHistory::is_no_switch(const std::string& path, int64_t number) {
  small_numbers_[path].insert(number);
  return number < 0 || small_numbers_[path].size() > 2;
}

bool may_be_input(double number) {
  constexpr double largest_of_f16 = 65504;
  return std::isinf(number) || std::abs(number) <= largest_of_f16;
}

/// By its bits: a zero of the other sign is another number, and a NaN the same one.
bool SizeHistory::note_float(const std::string& path, double number, Dynamic dynamic) {
  const bool of_data = is_within(data_paths_, path);
  const bool may_vary = (dynamic != Dynamic::never || of_data) && state_ != State::constants;
  if (!may_vary || floats_.size() > most_paths) return false;
  const auto [at, is_new] = floats_.try_emplace(path, Number<double>{number});
  at->second.varies |= of_data || float_paths_.contains(path) || is_within(number_paths_, path) ||
                       std::bit_cast<uint64_t>(at->second.value) != std::bit_cast<uint64_t>(number);
  at->second.value = number;
  return at->second.varies && may_be_input(number);
}

bool SizeHistory::note_object(const std::string& path, const void* object) {
  if (objects_.size() > most_paths) return false;
  const auto [at, is_new] = objects_.try_emplace(path, Number<const void*>{object});
  at->second.varies |= at->second.value != object;
  at->second.value = object;
  return at->second.varies;
}

bool SizeHistory::note_array(const std::string& path, size_t contents) {
  if (arrays_.size() > most_paths) return false;
  const auto [at, is_new] = arrays_.try_emplace(path, Number<size_t>{contents});
  at->second.varies |= at->second.value != contents;
  at->second.value = contents;
  return at->second.varies;
}

}  // namespace braze::python
