// python/interpreter/watch/sized_tensors.cpp: tensors whose sizes vary, and who reads those.
//
// An instruction that looks into such a tensor is given its tracer, whose sizes are expressions. C code that calls
// a C function, or holds a tensor for a call, reads the tensor itself (`map(torch.numel, tensors)`): there all
// sizes are those of this call.
#include <opcode.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/sizes.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

bool says_of_itself(std::string_view name) {
  static const Names names = {"__class__", "__dict__",  "_base",         "_is_view",    "_version",  "grad",
                              "grad_fn",   "has_names", "is_inference",  "is_leaf",     "is_pinned", "is_shared",
                              "names",     "output_nr", "requires_grad", "retains_grad"};
  return names.contains(name);
}

namespace {

/// What a C function that is given a name reads or changes of its first argument: `getattr(x, "shape")`. Empty: it
/// is no such.
std::vector<std::string_view> names_read(PyObject* callable, PyObject* const* arguments, Py_ssize_t count,
                                         Ref& holder) {
  const auto function = function_of_module(callable);
  static const Names given_name = {"getattr", "hasattr", "setattr", "delattr"};
  if (function && function->module == "builtins" && function->name == "vars") return {"__dict__"};
  if (function && function->module == "builtins" && given_name.contains(function->name))
    return count > 1 && PyUnicode_Check(arguments[1]) ? std::vector{text_of(arguments[1])}
                                                      : std::vector<std::string_view>();
  const bool of_method = is_a(callable, "operator.methodcaller");
  if (count != 1 || !(of_method || is_a(callable, "operator.attrgetter"))) return {};
  holder = Ref::steal(PyObject_CallMethod(callable, "__reduce__", nullptr));
  if (holder && of_method && PyTuple_Check(holder.get()) && !PyType_Check(PyTuple_GET_ITEM(holder.get(), 0)))
    holder = Ref::steal(Py_BuildValue("(ON)", Py_TYPE(callable),  // A partial of it, with the name and keywords.
                                      PyObject_GetAttrString(PyTuple_GET_ITEM(holder.get(), 0), "args")));
  PyObject* parts = holder && PyTuple_Check(holder.get()) ? PyTuple_GET_ITEM(holder.get(), 1) : nullptr;
  if (!parts || !PyTuple_Check(parts)) {
    PyErr_Clear();
    return {};
  }
  std::vector<std::string_view> names;
  for (Py_ssize_t i = 0;
       i < (of_method ? std::min<Py_ssize_t>(1, PyTuple_GET_SIZE(parts)) : PyTuple_GET_SIZE(parts)); ++i)
    if (PyUnicode_Check(PyTuple_GET_ITEM(parts, i))) names.push_back(text_of(PyTuple_GET_ITEM(parts, i)));
  return names;
}

/// What a tensor has been given by others: only the tensor itself has it, and keeps it.
bool is_of_the_object(std::string_view name, const TensorWorld& tensors) {
  return name == "__dict__" || !class_entry(tensors.tensor_type(), std::string(name).c_str());
}

PyObject* self_of(PyObject* callable) {
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self && !PyModule_Check(self) && !PyType_Check(self) ? self : nullptr;
}

}  // namespace

void Sizes::put_tracers(Activation& a, int opcode, int arg) {
  int count = 0;
  switch (opcode) {
    case BINARY_OP:
    case BINARY_SUBSCR:
    case COMPARE_OP: count = 2; break;
    case STORE_SUBSCR: count = 3; break;
    case LOAD_ATTR:
    case UNARY_NEGATIVE:
    case UNARY_INVERT:
    case GET_ITER:
    case UNPACK_SEQUENCE:
    case UNPACK_EX: count = 1; break;
    case CALL: return put_tracers_of_call(a, arg);
    case MATCH_CLASS: return settle_tensors_within(a.peek(3));  // It reads attributes of the tensor itself.
    default: count = values_looked_into(opcode);
  }
  if (reads_attribute(opcode) || opcode == STORE_ATTR || opcode == DELETE_ATTR) {
    const std::string_view name = text_of(a.name(opcode == LOAD_ATTR ? attribute_of(arg) : arg));
    if (is_of_the_object(name, values_.tensors())) return put_tensor(a.peek(1));
    if (says_of_itself(name)) return;
  }
  for (int depth = 1; depth <= count; ++depth) put_tracer(a.peek(depth));
}

