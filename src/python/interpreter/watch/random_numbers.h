// python/interpreter/watch/random_numbers.h: numbers that Python's generators draw (random.Random).
//
//   x * random.random()              a number that varies: each call looks what its generator gives next
//   if random.random() < 0.1:        decided for this call, and guarded
//
// A generator that existed before is moved on by the run and by each replay. Its methods in Python (uniform, gauss,
// randint) are watched like other code, but for the one that draws until a number fits. Where a run decides much by
// such numbers each call would be another program: there the graph ends.
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Methods of random.Random.
class RandomNumbers final : Domain {
 public:
  using Domain::Domain;

  /// The generator that a function of module random is bound to is known with it.
  void learn_bound(PyObject* function, PyObject* generator);
  /// A method written in C.
  bool call_method(std::string_view name, PyObject* generator, PyObject* const* arguments, Py_ssize_t count);
  /// random.Random._randbelow, of a generator whose bits it draws.
  bool draws_below(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  bool call_below(PyObject* generator, PyObject* limit);

 private:
  bool draw(PyObject* generator, const char* kind, PyObject* argument);
};

}  // namespace braze::interpreter
