// python/guards/guard.h: what must still hold for a captured call to be replayed, and the program that checks it.
//
// A GuardSet collects guards while a call is captured; each records what is true at that moment. A GuardProgram is
// the flat form that later calls run: it walks every source once, in an order that fails early, and runs no Python
// code. It allocates only when it takes down anew what a shortcut (shortcut.h) compares. When a check fails, its
// number tells which guard it was, and explain() says why in words: "scale == 2, was 3".
//
//   GuardSet guards;
//   const Source* scale = guards.sources().dict_item(guards.sources().object(globals, "G"), "scale");
//   guards.constant(scale, two);
//   const uint32_t value = guards.want(scale);           // read after a successful check
//   GuardProgram program(std::move(guards));
//   PyObject* values[1];
//   int32_t failed = program.check(call, values);        // GuardProgram::ok, or the number of the guard
//   if (failed != GuardProgram::ok) log(program.explain(failed, call));
//
// Budget: 1 us for a function of a few arguments, 10 us for BERT-base with its 200 parameters (bench/guards.py).
// Threads: everything here needs the GIL, and none of it lets go of it.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/guards/source.h"

namespace braze::capture {
class KernelSnapshot;
}

namespace braze::guards {

enum class GuardKind : uint8_t {
#define GUARD(name, cost, stable, sources) name,
#include "python/guards/guards.def"
#undef GUARD
};

/// What a guard expects beyond one object or word: a snapshot, a row of properties. Immutable or a cache.
class Payload {
 public:
  virtual ~Payload() = default;
  /// Whether another guard of the same kind and source, with `other` as payload, would be the same.
  virtual bool equals(const Payload& other) const noexcept = 0;
  /// What it expects seems to have died: the guard will hardly hold again.
  virtual bool is_dead() const noexcept { return false; }
  /// For the garbage collector.
  virtual int visit(visitproc, void*) const { return 0; }
};

/// What a test compares with.
struct Expected {
  PyObject* object = nullptr;  ///< Owned by the guard.
  uint64_t bits = 0;
  Payload* payload = nullptr;  ///< Owned by the guard.
};

/// One kind of guard: what tests it, and what explains why it failed. `values` are those of its sources, in order,
/// none of them null.
struct GuardRow {
  const char* name;
  uint8_t cost;
  bool stable;
  enum class Sources : uint8_t { none, one, two, many } sources;
  bool (*test)(const Expected& expected, PyObject* const* values, const Call& call) noexcept;
  /// "scale == 2, was 3"; without values only what is expected: "scale == 2". `texts`: of the sources.
  std::string (*explain)(const Expected& expected, PyObject* const* values, const Call& call,
                         const std::vector<std::string>& texts);
};
const GuardRow& row(GuardKind kind) noexcept;

struct Guard {
  GuardKind kind;
  std::vector<const Source*> sources = {};
  Ref object = {};
  uint64_t bits = 0;
  std::shared_ptr<Payload> payload = {};

  Expected expected() const noexcept { return {object.get(), bits, payload.get()}; }
};

enum class Hold : uint8_t {
  strong,  ///< The guard keeps the object alive.
  weak,    ///< The guard fails once the object died. Objects without weak references are held strongly,
           ///< arrays of NumPy go by their address.
};

/// Guards under construction. Adding one that is there already does nothing.
class GuardSet {
 public:
  GuardSet();
  SourceTable& sources() noexcept { return *sources_; }

