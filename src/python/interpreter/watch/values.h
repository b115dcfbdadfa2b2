// python/interpreter/watch/values.h: what a watched run knows about the objects that it meets.
//
// Every object is one of three: a *scalar*, guarded by value when it is loaded; *sourced*, that is, it existed
// before the call and was reached over a path that guards pin down; or *made* during the run. Provenance goes by
// identity: objects are found by address, whatever slot or container they came from. What is none of the three was
// reached over a path that nobody followed, and nothing may be done with it.
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/shape_env.h"
#include "python/guards/guard.h"
#include "python/interpreter/ref.h"
#include "python/interpreter/watch/break_reasons.h"
#include "python/interpreter/watch/effects.h"

namespace braze::interpreter {

/// What the user says of a function, and the run takes on trust.
enum class Promise : uint8_t {
  none,
  in_graph,  ///< It depends on nothing but its arguments, and changes nothing.
  constant,  ///< It gives the same object for these arguments for ever.
  disabled,  ///< It is never to be captured.
};

/// Of floats that vary (numbers.h).
enum class Arithmetic : uint8_t { add, subtract, multiply, divide };

/// What the watcher must know of tensors, without torch's headers.
class TensorWorld {
 public:
  virtual ~TensorWorld() = default;
  virtual bool is_tensor(PyObject* object) const = 0;
  /// A tensor that existed before the call: adds its guards. False: it cannot be traced.
  virtual bool learn(PyObject* tensor, const guards::Source* source) = 0;
  /// dtype, device, layout, memory format: immutable, known by identity or value.
  virtual bool is_plain(PyObject* object) const = 0;
  /// A C function of torch that only computes on its arguments, or depends on nothing but torch's guarded modes.
  virtual bool may_call(PyObject* function) const = 0;
  /// A method of torch.Tensor written in C, likewise.
  virtual bool may_call_method(PyObject* name) const = 0;
  /// An attribute of torch.Tensor that the tensor guards pin down, or that dispatches.
  virtual bool may_read(PyObject* name) const = 0;
  /// A tensor that the run computed.
  virtual bool is_computed(PyObject* tensor) const = 0;
  /// The dict and the key of the flag that tells code whether it is being compiled: read as true here.
  virtual std::pair<PyObject*, PyObject*> compiling_flag() const = 0;
  /// `isinstance(tensor, torch.FloatTensor)` and the like are true: of a class, or of one in a tuple.
  virtual bool is_of_legacy_type(PyObject* object, PyObject* classes) const = 0;
  /// The class torch.Tensor.
  virtual PyObject* tensor_type() const = 0;
  /// An operator of torch.ops, or an overload of one, that computes on its arguments alone. Python functions that
  /// are part of it may run.
  virtual bool is_operator(PyObject* object) const = 0;
  /// A function of TorchScript that computes on its arguments alone, by operators.
  virtual bool is_plain_script(PyObject*) const { return false; }
  /// torch.ops, its namespaces and packets make what they are asked for when they are first asked: has that done.
  virtual void make_attribute(PyObject* object, PyObject* name) const = 0;
  /// Nothing that the run may see of a tensor without gradients depends on how it came to be.
  virtual bool may_read_without_grad(PyObject* tensor, PyObject* name) const = 0;
  /// Why a method of tensors, or an attribute of one, is refused, in other words than "it is not understood".
  virtual std::optional<Break> why_not(PyObject* name) const = 0;
  /// After an error under which a run ends: why, in other words than "it raised".
  virtual std::optional<Break> why_raised() const = 0;
  /// A method that changes nothing but what a tensor of this run says of itself, or nothing at all.
  virtual bool changes_only_itself(PyObject* tensor, PyObject* name, PyObject* const* arguments,
                                   Py_ssize_t count) const = 0;
  /// Before an attribute of a tensor is read that would show the run its real memory: what it is to see instead
  /// (borrowed). Null for all other attributes.
  virtual PyObject* answer_attribute(PyObject* tensor, PyObject* name) = 0;
  /// Before a call of a function that reads or sets a flag of torch's which is not, while a run is traced, what the
  /// run is to see: what the call gives it (borrowed). Null for all other functions.
  virtual PyObject* answer(PyObject* function, PyObject* const* arguments, Py_ssize_t count) = 0;
  /// After such a call.
  virtual void answered() = 0;
  /// Autograd notes what is computed of these.
  virtual bool wants_history(PyObject* const* arguments, Py_ssize_t count) const = 0;
  /// The gradient of a leaf that existed before (borrowed). Null: it has none.
  virtual PyObject* gradient_of(PyObject* tensor) = 0;
  /// What a compiled function runs, which is part of the capture when it is called there; null for all else.
  virtual PyObject* compiled_from(PyObject* object) const = 0;
  virtual Promise promise_about(PyObject* function) const = 0;
  /// What a run calls in the place of a function of PyTorch's; null for all others.
  virtual PyObject* stand_in_for(PyObject* function) const = 0;
  /// A C function by which such code ends the graph, for a reason that it passes as its argument.
  virtual bool ends_graph(PyObject* function) const = 0;

