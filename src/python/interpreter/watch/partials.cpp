// python/interpreter/watch/partials.cpp
#include "python/interpreter/watch/partials.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

Ref nothing() {
  PyErr_Clear();
  return {};
}

/// Scalars, and tuples of them.
bool is_unchanging(PyObject* value) {
  if (!PyTuple_CheckExact(value)) return guards::is_scalar(value);
  PyObject** const items = PySequence_Fast_ITEMS(value);
  return std::all_of(items, items + PyTuple_GET_SIZE(value), is_unchanging);
}

/// Likewise, in a dict or the parts of a getter.
bool holds_unchanging(PyObject* parts) {
  PyObject** const items = PySequence_Fast_ITEMS(parts);
  return std::all_of(items, items + PyTuple_GET_SIZE(parts), [](PyObject* part) {
    if (!PyDict_CheckExact(part)) return is_unchanging(part);
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (PyDict_Next(part, &at, &name, &value))
      if (!is_unchanging(value)) return false;
    return true;
  });
}

}  // namespace

bool Partials::open_partial(PyObject* partial, guards::Ref (&parts)[3]) {
  const guards::Source* source = values_.source_of(partial);
  const char* names[] = {"func", "args", "keywords"};
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = guards::Ref::steal(PyObject_GetAttrString(partial, names[i]));
    PyObject* descriptor = PyDict_GetItemString(guards::class_dict(Py_TYPE(partial)), names[i]);
    if (!parts[i] || !descriptor) return abandon("a partial that cannot be guarded", partial);
    if (source && !values_.learn(parts[i].get(), values_.sources().slot(source, descriptor)))
      return abandon("a partial that cannot be guarded", partial);
    if (!source || i == 0) continue;
    if (!values_.open(parts[i].get())) return abandon("a partial that cannot be guarded", partial);
    // No operand of the call, which C code may take them to.
    if (!PyFunction_Check(parts[0].get())) values_.numbers().settle_sizes_within(parts[i].get());
  }
  return (PyTuple_CheckExact(parts[1].get()) && PyDict_CheckExact(parts[2].get())) ||
         abandon("a partial that cannot be guarded", partial);
}

bool Partials::call_partial(PyObject* partial, PyObject* const* arguments, Py_ssize_t count) {
  guards::Ref parts[3];
  if (!open_partial(partial, parts)) return false;
  PyObject* stand_in =
      run_.callee && *run_.callee == partial ? values_.tensors().stand_in_for(parts[0].get()) : nullptr;
  if (stand_in && !watch_.stand_ins.put_stand_in_partial(parts, stand_in)) return false;
  std::vector<PyObject*> all(PySequence_Fast_ITEMS(parts[1].get()),
                             PySequence_Fast_ITEMS(parts[1].get()) + PyTuple_GET_SIZE(parts[1].get()));
  all.insert(all.end(), arguments, arguments + count);
  Py_ssize_t at = 0;
  PyObject *name, *value;
  while (PyDict_Next(parts[2].get(), &at, &name, &value)) all.push_back(value);
  return watch_.calls.call(parts[0].get(), all.data(), static_cast<Py_ssize_t>(all.size()));
}

bool Partials::is_getter(PyObject* object) {
  return is_a(object, "operator.itemgetter") || is_a(object, "operator.attrgetter") ||
         is_a(object, "operator.methodcaller");
}

bool Partials::call_getter(PyObject* getter, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1 || run_.keyword_names) return abandon("a getter that is not understood", getter);
  if (get_one(getter, arguments[0])) return true;
  if (abandoned()) return false;
  if (!run_.callee || *run_.callee != getter) return abandon("a getter that is not understood", getter);
  Ref other = getter_in_python(getter);
  if (!other) return abandon("a getter that is not understood", getter);
  Py_SETREF(*run_.callee, other.release());
  return call_partial(*run_.callee, arguments, count);
}

