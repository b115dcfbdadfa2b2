// python/guards/kinds.h: the functions that guards.def's rows stand for, and the payloads of more than one file.
#pragma once

#include <string>
#include <vector>

#include "python/guards/guard.h"

namespace braze::guards {

using Texts = std::vector<std::string>;

#define GUARD(name, cost, stable, sources)                                                        \
  bool test_##name(const Expected& expected, PyObject* const* values, const Call& call) noexcept; \
  std::string explain_##name(const Expected& expected, PyObject* const* values, const Call& call, \
                             const Texts& texts);
#include "python/guards/guards.def"
#undef GUARD

/// Function: the objects that a function is made of.
struct FunctionParts : Payload {
  Ref code, defaults, keyword_defaults;
  explicit FunctionParts(PyObject* function);
  bool equals(const Payload& other) const noexcept override;
  int visit(visitproc visit, void* argument) const override;
};

/// DictKeys: keys in order.
struct KeyList : Payload {
  std::vector<Ref> keys;
  std::vector<Py_hash_t> hashes;  ///< As the dict keeps them, where keys hash by Python code. Else empty.
  explicit KeyList(PyObject* dict);
  bool equals(const Payload& other) const noexcept override;
  int visit(visitproc visit, void* argument) const override;
};

/// Absent: what is not to be found. Belongs to the table of the guard set.
struct AbsentTarget : Payload {
  const Source* target;
  explicit AbsentTarget(const Source* target) : target(target) {}
  bool equals(const Payload& other) const noexcept override {
    return static_cast<const AbsentTarget&>(other).target == target;
  }
};

/// Drops: what goes. Belongs to the table of the guard set.
struct DropTarget : Payload {
  const Source* source;
  bool contents;  ///< Not what is there, but its items.
  DropTarget(const Source* source, bool contents) : source(source), contents(contents) {}
  bool equals(const Payload& other) const noexcept override {
    const auto& theirs = static_cast<const DropTarget&>(other);
    return theirs.source == source && theirs.contents == contents;
  }
};

std::shared_ptr<Payload> make_class_entries_payload(PyTypeObject* type, std::span<PyObject* const> names);

/// abc.get_cache_token(): moves when a class is registered with an abstract one.
uint64_t abc_token() noexcept;
/// Null if `value` cannot be guarded deeply.
std::shared_ptr<Payload> make_deep_payload(PyObject* value);
/// Of a number array (array.h).
std::shared_ptr<Payload> make_array_payload(PyObject* array);
/// Null if `tensor` cannot be guarded.
std::shared_ptr<Payload> make_tensor_payload(PyObject* tensor, uint32_t alignment, bool is_same,
                                             bool any_sizes = false);
std::shared_ptr<Payload> make_objects_payload(std::span<PyObject* const> values);
std::shared_ptr<Payload> make_storages_payload(std::span<PyObject* const> tensors);
std::shared_ptr<Payload> make_torch_state_payload();

}  // namespace braze::guards
