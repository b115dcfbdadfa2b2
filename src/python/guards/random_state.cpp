// python/guards/random_state.cpp
#include "python/guards/random_state.h"

#include <cstring>
#include <string_view>

#include "python/guards/storage_access.h"

namespace braze::guards {

namespace {

/// Borrowed; null before module _random is loaded. Kept for good: classes of C modules are.
PyTypeObject* generator_type() noexcept {
  static PyTypeObject* type = nullptr;
  if (type) return type;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_random");
  PyObject* found =
      module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "Random") : nullptr;
  if (!found || !PyType_Check(found)) return nullptr;
  return type = reinterpret_cast<PyTypeObject*>(Py_NewRef(found));
}

std::byte* fields_of(PyObject* generator) noexcept {
  return reinterpret_cast<std::byte*>(generator) + sizeof(PyObject);
}

Ref call(const char* name, PyObject* generator, PyObject* argument) noexcept {
  PyObject* const arguments[] = {generator, argument};
  return Ref::steal(PyObject_Vectorcall(method_of_generators(name), arguments, argument ? 2 : 1, nullptr));
}

Ref below(PyObject* generator, PyObject* limit) noexcept {
  const Ref bits = Ref::steal(PyLong_FromSize_t(_PyLong_NumBits(limit)));
  while (bits) {
    Ref number = call("getrandbits", generator, bits.get());
    if (!number) return {};
    const int fits = PyObject_RichCompareBool(number.get(), limit, Py_LT);
    if (fits != 0) return fits > 0 ? std::move(number) : Ref();
  }
  return {};
}

}  // namespace

bool is_random_generator(PyObject* object) noexcept {
  PyTypeObject* type = generator_type();
  return type && PyObject_TypeCheck(object, type);
}

PyObject* method_of_generators(const char* name) noexcept {
  PyTypeObject* type = generator_type();
  return type ? PyDict_GetItemString(class_dict(type), name) : nullptr;
}

RandomState::RandomState(PyObject* generator)
    : fields_(fields_of(generator),
              fields_of(generator) + (static_cast<size_t>(generator_type()->tp_basicsize) - sizeof(PyObject))) {}

void RandomState::put_back(PyObject* generator) const noexcept {
  std::memcpy(fields_of(generator), fields_.data(), fields_.size());
}

int64_t largest_drawn(PyObject* draws) noexcept {
  PyObject* last = PyTuple_GET_ITEM(draws, PyTuple_GET_SIZE(draws) - 1);
  const int64_t argument = PyLong_AsLongLong(PyTuple_GET_ITEM(last, 1));
  const bool is_bits = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(last, 0), "getrandbits") == 0;
  return (is_bits ? int64_t{1} << argument : argument) - 1;
}

Ref draw(PyObject* generator, PyObject* one) noexcept {
  const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(one, 0));
  PyObject* argument = PyTuple_GET_SIZE(one) > 1 ? PyTuple_GET_ITEM(one, 1) : nullptr;
  Ref result;
  if (kind && is_random_generator(generator))
    result = std::string_view(kind) == "below" ? below(generator, argument) : call(kind, generator, argument);
  if (!result) PyErr_Clear();
  return result;
}

Ref peek(PyObject* generator, PyObject* draws) noexcept {
  if (!is_random_generator(generator)) return {};
  try {
    const RandomState before(generator);
    Ref last;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(draws); ++i)
      if (!(last = draw(generator, PyTuple_GET_ITEM(draws, i)))) break;
    before.put_back(generator);
    return last;
  } catch (const std::exception&) {  // no memory
    return {};
  }
}

}  // namespace braze::guards
