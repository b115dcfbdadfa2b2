// python/interpreter/standalone.cpp: the evaluator as an extension module of its own, without torch: builds in
// seconds.
#include "python/interpreter/functions.h"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_interpreter",
                          "braze's evaluator of Python frames.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__interpreter() {
  PyObject* module = PyModule_Create(&definition);
  if (module && braze::interpreter::add_functions(module) < 0) Py_CLEAR(module);
  return module;
}
