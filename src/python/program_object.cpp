// python/program_object.cpp: the call path.
//
// Budget: `program(x)` for x + 1 on ten floats takes no longer than eager's `x + 1` (1.2 to 2.5 us); braze's own
// part here is about 200 ns. So: a C type with vectorcall, no tuple or dict of arguments, tensors read in place,
// one look at each. Plan of a call:
//   1. put every given object into the slot of its parameter; fill the others with defaults
//   2. walk the slots' trees beside the objects: find the tensors, compare everything else
//   3. look at each tensor's dtype, device and layout
//   4. run; without the GIL if it takes long enough to be worth it
//   5. build the result
#include "python/program_object.h"

#include <c10/util/SmallVector.h>
#include <pybind11/stl.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <atomic>
#include <cstddef>

#include "python/errors.h"
#include "python/operator_warnings.h"
#include "python/plan_facts.h"
#include "support/error.h"

namespace braze::python {

namespace {

struct State : CallPlan {
  size_t argument_count = 0, result_count = 0, positional_count = 0;
  bool is_long = false;
  std::atomic<bool> warned_detached{false};
};

struct ProgramObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  State* state;  ///< Owned; deleted by dealloc.
  PyObject* weak_references;
};

State& state_of(PyObject* self) {
  return *reinterpret_cast<ProgramObject*>(self)->state;
}

using Objects = c10::SmallVector<PyObject*, 16>;

[[noreturn, gnu::noinline, gnu::cold]] void fail_call(const State& state, const std::string& what) {
  std::string takes;
  for (const Slot& slot : state.slots) takes += (takes.empty() ? "" : ", ") + slot.label;
  throw UserError(concat(state.name, ": ", what, "; it was traced with ", takes.empty() ? "no arguments" : takes),
                  UserError::Kind::type);
}

size_t slot_of_keyword(const State& state, PyObject* name) {
  for (size_t i = 0; i < state.slots.size(); ++i)
    if (state.slots[i].name.ptr() == name) return i;
  for (size_t i = 0; i < state.slots.size(); ++i)
    if (state.slots[i].name && PyUnicode_Compare(state.slots[i].name.ptr(), name) == 0) return i;
  fail_call(state, concat("unexpected keyword argument `", py::handle(name).cast<std::string>(), "`"));
}

void fill_slots(const State& state, PyObject* const* args, size_t positional, PyObject* names, Objects& filled) {
  filled.assign(state.slots.size(), nullptr);
  if (positional > state.positional_count)
    fail_call(state, concat(positional, " positional arguments were given, it takes ", state.positional_count));
  for (size_t i = 0; i < positional; ++i) filled[i] = args[i];
  const Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    const size_t slot = slot_of_keyword(state, PyTuple_GET_ITEM(names, k));
    if (filled[slot]) fail_call(state, concat(state.slots[slot].label, " was given twice"));
    filled[slot] = args[positional + k];
  }
  for (size_t i = 0; i < filled.size(); ++i) {
    if (filled[i]) continue;
    if (!state.slots[i].fallback) fail_call(state, concat(state.slots[i].label, " is missing"));
    filled[i] = state.slots[i].fallback.ptr();
  }
}

[[gnu::noinline, gnu::cold]] void explain_arguments(const State& state, const runtime::Program& program,
                                                    const at::Tensor* const* tensors) {
  std::vector<at::Tensor> arguments;
  for (size_t k = 0; k < state.argument_count; ++k) arguments.push_back(*tensors[k]);
  program.check_arguments(arguments, state.labels);
}

[[gnu::noinline, gnu::cold]] void refuse_nested(const State& state) {
  throw UserError(concat("the program of `", state.name,
                         "` was called while another function is being traced; call the "
                         "function itself there, its operators become part of the trace"));
}

[[gnu::noinline, gnu::cold]] void warn_detached(State& state) {
  if (state.warned_detached.exchange(true)) return;
  const std::string text =
      concat("the results of braze's program of `", state.name,
             "` are detached: inputs or parameters require grad, and programs do not record gradients yet. Call it "
             "under torch.no_grad() to say that this is meant.");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw_python_error();
}

