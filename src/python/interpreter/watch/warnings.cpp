// python/interpreter/watch/warnings.cpp
#include "python/interpreter/watch/warnings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "capture/changed_filters.h"
#include "python/guards/warning_filters.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

using guards::Ref;

PyObject* say_nothing(PyObject*, PyObject* const*, Py_ssize_t, PyObject*) {
  Py_RETURN_NONE;
}

PyMethodDef silent_method = {"warn", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(say_nothing)),
                             METH_FASTCALL | METH_KEYWORDS,
                             "In the place of warnings.warn() while a run is watched."};

PyObject* silent_function() {
  static PyObject* const function = PyCFunction_New(&silent_method, nullptr);  // Kept for good.
  return function;
}

/// As warnings.warn() finds where the globals of a frame keep what was shown.
PyObject* registry_of(PyObject* globals) {
  static PyObject* const name = PyUnicode_InternFromString("__warningregistry__");  // Kept for good.
  PyObject* registry = PyDict_GetItemWithError(globals, name);
  if (registry || PyErr_Occurred()) return registry;
  const Ref made = Ref::steal(PyDict_New());
  return made && PyDict_SetItem(globals, name, made.get()) == 0 ? PyDict_GetItemWithError(globals, name) : nullptr;
}

/// \param what  (text, category, globals, file name, line, address of the list that took it in the run).
PyObject* warn_there(PyObject* what, PyObject*) {
  PyObject* globals = PyTuple_GET_ITEM(what, 2);
  PyObject* module = PyDict_GetItemString(globals, "__name__");
  const Ref name =
      module && PyUnicode_Check(module) ? Ref::borrow(module) : Ref::steal(PyUnicode_FromString("<string>"));
  PyObject* registry = registry_of(globals);
  if (!name || !registry) return nullptr;
  const int result =
      PyErr_WarnExplicitObject(PyTuple_GET_ITEM(what, 1), PyTuple_GET_ITEM(what, 0), PyTuple_GET_ITEM(what, 3),
                               PyLong_AsLong(PyTuple_GET_ITEM(what, 4)), name.get(), registry);
  if (result < 0) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef late_method = {"warn_there", warn_there, METH_NOARGS, "See watch/warnings.h."};

bool is_of_importlib(PyCodeObject* code) {
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const std::string_view name = file ? file : "";
  return name.find("importlib") != std::string_view::npos && name.find("_bootstrap") != std::string_view::npos;
}

bool is_braze(PyObject* globals) {
  PyObject* module = PyDict_GetItemString(globals, "__name__");
  const char* text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  return text && std::string_view(text).starts_with("braze.");
}

}  // namespace

PyObject* list_of_warnings(PyObject* function) {
  const bool warns = PyCFunction_Check(function) && PyCFunction_GET_FUNCTION(function) == warn_there;
  if (!warns) return nullptr;
  return static_cast<PyObject*>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(PyCFunction_GET_SELF(function), 5)));
}

std::optional<Warnings::Given> Warnings::given(PyObject* const* arguments, Py_ssize_t count) const {
  static constexpr std::array<std::string_view, 4> names = {"message", "category", "stacklevel", "source"};
  std::array<PyObject*, names.size()> all{};
  const Py_ssize_t named = run_.keyword_names ? PyTuple_GET_SIZE(run_.keyword_names) : 0;
  if (count - named > static_cast<Py_ssize_t>(names.size())) return std::nullopt;
  for (Py_ssize_t i = 0; i < count - named; ++i) all[i] = arguments[i];
  for (Py_ssize_t i = 0; i < named; ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(run_.keyword_names, i));
    const auto found = std::find(names.begin(), names.end(), std::string_view(name ? name : ""));
    if (found == names.end() || all[found - names.begin()]) return std::nullopt;
    all[found - names.begin()] = arguments[count - named + i];
  }
  const auto& [message, category, level, source] = all;
  const bool is_class = !category || category == Py_None ||
                        (PyType_Check(category) && PyObject_IsSubclass(category, PyExc_Warning) == 1);
  // A warning that was made, rather than its text, is what is shown: a replay has no such object.
  if (!message || !PyUnicode_CheckExact(message) || !is_class || (level && !PyLong_CheckExact(level)) ||
      (source && source != Py_None))
    return std::nullopt;
  return Given{message, category && category != Py_None ? category : PyExc_UserWarning, level};
}