  // ---- sizes that may be other ones at later calls (sizes.h)
  /// The run may meet such.
  virtual bool has_sizes() const = 0;
  /// What stands for a tensor whose sizes are such, borrowed; null for all others.
  virtual PyObject* tracer_of(PyObject* tensor) const = 0;
  /// A size as operators of tensors are given it.
  virtual Ref to_symbolic(ir::Size size) const = 0;
  /// A size as arithmetic with a tensor is given it: a tensor without dimensions, of a number's precedence. Null
  /// where the number itself must be there.
  virtual Ref to_number(ir::Size size, PyObject* beside) const = 0;
  /// What to_symbolic() gives, or operators do; nothing for anything else.
  virtual std::optional<ir::Size> from_symbolic(PyObject* object) const = 0;
  /// In this call.
  virtual int64_t value_of(ir::Size size) const = 0;
  /// The answer for this call, which a guard keeps.
  virtual bool decide(const ir::SizeTest& test) = 0;
  /// A symbol for a number read from `source`, if it was another one at an earlier call.
  virtual std::optional<ir::Size> vary_number(PyObject* number, const guards::Source* source) = 0;

  // ---- floats that may be other ones at later calls (numbers.h)
  /// What stands in the graph for a float read from `source`, if it was another one at an earlier call: a tensor
  /// without dimensions. Null: it was not.
  virtual Ref vary_float(PyObject*, const guards::Source*) { return {}; }
  /// Such tensors, or plain numbers beside one, put together. Null where Python might
  /// raise, or round otherwise.
  virtual Ref compute_number(Arithmetic, PyObject*, PyObject*) { return {}; }
  /// Arithmetic with this tensor may be given such a tensor in the place of a float.
  virtual bool takes_numbers(PyObject*) const { return false; }
  /// A tensor of the trace that has the place of a Python float.
  virtual bool is_number(PyObject*) const { return false; }
};

/// A float that may be another one at later calls.
struct Number {
  guards::Ref tracer;  ///< What stands for it in the graph.
  struct Read {
    guards::Ref value;
    const guards::Source* source;
  };
  std::vector<Read> reads;  ///< The floats that it was computed of.
};

class Values {
 public:
  Values(guards::GuardSet& guards, TensorWorld& tensors) : guards_(guards), tensors_(tensors) {}

  /// `value` was read from `source`: adds what must hold for it to be the same on later calls. False: nothing that
  /// guards can hold on to.
  bool learn(PyObject* value, const guards::Source* source);
  /// The contents of a closure cell that existed before the call come from `source`.
  void learn_cell(PyObject* cell, const guards::Source* contents);
  /// A dict that stands for the attributes of a sourced object.
  void learn_as(PyObject* object, const guards::Source* source);
  /// A float or int, read from `source`, that is only put somewhere: its type is guarded now, its value when
  /// somebody looks at it. Gives what stands for it in the run, borrowed: a number that nothing else in the run is.
  /// Null for what must be learnt.
  PyObject* defer(PyObject* number, const guards::Source* source);
  /// A number that is such an expression: an object that nothing else in the run is, borrowed.
  PyObject* make_size(int64_t number, ir::Size size);
  /// A number that comes from `source` and was another one at an earlier call becomes a symbol: what stands for it,
  /// borrowed. Null for all else.
  PyObject* vary(PyObject* number, const guards::Source* source);
  /// Likewise for an entry of a dict: a float.
  PyObject* vary_entry(PyObject* dict, PyObject* key);
  std::shared_ptr<const Number> number_of(PyObject* value) const;  ///< Null: it is none, or has been specialised.
  /// A float that such a number is: an object that nothing else in the run is, borrowed.
  PyObject* make_number(double value, std::shared_ptr<const Number> number);
  /// learn(), before an instruction that leaves `value` as it is on top: a number that varies is guarded by its
  /// type as yet.
  bool learn_read(PyObject* value, const guards::Source* source);
  /// After the instruction: what stands for `top` there, if it is that number. Null for all else.
  PyObject* take_read(PyObject* top);
  /// What was not left on top is guarded by its value.
  void settle_read();
  const ir::Size* size_of(PyObject* value) const;  ///< Null: it is none, or has been specialised.
  bool was_size(PyObject* value) const { return settled_sizes_.contains(value); }
  /// An int equal to that of the program, but another object.
  bool stands_for_number(PyObject* value) const { return size_of(value) || was_size(value); }
  /// The container is iterated by a `zip` or the like: its sizes are specialised where somebody looks into one of
  /// these.
  void hand_to_iterator(PyObject* container) { handed_.push_back(guards::Ref::borrow(container)); }
  /// Somebody looks at the value, if it is one: it is specialised.
  void settle_number(PyObject* value);
  void settle_size(PyObject* value);
  /// Likewise, and at what a builtin container holds.
  void settle_sizes_within(PyObject* value);
  bool has_deferred() const { return !deferred_.empty(); }
  /// Somebody looks at `value`. Gives the number that it stands for, borrowed; null if it stands for none.
  PyObject* settle(PyObject* value);
  /// Somebody looks at what a builtin container holds.
  void settle_within(PyObject* container);
  /// Made by this run; does nothing for what is known otherwise.
  void make(PyObject* value);
  /// A constant of code: tuples, frozensets, code objects and all in them.
  void make_constant(PyObject* value);

