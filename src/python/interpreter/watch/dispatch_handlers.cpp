#include "python/interpreter/watch/dispatch_handlers.h"

#include <algorithm>
#include <string_view>

#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"
#include "python/interpreter/watch/wrapper_world.h"

namespace braze::interpreter {

namespace {

constexpr const char* handler_name = "__torch_dispatch__";

/// Of _make_wrapper_subclass(), what is understood whatever it is; of all else only that it is not given.
bool is_of_form(std::string_view keyword) {
  constexpr std::string_view names[] = {"strides", "storage_offset", "dtype", "layout", "device", "requires_grad"};
  return std::ranges::find(names, keyword) != std::end(names);
}

/// What an object has in its instance dict under a name; null: nothing.
PyObject* attribute_of(PyObject* object, const char* name) {
  PyObject* dict = object ? guards::instance_dict(object) : nullptr;
  return dict ? PyDict_GetItemString(dict, name) : nullptr;
}

}  // namespace

/// torch.library.register_torch_dispatch() has other code carry out one operator for a class. The registry has an
/// entry for whatever was asked for.
bool DispatchHandlers::keep_without_rule(PyObject* overload, PyObject* cls) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._library.simple_registry");
  PyObject* registry =
      module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "singleton") : nullptr;
  PyObject *all = attribute_of(registry, "_data"), *name = attribute_of(overload, "__qualname__");
  if (!all || !PyDict_CheckExact(all) || !name || !PyUnicode_CheckExact(name)) return false;
  PyObject* entry = PyDict_GetItemWithError(all, name);
  PyObject* rules = attribute_of(attribute_of(entry, "torch_dispatch_rules"), "_data");
  if (!rules || !PyDict_CheckExact(rules) || PyDict_GetItemWithError(rules, cls)) return false;
  guards::SourceTable& sources = values_.sources();
  values_.guards().absent(sources.dict_item(sources.object(rules, "torch_dispatch_rules"), cls));
  return true;
}

bool DispatchHandlers::is_one(Frame* frame) const {
  auto* function = reinterpret_cast<PyObject*>(function_of(frame));
  if (!PyFunction_Check(function) || frame->f_code->co_argcount < 1 || !values_.tensors().wrappers()) return false;
  PyObject* first = frame->localsplus[0];
  return text_of(reinterpret_cast<PyFunctionObject*>(function)->func_name) == handler_name && first &&
         PyType_Check(first) && dispatches_by_python(values_.tensors(), first);
}

/// It is given the class, the operator, the classes of wrappers, the arguments and those by keyword. What C++ makes
/// of tensors is one of the run's own, or stands for one that was there before, which is given back here.
bool DispatchHandlers::learn(Frame* frame) {
  auto* function = reinterpret_cast<PyObject*>(function_of(frame));
  const PyCodeObject* code = frame->f_code;
  if (code->co_argcount != 5 || code->co_kwonlyargcount > 0 || code->co_flags & (CO_VARARGS | CO_VARKEYWORDS))
    return false;
  PyObject** given = frame->localsplus;
  WrapperWorld& wrappers = *values_.tensors().wrappers();
  if (!wrappers.keep_class(as_type(given[0]))) return false;
  guards::SourceTable& sources = values_.sources();
  const guards::Source* cls = watch_.classes.class_source(given[0]);
  PyObject* found = class_entry(given[0], handler_name);
  if (!values_.learn(given[0], cls) || !found ||
      !watch_.classes.learn_class_entry(found, sources.type_attribute(cls, interned(handler_name))) ||
      !values_.is_known(function) || !wrappers.is_overload(given[1]))
    return false;
  values_.learn(given[1], sources.object(given[1], "an operator"));
  if (!keep_without_rule(given[1], given[0])) return false;
  if (!PyTuple_CheckExact(given[2]) || !PyTuple_CheckExact(given[3]) || (given[4] && !PyDict_CheckExact(given[4])))
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given[2]); ++i) {
    PyObject* type = PyTuple_GET_ITEM(given[2], i);
    if (!values_.learn(type, watch_.classes.class_source(type))) return false;
  }
  values_.make(given[2]);
  if (!learn_given(given[3]) || (given[4] && !learn_given(given[4]))) return false;
  wrappers.enter_handler();
  return true;
}

/// The tuple, the lists and the dict are made for this call.
bool DispatchHandlers::learn_given(PyObject*& given) {
  TensorWorld& tensors = values_.tensors();
  if (tensors.is_tensor(given)) {
    if (PyObject* real = tensors.wrappers()->behind(given)) Py_SETREF(given, Py_NewRef(real));
    return values_.is_known(given) && !tensors.sizes().is_number(given);
  }
  // Sizes and floats that vary are no numbers there: the next capture is made with numbers.
  if (tensors.sizes().has_sizes() && (tensors.sizes().from_symbolic(given) || values_.numbers().size_of(given)))
    return false;
  if (PyTuple_CheckExact(given) || PyList_CheckExact(given)) {
    values_.make(given);
    PyObject** items = PySequence_Fast_ITEMS(given);
    return std::all_of(items, items + PySequence_Fast_GET_SIZE(given),
                       [&](PyObject*& item) { return learn_given(item); });
  }
  if (!PyDict_CheckExact(given)) return true;  // Whoever looks at it must know it.
  values_.make(given);
  const Ref names = Ref::steal(PyDict_Keys(given));
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* name = PyList_GET_ITEM(names.get(), i);
    Ref value = Ref::borrow(PyDict_GetItemWithError(given, name));
    PyObject* now = value.release();
    const bool is_learnt = learn_given(now);
    value = Ref::steal(now);
    if (!is_learnt || PyDict_SetItem(given, name, value.get()) < 0) return false;
  }
  return static_cast<bool>(names);
}

/// A size that varies, or a sequence with one.
bool DispatchHandlers::holds_size(PyObject* value) {
  if (values_.numbers().size_of(value) || values_.tensors().sizes().from_symbolic(value)) return true;
  if (!PyTuple_Check(value) && !PyList_Check(value)) return false;
  PyObject** const items = PySequence_Fast_ITEMS(value);
  return std::any_of(items, items + PySequence_Fast_GET_SIZE(value),
                     [this](PyObject* item) { return holds_size(item); });
}

bool DispatchHandlers::make_wrapper(PyObject* const* arguments, Py_ssize_t count) {
  PyObject* const names = run_.keyword_names;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  const bool is_known_class = count - named == 2 && PyType_Check(arguments[0]) && values_.is_known(arguments[0]) &&
                              values_.tensors().wrappers()->keep_class(as_type(arguments[0]));
  if (!is_known_class) return false;
  for (Py_ssize_t i = 1; i < count; ++i)
    if (holds_size(arguments[i])) return false;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* value = arguments[2 + i];
    const bool is_left_out = value == Py_None || value == Py_False;
    if (!is_left_out && !is_of_form(text_of(PyTuple_GET_ITEM(names, i)))) return false;
  }
  return absorb_all(arguments + 1, count - 1, nullptr) && values_.pin(arguments[0]) && allow_made_result();
}

}  // namespace braze::interpreter
