// python/guards/type_params_312.h: the type parameters of functions, `def f[T](x: T)`, which Python 3.12 brought.
#pragma once

#include <Python.h>

namespace braze::guards {

/// Where a function keeps them. Null: this Python has none, or it is no function.
inline PyObject* const* type_params_of([[maybe_unused]] PyObject* function) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  return PyFunction_Check(function) ? &reinterpret_cast<PyFunctionObject*>(function)->func_typeparams : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace braze::guards
