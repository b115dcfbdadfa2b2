// python/interpreter/watch/tensor_hooks.cpp
#include "python/interpreter/watch/tensor_hooks.h"

#include <iterator>

#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// Attributes of a tensor that hold a dict of hooks, in the order of GradientHooks.
constexpr const char* attributes[] = {"_backward_hooks", "_post_accumulate_grad_hooks"};

/// As torch.Tensor.register_hook() does: those of a tensor with a history run where that begins.
bool make_hooks(PyObject* tensor, const char* attribute) {
  const Ref made = Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyODict_Type)));
  if (!made || PyObject_SetAttrString(tensor, attribute, made.get()) < 0) return false;
  if (attribute != attributes[static_cast<size_t>(GradientHooks::backward)]) return true;
  const Ref history = Ref::steal(PyObject_GetAttrString(tensor, "grad_fn"));
  if (!history || history.get() == Py_None) return static_cast<bool>(history);
  return static_cast<bool>(Ref::steal(PyObject_CallMethod(history.get(), "_register_hook_dict", "O", tensor)));
}

PyObject* hooks_of(PyObject*, PyObject* const*, Py_ssize_t) {
  Py_RETURN_NONE;
}

/// Called by recipes alone.
PyObject* take_hooks(PyObject*, PyObject* const* given, Py_ssize_t) {
  const long kind = PyLong_AsLong(given[1]);
  if (static_cast<GradientHooks>(kind) == GradientHooks::retained)
    return PyObject_CallMethod(given[0], "retain_grad", nullptr);
  const char* attribute = attributes[kind];
  Ref hooks = Ref::steal(PyObject_GetAttrString(given[0], attribute));
  if (hooks && hooks.get() == Py_None) {
    if (!make_hooks(given[0], attribute)) return nullptr;
    hooks = Ref::steal(PyObject_GetAttrString(given[0], attribute));
  }
  return hooks.release();
}

PyMethodDef hooks_method = {"hooks_of", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(hooks_of)),
                            METH_FASTCALL, "hooks_of(tensor, kind, mark): see watch/tensor_hooks.h."};
PyMethodDef take_hooks_method = {"take_hooks", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(take_hooks)),
                                 METH_FASTCALL, nullptr};

}  // namespace

PyObject* hooks_function() {
  static PyObject* const function = PyCFunction_New(&hooks_method, nullptr);  // Kept for good.
  return function;
}

PyObject* take_hooks_function() {
  static PyObject* const function = PyCFunction_New(&take_hooks_method, nullptr);  // Kept for good.
  return function;
}

bool TensorHooks::ask(PyObject* const* arguments, Py_ssize_t count) {
  const bool is_fit = count == 3 && values_.tensors().is_tensor(arguments[0]) && values_.is_known(arguments[0]) &&
                      PyLong_CheckExact(arguments[1]) && PyLong_CheckExact(arguments[2]);
  if (!is_fit) return abandon(Break::stand_in);
  // A tensor whose sizes vary goes by what stands for it.
  PyObject* older = values_.tensors().sizes().behind_tracer(arguments[0]);
  PyObject* tensor = older ? older : arguments[0];
  const bool has_dict = PyLong_AsLong(arguments[1]) != static_cast<long>(GradientHooks::retained);
  activity().answer = Py_None;
  if (has_dict) {
    for (const Effect& effect : values_.effects().log()) {
      if (!HookEffect::is_one(effect)) continue;
      const HookEffect before(effect);
      if (before.tensor != tensor || PyObject_RichCompareBool(before.kind, arguments[1], Py_EQ) != 1) continue;
      activity().answer = before.dict;
      if (PyObject_RichCompareBool(before.mark, arguments[2], Py_EQ) == 1) return allow(Entry::none);
      return abandon(Break::stand_in);  // Written since: the earlier hooks are of the history before that.
    }
  }
  const Ref dict =
      has_dict ? Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyODict_Type))) : Ref::borrow(Py_None);
  if (!dict) return abandon("no memory");
  values_.make(dict.get());
  values_.effects().call(take_hooks_function(), tensor, arguments[1], {arguments[2], dict.get()});
  activity().answer = dict.get();  // Which the effect holds.
  return allow(Entry::none);
}

}  // namespace braze::interpreter
