// python/interpreter/watch/random_numbers.cpp
#include "python/interpreter/watch/random_numbers.h"

#include <array>
#include <utility>
#include <vector>

#include "python/guards/random_state.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr size_t most_draws = 64;  // What a generator gives is looked up from its present state on.
constexpr int64_t most_bits = 40;  // Of numbers that may be symbols.

/// A positive int below 2^40; 0 for all else.
int64_t small_number(PyObject* value) {
  if (!PyLong_CheckExact(value)) return 0;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow || number < 0 || number >= int64_t{1} << most_bits ? 0 : number;
}

}  // namespace

void RandomNumbers::learn_bound(PyObject* function, PyObject* generator) {
  const guards::Source* source = values_.source_of(function);
  if (source && !values_.is_known(generator))
    values_.learn(generator, values_.sources().member(source, guards::Member::builtin_self));
}

bool RandomNumbers::call_method(std::string_view name, PyObject* generator, PyObject* const* arguments,
                                Py_ssize_t count) {
  if (!values_.is_known(generator)) return abandon("a method of an object of unknown origin", generator);
  if (run_.keyword_names || !values_.source_of(generator))
    return abandon("a method that is not understood", generator);
  if (name == "random" && count == 0) return draw(generator, "random", nullptr);
  const bool has_number = count == 1 && absorb_all(arguments, 1, nullptr) && PyLong_CheckExact(arguments[0]);
  if (abandoned()) return false;
  if (has_number) values_.numbers().settle_size(arguments[0]);
  if (name == "seed" && has_number) return draw(generator, "seed", arguments[0]);
  if (name == "getrandbits" && has_number) {
    const int64_t bits = small_number(arguments[0]);
    if (bits > 0 && bits <= most_bits) return draw(generator, "getrandbits", arguments[0]);
  }
  return abandon(Break::random_numbers, generator);
}

bool RandomNumbers::draws_below(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || run_.keyword_names || !PyFunction_Check(function)) return false;
  const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  PyObject* random = PyDict_GetItemString(PyImport_GetModuleDict(), "random");
  return text_of(code->co_qualname) == "Random._randbelow_with_getrandbits" && random && PyModule_Check(random) &&
         PyFunction_GET_GLOBALS(function) == PyModule_GetDict(random) && values_.is_known(function) &&
         guards::is_random_generator(arguments[0]) && values_.source_of(arguments[0]);
}

bool RandomNumbers::call_below(PyObject* generator, PyObject* limit) {
  if (!absorb_all(&limit, 1, nullptr)) return false;
  values_.numbers().settle_size(limit);
  PyObject* name = interned("getrandbits");
  PyTypeObject* type = Py_TYPE(generator);
  if (!name || small_number(limit) == 0 || find_in_type(type, name) != guards::method_of_generators("getrandbits"))
    return abandon(Break::random_numbers, generator);
  const std::array<PyObject*, 1> names = {name};
  values_.guards().class_entries(type_source(values_, generator), type, names);
  values_.guards().lacks(values_.source_of(generator), name);
  activity().is_quiet = true;
  return draw(generator, "below", limit) && allow_made_result(Entry::trusted);
}

/// Before an instruction that draws a number: what it will leave on top.
bool RandomNumbers::draw(PyObject* generator, const char* kind, PyObject* argument) {
  SizeWorld& world = values_.tensors().sizes();
  const guards::Source* source = values_.source_of(generator);
  const std::vector<guards::Ref>& known = values_.effects().draws().of(generator);
  const size_t before = known.size();
  if (before >= most_draws) return abandon(Break::random_numbers, generator);
  Ref one = Ref::steal(argument ? Py_BuildValue("(sO)", kind, argument) : Py_BuildValue("(s)", kind));
  Ref draws = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(before) + 1));
  if (!one || !draws) throw std::bad_alloc();
  for (size_t k = 0; k < before; ++k)
    PyTuple_SET_ITEM(draws.get(), static_cast<Py_ssize_t>(k), Py_NewRef(known[k].get()));
  PyTuple_SET_ITEM(draws.get(), static_cast<Py_ssize_t>(before), Py_NewRef(one.get()));
  const guards::RandomState state(generator);
  const Ref number = guards::draw(generator, one.get());
  state.put_back(generator);
  if (!number) return abandon(Break::random_numbers, generator);
  values_.guards().type(source, Py_TYPE(generator));
  values_.tell_apart(generator);
  const guards::Source* place = values_.sources().drawn(source, draws.get());
  if (number.get() != Py_None) values_.guards().type(place, Py_TYPE(number.get()));
  if (PyFloat_CheckExact(number.get()))
    activity().derived = world.vary_float(number.get(), place);
  else if (PyLong_CheckExact(number.get()))
    activity().size = world.vary_number(number.get(), place);
  if (number.get() != Py_None && !activity().derived && !activity().size)
    return abandon(Break::random_numbers, generator);
  values_.effects().draws().draw(generator, std::move(one));
  return allow_made_result();
}

}  // namespace braze::interpreter
