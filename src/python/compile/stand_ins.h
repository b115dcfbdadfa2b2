// python/compile/stand_ins.h: functions of PyTorch's that captures run in another form
// (python/braze/_stand_ins.py).
#pragma once

#include <pybind11/pybind11.h>

namespace braze::python {

/// What a capture calls in the place of `function`, borrowed; null for nearly all.
PyObject* stand_in_for(PyObject* function) noexcept;
/// What stands for it is the function that it is around.
bool is_kept_from_dynamo(PyObject* function) noexcept;
/// A class of braze's own that takes the place of one of the standard library while a run lasts, and not longer.
bool stands_for_other(PyTypeObject* type) noexcept;

/// What captures call for functions whose gradient is Python code (python/braze/_functions.py). Null: nothing.
struct FunctionForms {
  PyObject *apply = nullptr, *call_operator = nullptr, *call_script = nullptr;
};
const FunctionForms& function_forms() noexcept;

/// Adds to the module, for those forms:
///   set_stand_in(function, stand_in)  from now on
///   set_traced_arrays(class, class)   interpreter/watch/traced_arrays.h
///   end_graph(why)                    the graph ends before the call of the function that is stood in for
///   is_known(tensor)                  no input decides its elements: reading them is free
///   trace_mark()                      a mark of the trace
///   only_computed_since(mark)         nothing older was written since, no number drawn, no value checked
///   late_reads(id(function))          python/compile/late_reads.h
///   wrote_nothing_since(mark)         nothing older was written since
///   effects_so_far()                  how many changes of objects there have been in the run
///   set_function_forms(...)           FunctionForms
///   function_tangents(outputs)        capture/traced_function.h
///   join_function(...)                likewise
///   mark_gradient(tensor)             before its hooks are asked for; None where they cannot be
///   history_mark(), is_same_within()  python/compile/reentrant.h
///   hooks_of(tensor, kind, mark)      watch/tensor_hooks.h
///   call_later(function, *arguments)  watch/late_calls.h
///   inner_gradients(...)              capture/inner_gradients.h; None where there are none
void add_stand_ins(pybind11::module_& module);

}  // namespace braze::python
