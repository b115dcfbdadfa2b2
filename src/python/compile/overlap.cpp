#include "python/compile/overlap.h"

#include <torch/csrc/autograd/python_variable.h>

#include "capture/memory.h"
#include "python/guards/torch_values.h"

namespace braze::python {

namespace {

struct Bytes {
  uintptr_t first, last;
};

/// From the first element to behind the last one.
Bytes bytes_of(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const uintptr_t first = guards::memory_of(object).data;
  const auto elements = static_cast<uintptr_t>(int64_t(capture::extent(tensor.sizes(), tensor.strides())));
  return {first, first + elements * tensor.itemsize()};
}

}  // namespace

bool may_overlap(PyObject* one, PyObject* other) {
  const Bytes mine = bytes_of(one), theirs = bytes_of(other);
  return mine.first < theirs.last && theirs.first < mine.last;
}

}  // namespace braze::python