/// Of a tensor, with arguments that do not change: C code calls the method, to which sizes stay sizes. False, and
/// no abandonment: it is another call.
bool Partials::call_method_of_tensor(PyObject* caller, PyObject* tensor) {
  if (!values_.tensors().is_tensor(tensor)) return false;
  const Ref reduced = Ref::steal(PyObject_CallMethod(caller, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  const bool is_plain = reduced && PyTuple_Check(reduced.get()) &&
                        PyTuple_GET_ITEM(reduced.get(), 0) == reinterpret_cast<PyObject*>(Py_TYPE(caller));
  if (!is_plain) return false;
  PyObject* parts = PyTuple_GET_ITEM(reduced.get(), 1);  // The name, and what follows the object.
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(parts); ++i)
    if (!guards::is_scalar(PyTuple_GET_ITEM(parts, i))) return false;
  PyObject* name = PyTuple_GET_ITEM(parts, 0);
  return values_.pin(caller) && watch_.tensor_attributes.tensor_attribute(tensor, name) &&
         watch_.methods.call_method(name, tensor, PySequence_Fast_ITEMS(parts) + 1, PyTuple_GET_SIZE(parts) - 1);
}

/// Of one item or attribute. False, and no abandonment: not so simple.
bool Partials::get_one(PyObject* getter, PyObject* subject) {
  if (is_a(getter, "operator.methodcaller")) return call_method_of_tensor(getter, subject);
  const Ref reduced = Ref::steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  PyObject* parts = reduced && PyTuple_Check(reduced.get()) ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
  if (!parts || !PyTuple_Check(parts)) PyErr_Clear();
  if (!parts || PyTuple_GET_SIZE(parts) != 1 || !guards::is_scalar(PyTuple_GET_ITEM(parts, 0))) return false;
  PyObject* part = PyTuple_GET_ITEM(parts, 0);
  if (is_a(getter, "operator.itemgetter")) return watch_.containers.subscript(subject, part);
  return text_of(part).find('.') == std::string_view::npos && watch_.attributes.attribute(subject, part);
}

/// A partial of a Python function with the parts of the getter. Null, and no abandonment, for what cannot be
/// guarded.
Ref Partials::getter_in_python(PyObject* getter) {
  PyObject* call = member_descriptor(Py_TYPE(getter), "__call__");
  PyObject* function = call ? values_.tensors().stand_in_for(call) : nullptr;
  const Ref reduced = Ref::steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  PyObject* functools = PyDict_GetItemString(PyImport_GetModuleDict(), "functools");
  PyObject* partial = functools && PyModule_Check(functools)
                          ? PyDict_GetItemString(PyModule_GetDict(functools), "partial")
                          : nullptr;
  if (!reduced) PyErr_Clear();
  if (!function || !reduced || !partial || !values_.is_known(getter)) return {};
  Ref parts = Ref::borrow(PyTuple_GET_ITEM(reduced.get(), 1));
  Ref arguments;
  if (is_a(getter, "operator.methodcaller")) {
    // Told as methodcaller(name, *arguments), or as a partial of methodcaller with its name and keywords.
    PyObject* maker = PyTuple_GET_ITEM(reduced.get(), 0);
    const bool is_partial = !PyType_Check(maker);
    Ref keywords = Ref::steal(is_partial ? PyObject_GetAttrString(maker, "keywords") : PyDict_New());
    const Ref named =
        Ref::steal(is_partial ? PyObject_GetAttrString(maker, "args") : PyTuple_GetSlice(parts.get(), 0, 1));
    if (!is_partial) parts = Ref::steal(PyTuple_GetSlice(parts.get(), 1, PyTuple_GET_SIZE(parts.get())));
    if (!keywords || !named || !parts) return nothing();
    values_.make(keywords.get());
    arguments = Ref::steal(PyTuple_Pack(3, PyTuple_GET_ITEM(named.get(), 0), parts.get(), keywords.get()));
  } else {
    arguments = Ref::steal(PyTuple_Pack(1, parts.get()));
  }
  if (!arguments) return nothing();
  // An older one is guarded, and with it parts that do not change.
  if (values_.source_of(getter) && !holds_unchanging(arguments.get())) return {};
  values_.make(parts.get());
  values_.learn(function, values_.sources().object(function, "a getter in Python"));
  std::vector<PyObject*> all{function};
  all.insert(all.end(), PySequence_Fast_ITEMS(arguments.get()),
             PySequence_Fast_ITEMS(arguments.get()) + PyTuple_GET_SIZE(arguments.get()));
  Ref made = Ref::steal(PyObject_Vectorcall(partial, all.data(), all.size(), nullptr));
  if (!made) return nothing();
  values_.make(made.get());
  return made;
}

bool Partials::are_on_stack(PyObject* const* arguments) const {
  const std::less<PyObject* const*> before;
  return run_.callee && before(run_.callee, arguments) && !before(run_.callee + 2, arguments);
}

bool Partials::put_getters(PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; are_on_stack(arguments) && i < count; ++i) {
    if (!is_getter(arguments[i])) continue;
    Ref other = getter_in_python(arguments[i]);
    if (!other) return abandon("a getter that is not understood", arguments[i]);
    Py_SETREF(const_cast<PyObject**>(arguments)[i], other.release());
  }
  return true;
}

}  // namespace braze::interpreter
