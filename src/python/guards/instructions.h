// python/guards/instructions.h: what a guard program is made of. Internal to program.cpp and shortcut.cpp.
#pragma once

#include <cstdint>

#include "python/guards/guard.h"
#include "python/guards/storage_access.h"

namespace braze::guards {

using Test = bool (*)(const Expected&, PyObject* const*, const Call&) noexcept;

enum class Op : uint8_t {
  load,        ///< slots[to] = load(*source, slots[from])
  load_dict,   ///< The same for dict_of and
  load_entry,  ///< dict_item by an exact str: most of what models are walked through.
  test,        ///< Of slots[from].
  type,        ///< Test of kind type, inline.
  gather,      ///< Of the slots of several sources, or of none.
  enter_dict,  ///< Skip to `to` if the dict in slots[from] has version `bits`.
  enter_type,  ///< Likewise.
  leave_dict,  ///< Remember the version of the dict in slots[from] in instruction `to`.
  leave_type,
};

struct Instruction {
  Op op;
  bool ordered = false;  ///< enter_dict: the order of keys is asked for, which an OrderedDict's version leaves out.
  GuardKind kind = GuardKind::constant;  ///< test, type.
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t guard = 0;              ///< test, gather, type: number of the guard.
  const Source* source = nullptr;  ///< load.
  Test test = nullptr;
  Expected expected = {};
};

/// Whether the instruction writes slot `to`.
inline bool is_load(const Instruction& in) noexcept {
  return in.op == Op::load || in.op == Op::load_dict || in.op == Op::load_entry;
}

/// Runs a load, a test or a type test. \returns whether it succeeded.
inline bool step(const Instruction& in, PyObject** slots, const Call& call) noexcept {
  switch (in.op) {
    case Op::load: return (slots[in.to] = load(*in.source, slots[in.from], call)) != nullptr;
    case Op::load_dict: return (slots[in.to] = instance_dict(slots[in.from])) != nullptr;
    case Op::load_entry:
      slots[in.to] = dict_entry(slots[in.from], in.expected.object, static_cast<Py_hash_t>(in.expected.bits));
      return slots[in.to] != nullptr;
    case Op::type: return reinterpret_cast<PyObject*>(Py_TYPE(slots[in.from])) == in.expected.object;
    default: return in.test(in.expected, slots + in.from, call);
  }
}

}  // namespace braze::guards
