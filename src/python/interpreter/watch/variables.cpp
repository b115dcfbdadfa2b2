// python/interpreter/watch/variables.cpp
#include "python/interpreter/watch/variables.h"

#include "python/interpreter/activation.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// nn.Module leaves out the hooks that are always called, also after an exception, where something compiles. A run
/// catches exceptions as eager does, so that it need not.
bool asks_for_hooks(const Frame* frame) {
  return frame && text_of(frame->f_code->co_qualname) == "Module._call_impl" &&
         PyDict_CheckExact(frame->f_globals) &&
         text_of(PyDict_GetItemString(frame->f_globals, "__name__")) == "torch.nn.modules.module";
}

}  // namespace

bool Variables::learn_parameters(Frame* frame) {
  const PyCodeObject* code = frame->f_code;
  if (frame->owner == FRAME_OWNED_BY_GENERATOR) return true;
  const int named = code->co_argcount + code->co_kwonlyargcount;
  const int packed = named + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
  for (int i = named; i < packed; ++i) values_.make(frame->localsplus[i]);
  const guards::Source* source = values_.source_of(reinterpret_cast<PyObject*>(function_of(frame)));
  if (!source) return true;  // Made here, and so are its defaults.
  guards::SourceTable& sources = values_.sources();
  PyObject *defaults = function_of(frame)->func_defaults, *keyword_defaults = function_of(frame)->func_kwdefaults;
  const Py_ssize_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* value = PyTuple_GET_ITEM(defaults, k);
    if (frame->localsplus[code->co_argcount - count + k] != value || values_.is_known(value)) continue;
    const guards::Source* tuple = sources.member(source, guards::Member::function_defaults);
    if (!values_.learn(value, sources.sequence_item(tuple, static_cast<uint32_t>(k))))
      return abandon("a default that cannot be guarded", value);
  }
  for (int i = code->co_argcount; keyword_defaults && i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    PyObject* value = PyDict_GetItemWithError(keyword_defaults, name);
    if (!value || frame->localsplus[i] != value) continue;
    const guards::Source* dict = sources.member(source, guards::Member::function_kwdefaults);
    if (!values_.learn(value, sources.dict_item(dict, name)))
      return abandon("a default that cannot be guarded", value);
  }
  return true;
}

bool Variables::load_global(Activation& a, int arg) {
  PyObject *name = a.name(arg >> 1), *globals = a.frame->f_globals, *builtins = a.frame->f_builtins;
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return abandon("globals that are no dict");
  if (std::pair(globals, name) == values_.tensors().compiling_flag()) {
    activity().asks_whether_compiling = !asks_for_hooks(a.frame->previous);
    return true;
  }
  guards::SourceTable& sources = values_.sources();
  if (values_.effects().wrote(globals, name))
    return PyDict_GetItemWithError(globals, name) || abandon("a global that the function deletes", name);
  const guards::Source* entry = sources.dict_item(sources.object(globals, "G"), name);
  if (PyObject* value = PyDict_GetItemWithError(globals, name))
    return values_.numbers().learn_read(value, entry) || abandon("a global that cannot be guarded", value);
  PyObject* value = PyDict_GetItemWithError(builtins, name);
  if (!value) return abandon("a global that is not there", name);
  values_.guards().absent(entry);
  return values_.learn(value, sources.dict_item(sources.object(builtins, "builtins"), name)) ||
         abandon("a builtin that cannot be guarded", value);
}

bool Variables::load_class_builder(Activation& a) {
  PyObject* builtins = a.frame->f_builtins;
  if (!PyDict_CheckExact(builtins)) return abandon("globals that are no dict");
  const Ref name = Ref::steal(PyUnicode_InternFromString("__build_class__"));
  PyObject* value = name ? PyDict_GetItemWithError(builtins, name.get()) : nullptr;
  if (!value) return abandon("a global that is not there", name.get());
  guards::SourceTable& sources = values_.sources();
  return values_.learn(value, sources.dict_item(sources.object(builtins, "builtins"), name.get())) ||
         abandon("a builtin that cannot be guarded", value);
}

bool Variables::store_global(Activation& a, int arg) {
  PyObject* globals = a.frame->f_globals;
  if (!PyDict_CheckExact(globals)) return abandon("globals that are no dict");
  values_.learn_as(globals, values_.sources().object(globals, "G"));
  if (!lets_go_of_entry(globals, a.name(arg))) return false;
  values_.effects().store_entry(globals, a.name(arg), a.peek(1));
  return true;
}

bool Variables::load_cell(PyObject* cell) {
  if (values_.is_made(cell) || values_.effects().wrote(cell, nullptr)) return true;
  const guards::Source* source = values_.source_of(cell);
  PyObject* value = PyCell_GET(cell);
  if (source && !value) return abandon("a closure cell that is empty");
  return (source && values_.numbers().learn_read(value, source)) ||
         abandon("a closed-over value that cannot be guarded", value);
}

bool Variables::copy_free_variables(Activation& a) {
  const auto* function = reinterpret_cast<PyObject*>(function_of(a.frame));
  const guards::Source* source = values_.source_of(const_cast<PyObject*>(function));
  if (!source) return true;  // Made here: its cells are those of frames that were watched.
  PyObject* closure = function_of(a.frame)->func_closure;
  guards::SourceTable& sources = values_.sources();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const char* name = PyUnicode_AsUTF8(
        PyTuple_GET_ITEM(a.code()->co_localsplusnames, a.code()->co_nlocalsplus - PyTuple_GET_SIZE(closure) + i));
    values_.learn_cell(PyTuple_GET_ITEM(closure, i), sources.closure_variable(source, index, name ? name : "?"));
  }
  return true;
}

bool Variables::store_cell(PyObject* cell, PyObject* value) {
  if (values_.is_made(cell)) return true;
  const guards::Source* source = values_.source_of(cell);
  if (!source) return abandon("a variable of an enclosing function is changed");
  if (!values_.effects().wrote(cell, nullptr) && !lets_go(PyCell_GET(cell), source)) return false;
  values_.effects().store_cell(cell, value);
  return true;
}

bool Variables::load_class_cell() {
  const Frame* frame = PyThreadState_Get()->cframe->current_frame;
  const PyCodeObject* code = frame->f_code;
  for (int i = code->co_nlocalsplus - code->co_nfreevars; i < code->co_nlocalsplus; ++i)
    if (text_of(PyTuple_GET_ITEM(code->co_localsplusnames, i)) == "__class__")
      return load_cell(frame->localsplus[i]);
  return abandon("super() outside of a method");
}

}  // namespace braze::interpreter
