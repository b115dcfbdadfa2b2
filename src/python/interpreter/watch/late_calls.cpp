// python/interpreter/watch/late_calls.cpp
#include "python/interpreter/watch/late_calls.h"

#include "python/guards/scalar.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

PyObject* call_later(PyObject*, PyObject* const*, Py_ssize_t) {
  Py_RETURN_NONE;
}

PyMethodDef late_call_method = {"call_later", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_later)),
                                METH_FASTCALL, "call_later(function, *arguments): see watch/late_calls.h."};

}  // namespace

PyObject* late_call_function() {
  static PyObject* const function = PyCFunction_New(&late_call_method, nullptr);  // Kept for good.
  return function;
}

bool LateCalls::ask(PyObject* const* arguments, Py_ssize_t count) {
  if (count < 1 || count > 3 || run_.keyword_names || !PyFunction_Check(arguments[0]) ||
      !values_.is_known(arguments[0]))
    return abandon(Break::stand_in);
  // A default device is a mode that the run has been without, and that the function might look for.
  if (values_.tensors().modes().has_default_device()) return abandon(Break::default_device_aside);
  for (Py_ssize_t i = 1; i < count; ++i)
    if (!guards::is_scalar(arguments[i]) && !values_.tensors().is_plain(arguments[i]))
      return abandon(Break::stand_in, arguments[i]);
  const auto argument = [&](Py_ssize_t i) { return i < count ? arguments[i] : nullptr; };
  values_.effects().call(arguments[0], argument(1), argument(2), {});
  activity().answer = Py_None;
  return allow(Entry::none);
}

}  // namespace braze::interpreter
