// python/interpreter/watch/absorb.cpp
#include "python/interpreter/watch/absorb.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_set>
#include <vector>

#include "python/guards/array.h"
#include "python/guards/deque.h"
#include "python/guards/scalar.h"
#include "python/interpreter/watch/addresses.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/traced_arrays.h"
#include "python/interpreter/watch/tree_nodes.h"

namespace braze::interpreter {

namespace {

constexpr int deepest_container = 200;  // Levels.

bool is_sequence(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value);
}

/// An instance of a subclass of list that C code goes through as through a list: keep_protocols() has guarded it.
bool acts_as_list(PyObject* value) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  return PyList_Check(value) &&
         std::ranges::all_of(
             std::initializer_list<const char*>{"__iter__", "__getitem__", "__len__"}, [&](const char* name) {
               return class_entry(type, name) == class_entry(reinterpret_cast<PyObject*>(&PyList_Type), name);
             });
}

/// A member of an enum that pybind11 has made, or a copy of one: a number that never changes.
bool is_enum_of_pybind(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return std::string_view(Py_TYPE(type)->tp_name).ends_with("pybind11_type") &&
         PyDict_GetItemString(guards::class_dict(type), "__entries");
}

/// Of one value and all within it.
class Absorption {
 public:
  explicit Absorption(Values& values, bool by_torch = false) : values_(values), by_torch_(by_torch) {}
  bool absorb(PyObject* value);

 private:
  bool absorb_one(PyObject* value);
  bool absorb_items(PyObject* container);
  bool absorb_slice(PyObject* slice);
  bool absorb_made_slice(PyObject* slice);
  bool absorb_held(PyObject* value);
  void make_held(PyObject* holder, PyObject* referent);
  bool hands_on(PyObject* value);

  Values& values_;
  const bool by_torch_;
  std::unordered_set<PyObject*> seen_;
  int level_ = 0;  ///< Of the container that is being absorbed.
};

bool Absorption::absorb(PyObject* value) {
  if (level_ >= deepest_container) return false;
  ++level_;
  const bool is_guarded = absorb_one(value);
  --level_;
  return is_guarded;
}

bool Absorption::absorb_one(PyObject* value) {
  if (value && values_.numbers().has_deferred()) values_.numbers().settle(value);
  // Of addresses it counts which are one: what is computed of one is another number in every run.
  if (value && PyLong_CheckExact(value) && values_.is_address(value)) return false;
  if (!value || guards::is_scalar(value) || values_.tensors().is_plain(value)) return true;
  values_.keep_protocols(value);
  if (values_.tensors().is_tensor(value)) return values_.is_known(value);
  if (is_traced_array(value)) return false;                           // C code would find no array there.
  if (PyRange_Check(value) && values_.source_of(value)) return true;  // Its numbers are guarded where it is read.
  if (PySlice_Check(value)) return values_.source_of(value) ? absorb_slice(value) : absorb_made_slice(value);
  if (guards::is_array_scalar(value)) {
    keep_error_state(values_);
    if (level_ > 1) values_.make(value);  // As tuples, below.
    if (const guards::Source* source = values_.source_of(value)) values_.guards().constant(source, value);
    return values_.is_known(value);
  }
  if (guards::is_array_dtype(value)) return values_.is_known(value);
  if (guards::is_number_array(value)) {
    keep_error_state(values_);
    if (level_ > 1) values_.make(value);  // As tuples, below.
    return values_.arrays().read(value);
  }
  if (is_enum_of_pybind(value)) return values_.source_of(value) && values_.pin(value);
  const bool is_container = is_builtin_container(value);
  // A builtin class tells nothing but its name.
  const bool is_builtin_class =
      PyType_Check(value) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(value), Py_TPFLAGS_IMMUTABLETYPE);
  if (is_builtin_class && values_.is_known(value)) return true;
  if (is_derived_scalar(value) && values_.source_of(value)) return absorb_derived(values_, value);
  // In what the run made: C code put it there, as in tuple(d.items()).
  if (level_ > 1 && PyTuple_CheckExact(value)) values_.make(value);
  if (guards::is_deque(value) && values_.source_of(value)) return absorb_items(value);
  const bool is_tuple = !is_container && values_.is_known(value) && acts_as_tuple(values_, value);
  const bool is_list = !is_container && values_.source_of(value) && acts_as_list(value);
  if (!is_container && !is_tuple && !is_list)
    return (by_torch_ && hands_on(value)) || (values_.is_made(value) && absorb_held(value));
  return values_.is_known(value) && absorb_items(value);
}

/// An older object that PyTorch asks for a handler, and nothing else: its class has one, which keep_protocols() has
/// guarded, and it has none of its own.
bool Absorption::hands_on(PyObject* value) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");  // For good.
  const guards::Source* source = values_.source_of(value);
  PyObject* dict = guards::instance_dict(value);
  PyObject* handler = name ? _PyType_Lookup(Py_TYPE(value), name) : nullptr;
  const bool is_handled = source && handler && Py_IS_TYPE(handler, &PyClassMethod_Type) && !storage_type(value) &&
                          Py_TYPE(value)->tp_getattro == PyObject_GenericGetAttr &&
                          (!dict || !PyDict_GetItemWithError(dict, name));  // Slots: there is none.
  if (is_handled) values_.guards().lacks(source, name);
  return is_handled;
}

bool Absorption::absorb_made_slice(PyObject* slice) {
  const auto* ends = reinterpret_cast<PySliceObject*>(slice);
  return values_.is_known(slice) && absorb(ends->start) && absorb(ends->stop) && absorb(ends->step);
}

