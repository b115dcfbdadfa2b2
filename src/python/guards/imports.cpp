// python/guards/imports.cpp
#include "python/guards/imports.h"

namespace braze::guards {

Ref import_module(const char* name) noexcept {
  const Ref text = Ref::steal(PyUnicode_FromString(name));
  if (!text) return {};
  if (PyObject* loaded = PyImport_GetModule(text.get())) return Ref::steal(loaded);
  // Gives the package that it is in.
  const Ref outermost = Ref::steal(PyImport_ImportModuleLevelObject(text.get(), nullptr, nullptr, nullptr, 0));
  return Ref::steal(outermost ? PyImport_GetModule(text.get()) : nullptr);
}

}  // namespace braze::guards
