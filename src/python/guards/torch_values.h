// python/guards/torch_values.h: the few facts about PyTorch's objects that guards need, without torch's headers.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "python/guards/ref.h"

namespace braze::guards {

/// An exact torch.device.
bool is_torch_device(PyObject* value) noexcept;
bool same_torch_device(PyObject* a, PyObject* b) noexcept;

/// torch.Size, whose instances are tuples of int.
bool is_torch_size(PyTypeObject* type) noexcept;

bool is_tensor(PyObject* value) noexcept;
/// "torch.float32", of an at::ScalarType.
std::string describe_dtype(int8_t scalar_type);
/// "torch.float32(4, 8)".
std::string describe_tensor(PyObject* tensor);

/// tensor.grad, borrowed from the tensor; null if there is none, or `value` is no tensor.
PyObject* tensor_grad(PyObject* value) noexcept;

/// How many elements of its storage lie before a tensor's first; null if `value` is none, or that is no number.
Ref storage_offset(PyObject* value) noexcept;

/// What torch.from_numpy() makes of a number array that may be written, without its warnings; null for all else.
Ref tensor_over(PyObject* array) noexcept;

/// Where a tensor's storage lies in memory, [first, last), and where its first element is. All 0 without storage.
struct MemoryRange {
  uintptr_t first = 0, last = 0, data = 0;
};
/// \param value  a tensor; anything else has no memory.
MemoryRange memory_of(PyObject* value) noexcept;

/// Number `index` on the thread's stack of torch function modes, borrowed from it; null if there are fewer.
PyObject* function_mode_at(uint32_t index) noexcept;

/// How many autocast contexts the thread has entered.
int autocast_nesting() noexcept;

}  // namespace braze::guards