/// Lets go of the interpreter's lock for as long as it lives.
class WithoutGil {
 public:
  WithoutGil() : saved_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(saved_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* saved_;
};

PyObject* call(State& state, PyObject* const* args, size_t positional, PyObject* names) {
  Objects filled;
  const bool as_traced = !names && positional == state.slots.size();
  if (!as_traced) fill_slots(state, args, positional, names, filled);
  PyObject* const* objects = as_traced ? args : filled.data();

  c10::SmallVector<const at::Tensor*, 16> tensors(state.argument_count, nullptr);
  Match found{tensors.data(), {}};
  for (size_t i = 0; i < state.slots.size(); ++i) match(state.slots[i].tree, objects[i], found);
  if (capture::Tracer::current()) [[unlikely]]
    refuse_nested(state);
  std::shared_ptr<runtime::Program> of_sizes;
  if (state.sized) of_sizes = state.sized->at(tensors.data(), state.labels);
  const runtime::Program& program = of_sizes ? *of_sizes : *state.program;
  if (!program.accepts(tensors.data())) [[unlikely]]
    explain_arguments(state, program, tensors.data());
  if (!state.warned_detached.load(std::memory_order_relaxed) && program.loses_grad(tensors.data())) [[unlikely]]
    warn_detached(state);

  c10::SmallVector<at::Tensor, 4> results(state.result_count);
  if ((state.sized ? program.is_long() : state.is_long)) {
    // Another thread could take a tensor out of a container of the caller's meanwhile: hold on to them.
    c10::SmallVector<at::Tensor, 16> held;
    for (const at::Tensor*& tensor : tensors) held.push_back(*tensor);
    for (size_t k = 0; k < held.size(); ++k) tensors[k] = &held[k];
    with_operator_warnings([&] {
      const WithoutGil unlocked;
      program.run(tensors.data(), results.data());
    });
  } else {
    with_operator_warnings([&] { program.run(tensors.data(), results.data()); });
  }
  return rebuild(state.result, results.data()).release().ptr();
}

PyObject* program_vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  try {
    return call(state_of(self), args, PyVectorcall_NARGS(flags), names);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* refuse_call(PyObject* self, PyObject* const*, size_t, PyObject*) {
  return guarded([&]() -> py::object {
    throw UserError(
        concat("this program is a part of the compiled `", state_of(self).name, "`; call that instead"));
  });
}

void program_dealloc(PyObject* self) {
  auto* object = reinterpret_cast<ProgramObject*>(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  PyTypeObject* type = Py_TYPE(self);
  delete object->state;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* program_repr(PyObject* self) {
  return guarded([&] {
    const State& state = state_of(self);
    size_t kernels = 0, calls = 0;
    for (const driver::StepFacts& step : state.program->facts().steps) ++(step.kind == "kernel" ? kernels : calls);
    return py::str(concat("<braze.Program of ", state.name, ": ", state.argument_count, " tensors in, ",
                          state.result_count, " out, ", kernels, " kernel launches, ", calls, " ATen calls>"));
  });
}

PyObject* program_code(PyObject* self, PyObject* stage) {
  return guarded([&] { return py::str(state_of(self).program->code(py::handle(stage).cast<std::string>())); });
}

PyObject* program_compile_times(PyObject* self, PyObject*) {
  return guarded([&] {
    py::dict times;
    for (const PhaseTimes::Row& row : state_of(self).program->facts().times.rows())
      times[py::str(row.name)] = row.nanoseconds;
    times["total"] = state_of(self).program->facts().times.total();
    return times;
  });
}

PyObject* program_compile_allocations(PyObject* self, PyObject*) {
  return guarded([&] {
    const PhaseTimes& times = state_of(self).program->facts().times;
    const auto pair = [](const Allocations& all) { return py::make_tuple(all.count, all.bytes); };
    py::dict allocations;
    for (const PhaseTimes::Row& row : times.rows()) allocations[py::str(row.name)] = pair(row.allocations);
    allocations["total"] = pair(times.total_allocations());
    return allocations;
  });
}

/// A number of a struct that Python sees by name.
template <typename Struct, typename Number>
struct Field {
  const char* name;
  Number Struct::* member;
};

constexpr Field<ir::GraphStats, size_t> kGraphFields[] = {
    {"values", &ir::GraphStats::values},
    {"types", &ir::GraphStats::types},
    {"types_wanted", &ir::GraphStats::types_wanted},
    {"texts", &ir::GraphStats::texts},
    {"texts_wanted", &ir::GraphStats::texts_wanted},
    {"text_copies", &ir::GraphStats::text_copies},
};
constexpr Field<codegen::CompileStats, int> kCompileFields[] = {
    {"compiled", &codegen::CompileStats::compiled},
    {"from_memory", &codegen::CompileStats::from_memory},
    {"from_disk", &codegen::CompileStats::from_disk},
};
constexpr Field<runtime::MemoryInfo, int64_t> kMemoryFields[] = {
    {"arena_bytes", &runtime::MemoryInfo::arena_bytes},
    {"unplanned_bytes", &runtime::MemoryInfo::unplanned_bytes},
    {"output_bytes", &runtime::MemoryInfo::output_bytes},
    {"code_bytes", &runtime::MemoryInfo::code_bytes},
    {"packed_bytes", &runtime::MemoryInfo::packed_bytes},
    {"graph_bytes", &runtime::MemoryInfo::graph_bytes},
    {"graph_used_bytes", &runtime::MemoryInfo::graph_used_bytes},
    {"graph_peak_bytes", &runtime::MemoryInfo::graph_peak_bytes},
};

constexpr Field<runtime::CudaGraphFacts, int64_t> kCudaGraphFields[] = {
    {"graphs", &runtime::CudaGraphFacts::graphs},
    {"recorded", &runtime::CudaGraphFacts::recorded},
    {"replayed", &runtime::CudaGraphFacts::replayed},
    {"plain", &runtime::CudaGraphFacts::plain},
};

template <typename Struct, typename Number, size_t count>
py::dict to_dict(const Struct& from, const Field<Struct, Number> (&fields)[count]) {
  py::dict numbers;
  for (const auto& field : fields) numbers[field.name] = from.*field.member;
  return numbers;
}

PyObject* program_graph_stats(PyObject* self, PyObject*) {
  return guarded([&] { return to_dict(state_of(self).program->trace().graph->stats(), kGraphFields); });
}

PyObject* program_compile_stats(PyObject* self, PyObject*) {
  return guarded([&] { return to_dict(state_of(self).program->facts().code, kCompileFields); });
}

PyObject* program_memory(PyObject* self, PyObject*) {
  return guarded([&] { return to_dict(state_of(self).program->memory(), kMemoryFields); });
}

PyObject* program_plan(PyObject* self, PyObject*) {
  return guarded([&] { return plan_facts(state_of(self).program->plan()); });
}

PyObject* program_step_times(PyObject* self, PyObject*) {
  return guarded([&] { return py::cast(state_of(self).program->step_times()); });
}

PyObject* program_cuda_graphs(PyObject* self, PyObject*) {
  return guarded([&] {
    runtime::CudaGraphFacts facts;
    {
      const py::gil_scoped_release unlocked;  // Whoever replays one may be waiting for the GIL.
      facts = state_of(self).program->cuda_graphs();
    }
    py::dict numbers = to_dict(facts, kCudaGraphFields);
    numbers["skipped"] = facts.skipped;
    numbers["apart"] = facts.apart;
    return numbers;
  });
}

PyObject* program_kernel_tuning(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list kernels;
    for (const runtime::KernelTuningFacts& facts : state_of(self).program->kernel_tuning()) {
      py::dict measured;
      for (const auto& [tuning, nanoseconds] : facts.measured) measured[py::str(tuning)] = nanoseconds;
      py::dict kernel;
      kernel["kernel"] = facts.kernel;
      kernel["chosen"] = facts.chosen;
      kernel["was_known"] = facts.was_known;
      kernel["measured"] = measured;
      kernel["failed"] = facts.failed;
      kernels.append(std::move(kernel));
    }
    return kernels;
  });
}

PyObject* program_graph(PyObject* self, void*) {
  return guarded([&] { return py::str(state_of(self).program->code("graph")); });
}
PyObject* program_kernels(PyObject* self, void*) {
  return guarded([&] { return py::cast(state_of(self).program->facts().kernels); });
}
PyObject* program_steps(PyObject* self, void*) {
  return guarded([&] { return py::cast(state_of(self).program->facts().steps); });
}
PyObject* program_name(PyObject* self, void*) {
  return guarded([&] { return py::str(state_of(self).name); });
}

// For check=True: the tensors that a run writes, arguments apart.
PyObject* program_written_tensors(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list tensors;
    const capture::Trace& trace = state_of(self).program->trace();
    for (const ir::Mutation& mutation : trace.graph->mutations())
      if (trace.bound[mutation.input].defined())
        tensors.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(trace.bound[mutation.input])));
    return tensors;
  });
}

