// python/guards/drops.cpp
#include "python/guards/drops.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "python/guards/deque.h"
#include "python/guards/kinds.h"
#include "python/guards/scalar.h"
#include "python/guards/source.h"
#include "support/error.h"

namespace braze::guards {

namespace {

thread_local Unnoticed* known_to_guards = nullptr;  // Tests of guards, plain functions, have no other way to it.

constexpr size_t most_objects = 1 << 16;  // Of what dies; more count as noticed.

/// Once PyTorch's own compiler has run, as it does for each torch.cond() in eager, every module made from then on
/// is in a table of torch._dynamo.utils, whose callback takes it out again.
bool tidies_table_of_dynamo(PyObject* callback) {
  if (!PyFunction_Check(callback)) return false;
  PyObject* name = reinterpret_cast<PyFunctionObject*>(callback)->func_qualname;
  PyObject* module = PyDict_GetItemString(PyFunction_GET_GLOBALS(callback), "__name__");
  return module && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "torch._dynamo.utils") == 0 &&
         PyUnicode_CompareWithASCIIString(name, "ExactWeakKeyDictionary.__setitem__.<locals>.<lambda>") == 0;
}

bool has_callback(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return false;
  auto* reference = *reinterpret_cast<PyWeakReference**>(PyObject_GET_WEAKREFS_LISTPTR(object));
  for (; reference; reference = reference->wr_next)
    if (reference->wr_callback && !tidies_table_of_dynamo(reference->wr_callback)) return true;
  return false;
}

/// A generator that stands at its beginning or end runs nothing when it goes.
bool is_idle_generator(PyObject* object) {
  if (!PyGen_CheckExact(object)) return false;
  const int state = reinterpret_cast<PyGenObject*>(object)->gi_frame_state;
  constexpr int created = -2, completed = 1;  // FRAME_CREATED, FRAME_COMPLETED
  return state == created || state >= completed;
}

bool is_noticed(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  return ((type->tp_finalize || type->tp_del) && !is_idle_generator(object)) || has_callback(object);
}

/// What dies with an object, and whether that is noticed.
class Death {
 public:
  explicit Death(const std::function<Py_ssize_t(PyObject*)>& extra) : extra_(extra) {}

  bool goes_unnoticed(PyObject* value) {
    met_[value].has_died = true;
    dying_.push_back(value);
    while (!dying_.empty()) {
      PyObject* object = dying_.back();
      dying_.pop_back();
      if (is_noticed(object) || met_.size() > most_objects) return false;
      if (const traverseproc traverse = Py_TYPE(object)->tp_traverse; traverse && PyObject_IS_GC(object))
        traverse(object, [](PyObject* child, void* self) { return static_cast<Death*>(self)->meet(child); }, this);
    }
    return true;
  }
  void tell(Unnoticed& known) const {
    for (const auto& [object, met] : met_)
      if (met.has_died) known.insert(object);
  }

 private:
  struct Met {
    Py_ssize_t references = 0;  ///< From what dies.
    bool has_died = false;
  };

  int meet(PyObject* child) {
    if (!child || is_scalar(child) || PyType_Check(child)) return 0;
    Met& met = met_[child];
    ++met.references;
    const Py_ssize_t own = Py_REFCNT(child) - (extra_ ? extra_(child) : 0);
    // Not "equal": several may be among those that do not count.
    if (met.references >= own && !met.has_died) {
      met.has_died = true;
      dying_.push_back(child);
    }
    return 0;
  }

  const std::function<Py_ssize_t(PyObject*)>& extra_;
  std::vector<PyObject*> dying_;
  std::unordered_map<PyObject*, Met> met_;
};

const DropTarget& target_of(const Expected& expected) {
  return *static_cast<const DropTarget*>(expected.payload);
}

}  // namespace

bool goes_unnoticed(PyObject* value, Py_ssize_t dropped, const std::function<Py_ssize_t(PyObject*)>& extra,
                    Unnoticed* known) {
  if (!value || is_scalar(value) || PyType_Check(value)) return true;
  if (known && known->contains(value)) return true;
  if (Py_REFCNT(value) - (extra ? extra(value) : 0) > dropped) return true;
  Death death(extra);
  const bool unnoticed = death.goes_unnoticed(value);
  if (unnoticed && known) death.tell(*known);
  return unnoticed;
}

SharedDrops::SharedDrops() noexcept : outer_(std::exchange(known_to_guards, &known_)) {}

SharedDrops::~SharedDrops() {
  known_to_guards = outer_;
}

bool test_drops(const Expected& expected, PyObject* const* values, const Call& call) noexcept {
  const DropTarget& target = target_of(expected);
  const auto dropped = static_cast<Py_ssize_t>(expected.bits);
  const auto goes = [dropped](PyObject* object) { return goes_unnoticed(object, dropped, {}, known_to_guards); };
  PyObject* value = target.source->parent ? load(*target.source, values[0], call) : values[0];
  if (!value) return true;
  if (!target.contents) return goes(value);
  if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
      if (!goes(PyList_GET_ITEM(value, i))) return false;
    return true;
  }
  if (is_deque(value)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(value); ++i)
      if (!goes(deque_item(value, i))) return false;
    return true;
  }
  Py_ssize_t at = 0;
  PyObject *key, *item;
  while (PyDict_Check(value) && PyDict_Next(value, &at, &key, &item))
    if (!goes(item) || !goes(key)) return false;
  return true;
}

std::string explain_drops(const Expected& expected, PyObject* const*, const Call&, const Texts&) {
  return concat(to_text(target_of(expected).source), " can be dropped without a finalizer");
}

}  // namespace braze::guards
