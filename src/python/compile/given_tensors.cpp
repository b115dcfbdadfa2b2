// python/compile/given_tensors.cpp
#include "python/compile/given_tensors.h"

#include "python/guards/ref.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"

namespace braze::python {

namespace {

bool is_module(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("_parameters");  // Kept for good.
  PyObject* dict = PyType_Check(object) ? nullptr : guards::instance_dict(object);
  return dict && PyDict_CheckExact(dict) && PyDict_GetItemWithError(dict, name);
}

/// Looks into what it is shown as the collector does, which runs no code of the user's: an instance's attributes, a
/// dataclass with slots, a deque are all alike.
class Search {
 public:
  bool finds(PyObject* value, int depth = 0) {
    if (!value || left_ == 0) return false;
    --left_;
    if (guards::is_tensor(value)) return true;
    const traverseproc traverse = Py_TYPE(value)->tp_traverse;
    if (!traverse || depth > deepest || is_shared(value)) return false;
    if (is_module(value)) return true;
    if (PyFunction_Check(value)) return finds(PyFunction_GET_CLOSURE(value), depth);
    Visit visit{*this, depth + 1};
    return traverse(value, &Visit::visit, &visit) != 0;
  }

 private:
  /// It says of the program, not of what this frame is given.
  static bool is_shared(PyObject* value) {
    return PyType_Check(value) || PyModule_Check(value) || PyCode_Check(value) || PyFrame_Check(value);
  }

  struct Visit {
    Search& search;
    int depth;
    static int visit(PyObject* referent, void* self) {
      const auto* visit = static_cast<Visit*>(self);
      return static_cast<int>(visit->search.left_ > 0 && visit->search.finds(referent, visit->depth));
    }
  };

  static constexpr int deepest = 4;  // A bound method's object, its attributes, a list among them, an item.
  int left_ = 200;                   // Objects that are looked at: every call of a function does this.
};

}  // namespace

bool is_given_tensors(interpreter::Frame* frame) {
  Search search;
  for (int i = 0; i < frame->f_code->co_nlocalsplus; ++i)
    if (search.finds(frame->localsplus[i])) return true;
  const auto* function = reinterpret_cast<PyFunctionObject*>(interpreter::function_of(frame));
  return function && search.finds(function->func_closure);
}

}  // namespace braze::python
