// python/compile/scripts.cpp
#include "python/compile/scripts.h"

#include <algorithm>
#include <string_view>

#include "python/compile/stand_ins.h"
#include "python/compile/torch_names.h"

namespace braze::python {

bool is_script(PyObject* object) noexcept {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch_names().script_type;
}

/// Its code never changes. What prints, warns or calls Python shows in its text.
bool is_plain_script(PyObject* script) {
  const guards::Ref graph = guards::Ref::steal(PyObject_GetAttrString(script, "inlined_graph"));
  const guards::Ref text = guards::Ref::steal(graph ? PyObject_Str(graph.get()) : nullptr);
  const char* code = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  if (!code) return false;
  constexpr std::string_view effects[] = {"^",         "prim::Print", "aten::warn",
                                          "prim::rpc", "aten::fork",  "prim::fork"};
  return std::ranges::none_of(effects, [&](std::string_view effect) {
    return std::string_view(code).find(effect) != std::string_view::npos;
  });
}

/// A twin of another function is never optimized.
interpreter::TensorWorld::PythonGradient script_gradient_of(PyObject* script) {
  const guards::Ref twin = guards::Ref::steal(PyObject_GetAttrString(script, "_braze_twin"));
  PyErr_Clear();
  if (twin.get() == script) return {};
  return {true, function_forms().call_script};
}

}  // namespace braze::python
