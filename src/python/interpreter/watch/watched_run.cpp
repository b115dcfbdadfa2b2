// python/interpreter/watch/watched_run.cpp
#include "python/interpreter/watch/watched_run.h"

#include <algorithm>
#include <string>

#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/raised.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/traced_arrays.h"
#include "python/interpreter/watch/wrapper_world.h"

namespace braze::interpreter {

bool dispatches_by_python(const TensorWorld& tensors, PyObject* value) {
  PyTypeObject* const plain = as_type(tensors.tensor_type());
  PyTypeObject* const type = PyType_Check(value) ? as_type(value) : Py_TYPE(value);
  if (type == plain || !PyType_IsSubtype(type, plain)) return false;
  PyObject* const own = find_in_type(type, "__torch_dispatch__");
  return own && own != find_in_type(plain, "__torch_dispatch__");
}

namespace {

/// A tensor whose class is not understood to carry out operators.
bool is_unwatched(const TensorWorld& tensors, PyObject* value) {
  const WrapperWorld* const wrappers = tensors.wrappers();
  return dispatches_by_python(tensors, value) && !PyType_Check(value) && !(wrappers && wrappers->is_wrapper(value));
}

/// The innermost of the run's frames that runs the user's code, or the innermost of all.
class UserFrame {
 public:
  /// \param count  of the run's frames.
  UserFrame(const TensorWorld& tensors, size_t count) {
    Ref frame = Ref::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
    for (; frame && count > 0; --count) {
      auto* object = reinterpret_cast<PyFrameObject*>(frame.get());
      Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(object)));
      const bool is_library = tensors.is_library(reinterpret_cast<PyCodeObject*>(code.get()));
      if (is_library && !innermost_) innermost_ = Ref::borrow(code.get());
      if (!code_ || !is_library) {
        line_ = line_at(reinterpret_cast<PyCodeObject*>(code.get()),
                        PyFrame_GetLasti(object) / static_cast<int>(sizeof(CodeUnit)));
        code_ = std::move(code);
      }
      if (!is_library) return;
      frame = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(object)));
    }
  }

  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(code_.get()); }
  int line() const { return line_; }
  /// The function of PyTorch's or of the standard library that the user's line has led to. Null: it is no such.
  PyObject* library_function() const {
    return innermost_ && innermost_.get() != code_.get()
               ? reinterpret_cast<PyCodeObject*>(innermost_.get())->co_qualname
               : nullptr;
  }

 private:
  Ref code_, innermost_;
  int line_ = 0;
};

}  // namespace

bool WatchedRun::abandon(BreakReason why, PyObject* subject) {
  if (abandoned) return false;
  abandoned = true;
  const RaisedAside aside;
  place = subject && is_unwatched(values.tensors(), subject) ? Break::class_dispatches : why;
  if (subject) place.reason += std::string(" (") + guards::describe(subject) + ")";
  const UserFrame frame(values.tensors(), activities.size());
  if (frame.code()) {
    const char* file = PyUnicode_AsUTF8(frame.code()->co_filename);
    place.file = file ? file : "?";
    place.line = frame.line();
    if (PyObject* function = frame.library_function()) place.reason.append(", in ").append(text_of(function));
  }
  return false;
}

bool WatchedRun::operand(PyObject* value, BreakReason why) {
  if (absorb(values, value)) return true;
  return is_traced_array(value) ? abandon(Break::numpy) : abandon(why, value);
}

bool WatchedRun::operands(std::initializer_list<PyObject*> values, BreakReason why) {
  const bool any_tensor =
      std::ranges::any_of(values, [&](PyObject* value) { return this->values.tensors().is_tensor(value); });
  for (PyObject* value : values)
    if (!(any_tensor && absorb_by_torch(this->values, value)) && !operand(value, why)) return false;
  return allow_made_result(any_tensor ? Entry::tensor : Entry::none);
}

bool WatchedRun::absorb_all(PyObject* const* arguments, Py_ssize_t count, PyObject* callable) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!absorb(values, arguments[i]))
      return is_traced_array(arguments[i])
                 ? abandon(Break::numpy)
                 : abandon("a C function is given an object whose parts are not guarded", arguments[i]);
  return true;
}

bool WatchedRun::lets_go(PyObject* value, const guards::Source* source, bool contents) {
  return values.drops().add(value, source, contents) ||
         abandon("an object is dropped that may have a finalizer", contents ? nullptr : value);
}

bool WatchedRun::lets_go_of_entry(PyObject* dict, PyObject* key) {
  const guards::Source* source = values.source_of(dict);
  if (!source || values.effects().wrote(dict, key)) return true;
  return lets_go(guards::entry_of_key(dict, key), values.sources().dict_item(source, key));
}

}  // namespace braze::interpreter
