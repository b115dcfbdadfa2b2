// python/guards/random_state.h: what Python's random number generators (random.Random) give next.
//
// A draw is a tuple of plain data, so that what a generator gives after some is a source (source.h):
//
//   ("random",)        a float of [0, 1)
//   ("getrandbits", k) an int of k bits
//   ("below", n)       an int of [0, n), as random.Random draws it: by as many bits as n has, until it fits
//   ("seed", n)        None; begins anew
//
// What is drawn to see it is put back: a guard may ask as often as it likes. No Python code runs.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "python/guards/ref.h"

namespace braze::guards {

/// An instance of _random.Random, or of a class derived from it.
bool is_random_generator(PyObject* object) noexcept;
/// A method of _random.Random, unbound, borrowed; null if there is none of that name.
PyObject* method_of_generators(const char* name) noexcept;

/// What a generator will give is this alone: the fields that C code keeps in it.
class RandomState {
 public:
  explicit RandomState(PyObject* generator);
  void put_back(PyObject* generator) const noexcept;
  bool operator==(const RandomState& other) const { return fields_ == other.fields_; }

 private:
  std::vector<std::byte> fields_;
};

/// The largest whole number that the last one of a tuple of draws may give.
int64_t largest_drawn(PyObject* draws) noexcept;
/// Moves the generator on. Null where it cannot; no error is set.
Ref draw(PyObject* generator, PyObject* one) noexcept;
/// What the last one of a tuple of draws would give; the generator stays as it is. Null likewise.
Ref peek(PyObject* generator, PyObject* draws) noexcept;

}  // namespace braze::guards
