#include "python/compile/picked_rows.h"

#include <ATen/ops/index.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "capture/known_values.h"
#include "capture/number.h"
#include "capture/recorder.h"
#include "capture/traceable.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/evaluate.h"

namespace braze::python {

namespace {

bool is_computed(const at::Tensor& tensor) {
  return capture::is_tracer(tensor) || capture::is_transformed(tensor);
}

}  // namespace

at::Tensor PickedRows::traced(PyObject* object) const {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return is_computed(tensor) ? tensor : tracer_.stand_in(tensor);
}

/// A number in a tensor that the trace does not know, and that a Python index would ask for.
bool PickedRows::is_unknown_index(PyObject* object) const {
  if (!guards::is_tensor(object)) return false;
  const at::Tensor& index = THPVariable_Unpack(object);
  if (index.dim() != 0 || index.scalar_type() != at::kLong || index.is_inference() || capture::is_number(index) ||
      capture::is_transformed(index) || index.layout() != at::kStrided)
    return false;
  return !is_computed(index) || !tracer_.impl().known().find(index).defined();
}

interpreter::Ref PickedRows::first_row_at(PyObject* object, PyObject* index) {
  if (!guards::is_tensor(object) || history_.leaves_rows() || !is_unknown_index(index)) return {};
  const at::Tensor& rows = THPVariable_Unpack(object);
  if (rows.dim() == 0 || rows.is_inference() || capture::is_transformed(rows) || c10::InferenceMode::is_enabled())
    return {};
  const interpreter::Pause unwatched;
  const at::Tensor row = at::index(traced(object), {traced(index)}).unsqueeze(0);
  copied_.push_back({row, rows, static_cast<uint32_t>(row._version()), static_cast<uint32_t>(rows._version())});
  return interpreter::Ref::steal(THPVariable_Wrap(row));
}

interpreter::Ref PickedRows::index_of_one(PyObject* index) {
  if (!is_unknown_index(index)) return {};
  const interpreter::Pause unwatched;
  return interpreter::Ref::steal(THPVariable_Wrap(traced(index).reshape({1})));
}

bool PickedRows::shows_copy(const std::vector<at::Tensor>& outputs) const {
  return std::ranges::any_of(copied_, [&](const Copied& one) {
    return one.row._version() != one.row_version || one.rows._version() != one.rows_version ||
           std::ranges::any_of(outputs, [&](const at::Tensor& output) {
             return output.unsafeGetTensorImpl()->has_storage() &&
                    output.storage().unsafeGetStorageImpl() == one.row.storage().unsafeGetStorageImpl();
           });
  });
}

}  // namespace braze::python