PyMethodDef methods[] = {
    {"code", program_code, METH_O,
     "code(stage): the program as text after a stage: \"traced\", \"graph\", \"loops\", \"llvm\", \"asm\" or "
     "\"sass\" (what GPUs run; needs nvdisasm)."},
    {"compile_times", program_compile_times, METH_NOARGS,
     "compile_times(): nanoseconds by phase of the compilation, with \"total\". \"a/b\" is a part of \"a\"."},
    {"compile_allocations", program_compile_allocations, METH_NOARGS,
     "compile_allocations(): (blocks, bytes) that braze and LLVM asked the heap for, by phase of the compilation, "
     "with "
     "\"total\". Blocks\nthat were freed again count too; what Python and PyTorch asked for does not."},
    {"graph_stats", program_graph_stats, METH_NOARGS,
     "graph_stats(): values made, types and texts: distinct ones (types, texts), how often one was wanted\n"
     "(types_wanted, texts_wanted), and how often a text was copied (text_copies)."},
    {"compile_stats", program_compile_stats, METH_NOARGS,
     "compile_stats(): how many kernels were compiled, or came from memory or disk."},
    {"plan", program_plan, METH_NOARGS,
     "plan(): buffers, and the steps that read and write them, as a dict: see python/plan_facts.h."},
    {"step_times", program_step_times, METH_NOARGS,
     "step_times(): by step, the shortest time in nanoseconds that it took in the few calls that are measured, or "
     "0:\n"
     "no call was measured yet (the second is the first), or it runs on a GPU."},
    {"memory", program_memory, METH_NOARGS, "memory(): bytes by what they are for."},
    {"cuda_graphs", program_cuda_graphs, METH_NOARGS,
     "cuda_graphs(): with the option cudagraphs, how often calls were recorded, replayed or ran plainly "
     "(recorded,\n"
     "replayed, plain), how many CUDA graphs one recording has (graphs) and why steps run between them (apart: a "
     "list\nof texts), and why nothing is recorded (skipped, else empty)."},
    {"kernel_tuning", program_kernel_tuning, METH_NOARGS,
     "kernel_tuning(): with the option max_autotune, by kernel and matrix product on a GPU that has several forms, "
     "as\n"
     "dicts: its name (kernel), the form that runs (chosen: the kernel's tuning, an algorithm of cuBLASLt, or\n"
     "\"aten\"; empty before the first call), nanoseconds by form (measured), whether an earlier measurement of "
     "its like was taken (was_known), and why none could be made\n"
     "(failed, else empty)."},
    {"_written_tensors", program_written_tensors, METH_NOARGS, "Bound tensors that a call writes."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {{"graph", program_graph, nullptr, "The graph after all passes, as text.", nullptr},
                            {"kernels", program_kernels, nullptr,
                             "The kernels: name, fused, bytes_read, bytes_written, launches, code_bytes.", nullptr},
                            {"steps", program_steps, nullptr,
                             "What a call runs, in order: kind (\"kernel\" or \"call\"), name, source.", nullptr},
                            {"__name__", program_name, nullptr, "The name of what was traced.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ProgramObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ProgramObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

constexpr const char* program_doc =
    "A traced and compiled function. Call it like the function, with tensors of the same shape, dtype, layout and "
    "device as\n"
    "the examples, and everything else as in the example. May be called from several threads at once.";

PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(program_dealloc)},
                       {Py_tp_repr, reinterpret_cast<void*>(program_repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>(program_doc)},
                       {0, nullptr}};

PyType_Spec spec = {"braze.Program", sizeof(ProgramObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject* program_type = nullptr;  // Made once per process, at import.

}  // namespace

void add_program_type(py::module_& module) {
  py::class_<driver::KernelFacts>(module, "Kernel", "A compiled kernel.")
      .def_readonly("name", &driver::KernelFacts::name)
      .def_readonly("fused", &driver::KernelFacts::fused)
      .def_readonly("bytes_read", &driver::KernelFacts::bytes_read)
      .def_readonly("bytes_written", &driver::KernelFacts::bytes_written)
      .def_readonly("code_bytes", &driver::KernelFacts::code_bytes)
      .def_readonly("launches", &driver::KernelFacts::launches)
      .def("__repr__", [](const driver::KernelFacts& k) {
        return concat("<kernel ", k.name, ": ", k.fused.size(), " nodes, reads ", k.bytes_read, " bytes, writes ",
                      k.bytes_written, ">");
      });
  py::class_<driver::StepFacts>(module, "Step", "A step of a program.")
      .def_readonly("kind", &driver::StepFacts::kind)
      .def_readonly("name", &driver::StepFacts::name)
      .def_readonly("source", &driver::StepFacts::source)
      .def("__repr__",
           [](const driver::StepFacts& s) { return concat("<", s.kind, " ", s.name, " ; ", s.source, ">"); });
  program_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!program_type) throw py::error_already_set();
  module.add_object("Program", py::handle(reinterpret_cast<PyObject*>(program_type)));
}

namespace {

py::object make_object(CallPlan plan, vectorcallfunc vectorcall) {
  auto state = std::make_unique<State>();
  static_cast<CallPlan&>(*state) = std::move(plan);
  state->argument_count = state->program->argument_count();
  state->result_count = state->program->result_count();
  state->is_long = state->program->is_long();
  for (const Slot& slot : state->slots) state->positional_count += slot.position >= 0;
  auto* object = PyObject_New(ProgramObject, program_type);
  if (!object) throw py::error_already_set();
  object->vectorcall = vectorcall;
  object->weak_references = nullptr;
  object->state = state.release();
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(object));
}

}  // namespace

py::object make_program_object(CallPlan plan) {
  return make_object(std::move(plan), program_vectorcall);
}

py::object make_program_view(std::string name, std::shared_ptr<runtime::Program> program) {
  CallPlan plan;
  plan.name = std::move(name);
  plan.program = std::move(program);
  return make_object(std::move(plan), refuse_call);
}

}  // namespace braze::python
