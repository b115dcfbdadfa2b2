// python/interpreter/watch/library.h: functions and objects of the standard library that are known as a whole.
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Functions and objects of the standard library.
class Library final : Domain {
 public:
  using Domain::Domain;

  bool calls_signature(PyObject* function, Py_ssize_t count) const;
  /// inspect.signature() of a Python function reads its code and defaults, which are guarded, its annotations, and
  /// the attributes with which decorators lead it elsewhere.
  bool call_signature(PyObject* function);
  /// The parameters of a signature that was just made, which functions that nobody watched have put together.
  void make_signature(PyObject* signature);
  /// collections.namedtuple or typing.NamedTuple.
  static bool makes_named_tuple(PyObject* function);
  /// A class of named tuples depends on the names, defaults and types that it is given, and on the module's name.
  bool call_named_tuple(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  /// The `dispatch` of a functools.singledispatch function: which of the registered functions is for a class.
  static bool is_dispatch(PyObject* function);
  /// That depends on the bases of the class, on what is registered, and with abstract base classes.
  bool call_dispatch(PyObject* function, PyObject* type);
  /// isinstance() or issubclass() with an abstract base class. It keeps the answer until a class is registered
  /// somewhere; what it asks of the classes to find it does not count any more.
  bool check_abstract(PyObject* type, PyObject* subject, bool is_instance);
  /// What functools.lru_cache keeps stays as it is until the cache drops it: guarded is the entry, and not what the
  /// function would compute now. The run takes the result out of it, and a replay calls the cached function, which
  /// is a use like any other: the order in which entries are dropped and the counts are eager's. What is not there
  /// yet has the function called, whose effects are its own: the call runs natively, and the next one finds it.
  bool call_cached(PyObject* wrapper, PyObject* const* arguments, Py_ssize_t count);
  /// Looks a key up whose hash and comparison are Python code, while the instruction runs; gives a new reference to
  /// the result, or to anything if the run is abandoned, or null with the exception that this code has raised.
  PyObject* find_cached(PyObject* wrapper, PyObject* key);
  /// A compiled pattern, or what it has found, never changes. What is put in place of a match may be for a function
  /// to say.
  bool call_pattern(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  /// get, set and reset of a contextvars.ContextVar.
  bool call_context_variable(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  /// What a weak reference gives is there, or gone, at later calls too.
  bool call_weak_reference(PyObject* reference);
  /// weakref.ref(object) or weakref.proxy(object). Tensors of the run are held by the capture, and live on. A
  /// callback may be there if it will not be called.
  bool make_weak_reference(PyObject* const* arguments, Py_ssize_t count);

 private:
  PyObject* unwrap(PyObject* function);
  bool is_cache_key(PyObject* argument);
  bool watch_key(PyObject* wrapper, PyObject* key, PyObject* const* arguments, Py_ssize_t count);
  PyObject* learn_cached(PyObject* wrapper, PyObject* key, PyObject* kept);
  void use(PyObject* wrapper, PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
