// python/interpreter/watch/classes.h: what classes have and lack, and what they decide unasked.
//
// C code asks objects for special methods (containers for __eq__ and __hash__, all() for __bool__), and
// isinstance(), `except` and `match` ask for base classes. Both can change at any time, also for objects that a run
// makes.
#pragma once

#include <initializer_list>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// What classes have and lack.
class Classes final : Domain {
 public:
  using Domain::Domain;

  /// Where a class comes from; itself if no path is known.
  const guards::Source* class_source(PyObject* type);
  /// A special method written in Python, such as `__call__`: learns it. False, and no abandonment, if it is none.
  bool special_function(PyObject* object, const char* name);
  /// Special methods that the class of an object has or lacks decide what an operation means: they stay as they
  /// are.
  bool keep_special(PyObject* object, std::initializer_list<const char*> names);
  bool keep_in_class(PyObject* type, const guards::Source* source, std::initializer_list<const char*> names);
  /// A builtin container, or an instance of a subclass that leaves the operation `slot` to it.
  bool acts_as_builtin(PyObject* object, const char* slot);
  /// `__name__` or `__qualname__` of a class.
  bool class_name(PyObject* type, PyObject* name);
  /// Classes of isinstance() or `except`: one, or tuples of them.
  bool open_classes(PyObject* classes);
  /// Something found in a class: functions and plain values as they are, the function of static and class methods.
  bool learn_class_entry(PyObject* found, const guards::Source* source);
  /// Of an object that is asked what it is an instance of: its class, and that it does not give another `__class__`
  /// than that in a way that nobody watches.
  bool keep_class_of(PyObject* object);
  /// Of a class.
  void keep_bases(PyObject* type) { keep_bases(reinterpret_cast<PyTypeObject*>(type), class_source(type)); }
  /// type.__subclasses__().
  bool call_subclasses(PyObject* type);
  /// Whether `match` takes the object for a sequence or mapping is a flag of its class, which registering it, or a
  /// class that it derives from, with an abstract base class sets.
  bool keep_pattern_flags(PyObject* object);

 private:
  void keep_bases(PyTypeObject* type, const guards::Source* source);

  /// Where a class comes from, and the name of a special method.
  using Kept = std::pair<const guards::Source*, PyObject*>;
  struct KeptHash {
    size_t operator()(const Kept& kept) const noexcept {
      return std::hash<const void*>()(kept.first) * 31 ^ std::hash<const void*>()(kept.second);
    }
  };
  /// The version of the class for which keep_in_class() has guarded that method.
  std::unordered_map<Kept, unsigned, KeptHash> kept_;
};

}  // namespace braze::interpreter
