// python/guards/shortcut.cpp
#include "python/guards/shortcut.h"

#include <algorithm>

#include "python/guards/kinds.h"

namespace braze::guards {

namespace {

/// What an unchanged list of words says about the value of a slot.
enum class Known : uint8_t {
  nothing,
  address,  ///< An object at the same address.
  object,   ///< The same object.
};

}  // namespace

class Shortcut::Recorder {
 public:
  Recorder(Shortcut& shortcut, std::span<PyObject* const> slots)
      : shortcut_(shortcut), slots_(slots), known_(slots.size(), Known::nothing), typed_(slots.size(), false) {}

  void start(uint32_t slot, Known known) { known_[slot] = known; }

  bool record(const Instruction* code, uint32_t begin, uint32_t end) {
    for (uint32_t at = begin; at < end;) {
      const Instruction& in = code[at];
      switch (in.op) {
        case Op::enter_dict:
        case Op::enter_type:
          if (!enter(in)) return false;
          // The whole group holds as long as the version does.
          for (uint32_t inside = at + 1; inside < in.to; ++inside)
            if (is_load(code[inside])) known_[code[inside].to] = Known::object;
          at = in.to;
          continue;
        case Op::load:
        case Op::load_dict:
          if (!is_root(in)) load(in, at);
          break;
        case Op::type:
        case Op::test: test(in, at); break;
        default: return false;
      }
      ++at;
    }
    return true;
  }

 private:
  static bool is_root(const Instruction& in) { return !in.source->parent; }

  template <typename T>
  void watch(const T* address) {
    static_assert(sizeof(T) == sizeof(uint64_t));
    const auto* word = reinterpret_cast<const uint64_t*>(address);
    shortcut_.words_.push_back({word, *word});
  }

  /// Before anything inside of an object is looked at, it must be one of the same type. The same object is, unless
  /// its class can be assigned.
  void watch_type(uint32_t slot) {
    if (typed_[slot]) return;
    typed_[slot] = true;
    if (known_[slot] == Known::object && !can_change_class(Py_TYPE(slots_[slot]))) return;
    watch(&slots_[slot]->ob_type);
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(slots_[slot]));
    const auto same = [type](const Ref& held) { return held.get() == type; };
    if (std::none_of(shortcut_.types_.rbegin(), shortcut_.types_.rend(), same))
      shortcut_.types_.push_back(Ref::borrow(type));
  }

  /// Nothing that is read later depends on a length of 0. Most are: a module has four tables of hooks.
  void watch_length(const Py_ssize_t* length) {
    if (*length) return watch(length);
    shortcut_.zeros_.push_back(reinterpret_cast<const uint64_t*>(length));
  }

  bool enter(const Instruction& in) {
    if (known_[in.from] == Known::nothing) return false;
    PyObject* container = slots_[in.from];
    watch_type(in.from);
    if (in.op == Op::enter_type) {
      if (!type_version(container)) return false;
      const auto* type = reinterpret_cast<PyTypeObject*>(container);
      watch(&type->tp_flags);
      // Four bytes, and four that only align what follows.
      static_assert(offsetof(PyTypeObject, tp_finalize) - offsetof(PyTypeObject, tp_version_tag) ==
                    sizeof(uint64_t));
      watch(reinterpret_cast<const uint64_t*>(&type->tp_version_tag));
      return true;
    }
    if (!PyDict_Check(container)) return false;
    if (in.ordered && PyODict_Check(container) && PyDict_GET_SIZE(container) > 1) return false;
    watch(dict_version_place(container));
    return true;
  }

  void load(const Instruction& in, uint32_t at) {
    PyObject* parent = slots_[in.from];
    const bool same_parent = known_[in.from] == Known::object;
    if (known_[in.from] == Known::nothing) return again(in, at);
    if (in.source->kind == SourceKind::sequence_item) {
      watch_type(in.from);
      if (PyTuple_Check(parent) && same_parent) {
        known_[in.to] = Known::object;
        return;
      }
      watch(&reinterpret_cast<PyVarObject*>(parent)->ob_size);
      if (PyList_Check(parent)) watch(&reinterpret_cast<PyListObject*>(parent)->ob_item);
    }
    PyObject* const* place = place_of(*in.source, parent);
    if (!place || *place != slots_[in.to]) return again(in, at);
    watch_type(in.from);
    watch(place);
    known_[in.to] = Known::address;
  }

  void test(const Instruction& in, uint32_t at) {
    const Known known = known_[in.from];
    if (known == Known::nothing) return again(in, at);
    PyObject* value = slots_[in.from];
    switch (in.kind) {
      case GuardKind::type: return watch_type(in.from);
      case GuardKind::identity:  // the guard keeps the object: no other one has its address
        known_[in.from] = Known::object;
        return;
      case GuardKind::constant:
      case GuardKind::weak_identity:
        if (known == Known::object) return;
        return again(in, at);
      case GuardKind::length:
        watch_type(in.from);
        if (PyDict_Check(value)) return watch_length(&reinterpret_cast<PyDictObject*>(value)->ma_used);
        if (PyList_Check(value) || PyTuple_Check(value))
          return watch_length(&reinterpret_cast<PyVarObject*>(value)->ob_size);
        return again(in, at);
      case GuardKind::function: {
        if (!PyFunction_Check(value)) return again(in, at);
        watch_type(in.from);
        const auto* function = reinterpret_cast<PyFunctionObject*>(value);
        watch(&function->func_code);
        watch(&function->func_defaults);
        return watch(&function->func_kwdefaults);
      }
      default: return again(in, at);
    }
  }

  void again(const Instruction& in, uint32_t at) {
    shortcut_.tests_.push_back(at);
    if (!is_load(in)) return;
    shortcut_.reloads_ = true;
    known_[in.to] = Known::nothing;
  }

  Shortcut& shortcut_;
  std::span<PyObject* const> slots_;
  std::vector<Known> known_;  ///< By slot.
  std::vector<bool> typed_;   ///< By slot: the type is among the words.
};

bool Shortcut::record(const Instruction* code, uint32_t begin, uint32_t end, const Source* root, uint32_t root_slot,
                      std::span<PyObject* const> slots) {
  recorded_ = reloads_ = false;
  words_.clear();
  zeros_.clear();
  tests_.clear();
  types_.clear();
  Recorder recorder(*this, slots);
  recorder.start(root_slot, root->kind == SourceKind::object ? Known::object : Known::address);
  if (!recorder.record(code, begin, end)) return false;
  root_ = slots[root_slot];
  recorded_ = true;
  return true;
}

int Shortcut::visit(visitproc visit, void* arg) const {
  for (const Ref& type : types_) Py_VISIT(type.get());
  return 0;
}

}  // namespace braze::guards
