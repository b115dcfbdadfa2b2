#include "python/compile/refusals.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/hash.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <bit>

#include "python/guards/torch_values.h"

namespace braze::python {

namespace {

constexpr uint32_t most_failures = 4;
constexpr size_t most_rows = 32;
constexpr int deepest = 2;
constexpr Py_ssize_t most_items = 8;  // Of a container that are looked at.

uint64_t look_of_tensor(const at::Tensor& tensor) {
  uint64_t look = c10::get_hash(static_cast<int>(tensor.scalar_type()), tensor.requires_grad(), tensor.dim());
  if (tensor.layout() == at::kStrided && !tensor.is_nested())
    for (const int64_t size : tensor.sizes()) look = c10::hash_combine(look, static_cast<uint64_t>(size));
  return look;
}

uint64_t look_of_value(PyObject* value, int depth) {
  if (!value) return 0;
  const auto look = std::hash<void*>()(Py_TYPE(value));
  // Exact types alone: others have a __hash__ or __class__ of the user's.
  if (guards::is_tensor(value)) return c10::hash_combine(look, look_of_tensor(THPVariable_Unpack(value)));
  if (PyBool_Check(value)) return c10::hash_combine(look, value == Py_True);
  if (PyFloat_CheckExact(value)) return c10::hash_combine(look, std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(value)));
  if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value))
    return c10::hash_combine(look, static_cast<uint64_t>(PyObject_Hash(value)));
  if (depth == deepest || !(PyTuple_CheckExact(value) || PyList_CheckExact(value))) return look;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  uint64_t all = c10::hash_combine(look, static_cast<uint64_t>(count));
  for (Py_ssize_t i = 0; i < std::min(count, most_items); ++i)
    all = c10::hash_combine(all, look_of_value(PySequence_Fast_GET_ITEM(value, i), depth + 1));
  return all;
}

}  // namespace

uint64_t look_of(std::span<PyObject* const> values) {
  uint64_t look = at::GradMode::is_enabled();
  for (PyObject* value : values) look = c10::hash_combine(look, look_of_value(value, 0));
  return look;
}

Refusals::Row& Refusals::row(uint64_t look) {
  for (Row& row : rows_)
    if (row.look == look) return row;
  if (rows_.size() < most_rows) rows_.push_back({look});
  return rows_.back();
}

bool Refusals::should_try(uint64_t look) {
  if (rows_.empty()) return true;
  Row& one = row(look);
  return ++one.visits, one.failures < most_failures || std::has_single_bit(one.visits);
}

void Refusals::failed(uint64_t look) {
  ++row(look).failures;
}

void Refusals::succeeded(uint64_t look) {
  if (!rows_.empty()) row(look).failures = 0;
}

}  // namespace braze::python
