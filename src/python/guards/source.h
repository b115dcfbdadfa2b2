// python/guards/source.h: where a value comes from.
//
// A source is an expression over a call's arguments and over objects that the compiled function holds: "argument
// 0", "item 'scale' of the globals of f", "item 3 of self.layers". Sources are interned in a table, so that two
// equal ones are one pointer, and form a tree: each has one parent, roots have none.
//
// Evaluating a source runs no Python code: it reads exact storage (the entries of a dict, the items of a tuple or
// list, slots, instance dicts, the MRO's dicts), never `__getattr__`, `__getitem__` or a property. Whether that is
// what Python would do is for guards on types to say. What a source reads
// may be missing; then it evaluates to nothing.
//
//   SourceTable sources;
//   const Source* self = sources.argument(0, "self");
//   const Source* weight = sources.dict_item(sources.attribute(self, "_parameters"), "weight");
//   to_text(weight);                    // self.weight
//   evaluate(weight, call);             // a borrowed reference, or null
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "python/guards/ref.h"

namespace braze::guards {

/// The arguments of one call, in the vectorcall convention.
struct Call {
  PyObject* const* arguments = nullptr;  ///< Positional ones, then the values of the keywords.
  size_t positional = 0;
  PyObject* keywords = nullptr;  ///< Tuple of names, or null.

  size_t size() const noexcept { return positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0); }
};

enum class SourceKind : uint8_t {
  argument,       ///< Value `index` of the call: positional ones, then keywords in the order of the call.
  object,         ///< `key`, held by the source: a function, its globals, its builtins, a module, a class.
  function_mode,  ///< Number `index` on the thread's stack of torch function modes, from the outermost.
  dict_of,        ///< The instance dict of an object (of a module, of a class), whatever `__dict__` is.
  type_of,        ///< The type of an object, whatever `__class__` is.
  dict_item,      ///< Entry `key` of a dict, without `__getitem__` and `__missing__`.
  dict_key,       ///< Key number `index` of a dict in insertion order.
  sequence_item,  ///< Item `index` of a tuple or list.
  slot,  ///< What member descriptor `key` reads: `__slots__`, `partial.func`, `property.fget`, `slice.start`.
  type_attribute,  ///< What looking up `key` along the MRO of a type finds, unbound.
  member,          ///< A field of a builtin object, see Member.
  context_value,   ///< The value of a contextvars.ContextVar in the present context; its default if it has none.
  thread_local_attribute,  ///< Attribute `key` of an exact threading.local, for the present thread.
  next_item,               ///< Item `index`, from 0, of those that a builtin iterator gives next (iterators.h).
  next_key,  ///< The key of pair `index` that an iterator over a dict gives next, or the number of an enumerate.
  drawn,     ///< What a random.Random gives by the last one of the draws in `key` (random_state.h).
};

/// Fields of builtin objects that no member descriptor gives. The table is in source.cpp.
enum class Member : uint32_t {
  function_code,
  function_defaults,    ///< The tuple; nothing when there are none.
  function_kwdefaults,  ///< The dict; nothing when there is none.
  function_closure,     ///< The tuple of cells; nothing when there is none.
  function_globals,
  function_name,
  function_qualname,
  function_doc,
  function_module,
  function_type_params,  ///< Of Python 3.12 and later; never there before.
  function_annotations,  ///< A dict, or the tuple that becomes one when it is first asked for.
  cell_contents,         ///< Nothing when the cell is empty.
  method_function,
  method_self,
  weakref_referent,  ///< Nothing when the referent is dead.
  builtin_self,      ///< What a builtin method is bound to: the list of `lst.append`.
  type_mro,
  type_name,        ///< Of classes made by Python code; nothing for others, whose names stay.
  type_qualname,    ///< Likewise.
  type_subclasses,  ///< A dict of weak references, of a class made by Python code; nothing where it never had any.
  tensor_grad,      ///< Nothing when the gradient is None.
  iterated,         ///< What a builtin iterator goes through: iterator_source().
  getter_parts,     ///< What operator.itemgetter asks for, or a tuple of it; the names of operator.attrgetter.
  deque_limit,      ///< The `maxlen` of a collections.deque, or None.
  tensor_over,      ///< What torch.from_numpy() makes of an array of NumPy's, a new one each time.
  sequence_length,  ///< How many items an exact list or tuple has.
  storage_offset,   ///< Of a tensor.
  array_number,     ///< Of a number of NumPy's: the float or int of Python's that is equal to it.
};