bool Absorption::absorb_slice(PyObject* slice) {
  const auto* ends = reinterpret_cast<PySliceObject*>(slice);
  const auto is_read = [&](PyObject* end, const char* name) {
    const guards::Source* source =
        values_.sources().slot(values_.source_of(slice), member_descriptor(&PySlice_Type, name));
    return values_.learn(end, source) && absorb(end);
  };
  return is_read(ends->start, "start") && is_read(ends->stop, "stop") && is_read(ends->step, "step");
}

/// What C code reads from the storage of a container.
bool Absorption::absorb_items(PyObject* container) {
  if (!values_.open(container)) return false;
  if (!seen_.insert(container).second) return true;
  if (is_sequence(container)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i)
      if (!absorb(PySequence_Fast_GET_ITEM(container, i))) return false;
    return true;
  }
  if (PyAnySet_Check(container)) return values_.has_known_order(container);
  if (guards::is_deque(container)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(container); ++i)
      if (!absorb(guards::deque_item(container, i))) return false;
    for (Py_ssize_t i = 0; i < Py_SIZE(container); ++i)
      values_.numbers().settle_sizes_within(guards::deque_item(container, i));
    return true;
  }
  if (!PyDict_Check(container)) return false;
  values_.iterate_dict(container);
  Py_ssize_t at = 0;
  PyObject *key, *item;
  while (PyDict_Next(container, &at, &key, &item))
    if (!absorb(item) || holds_address(values_, key)) return false;
  return true;
}

/// What an iterator, a view or another C container that the run made holds: C code reads it from there.
bool Absorption::absorb_held(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (storage_type(value)) return absorb_items(value);  // Of a subclass.
  if (PyObject* const dict = fields_of_node(type) ? guards::instance_dict(value) : nullptr) {
    if (!seen_.insert(value).second) return true;
    Py_ssize_t at = 0;
    PyObject *name, *held;
    while (PyDict_Next(dict, &at, &name, &held))
      if (!absorb(held)) return false;
    return true;
  }
  if (!is_exact_builtin(type) || !type->tp_traverse || !(type->tp_iternext || type->tp_iter) ||
      PyGen_CheckExact(value))
    return true;
  if (!seen_.insert(value).second) return true;
  std::vector<PyObject*> held;
  const visitproc take = [](PyObject* referent, void* list) {
    static_cast<std::vector<PyObject*>*>(list)->push_back(referent);
    return 0;
  };
  type->tp_traverse(value, take, &held);
  for (PyObject* referent : held) {
    const bool holds_items =
        storage_type(referent) || Py_TYPE(referent)->tp_iternext || guards::is_number_array(referent);
    if (!holds_items || PyGen_CheckExact(referent)) continue;
    make_held(value, referent);
    // Of keys the values are not read.
    const bool reads_keys =
        type == &PyDictIterKey_Type || type == &PyDictRevIterKey_Type || PyDictKeys_Check(value);
    if (reads_keys && PyDict_Check(referent) && has_scalar_keys(referent)) {
      values_.iterate_dict(referent);
      if (!values_.is_known(referent) || !values_.open(referent)) return false;
      continue;
    }
    // Views of dicts and their iterators read the storage, whatever the class of the dict makes of it.
    const bool reads_storage = PyDict_Check(referent) && values_.is_known(referent);
    if (!(reads_storage ? absorb_items(referent) : absorb(referent))) return false;
    values_.numbers().settle_sizes_within(referent);
  }
  return true;
}

/// The iterators that a made one has made for itself; zip and map keep theirs in a tuple.
void Absorption::make_held(PyObject* holder, PyObject* referent) {
  if (!storage_type(referent)) return values_.make(referent);
  if (!PyTuple_CheckExact(referent) || !(Py_IS_TYPE(holder, &PyZip_Type) || Py_IS_TYPE(holder, &PyMap_Type)))
    return;
  values_.make(referent);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(referent); ++i)
    if (Py_TYPE(PyTuple_GET_ITEM(referent, i))->tp_iternext) values_.make(PyTuple_GET_ITEM(referent, i));
}

}  // namespace

namespace {

struct ErrorState {
  PyObject* variable = nullptr;  ///< Null: NumPy is not there.
  Ref state;                     ///< Null: nobody has set it.
};

ErrorState error_state() {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy._core._multiarray_umath");
  PyObject* variable = module && PyModule_Check(module)
                           ? PyDict_GetItemString(PyModule_GetDict(module), "_extobj_contextvar")
                           : nullptr;
  if (!variable || !PyContextVar_CheckExact(variable)) return {};
  PyObject* state = nullptr;
  if (PyContextVar_Get(variable, nullptr, &state) < 0) PyErr_Clear();
  return {variable, Ref::steal(state)};
}

}  // namespace

void keep_error_state(Values& values) {
  const auto [variable, state] = error_state();
  if (!variable || values.effects().is_set(variable)) return;
  guards::SourceTable& sources = values.sources();
  const guards::Source* source = sources.context_value(sources.object(variable, "numpy.errstate"));
  state ? values.guards().identity(source, state.get()) : values.guards().absent(source);
}

bool has_lasting_error_state(Values* values) {
  // One for the process, guarded by the GIL. They are few, and held for good, as an address must not be used again.
  static std::vector<PyObject*> seen;
  constexpr size_t most = 64;
  const auto [variable, state] = error_state();
  if (!variable || !state || (values && values->effects().is_set(variable))) return true;
  if (std::ranges::find(seen, state.get()) != seen.end()) return true;
  if (seen.size() < most) seen.push_back(Py_NewRef(state.get()));
  return false;
}

bool absorb(Values& values, PyObject* value) {
  return Absorption(values).absorb(value);
}

bool absorb_by_torch(Values& values, PyObject* value) {
  return Absorption(values, true).absorb(value);
}

}  // namespace braze::interpreter