  /// A class that the run has made of constants. While it stays with the run, a replay does without; what holds it
  /// is not rebuilt.
  void make_class(PyObject* type) {
    make_constant(type);
    own_classes_.insert(type);
  }
  bool is_own_class(PyObject* value) const { return own_classes_.contains(value); }

  /// Given to make_constant(): the same object in every run.
  bool is_constant(PyObject* value) const { return constants_.contains(value); }
  /// It must be this very object on later calls: its address decides something. False: of unknown origin.
  bool pin(PyObject* value);

  /// The address of an object: nothing that a replay could hand on.
  void note_address(PyObject* number) {
    if (addresses_.insert(number).second) held_.push_back(guards::Ref::borrow(number));
  }
  bool is_address(PyObject* number) const { return addresses_.contains(number); }

  bool is_made(PyObject* value) const { return made_.contains(value); }
  /// Where a scalar was read, whose equals may be other objects; empty if it was computed.
  std::vector<const guards::Source*> scalar_sources(PyObject* scalar) const;
  /// Null for what was made or is unknown.
  const guards::Source* source_of(PyObject* value) const;
  bool is_known(PyObject* value) const;

  /// Guards the length or keys of a sourced builtin container and learns its items, as they were before the call.
  /// True for what needs it not.
  bool open(PyObject* container);
  /// Something may go through the entries of a dict, now and later.
  void iterate_dict(PyObject* dict) { iterated_.insert(dict); }
  bool is_iterated(PyObject* dict) const { return iterated_.contains(dict); }
  /// All that a C function may read of `value` is guarded: scalars, tensors, builtin containers of them.
  bool absorb(PyObject* value);
  /// All that making text of an instance of a class that derives from a number or text may read is guarded.
  bool absorb_text(PyObject* value);
  /// Where the class of an object comes from.
  const guards::Source* type_source(PyObject* object);
  /// C code may ask the class of the object for any special method: it keeps having or lacking each.
  void keep_protocols(PyObject* value);
  /// Whether this object is another one has been asked for: replays must tell the same objects apart.
  void tell_apart(PyObject* object) {
    if (source_of(object)) told_apart_.insert(object);
  }
  /// Iterating over the set gives the same order in every run: it was made by this one, of scalars, or guards say
  /// so of an older one that the run has not changed. Equal sets may differ in order, and objects hash by address.
  bool has_known_order(PyObject* set);
  /// Entry `key` of a sourced exact dict: its value, or that it is not there.
  bool look_up(PyObject* dict, PyObject* key);
  /// Whether an object that hashes by address is in a sourced exact set.
  bool look_up_member(PyObject* set, PyObject* item);

  /// Two objects that the run told apart, one of which it changed, must not be one object at a replay. Once, at the
  /// end, before the effects are undone.
  void guard_aliasing();

  /// How many items the iterators that the run has moved on must have left. Once, likewise.
  void guard_iterators();

  /// The run lets go of what `source` holds, or of its items; `value` is that now, and null if there is nothing.
  /// False: somebody may notice. A guard says at the end that nobody does.
  bool drop(PyObject* value, const guards::Source* source, bool contents = false);
  void guard_drops();
  /// It has let go of something: natively, that is gone.
  bool has_drops() const { return drops_objects_; }