bool Warnings::has_changed_filters() const {
  PyObject* entries = guards::globals_of_warnings();
  if (!entries) return true;
  const Effects& effects = values_.effects();
  for (const char* name : {"filters", "_defaultaction", "defaultaction", "onceregistry", "_onceregistry",
                           "showwarning", "_showwarnmsg", "_showwarnmsg_impl", "formatwarning"}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    if (!key || effects.wrote(entries, key.get())) return true;
  }
  PyObject* filters = PyDict_GetItemString(entries, "filters");
  return !filters || effects.changed(filters);
}

Ref Warnings::place_of(int level) const {
  size_t left = run_.activities.size() - (run_.root ? 0 : 1);
  Ref frame = Ref::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  const auto as_frame = [&] { return reinterpret_cast<PyFrameObject*>(frame.get()); };
  const auto code_of = [&] { return Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(as_frame()))); };
  for (int k = 0;; --left) {
    if (!frame || left == 0) return {};
    const Ref code = code_of(), globals = Ref::steal(PyObject_GetAttrString(frame.get(), "f_globals"));
    auto* object = reinterpret_cast<PyCodeObject*>(code.get());
    if (!globals || !PyDict_CheckExact(globals.get()) || is_of_importlib(object)) return {};
    // Code that stands in for another's is not there natively.
    if (!is_braze(globals.get()) && ++k >= level)
      return Ref::steal(
          Py_BuildValue("OOi", globals.get(), object->co_filename, PyFrame_GetLineNumber(as_frame())));
    frame = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(as_frame())));
  }
}

bool Warnings::warn(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  const std::optional<Given> what = given(arguments, count);
  if (!what || !run_.callee) return abandon(Break::warns);
  if (has_changed_filters()) return abandon(Break::warns_among_changed_filters);
  if (guards::may_do_more(what->category)) return abandon(Break::warns);
  if (what->category != PyExc_UserWarning && !values_.pin(what->category)) return abandon(Break::warns);
  PyObject* const read[] = {what->message, what->level ? what->level : Py_None};
  if (!absorb_all(read, 2, function)) return false;
  const long level = what->level ? PyLong_AsLong(what->level) : 1;
  const Ref place = level > -100 && level < 1000 ? place_of(static_cast<int>(level)) : Ref();
  if (!place) {
    PyErr_Clear();
    return abandon(Break::warns);
  }
  // By the end of the run `with` may have ended too, and another list takes them.
  const Ref list = Ref::steal(PyLong_FromVoidPtr(guards::list_that_takes_warnings()));
  if (!list) return abandon("no memory");
  const Ref all =
      Ref::steal(Py_BuildValue("OOOOOO", what->message, what->category, PyTuple_GET_ITEM(place.get(), 0),
                               PyTuple_GET_ITEM(place.get(), 1), PyTuple_GET_ITEM(place.get(), 2), list.get()));
  const Ref late = Ref::steal(all ? PyCFunction_New(&late_method, all.get()) : nullptr);
  if (!late) return abandon("no memory");
  values_.guards().warnings_are_shown(what->category);
  values_.effects().call(late.get(), nullptr, nullptr, {});
  Py_SETREF(*run_.callee, Py_NewRef(silent_function()));
  return allow(Entry::none);
}

/// The module refers to another list than before the run.
bool Warnings::have_filters_moved() const {
  PyObject* entries = guards::globals_of_warnings();
  const Ref key = Ref::steal(PyUnicode_InternFromString("filters"));
  if (!entries || !key) return true;
  if (!values_.effects().wrote(entries, key.get())) return false;
  const Ref before = Ref::borrow(values_.effects().before(entries));
  PyObject* now = PyDict_GetItemWithError(entries, key.get());
  return !before || !now || PyDict_GetItemWithError(before.get(), key.get()) != now ||
         values_.effects().changed(now);
}

bool Warnings::change_filters(PyObject* function) {
  if (!run_.callee) return abandon(Break::warns);
  capture::note_changed_filters(have_filters_moved());
  values_.effects().call(function, nullptr, nullptr, {});
  Py_SETREF(*run_.callee, Py_NewRef(silent_function()));
  return allow(Entry::none);
}

}  // namespace braze::interpreter