struct Source {
  SourceKind kind;
  uint32_t index = 0;              ///< argument, dict_key, sequence_item, next_item, next_key; member: the Member.
  uint32_t number = 0;             ///< In the order of creation; parents come before children.
  const Source* parent = nullptr;  ///< Null for argument, object and function_mode.
  Ref key;                         ///< Key, name, descriptor or held object.
  Py_hash_t hash = 0;              ///< dict_item: of the key.
  std::string label;               ///< If not empty: how the user would write it.
  mutable Ref made;  ///< Keeps the number that load() has made, until the next: next_item, next_key, member, drawn.
};

/// A root of what is another object at each call, or may be.
inline bool is_of_call(const Source& root) noexcept {
  return root.kind == SourceKind::argument || root.kind == SourceKind::function_mode;
}

/// Owns sources. Pointers stay valid as long as the table lives.
class SourceTable {
 public:
  const Source* argument(uint32_t index, std::string_view name);
  /// \param text  how the user would write it: "f", "G" for the globals of f (prints `G["scale"]`), "torch".
  const Source* object(PyObject* object, std::string_view text);
  const Source* function_mode(uint32_t index);

  const Source* dict_of(const Source* object);
  const Source* type_of(const Source* object);
  /// \param key  must satisfy is_plain_key(). Throws InternalError otherwise.
  const Source* dict_item(const Source* dict, PyObject* key);
  const Source* dict_item(const Source* dict, const char* key);
  const Source* dict_key(const Source* dict, uint32_t position);
  const Source* sequence_item(const Source* sequence, uint32_t index);
  /// \param descriptor  a member descriptor of an object field (T_OBJECT, T_OBJECT_EX); see is_object_member().
  const Source* slot(const Source* object, PyObject* descriptor);
  const Source* type_attribute(const Source* type, PyObject* name);
  const Source* member(const Source* object, Member member);
  const Source* context_value(const Source* variable);
  const Source* thread_local_attribute(const Source* local, PyObject* name);
  const Source* next_item(const Source* iterator, uint32_t index);
  const Source* next_key(const Source* iterator, uint32_t index);
  const Source* drawn(const Source* generator, PyObject* draws);

  /// dict_item(dict_of(object), name): an attribute that lives in the instance's dict.
  const Source* attribute(const Source* object, PyObject* name);
  const Source* attribute(const Source* object, const char* name);
  /// Contents of closure cell `index` of a function; prints as the name of the variable.
  const Source* closure_variable(const Source* function, uint32_t index, std::string_view name);

  /// Sets how a source prints; the first label stays.
  void label(const Source* source, std::string_view text);
  size_t size() const noexcept { return sources_.size(); }
  const Source* at(size_t number) const noexcept { return sources_[number].get(); }

 private:
  struct Identity {  ///< What makes two sources equal. Keys: by exact type and bits, or by address.
    SourceKind kind;
    uint32_t index;
    const Source* parent;
    PyObject* key;
    bool operator==(const Identity& other) const noexcept;
  };
  struct IdentityHash {
    size_t operator()(const Identity& identity) const noexcept;
  };
  Source* intern(SourceKind kind, const Source* parent, uint32_t index, PyObject* key, std::string_view label = {});

  std::vector<std::unique_ptr<Source>> sources_;
  std::unordered_map<Identity, Source*, IdentityHash> interned_;
};

/// Reads what `source` says from the value of its parent (null for roots). Returns a borrowed reference, which is
/// good until Python code runs; null if there is nothing, or `parent` is not of a kind that has it. Sets no Python
/// error.
PyObject* load(const Source& source, PyObject* parent, const Call& call) noexcept;

/// Where load() reads the pointer, in an object that stays where it is as long as `parent` does; null if it
/// computes or looks up the value.
PyObject* const* place_of(const Source& source, PyObject* parent) noexcept;

/// Evaluates the whole path. As load().
PyObject* evaluate(const Source* source, const Call& call) noexcept;

/// As the user would write it: `self.layers[0].weight`, `G["scale"]`, `f.__defaults__[1]`.
std::string to_text(const Source* source);

/// A dict may be asked for this key without Python code: exact scalars and bytes, tuples of them, and objects that
/// hash and compare by address. No NaN: equal bits do not find it.
bool is_plain_key(PyObject* key) noexcept;

/// A dict may be asked for any plain key without Python code: all of its keys are plain. Linear.
bool has_plain_keys(PyObject* dict) noexcept;

/// A member descriptor that reads an object pointer.
bool is_object_member(PyObject* descriptor) noexcept;

}  // namespace braze::guards