  /// The source is this scalar (scalar.h); this very object, if it is a NaN. Throws InternalError if it is none.
  void constant(const Source* source, PyObject* value);
  void identity(const Source* source, PyObject* object, Hold hold = Hold::strong);
  void type(const Source* source, PyTypeObject* type);
  /// Of an exact or derived list, tuple, dict, set, frozenset, str or bytes, without `__len__`.
  void length(const Source* source, size_t length);
  /// A builtin iterator that items_left() knows has at least, or exactly, so many items left.
  void items_left(const Source* source, size_t count, bool exactly);
  /// The keys that `dict` has now, in order; scalars by value, others by identity. Not for dicts with other keys
  /// than plain ones.
  void dict_keys(const Source* source, PyObject* dict);
  /// `source` evaluates to nothing, though its parent is there and of the kind that it was.
  void absent(const Source* source);
  /// What looking up each of these names in the class finds now, or that it finds nothing.
  void class_entries(const Source* source, PyTypeObject* type, std::span<PyObject* const> names);
  /// The instance dict of an object, if it has one at all, has no entry of that name.
  void lacks(const Source* source, PyObject* name);
  void function(const Source* source, PyObject* function);
  /// What `source` evaluates to, if there is anything, can lose `count` references without that code runs
  /// (drops.h). \param contents  the items of the list or dict there.
  void drops(const Source* source, bool contents, size_t count);
  /// All of a value made of exact lists, tuples, dicts, sets, frozensets and scalars.
  /// \returns false, and adds nothing, if it is not of these, or contains itself.
  bool deep(const Source* source, PyObject* value);
  /// Form and bytes of a number array (array.h).
  void array(const Source* source, PyObject* array);
  /// Whether `item`, which hashes by address, is in a set or frozenset as it is now.
  void membership(const Source* set, PyObject* item, bool is_in);
  enum class Which : uint8_t { any, same };
  /// Type, dtype, device, sizes, strides, requires_grad, layout, dispatch keys (conjugate, negative, functorch's
  /// among them), whether it is an inference tensor, a leaf, a view of what requires grad, has hooks or a tangent.
  /// Not the data, not its address.
  /// \param alignment  bytes that the address of the data must keep being divisible by; 1 asks nothing.
  /// \param which  whether it must be this very tensor. It is free to die; then the guard fails.
  /// \returns false, and adds nothing, for what cannot be guarded: sizes that Python code answers.
  bool tensor(const Source* source, PyObject* tensor, uint32_t alignment = 1, Which which = Which::any);
  /// Likewise, of a tensor whose sizes and strides another guard is about (shapes()): by their number alone.
  bool tensor_of_rank(const Source* source, PyObject* tensor);
  /// Sizes that may vary (shape_guard.h), of these tensors and numbers.
  void shapes(std::vector<const Source*> sources, std::shared_ptr<Payload> payload);
  void same_object(const Source* a, const Source* b);
  /// Which of these are the same object now, pair by pair.
  void objects(std::vector<const Source*> sources, std::span<PyObject* const> values);
  /// Which of these tensors share a storage now, pair by pair, and at which distance from each other.
  void storages(std::vector<const Source*> sources, std::span<PyObject* const> tensors);
  /// PyTorch's modes and flags on this thread, as they are now.
  void torch_state();
  /// Which kernels run the operators that were called.
  void kernels(const capture::KernelSnapshot& snapshot);
  /// Which classes abstract base classes take for subclasses: abc.get_cache_token().
  void abc_registrations();
  /// Warnings of the class are shown, or not, and do nothing else.
  void warnings_are_shown(PyObject* category);
  /// Code that is not PyTorch's has counted the modes that are entered, of which a default device is one that
  /// programs run without.
  void no_default_device();
  /// So many frames may be entered before sys.getrecursionlimit() is reached.
  void recursion(size_t frames);
  /// How many arguments `call` has, and the names of those given by keyword.
  void call_shape(const Call& call);

  /// Asks for the value of `source` after a successful check. \returns its place among the values.
  uint32_t want(const Source* source);

  /// Whether a guard of this set says that the source is exactly of this type.
  bool says_type(const Source* source, PyTypeObject* type) const noexcept;
  const std::vector<Guard>& guards() const noexcept { return guards_; }
  size_t wanted() const noexcept { return wanted_.size(); }

 private:
  friend class GuardProgram;
  void add(Guard guard);

  std::unique_ptr<SourceTable> sources_;
  std::vector<Guard> guards_;
  std::unordered_map<const Source*, std::vector<uint32_t>>
      by_source_;  ///< Numbers of guards by their first source.
  std::unordered_set<const Source*> absent_;
  std::vector<const Source*> wanted_;
  std::unordered_map<const Source*, uint32_t> places_;  ///< In wanted_.
};

/// Guards ready to be checked.
class GuardProgram {
 public:
  static constexpr int32_t ok = -1;

  explicit GuardProgram(GuardSet guards);
  ~GuardProgram();
  GuardProgram(GuardProgram&&) noexcept;
  GuardProgram& operator=(GuardProgram&&) noexcept;

  /// \param values  room for what want() asked for; filled with borrowed references when the check succeeds. Take
  ///                references before running anything.
  /// \returns ok, or the number of what failed: a guard, or a source that could not be read.
  int32_t check(const Call& call, PyObject** values) const noexcept;

  /// Why number `failed` does not hold for these arguments: "x has dtype torch.float32, was torch.float16",
  /// "scale == 2, was 3". Reads everything anew: good at once after a check.
  std::string explain(int32_t failed, const Call& call) const;
  /// Something that it expects has died: it will hardly hold again.
  bool is_dead() const noexcept;
  /// Every guard as text, in the order in which they are checked.
  std::vector<std::string> texts() const;

  size_t wanted() const noexcept;
  size_t instruction_count() const noexcept;
  const SourceTable& sources() const noexcept;
  /// Every object held, for tp_traverse.
  int visit(visitproc visit, void* argument) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::guards