void Sizes::put_tracer(PyObject*& operand) {
  PyObject* tracer =
      operand && values_.tensors().is_tensor(operand) ? values_.tensors().sizes().tracer_of(operand) : nullptr;
  if (!tracer) return;
  const guards::Source* source = values_.source_of(operand);
  if (!source) return;
  values_.learn_as(tracer, source);
  Ref::steal(std::exchange(operand, Py_NewRef(tracer)));
}

void Sizes::put_tensor(PyObject*& operand) {
  PyObject* tensor = operand ? values_.tensors().sizes().behind_tracer(operand) : nullptr;
  if (tensor) Ref::steal(std::exchange(operand, Py_NewRef(tensor)));
}

/// Of `getattr(x, name)` and its like, and of a method that was bound to the tensor before.
void Sizes::put_tracers_of_call(Activation& a, int arg) {
  const int count = arg + (a.peek(arg + 2) != nullptr);
  PyObject*& callable = a.peek(count + 1);
  if (PyObject* self = self_of(callable); self && values_.tensors().is_tensor(self)) {
    const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    PyObject* tracer = values_.tensors().sizes().tracer_of(self);
    if (!tracer || !values_.source_of(self) || says_of_itself(name)) return;
    values_.learn_as(tracer, values_.source_of(self));
    Ref bound = Ref::steal(PyObject_GetAttrString(tracer, name));
    if (!bound) return PyErr_Clear();
    values_.make(bound.get());
    Ref::steal(std::exchange(callable, bound.release()));
    return;
  }
  if (count == 0) return;
  Ref holder;
  const std::vector<std::string_view> names = names_read(callable, a.top - count, count, holder);
  if (names.empty()) return;
  if (names.size() == 1 && is_of_the_object(names.front(), values_.tensors())) return put_tensor(a.peek(count));
  if (std::ranges::none_of(names, says_of_itself)) return put_tracer(a.peek(count));
  if (names.size() > 1) settle_tensors_within(a.peek(count));
}

/// Somebody reads sizes of the tensors that a value is, holds or is bound to: they are those of this call.
void Sizes::settle_tensors_within(PyObject* value) {
  std::unordered_set<PyObject*> seen;
  if (values_.tensors().sizes().has_sizes()) settle_tensors_within(value, seen);
}

void Sizes::settle_tensors_within(PyObject* value, std::unordered_set<PyObject*>& seen) {
  if (!value || !seen.insert(value).second) return;
  if (values_.tensors().is_tensor(value)) return values_.tensors().sizes().settle(value);
  if (PyObject* self = self_of(value)) return settle_tensors_within(self, seen);
  const bool holds = storage_type(value) || is_a(value, "functools.partial") || Py_IS_TYPE(value, &PyMethod_Type) ||
                     (is_exact_builtin(Py_TYPE(value)) && Py_TYPE(value)->tp_iternext && !PyGen_CheckExact(value));
  if (!holds || !Py_TYPE(value)->tp_traverse) return;
  std::vector<PyObject*> held;
  const visitproc take = [](PyObject* referent, void* list) {
    static_cast<std::vector<PyObject*>*>(list)->push_back(referent);
    return 0;
  };
  Py_TYPE(value)->tp_traverse(value, take, &held);
  for (PyObject* one : held) settle_tensors_within(one, seen);
}

PyObject* behind_partials(PyObject* callable) {
  Ref held = Ref::borrow(callable);
  while (is_a(held.get(), "functools.partial")) {
    Ref inner = Ref::steal(PyObject_GetAttrString(held.get(), "func"));
    if (!inner) {
      PyErr_Clear();
      break;
    }
    held = std::move(inner);  // The partial holds it.
  }
  return held.get();
}

}  // namespace braze::interpreter
