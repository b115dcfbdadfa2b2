// python/interpreter/watch/drops.cpp
#include "python/interpreter/watch/drops.h"

#include "python/guards/scalar.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

namespace {

constexpr size_t most_looked_at = 1 << 19;  // Objects of a run: each drop may have to look at all that hangs on it.

}  // namespace

bool Drops::add(PyObject* value, const guards::Source* source, bool contents) {
  // What the run knows is held by it, by the frame as it was, and by the stack.
  const auto extra = [this](PyObject* object) -> Py_ssize_t {
    ++looked_at_;
    return values_.source_of(object) ? 6 : 0;
  };
  for (const Drop& other : drops_)
    if (contents && other.contents && other.source == source) return true;
  drops_.push_back({source, contents});
  any_ |= value && !guards::is_scalar(value);
  if (!value) return true;
  if (looked_at_ > most_looked_at) return false;
  if (!contents) return guards::goes_unnoticed(value, 1, extra, &known_);
  const guards::Ref items = guards::Ref::steal(PyDict_Check(value) ? PyDict_Items(value) : PySequence_List(value));
  bool all = static_cast<bool>(items);
  for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (!PyDict_Check(value))
      all = guards::goes_unnoticed(item, 2, extra);
    else
      all = guards::goes_unnoticed(PyTuple_GET_ITEM(item, 0), 2, extra) &&
            guards::goes_unnoticed(PyTuple_GET_ITEM(item, 1), 2, extra);
  }
  return all;
}

void Drops::guard() {
  for (const Drop& drop : drops_) values_.guards().drops(drop.source, drop.contents, drops_.size());
}

}  // namespace braze::interpreter