  /// What the run changed of what existed before.
  Effects& effects() { return effects_; }
  guards::GuardSet& guards() { return guards_; }
  guards::SourceTable& sources() { return guards_.sources(); }
  TensorWorld& tensors() { return tensors_; }
  const TensorWorld& tensors() const { return tensors_; }

 private:
  PyObject* vary_float(PyObject* number, const guards::Source* source);
  bool learn_given(PyObject* value, const guards::Source* source);
  std::optional<ir::Size> symbol_of(PyObject* number, const guards::Source* source);
  void pin(PyObject* value, const guards::Source* source);
  struct Known {
    const guards::Source* source;
    bool opened = false;
  };
  bool open_items(PyObject* container, const guards::Source* source);
  bool open_before(PyObject* container, const guards::Source* source);
  bool open_sequence(PyObject* sequence, const guards::Source* source);
  bool open_deque(PyObject* deque, const guards::Source* source);
  bool open_dict(PyObject* dict, const guards::Source* source);
  void settle_within(PyObject* container, std::unordered_set<PyObject*>& seen);
  void settle_sizes_within(PyObject* value, std::unordered_set<PyObject*>& seen);
  bool absorb(PyObject* value, std::unordered_set<PyObject*>& seen);
  bool absorb_here(PyObject* value, std::unordered_set<PyObject*>& seen);
  bool absorb_items(PyObject* container, std::unordered_set<PyObject*>& seen);
  bool absorb_derived(PyObject* value);
  bool acts_as_tuple(PyObject* value);
  bool keeps_watched(PyObject* value, PyTypeObject* base);
  bool inherits(PyObject* value, PyTypeObject* base, std::span<const char* const> names);
  bool absorb_held(PyObject* value, std::unordered_set<PyObject*>& seen);
  void make_held(PyObject* holder, PyObject* referent);

  guards::GuardSet& guards_;
  TensorWorld& tensors_;
  std::unordered_map<PyObject*, Known> known_;
  std::unordered_map<PyObject*, std::vector<const guards::Source*>> scalars_;
  struct Deferred {
    guards::Ref number;
    const guards::Source* source;
  };
  std::unordered_map<PyObject*, Deferred> deferred_;  ///< By what stands for them.
  std::unordered_map<PyObject*, ir::Size> sizes_;
  std::unordered_map<PyObject*, std::shared_ptr<const Number>> numbers_;
  std::unordered_map<const guards::Source*, PyObject*> varied_floats_;  ///< What stands for each.
  std::unordered_map<const guards::Source*, ir::Size> varied_;          ///< Of the numbers that were read there.
  struct Read {
    guards::Ref number;
    const guards::Source* source;
  };
  std::optional<Read> read_;
  std::unordered_set<PyObject*> settled_sizes_;
  std::vector<guards::Ref> handed_;
  std::unordered_set<PyObject*> made_;
  std::unordered_set<PyObject*> addresses_;
  std::unordered_set<PyObject*> constants_;    ///< Some of made_.
  std::unordered_set<PyObject*> own_classes_;  ///< Some of constants_.
  struct Drop {
    const guards::Source* source;
    bool contents;
  };
  std::vector<Drop> drops_;
  bool drops_objects_ = false;
  std::unordered_set<PyTypeObject*> protocols_kept_;
  std::unordered_set<PyObject*> told_apart_;  ///< Sourced ones.
  std::unordered_set<PyObject*> iterated_;    ///< Dicts. Only compared.
  Effects effects_;
  int absorbing_ = 0;              ///< Levels of the container that is being absorbed.
  std::vector<guards::Ref> held_;  ///< Keys of known_: an address must not be used again.
};

/// The builtin container type whose storage `value` has, as an instance of it or of a subclass; null if it has
/// none.
PyTypeObject* storage_type(PyObject* value);
/// list, tuple, dict, OrderedDict, set or frozenset, and no subclass.
bool is_builtin_container(PyObject* value);
bool is_exact_dict(PyObject* value);
/// An instance of a class that Python code derived from int, float, complex, str or bytes.
bool is_derived_scalar(PyObject* value);
/// The method of the builtin class that such an instance has under this name; null if its class has another one.
PyObject* derived_method(PyObject* value, const char* name);
/// What such an instance finds in a dict, if it hashes and compares as the builtin class does. Null for all else.
guards::Ref exact_key(PyObject* key);
/// What a types.MappingProxyType stands for, borrowed.
PyObject* mapping_of_proxy(PyObject* proxy);

}  // namespace braze::interpreter
