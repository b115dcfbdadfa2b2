// python/interpreter/functions.cpp
#include "python/interpreter/functions.h"

#include "python/interpreter/evaluate.h"
#include "python/interpreter/ref.h"

namespace braze::interpreter {

namespace {

PyObject* interpret(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 0) {
    PyErr_SetString(PyExc_TypeError, "interpret() needs a function to call");
    return nullptr;
  }
  const Scope scope;
  return PyObject_Vectorcall(args[0], args + 1, (count - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
}

bool set_count(PyObject* dict, const char* key, uint64_t count) {
  const Ref number = Ref::steal(PyLong_FromUnsignedLongLong(count));
  return number && PyDict_SetItemString(dict, key, number.get()) == 0;
}

PyObject* interpreter_statistics(PyObject*, PyObject*) {
  const Statistics& seen = statistics();
  Ref facts = Ref::steal(PyDict_New()), handovers = Ref::steal(PyDict_New());
  if (!facts || !handovers) return nullptr;
  for (size_t i = 0; i < handover_texts.size(); ++i)
    if (!set_count(handovers.get(), handover_texts[i], seen.handovers[i])) return nullptr;
  if (!set_count(facts.get(), "instructions", seen.instructions) ||
      !set_count(facts.get(), "frames", seen.frames) ||
      PyDict_SetItemString(facts.get(), "handovers", handovers.get()) < 0)
    return nullptr;
  return facts.release();
}

PyMethodDef functions[] = {
    {"interpret", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(interpret)),
     METH_FASTCALL | METH_KEYWORDS,
     "interpret(function, /, *args, **kwargs): calls it with all Python frames below evaluated by braze."},
    {"interpreter_statistics", interpreter_statistics, METH_NOARGS,
     "What this thread's evaluator did: instructions, frames, and handovers to CPython by reason."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_functions(PyObject* module) {
  return PyModule_AddFunctions(module, functions);
}

}  // namespace braze::interpreter
