// python/interpreter/watch/generators.cpp
#include "python/interpreter/watch/generators.h"

#include <algorithm>

#include "python/interpreter/cpython.h"
#include "python/interpreter/exception_table.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

bool Generators::resume_generator(PyObject* generator, PyObject* const* arguments, Py_ssize_t count) {
  if (!values_.is_made(generator)) return abandon("a generator that existed before the call", generator);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyExceptionInstance_Check(arguments[i]) && values_.source_of(arguments[i]))
      return abandon("an exception that existed before is raised", arguments[i]);
  return allow(Entry::known);
}

/// The handlers of `try` and `with` begin with PUSH_EXC_INFO; those that the compiler adds (for StopIteration,
/// `yield from` and the variables of comprehensions) run no code of the user's.
bool has_handlers(PyCodeObject* code) {
  bool runs_code = false;
  for_each_handler_range(code, [&](const HandlerRange& range) {
    runs_code = instruction_at(code, range.handler).opcode == PUSH_EXC_INFO;
    return !runs_code;
  });
  return runs_code;
}

void Generators::keep_generator(PyObject* generator) {
  const auto* object = reinterpret_cast<PyGenObject*>(generator);
  const auto* frame = reinterpret_cast<const Frame*>(object->gi_iframe);
  if (object->gi_frame_state < FRAME_COMPLETED && has_handlers(frame->f_code))
    generators_.push_back(guards::Ref::borrow(generator));
}

bool Generators::leaves_generator() const {
  return std::ranges::any_of(generators_, [](const guards::Ref& generator) {
    const auto* object = reinterpret_cast<PyGenObject*>(generator.get());
    return object->gi_frame_state != FRAME_CREATED && object->gi_frame_state < FRAME_COMPLETED;
  });
}

Generators::~Generators() {
  for (const guards::Ref& generator : generators_) {
    auto* object = reinterpret_cast<PyGenObject*>(generator.get());
    if (object->gi_frame_state < FRAME_EXECUTING) object->gi_frame_state = FRAME_COMPLETED;
  }
}

}  // namespace braze::interpreter
