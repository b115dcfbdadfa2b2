// python/interpreter/watch/sized_arguments.cpp
#include "python/interpreter/watch/sized_arguments.h"

#include <utility>

#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/tree_nodes.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

class Arguments {
 public:
  explicit Arguments(Watch& watch) : watch_(watch), values_(watch.run.values) {}

  /// What to give for `value`; null: the value itself.
  Ref given_for(PyObject* value, int depth = 0) {
    if (!value) return {};
    if (values_.tensors().is_tensor(value)) return tracer_of(value);
    if (depth > kDeepest || !is_opened(value)) return settled(value, depth);
    return PyDict_Check(value) ? copy_of_dict(value, depth) : copy_of_sequence(value, depth);
  }

 private:
  static constexpr int kDeepest = 20;  ///< Deeper than that nobody nests, but what holds itself.

  static bool is_opened(PyObject* value) {
    return PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value);
  }

  Ref tracer_of(PyObject* tensor) {
    PyObject* const tracer = values_.tensors().sizes().tracer_of(tensor);
    const guards::Source* const source = tracer ? values_.source_of(tensor) : nullptr;
    if (!source) return {};
    values_.learn_as(tracer, source);
    return Ref::borrow(tracer);
  }

  /// Another container, or an object that torch.utils._pytree takes apart. Functions read what they hold
  /// themselves.
  Ref settled(PyObject* value, int depth) {
    if (storage_type(value)) {
      watch_.sizes.settle_tensors_within(value);
    } else if (fields_of_node(Py_TYPE(value)) || is_taken_apart_by_user(Py_TYPE(value))) {
      PyObject* const held = depth > kDeepest ? nullptr : guards::instance_dict(value);
      Py_ssize_t at = 0;
      PyObject *name, *one;
      while (held && PyDict_Next(held, &at, &name, &one)) {
        watch_.sizes.settle_tensors_within(one);
        settled(one, depth + 1);
      }
    }
    return {};
  }

  Ref copy_of_sequence(PyObject* sequence, int depth) {
    Ref copy;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
      Ref item = given_for(PySequence_Fast_GET_ITEM(sequence, i), depth + 1);
      if (!item) continue;
      if (!copy) copy = Ref::steal(PySequence_List(sequence));
      if (copy) PyList_SetItem(copy.get(), i, item.release());
    }
    if (copy && PyTuple_CheckExact(sequence)) copy = Ref::steal(PyList_AsTuple(copy.get()));
    return copy;
  }

  Ref copy_of_dict(PyObject* dict, int depth) {
    Ref copy;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value)) {
      const Ref item = given_for(value, depth + 1);
      if (!item) continue;
      if (!copy) copy = Ref::steal(PyDict_Copy(dict));
      if (copy) PyDict_SetItem(copy.get(), key, item.get());
    }
    return copy;
  }

  Watch& watch_;
  Values& values_;
};

}  // namespace

void give_tracers(Watch& watch, Frame* frame) {
  // What takes trees apart hands its leaves on as they are, and may change the trees.
  if (is_of_trees(reinterpret_cast<PyObject*>(function_of(frame)))) return;
  const PyCodeObject* const code = frame->f_code;
  const int count = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                    !!(code->co_flags & CO_VARKEYWORDS);
  Arguments arguments(watch);
  for (int i = 0; i < count; ++i)
    if (Ref given = arguments.given_for(frame->localsplus[i]))
      Ref::steal(std::exchange(frame->localsplus[i], given.release()));
}

}  // namespace braze::interpreter
