// python/interpreter/watch/partials.cpp
#include "python/interpreter/watch/partials.h"

#include <string_view>
#include <vector>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

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
    values_.numbers().settle_sizes_within(
        parts[i].get());  // No operand of the call, which C code may take them to.
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

bool Partials::call_getter(PyObject* getter, PyObject* const* arguments, Py_ssize_t count) {
  const Ref reduced = Ref::steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  PyObject* parts = reduced && PyTuple_Check(reduced.get()) ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
  if (!parts || !PyTuple_Check(parts) || count != 1) return abandon("a getter that is not understood", getter);
  const bool of_items = is_a(getter, "operator.itemgetter");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts, i);
    const bool is_path = !of_items && text_of(part).find('.') != std::string_view::npos;
    if (!guards::is_scalar(part) || is_path) return abandon("a getter that is not understood", getter);
    if (!(of_items ? watch_.containers.subscript(arguments[0], part)
                   : watch_.attributes.attribute(arguments[0], part)))
      return false;
    // Only one code can be entered, and only one result is known for what it is.
    const bool one = PyTuple_GET_SIZE(parts) == 1;
    if (!one && activity().entry == Entry::known) return abandon("a getter of several computed parts", getter);
    if (one) return true;
  }
  return allow_made_result(Entry::tensor);
}

bool Partials::call_method_caller(PyObject* caller, PyObject* const* arguments, Py_ssize_t count) {
  const Ref reduced = Ref::steal(PyObject_CallMethod(caller, "__reduce__", nullptr));
  PyErr_Clear();
  const bool is_plain = reduced && PyTuple_Check(reduced.get()) &&
                        PyTuple_GET_ITEM(reduced.get(), 0) == reinterpret_cast<PyObject*>(Py_TYPE(caller));
  if (!is_plain || count != 1 || !values_.tensors().is_tensor(arguments[0]))
    return abandon("a getter that is not understood", caller);
  PyObject* parts = PyTuple_GET_ITEM(reduced.get(), 1);  // The name, and what follows the object.
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(parts); ++i)
    if (!guards::is_scalar(PyTuple_GET_ITEM(parts, i))) return abandon("a getter that is not understood", caller);
  PyObject* name = PyTuple_GET_ITEM(parts, 0);
  return values_.pin(caller) && watch_.tensor_attributes.tensor_attribute(arguments[0], name) &&
         watch_.methods.call_method(name, arguments[0], PySequence_Fast_ITEMS(parts) + 1,
                                    PyTuple_GET_SIZE(parts) - 1);
}

}  // namespace braze::interpreter
