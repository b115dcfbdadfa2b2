// python/compile/specialisation.cpp
#include "python/compile/specialisation.h"

#include <torch/csrc/autograd/python_variable.h>

#include "python/errors.h"
#include "support/error.h"

namespace braze::python {

bool Specialisation::replay(PyObject* const* values, guards::Ref* results) {
  c10::SmallVector<at::Tensor, 8> held_tensors;
  c10::SmallVector<const at::Tensor*, 8> arguments;
  for (size_t k = 0; k < argument_count; ++k) held_tensors.push_back(THPVariable_Unpack(values[k]));
  for (const at::Tensor& tensor : held_tensors) arguments.push_back(&tensor);
  if (!program->accepts(arguments.data()) || program->loses_grad(arguments.data())) return false;
  // The program may let go of Python's lock, and then anything may be dropped.
  c10::SmallVector<guards::Ref, 16> held_values;
  for (size_t k = argument_count; k < guards.wanted(); ++k) held_values.push_back(guards::Ref::borrow(values[k]));
  c10::SmallVector<at::Tensor, 4> tensors(program->result_count());
  try {
    program->run(arguments.data(), tensors.data());
  } catch (const UserError&) {
    return false;  // An index out of range: eager says so in its own words.
  } catch (const c10::Error&) {
    // An operator refuses its arguments. No input was written: natively, what came before it happens, then the
    // error.
    return false;
  }
  c10::SmallVector<guards::Ref, 4> owned;
  c10::SmallVector<PyObject*, 4> outputs;
  for (const at::Tensor& tensor : tensors) {
    owned.push_back(guards::Ref::steal(THPVariable_Wrap(tensor)));
    if (!owned.back()) throw_python_error();
    outputs.push_back(owned.back().get());
  }
  if (outcome.modes) outcome.modes->repeat();
  if (!outcome.recipe.run({values, guards.wanted()}, {outputs.data(), outputs.size()}, results))
    throw_python_error();
  ++replays;
  return true;
}

int Specialisation::visit(visitproc visit, void* arg) const {
  if (const int stop = guards.visit(visit, arg)) return stop;
  if (const int stop = outcome.recipe.visit(visit, arg)) return stop;
  for (const guards::Ref& object : held) Py_VISIT(object.get());
  return 0;
}

}  // namespace braze::python
